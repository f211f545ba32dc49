-- The spine: items, gate, attempts, flows, settings and audit. No foreign keys:
-- what belongs together is written in one transaction. All times are microseconds since 1970, UTC.
-- Keys are compared byte by byte (COLLATE "C"), as on SQLite, whatever the database's locale.

-- The one clock that nodes share. Volatile on purpose: it tells the time after a lock was waited
-- for. Use it as (SELECT tg_now()), which is an index condition and not a filter per row.
-- Tests move it by the session setting tollgate.offset_us.
CREATE FUNCTION tg_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
         + coalesce(nullif(current_setting('tollgate.offset_us', true), '')::bigint, 0)
$$;

-- Who leads: the process in force, its settings, and its beats, which are counted and never timed.
CREATE TABLE node (
    one      integer NOT NULL PRIMARY KEY CHECK (one = 1),
    epoch    bigint  NOT NULL,
    leader   bigint,
    beat     bigint  NOT NULL DEFAULT 0,
    settings text    NOT NULL DEFAULT ''
) WITH (fillfactor = 50);
INSERT INTO node (one, epoch) VALUES (1, 0);

-- Every process on the store, as long as it shows itself.
CREATE TABLE node_process (
    process     bigint NOT NULL PRIMARY KEY,
    beat        bigint NOT NULL,
    name        text   NOT NULL,
    address     text   NOT NULL,
    version     text   NOT NULL,
    cannot_lead text   NOT NULL
) WITH (fillfactor = 50);

-- The stretch in which the clock is known to have run evenly: only times of one era tell how long
-- something took. The boots of machines whose nodes vouch for it, and when each began, by it.
CREATE TABLE clock_era (
    one    integer NOT NULL PRIMARY KEY CHECK (one = 1),
    number bigint  NOT NULL,
    since  bigint  NOT NULL
);
INSERT INTO clock_era (one, number, since) VALUES (1, 0, 0);

CREATE TABLE clock_boot (
    boot_id text   COLLATE "C" NOT NULL PRIMARY KEY,
    began   bigint NOT NULL
);

-- Written to find out whether anything can be written.
CREATE TABLE write_probe (
    one integer NOT NULL PRIMARY KEY CHECK (one = 1),
    at  bigint  NOT NULL
);
INSERT INTO write_probe (one, at) VALUES (1, 0);

-- The epoch in force, and it stays in force until the caller's transaction ends: taking the node
-- needs the exclusive side of this lock. PL/pgSQL, since each of its statements sees what was
-- committed while it waited; a lock beside the row, since locking the row would write to it.
CREATE FUNCTION tg_epoch() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    in_force bigint;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('tollgate/node', 0));
    SELECT epoch INTO in_force FROM node;
    RETURN in_force;
END
$$;

CREATE TABLE setting (
    kind       text   COLLATE "C" NOT NULL,
    name       text   COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    body       text   NOT NULL,
    actor      text   NOT NULL,
    reason     text   NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (kind, name, version)
);

-- What was accepted and is not planned yet: its admission ends it. A refused one keeps the verdict until other
-- content follows, a cancelled one keeps its id used; both have no document any more.
CREATE TABLE request (
    item_type        text   COLLATE "C" NOT NULL,
    item_id          text   COLLATE "C" NOT NULL,
    state            text   COLLATE "C" NOT NULL
        CONSTRAINT request_state_known CHECK (state IN ('WAITING', 'REFUSED', 'CANCELLED')),
    content_hash     text   NOT NULL,
    amount_minor     bigint NOT NULL,
    currency         text   COLLATE "C" NOT NULL,
    document         text   NOT NULL,
    -- Why it was refused, whether it is not valid at all, and the flow that has judged it.
    details          text   NOT NULL,
    invalid          boolean NOT NULL DEFAULT false,
    init_workflow_id text   COLLATE "C",
    correction       bigint NOT NULL,
    -- Begun, and the last of them that failed.
    tries            bigint NOT NULL,
    failed_try       bigint NOT NULL,
    last_error       text,
    accepted_at      bigint NOT NULL,
    due_at           bigint NOT NULL,
    -- Instead of the time that was asked for.
    moved_to         bigint,
    -- When it was refused or cancelled.
    ended_at         bigint,
    PRIMARY KEY (item_type, item_id)
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX request_due ON request (item_type, due_at) WHERE state = 'WAITING';
CREATE INDEX request_shown ON request (item_type, item_id) WHERE state <> 'REFUSED';
CREATE INDEX request_accepted ON request (item_type, accepted_at) WHERE state <> 'REFUSED';

-- What owners had taken in, by quarters of an hour, whatever became of it; for daily totals.
CREATE TABLE owner_total (
    item_type    text   COLLATE "C" NOT NULL,
    owner        text   NOT NULL,
    currency     text   COLLATE "C" NOT NULL,
    quarter      bigint NOT NULL,
    amount_minor bigint NOT NULL,
    PRIMARY KEY (item_type, owner, currency, quarter)
) WITH (fillfactor = 70);

-- A body as JSON. PostgreSQL's JSON cannot hold the character NUL; such a body is kept, and not found by what is in it.
CREATE FUNCTION tg_json(body text) RETURNS jsonb LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN strpos(body, '\u0000') = 0 THEN body::jsonb END
$$;

-- What an item was taken in with, and what init has derived from it: written once, and again only when a
-- person corrects it. Apart from the item's row, which every move writes anew.
CREATE TABLE item_body (
    item_type        text COLLATE "C" NOT NULL,
    item_id          text COLLATE "C" NOT NULL,
    content_hash     text NOT NULL,
    body             text NOT NULL,
    init_workflow_id text NOT NULL,
    -- What it came in with, if that was a file.
    bulk_id          text COLLATE "C",
    -- For lists by time: shortly before the item's own.
    created_at       bigint NOT NULL DEFAULT tg_now(),
    PRIMARY KEY (item_type, item_id)
);
CREATE INDEX item_body_bulk ON item_body (item_type, bulk_id, item_id)
    WHERE bulk_id IS NOT NULL;
-- Lists, the newest first.
CREATE INDEX item_body_created ON item_body (item_type, created_at, item_id);
-- By what people look for payments. Written once, with the body.
CREATE INDEX item_body_debtor ON item_body ((tg_json(body) #>> '{debtor,account}'))
    WHERE item_type = 'PAYMENT';
CREATE INDEX item_body_creditor ON item_body ((tg_json(body) #>> '{creditor,account}'))
    WHERE item_type = 'PAYMENT';
CREATE INDEX item_body_reference ON item_body ((tg_json(body) ->> 'reference'))
    WHERE item_type = 'PAYMENT' AND tg_json(body) ->> 'reference' IS NOT NULL;

CREATE TABLE lane_window (
    lane         text   COLLATE "C" NOT NULL,
    generation   bigint NOT NULL,
    window_start bigint NOT NULL,
    used         bigint NOT NULL,
    next_open    bigint,
    PRIMARY KEY (lane, generation, window_start)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Locked while slots are given. Apart from the cursor, so that bulk intake never delays a turn.
-- A replan opens a new generation, which counts only what was placed since.
CREATE TABLE lane_plan (
    lane         text   COLLATE "C" NOT NULL PRIMARY KEY,
    generation   bigint NOT NULL DEFAULT 0,
    replan_since bigint
);

-- Locked while turns are given.
CREATE TABLE lane_cursor (
    lane         text   COLLATE "C" NOT NULL PRIMARY KEY,
    last_turn    bigint,
    -- The last turn of a call that belongs to no item.
    last_call    bigint,
    closed_until bigint,
    -- Who closed it, and why; none of both if its downstream asked for quiet.
    closed_by    text,
    closed_why   text,
    -- The refusal storm that has paused it.
    storm_id     bigint
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0);

-- A connector as it was configured at a start; its newest row is the configuration in force. Until
-- one answer is not a refusal, its sends are a canary, and `places` lists their attempts. Locked
-- after cursors and items.
CREATE TABLE connector_watch (
    watch_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane      text     COLLATE "C" NOT NULL,
    connector text     COLLATE "C" NOT NULL,
    digest    text     NOT NULL,
    canary    bigint   NOT NULL,
    streak    bigint   NOT NULL,
    passed    boolean  NOT NULL,
    places    bigint[] NOT NULL,
    -- Attempts up to this one belong to storms that are over.
    since     bigint   NOT NULL
);
CREATE INDEX connector_watch_name ON connector_watch (lane, connector, watch_id);

-- Its refusals are the attempts of its connector from the first on, up to the last once it is lifted.
CREATE TABLE storm (
    storm_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane          text   COLLATE "C" NOT NULL,
    watch_id      bigint NOT NULL,
    reason        text   NOT NULL,
    first_attempt bigint NOT NULL,
    last_attempt  bigint,
    began_at      bigint NOT NULL,
    lifted_at     bigint
);

-- An item: its business status, its slot and its place in the queue. More than half of each page stays free, so that a move
-- stays on its page and logs only what it changes; for the same reason the columns that moves change stand
-- together, behind those that they do not.
CREATE TABLE item_queue (
    item_type           text   COLLATE "C" NOT NULL,
    item_id             text   COLLATE "C" NOT NULL,
    lane                text   COLLATE "C" NOT NULL,
    currency            text   COLLATE "C" NOT NULL,
    -- Whether somebody looks for it by its owner; here, where they fill a gap.
    counted             boolean NOT NULL DEFAULT false,
    by_owner            boolean NOT NULL DEFAULT false,
    amount_minor        bigint NOT NULL,
    created_at          bigint NOT NULL,
    -- The slot: when it was asked for, and where it was placed.
    requested_time      bigint NOT NULL,
    window_start        bigint NOT NULL,
    scheduled_time      bigint NOT NULL,
    generation          bigint NOT NULL,
    -- The slot's, whatever happens after it.
    deadline            bigint,
    -- Rather HELD than sent after this time.
    hold_after          bigint,
    -- Only while somebody looks for it by them: a rule about twins, one about daily totals, or a list by owner.
    duplicate_key       text   COLLATE "C",
    owner               text,
    scheduled_exec_time bigint NOT NULL,
    run                 bigint NOT NULL,
    retry_count         bigint NOT NULL,
    -- Connections and exchanges of this item that failed: the pause after the next failure is by this number.
    failures            bigint NOT NULL DEFAULT 0,
    -- In the order of the usual way: claim, start, end.
    fence               bigint NOT NULL,
    claimed_at          bigint,
    dispatch_batch_id   text,
    dispatched_at       bigint,
    exec_workflow_id    text,
    queue_status        text   COLLATE "C" NOT NULL
        CONSTRAINT queue_status_known
        CHECK (queue_status IN ('READY', 'CLAIMED', 'DISPATCHED', 'DEAD', 'CANCELLED', 'HELD')),
    -- What indexes know of the queue: (O)pen, (H)eld, (D)ead; none once it has ended. No index names queue_status,
    -- so neither a claim nor a start changes an index (docs/decisions/0056, 0067). What is under way is in `batch`.
    queue_part          "char" GENERATED ALWAYS AS (CASE
        WHEN queue_status = 'READY' THEN 'O'::"char"
        WHEN queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL THEN 'O'::"char"
        WHEN queue_status = 'HELD' THEN 'H'::"char"
        WHEN queue_status = 'DEAD' THEN 'D'::"char" END) STORED,
    status              text   COLLATE "C" NOT NULL,
    -- When the business status was written.
    updated_at          bigint NOT NULL,
    finished_at         bigint,
    last_error          text,
    -- The rules that hold it, and those that a person let it pass.
    held_by             text,
    passed_rules        text,
    PRIMARY KEY (item_type, item_id)
) WITH (fillfactor = 40, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_analyze_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Lists by status, and the worklist of what nobody knows the outcome of. Without the ends of nearly all items, so that
-- an end costs no entry here; these are found along the time (docs/decisions/0067).
CREATE INDEX item_queue_status ON item_queue (item_type, status, item_id)
    WHERE status NOT IN ('PROCESSING', 'DELIVERED');
-- The totals of a day read the pages of that day. Items come in the order of time, and such an index costs a move nothing.
CREATE INDEX item_queue_created ON item_queue USING brin (created_at)
    WITH (pages_per_range = 16, autosummarize = on);
-- That worklist as people go through it: the oldest first, or the largest of a currency.
CREATE INDEX item_queue_doubt_age ON item_queue (item_type, updated_at, item_id)
    INCLUDE (currency, amount_minor)
    WHERE status = 'IN_DOUBT';
CREATE INDEX item_queue_doubt_amount ON item_queue (item_type, currency, amount_minor, item_id)
    WHERE status = 'IN_DOUBT';
CREATE INDEX item_queue_twin ON item_queue (item_type, duplicate_key, created_at)
    WHERE duplicate_key IS NOT NULL;
-- By status: what is asked for are the few that were withdrawn.
CREATE INDEX item_queue_counted ON item_queue (item_type, owner, currency, status, created_at)
    WHERE counted;
CREATE INDEX item_queue_owner ON item_queue (item_type, owner, status)
    WHERE by_owner;
-- For a list of all of them, page by page.
CREATE INDEX item_queue_owner_page ON item_queue (item_type, owner, item_id)
    WHERE by_owner;

-- One partial index per question the dispatcher asks. The lane leads, since the types of a lane
-- share its credit. What looks for READY passes by what is under way, which is due before nearly all that waits.
CREATE INDEX item_queue_open ON item_queue (lane, item_type, scheduled_exec_time)
    WHERE queue_part = 'O';
CREATE INDEX item_queue_hold ON item_queue (item_type, hold_after)
    WHERE queue_part = 'O' AND hold_after IS NOT NULL;
CREATE INDEX item_queue_held ON item_queue (lane) WHERE queue_part = 'H';
-- The worklist of what is held, and its sums: the longest due first.
CREATE INDEX item_queue_held_due ON item_queue (item_type, scheduled_exec_time, item_id)
    INCLUDE (currency, amount_minor, created_at, status) WHERE queue_part = 'H';
-- What was tried in vain more than twice and has not ended.
CREATE INDEX item_queue_failing ON item_queue (item_type, created_at)
    WHERE queue_part = 'O' AND failures > 2;
-- What may miss its deadline: by how much time it has between being due and being late.
CREATE INDEX item_queue_tight ON item_queue (lane, (deadline - scheduled_exec_time))
    WHERE deadline IS NOT NULL AND queue_part = 'O';
CREATE INDEX item_queue_dead ON item_queue (item_type, item_id)
    INCLUDE (currency, amount_minor, scheduled_exec_time) WHERE queue_part = 'D';
-- Dead letters as people go through them: what was due last first.
CREATE INDEX item_queue_dead_due ON item_queue (item_type, scheduled_exec_time, item_id)
    WHERE queue_part = 'D';
-- What is held, page by page.
CREATE INDEX item_queue_held_page ON item_queue (item_type, item_id) WHERE queue_part = 'H';

-- Moves and looks of many items, each in one statement. The settings leave the planner only ways that look each item
-- up by the primary key, one after the other in the order of the arrays, or go along that key. So rows are locked
-- in the order of their keys if the arrays are in that order: to lock them beforehand would log another record for each. And it plans once
-- for each connection: such a plan is always right, and with so many indexes on the table planning costs more than
-- writing a row (docs/decisions/0073).

-- Writes down which claims were started; how many.
CREATE FUNCTION tg_start(of_type text, ids text[], fences bigint[], flows text[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    started bigint;
BEGIN
    UPDATE item_queue q SET queue_status = 'DISPATCHED', dispatched_at = tg_now(), exec_workflow_id = s.flow
    FROM unnest(ids, fences, flows) AS s (id, fence, flow)
    WHERE q.item_type = of_type AND q.item_id = s.id AND q.queue_status = 'CLAIMED' AND q.fence = s.fence;
    GET DIAGNOSTICS started = ROW_COUNT;
    RETURN started;
END
$$;

-- Ends what these runs own; which of them, counted from 1.
CREATE FUNCTION tg_finish(types text[], ids text[], runs bigint[], to_status text, from_statuses text[])
RETURNS SETOF bigint LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    UPDATE item_queue q SET queue_status = 'DISPATCHED', finished_at = tg_now(),
           dispatched_at = coalesce(q.dispatched_at, tg_now()),
           status = CASE WHEN q.status = ANY(from_statuses) THEN to_status ELSE q.status END,
           updated_at = CASE WHEN q.status = ANY(from_statuses) THEN tg_now() ELSE q.updated_at END
    FROM unnest(types, ids, runs) WITH ORDINALITY AS e (item_type, item_id, run, n)
    WHERE q.item_type = e.item_type AND q.item_id = e.item_id AND q.run = e.run
      AND q.queue_status IN ('CLAIMED', 'DISPATCHED') AND q.finished_at IS NULL
    RETURNING e.n;
END
$$;

-- What these runs are to execute: those that own their items still.
CREATE FUNCTION tg_to_execute(of_type text, ids text[], runs bigint[])
RETURNS TABLE (id text, run bigint, due bigint, body text) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT q.item_id, q.run, q.scheduled_exec_time, b.body
    FROM unnest(ids, runs) AS w (item_id, run)
    JOIN item_queue q ON q.item_type = of_type AND q.item_id = w.item_id AND q.run = w.run
    JOIN item_body b ON b.item_type = of_type AND b.item_id = w.item_id
    WHERE q.queue_status IN ('CLAIMED', 'DISPATCHED') AND q.finished_at IS NULL;
END
$$;

-- What each claim has taken, so that no index has to tell what is under way. Written by the claim; a later claim of the
-- lane, at the latest the eighth, deletes those of which nothing is under way any more. Many ids are packed, and stay in
-- the row.
CREATE TABLE batch (
    lane       text   COLLATE "C" NOT NULL,
    item_type  text   COLLATE "C" NOT NULL,
    batch_id   text   COLLATE "C" NOT NULL,
    -- Of its items, none was claimed before.
    claimed_at bigint NOT NULL,
    items      text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (lane, item_type, batch_id)
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_cost_delay = 0);
ALTER TABLE batch ALTER COLUMN items SET STORAGE MAIN;

-- Claimed or dispatched, and not ended: each item that a batch lists and that names this batch. Found by their keys,
-- batch by batch, since the planner takes the few that are under way for a good part of the table; hence the OFFSET.
CREATE VIEW under_way AS
    SELECT b.lane, b.item_type, q.item_id, b.batch_id, b.claimed_at AS batch_claimed_at, q.queue_status, q.claimed_at,
           q.dispatched_at, q.exec_workflow_id, q.run, q.retry_count, q.scheduled_exec_time, q.window_start,
           q.generation, q.hold_after
    FROM batch b
    CROSS JOIN LATERAL (SELECT * FROM item_queue
         WHERE item_type = b.item_type AND item_id = ANY (b.items) AND dispatch_batch_id = b.batch_id
           AND queue_status IN ('CLAIMED', 'DISPATCHED') AND finished_at IS NULL OFFSET 0) q;

-- A send: the intent before the first byte, its turn, and its outcome. A row without an item is a call, which has a
-- turn and no outcome; one without a lane had no turn, as what a person or another service knows.
CREATE TABLE attempt (
    attempt_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_type       text   COLLATE "C" NOT NULL,
    item_id         text   COLLATE "C" NOT NULL,
    -- Which attempt of its item it is, from 1 on; none for a call.
    number          integer,
    run             bigint NOT NULL,
    kind            text   COLLATE "C" NOT NULL,
    lane            text   COLLATE "C" NOT NULL,
    idempotency_key text   NOT NULL,
    -- Which configuration of a connector sent it; none if its refusals do not count.
    watch_id        bigint,
    turn_at         bigint NOT NULL,
    era             bigint NOT NULL,
    -- Of the leader whose turn it was; none where many nodes send (Temporal).
    epoch           bigint,
    state           text   COLLATE "C" NOT NULL,
    settled_at      bigint,
    detail          text   NOT NULL,
    -- Refused, and a person has had its item tried again since: another key may be asked.
    reopened        boolean NOT NULL DEFAULT false,
    -- The configuration whose refusal it is. No index names the state, so an answer changes no index.
    refused_by      bigint GENERATED ALWAYS AS (CASE WHEN state = 'REFUSED' THEN watch_id END) STORED
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0);
-- An item has at most one open attempt: of two senders that ask at once both take the next number, and one gets a
-- turn; nothing is opened beside one that is open. A sender that asks late is refused by the attempts it has not
-- seen (docs/decisions/0002).
CREATE UNIQUE INDEX attempt_item ON attempt (item_type, item_id, number);
-- The turns of a lane, for its certificate.
CREATE INDEX attempt_turn ON attempt (lane, turn_at, attempt_id);
-- What a streak counts, and what a storm has refused.
CREATE INDEX attempt_refused ON attempt (refused_by, attempt_id) WHERE refused_by IS NOT NULL;

CREATE TABLE audit_log (
    audit_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id      text,
    item_type     text COLLATE "C",
    item_id       text COLLATE "C",
    action        text   NOT NULL,
    status_before text,
    status_after  text,
    actor         text   NOT NULL,
    detail        text   NOT NULL,
    created_at    bigint NOT NULL
);
CREATE INDEX audit_log_item ON audit_log (item_type, item_id, audit_id) WHERE item_id IS NOT NULL;
CREATE INDEX audit_log_actor ON audit_log (actor, audit_id);
CREATE INDEX audit_log_action ON audit_log (action, audit_id);
-- What people did, among what the machine did.
CREATE INDEX audit_log_people ON audit_log (audit_id)
    WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
        'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
        'tollgate');

-- As in item_queue, what moves stands behind what does not, so that a move does not log the input again.
CREATE TABLE flow (
    flow_id  text    COLLATE "C" NOT NULL PRIMARY KEY,
    name     text    NOT NULL,
    is_child boolean NOT NULL,
    -- When it was put here, and when it is due, by the clock as it was then.
    started_at bigint NOT NULL,
    due_at   bigint  NOT NULL,
    input    text    NOT NULL,
    state    text    COLLATE "C" NOT NULL
        CONSTRAINT flow_state_known CHECK (state IN ('PENDING', 'LIVE', 'DONE', 'FAILED')),
    progress text,
    result   text,
    -- Which answer handed it out, so that a lost answer can be given again.
    handout  bigint
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flow_due ON flow (is_child, due_at) WHERE state = 'PENDING';
CREATE INDEX flow_live ON flow (flow_id) WHERE state = 'LIVE';
-- What has ended and takes no item along, once it is old. In the order in which flows come.
CREATE INDEX flow_ended ON flow (started_at) WHERE state IN ('DONE', 'FAILED');

-- Numbers the processes that hand flows out.
CREATE SEQUENCE flow_handout;

-- Filled and emptied all the time.
CREATE TABLE journal (
    flow_id text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    result  text NOT NULL,
    PRIMARY KEY (flow_id, key)
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

-- Files of items. What was given up is DISCARDED until its chunks are gone.
CREATE TABLE bulk (
    bulk_id         text   COLLATE "C" NOT NULL PRIMARY KEY,
    item_type       text   COLLATE "C" NOT NULL,
    state           text   COLLATE "C" NOT NULL
        CONSTRAINT bulk_state_known
        CHECK (state IN ('UPLOADING', 'RUNNING', 'DONE', 'DISCARDED')),
    -- Written when the upload is complete.
    idempotency_key text   COLLATE "C",
    digest          text,
    -- What its sender calls it, and who that was.
    file_name       text,
    actor           text,
    lines           bigint NOT NULL,
    chunks_left     bigint NOT NULL,
    accepted        bigint NOT NULL,
    duplicate       bigint NOT NULL,
    rejected        bigint NOT NULL,
    -- No chunk was taken in before an earlier one.
    order_kept      boolean NOT NULL DEFAULT true,
    -- Of a feed: rejected records are answered.
    answers         boolean NOT NULL DEFAULT false,
    opened_at       bigint NOT NULL,
    touched_at      bigint NOT NULL,
    started_at      bigint,
    -- When a line was last rejected.
    rejected_at     bigint,
    ended_at        bigint
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX bulk_key ON bulk (item_type, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX bulk_age ON bulk (item_type, opened_at, bulk_id) WHERE state <> 'DISCARDED';
CREATE INDEX bulk_running ON bulk (item_type, bulk_id) WHERE state = 'RUNNING';
CREATE INDEX bulk_uploading ON bulk (touched_at) WHERE state = 'UPLOADING';
CREATE INDEX bulk_discarded ON bulk (bulk_id) WHERE state = 'DISCARDED';
-- The same file again.
CREATE INDEX bulk_digest ON bulk (item_type, digest, started_at, bulk_id)
    WHERE digest IS NOT NULL AND state <> 'DISCARDED';
CREATE INDEX bulk_rejected ON bulk (item_type, rejected_at) WHERE rejected_at IS NOT NULL;

-- The work list: a chunk that has ended is deleted. Its text lives for seconds and comes packed
-- (cold/imports/packing.rs); packing it again would cost more time than writing it.
CREATE TABLE bulk_chunk (
    bulk_id    text   COLLATE "C" NOT NULL,
    chunk_no   bigint NOT NULL,
    text       bytea  NOT NULL,
    -- Tries that failed, why, and when the next one is due.
    tries      bigint NOT NULL DEFAULT 0,
    last_error text,
    due_at     bigint NOT NULL DEFAULT 0,
    -- Since when it fails, and how often a try ended because an earlier chunk came first.
    failing_since bigint,
    holds      bigint NOT NULL DEFAULT 0,
    -- Of a feed: when it was read. Only an order among partitions: nothing waits for this time.
    added_at   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (bulk_id, chunk_no)
) WITH (autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX bulk_chunk_failing ON bulk_chunk (bulk_id) WHERE tries > 0;
ALTER TABLE bulk_chunk ALTER COLUMN text SET STORAGE EXTERNAL;

CREATE TABLE bulk_error (
    bulk_id text   COLLATE "C" NOT NULL,
    line_no bigint NOT NULL,
    item_id text,
    details text   NOT NULL,
    -- The line itself, to correct it; none if it is too long.
    line_text text,
    -- Of a feed: still to be answered.
    unanswered boolean NOT NULL DEFAULT false,
    -- Of a feed: since when it need not be answered any more. Lines of files go with their file.
    answered_at bigint,
    PRIMARY KEY (bulk_id, line_no)
);
CREATE INDEX bulk_error_unanswered ON bulk_error (bulk_id, line_no) WHERE unanswered;
CREATE INDEX bulk_error_answered ON bulk_error (answered_at) WHERE answered_at IS NOT NULL;

-- What was accepted, as it was placed then.
CREATE TABLE bulk_sum (
    bulk_id        text   COLLATE "C" NOT NULL,
    lane           text   COLLATE "C" NOT NULL,
    currency       text   COLLATE "C" NOT NULL,
    accepted       bigint NOT NULL,
    amount_minor   bigint NOT NULL,
    met            bigint NOT NULL,
    missed         bigint NOT NULL,
    first_slot     bigint NOT NULL,
    last_slot      bigint NOT NULL,
    first_deadline bigint,
    last_deadline  bigint,
    PRIMARY KEY (bulk_id, lane, currency)
) WITH (fillfactor = 50);

-- Status checks, kept for a while after their end.
CREATE TABLE status_check (
    check_id  text   COLLATE "C" NOT NULL PRIMARY KEY,
    phase     text   COLLATE "C" NOT NULL
        CONSTRAINT status_check_phase_known
        CHECK (phase IN ('ES_LOOKUP', 'GATEWAY_PROCESSING', 'AGGREGATING', 'COMPLETED')),
    total     bigint NOT NULL,
    gateways  bigint NOT NULL DEFAULT 0,
    opened_at bigint NOT NULL,
    ended_at  bigint,
    -- One of them, when it has ended.
    result    text,
    error     text
);
CREATE INDEX status_check_age ON status_check (opened_at, check_id);

-- List 0 has the payments to look up, list n the chunks of the n-th gateway.
CREATE TABLE status_check_part (
    check_id text    COLLATE "C" NOT NULL,
    list_no  bigint  NOT NULL,
    part_no  bigint  NOT NULL,
    body     text    NOT NULL,
    outcome  text,
    failed   boolean NOT NULL DEFAULT false,
    PRIMARY KEY (check_id, list_no, part_no)
) WITH (fillfactor = 80);

-- Sessions of the console, by the hash of what a browser shows.
CREATE TABLE session (
    secret_sha256 text   COLLATE "C" NOT NULL PRIMARY KEY,
    token_sha256  text   COLLATE "C" NOT NULL,
    ends_at       bigint NOT NULL
);
CREATE INDEX session_token ON session (token_sha256, ends_at);
CREATE INDEX session_end ON session (ends_at);

-- What a person has seen of what needs one, by kind: it is told again when there is more of it. What has happened is
-- seen up to a mark.
CREATE TABLE need_seen (
    kind       text   COLLATE "C" NOT NULL PRIMARY KEY,
    seen_count bigint NOT NULL,
    mark       bigint NOT NULL,
    actor      text   NOT NULL,
    reason     text   NOT NULL,
    seen_at    bigint NOT NULL
);

-- Acts on many items: a preview until a person confirms it by its digest.
CREATE TABLE job (
    job_id         text   COLLATE "C" NOT NULL PRIMARY KEY,
    item_type      text   COLLATE "C" NOT NULL,
    act            text   COLLATE "C" NOT NULL,
    -- From when on slots are given, for a reschedule.
    requested_time bigint,
    filter         text   NOT NULL,
    state          text   COLLATE "C" NOT NULL
        CONSTRAINT job_state_known CHECK (state IN ('PREVIEW', 'RUNNING', 'DONE', 'STOPPED')),
    -- Both are written when the preview is complete.
    digest         text   COLLATE "C",
    summary        text   NOT NULL,
    actor          text   NOT NULL,
    reason         text   NOT NULL,
    total          bigint NOT NULL,
    done           bigint NOT NULL,
    left_out       bigint NOT NULL,
    previewed_at   bigint NOT NULL,
    started_at     bigint,
    ended_at       bigint,
    stopped        text
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX job_digest ON job (digest) WHERE digest IS NOT NULL;
CREATE INDEX job_age ON job (started_at, job_id) WHERE started_at IS NOT NULL;
CREATE INDEX job_running ON job (started_at, job_id) WHERE state = 'RUNNING';
CREATE INDEX job_preview ON job (previewed_at, job_id) WHERE state = 'PREVIEW';

-- The items of a job as they were previewed, many in a row. One whose items are all looked at is deleted.
CREATE TABLE job_chunk (
    job_id   text   COLLATE "C" NOT NULL,
    chunk_no bigint NOT NULL,
    body     text   NOT NULL,
    PRIMARY KEY (job_id, chunk_no)
);

-- What became of each item of a job that was looked at.
CREATE TABLE job_result (
    job_id   text   COLLATE "C" NOT NULL,
    number   bigint NOT NULL,
    item_id  text   COLLATE "C" NOT NULL,
    -- Why; none if the act was done.
    left_out text,
    -- What the bank said, if it was asked.
    answer   text,
    PRIMARY KEY (job_id, number)
);
CREATE INDEX job_result_left_out ON job_result (job_id, number) WHERE left_out IS NOT NULL;

-- Erasures of personal data. The account is kept while one runs, so that it can go on after a crash, and not longer.
CREATE TABLE erasure (
    erasure_id     text   COLLATE "C" NOT NULL PRIMARY KEY,
    -- One of both; no account once it has ended.
    account        text,
    item_type      text,
    item_id        text,
    -- How far it is, and where it goes on within that.
    stage          text   COLLATE "C" NOT NULL,
    place          text   NOT NULL,
    actor          text   COLLATE "C" NOT NULL,
    reason         text   NOT NULL,
    items          bigint NOT NULL,
    archived       bigint NOT NULL,
    notifications  bigint NOT NULL,
    texts          bigint NOT NULL,
    files          bigint NOT NULL,
    left_out       bigint NOT NULL,
    first_left_out text   COLLATE "C" NOT NULL,
    purged         text,
    -- Why it comes no further, and since when.
    trouble        text,
    troubled_since bigint,
    started_at     bigint NOT NULL,
    ended_at       bigint
) WITH (fillfactor = 50);
CREATE INDEX erasure_running ON erasure (started_at, erasure_id) WHERE ended_at IS NULL;

-- Feeds: topics whose records are taken in. A few rows.
CREATE TABLE feed (
    feed       text   COLLATE "C" NOT NULL PRIMARY KEY,
    topic      text   COLLATE "C" NOT NULL,
    -- When a process last asked for partitions: a feed that no process configures any more is not read.
    shared_at  bigint NOT NULL DEFAULT 0,
    -- Another one when the topic was created again.
    topic_id   text,
    -- It is paused because of that, or was resumed and the new topic is not known yet.
    recreated  boolean NOT NULL DEFAULT false,
    -- While it is paused.
    paused_why text,
    paused_by  text,
    paused_at  bigint,
    -- The last trouble with its source, since when, and when it was last said: what is not said again is over.
    trouble    text,
    trouble_at bigint,
    said_at    bigint NOT NULL DEFAULT 0
);

-- The processes that read a feed. For a while it may be of two topics: after the configuration was changed, old processes
-- still read the old one.
CREATE TABLE feed_reader (
    feed       text   COLLATE "C" NOT NULL,
    topic      text   COLLATE "C" NOT NULL,
    owner      text   COLLATE "C" NOT NULL,
    seen_until bigint NOT NULL,
    PRIMARY KEY (feed, topic, owner)
);

-- Where a feed stands. The position moves with the records that were read up to it.
CREATE TABLE feed_partition (
    feed           text   COLLATE "C" NOT NULL,
    topic          text   COLLATE "C" NOT NULL,
    partition_no   bigint NOT NULL,
    bulk_id        text   COLLATE "C" NOT NULL,
    -- Of the topic that its position is in; it stays while the feed is configured for another one.
    topic_id       text,
    -- Added to a topic that had been looked at before: nothing of it is passed.
    from_first     boolean NOT NULL DEFAULT false,
    -- The topic was created again without it. It keeps its fence and counts, in case that it is added again: numbers of
    -- chunks are never given twice.
    gone           boolean NOT NULL DEFAULT false,
    position       bigint,
    log_end        bigint,
    -- Of the last holding, and who holds it until when. Without an owner: since when.
    fence          bigint NOT NULL DEFAULT 0,
    owner          text   COLLATE "C",
    leased_until   bigint NOT NULL DEFAULT 0,
    -- Written so far.
    chunks         bigint NOT NULL DEFAULT 0,
    records        bigint NOT NULL DEFAULT 0,
    dead_letters   bigint NOT NULL DEFAULT 0,
    last_record_at bigint,
    PRIMARY KEY (feed, topic, partition_no)
) WITH (fillfactor = 50);

-- Events: every move of an item, until it is published. The row is written by the transaction that makes the move, by
-- triggers that exist only while events are on: no statement can forget it, and all processes agree.
CREATE TABLE outbox (
    event_no       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Random, since numbers begin again where a restored backup stands.
    event_id       text   COLLATE "C" NOT NULL DEFAULT gen_random_uuid()::text,
    item_type      text   COLLATE "C" NOT NULL,
    item_id        text   COLLATE "C" NOT NULL,
    status         text   COLLATE "C" NOT NULL,
    at             bigint NOT NULL DEFAULT tg_now(),
    currency       text   COLLATE "C" NOT NULL,
    amount_minor   bigint NOT NULL,
    lane           text   COLLATE "C",
    scheduled_time bigint
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);

-- Events that were refused, and those of the same item behind them: here they hold up no others. Only the process that
-- publishes writes here, so a look that goes on from item to item skips nothing.
CREATE TABLE outbox_refused (
    event_no       bigint NOT NULL PRIMARY KEY,
    event_id       text   COLLATE "C" NOT NULL,
    item_type      text   COLLATE "C" NOT NULL,
    item_id        text   COLLATE "C" NOT NULL,
    status         text   COLLATE "C" NOT NULL,
    at             bigint NOT NULL,
    currency       text   COLLATE "C" NOT NULL,
    amount_minor   bigint NOT NULL,
    lane           text   COLLATE "C",
    scheduled_time bigint
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.01,
        autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX outbox_refused_by_item ON outbox_refused (item_type, item_id, event_no);

-- Whether events are on, and who publishes them until when.
CREATE TABLE event_relay (
    one               integer NOT NULL PRIMARY KEY CHECK (one = 1),
    is_on             boolean NOT NULL,
    fence             bigint  NOT NULL,
    owner             text    COLLATE "C",
    leased_until      bigint  NOT NULL,
    published         bigint  NOT NULL,
    last_published_at bigint,
    trouble           text,
    trouble_at        bigint,
    settings          text    NOT NULL DEFAULT '',
    difference        text,
    differs_until     bigint
) WITH (fillfactor = 50);
INSERT INTO event_relay (one, is_on, fence, leased_until, published) VALUES (1, false, 0, 0, 0);

-- Many items are admitted by one statement. Notifications are about items, and no events themselves.
CREATE FUNCTION tg_event_added() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox (item_type, item_id, status, currency, amount_minor, lane, scheduled_time)
    SELECT item_type, item_id, status, currency, amount_minor, lane, scheduled_time
    FROM added WHERE item_type <> 'NOTIFICATION';
    RETURN NULL;
END
$$;

-- HELD, DEAD and CANCELLED are words of the queue; an item that leaves them is where its status says. A payment whose
-- answer leaves nothing to do is ACCEPTED and PROCESSING in one move: that is two events.
CREATE FUNCTION tg_event_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'PROCESSING' AND OLD.status NOT IN ('ACCEPTED', 'PROCESSING') THEN
        INSERT INTO outbox (item_type, item_id, status, currency, amount_minor, lane, scheduled_time)
        VALUES (NEW.item_type, NEW.item_id, 'ACCEPTED', NEW.currency, NEW.amount_minor, NEW.lane,
                NEW.scheduled_time);
    END IF;
    INSERT INTO outbox (item_type, item_id, status, currency, amount_minor, lane, scheduled_time)
    VALUES (NEW.item_type, NEW.item_id,
            CASE WHEN NEW.queue_status <> OLD.queue_status
                  AND NEW.queue_status IN ('HELD', 'DEAD', 'CANCELLED')
                  AND (NEW.queue_status <> 'CANCELLED' OR NEW.status = OLD.status)
                 THEN NEW.queue_status ELSE NEW.status END,
            NEW.currency, NEW.amount_minor, NEW.lane, NEW.scheduled_time);
    RETURN NULL;
END
$$;

CREATE FUNCTION tg_event_withdrawn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO outbox (item_type, item_id, status, currency, amount_minor)
    VALUES (NEW.item_type, NEW.item_id, NEW.state, NEW.currency, NEW.amount_minor);
    RETURN NULL;
END
$$;

-- Creates or drops one of the three triggers. With the rights of the owner of the tables: a node may run as a role
-- that owns nothing.
CREATE FUNCTION tg_event_trigger(which text, wanted boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF wanted AND which = 'added' THEN
        CREATE TRIGGER event_added AFTER INSERT ON item_queue
            REFERENCING NEW TABLE AS added
            FOR EACH STATEMENT EXECUTE FUNCTION tg_event_added();
    ELSIF wanted AND which = 'moved' THEN
        CREATE TRIGGER event_moved AFTER UPDATE OF status, queue_status ON item_queue
            FOR EACH ROW
            WHEN (NEW.item_type <> 'NOTIFICATION' AND (
                (NEW.status <> OLD.status AND NEW.status <> NEW.queue_status)
                OR (NEW.queue_status <> OLD.queue_status
                    AND (NEW.queue_status IN ('HELD', 'DEAD', 'CANCELLED')
                         OR (OLD.queue_status IN ('HELD', 'DEAD', 'CANCELLED')
                             AND NEW.status <> OLD.queue_status)))))
            EXECUTE FUNCTION tg_event_moved();
    ELSIF wanted AND which = 'withdrawn' THEN
        CREATE TRIGGER event_withdrawn AFTER UPDATE OF state ON request
            FOR EACH ROW
            WHEN (NEW.state = 'CANCELLED' AND OLD.state <> 'CANCELLED')
            EXECUTE FUNCTION tg_event_withdrawn();
    ELSIF which = 'added' THEN
        DROP TRIGGER event_added ON item_queue;
    ELSIF which = 'moved' THEN
        DROP TRIGGER event_moved ON item_queue;
    ELSE
        DROP TRIGGER event_withdrawn ON request;
    END IF;
    RETURN wanted;
END
$$;

-- The archive: items that have ended and are older than hot_days, one packed line of JSON each (core/src/archive.rs), by
-- type and by the day of their end, in UTC. A partition for each, so that a day is dropped and not deleted.
CREATE TABLE archived_item (
    item_type text   COLLATE "C" NOT NULL,
    day       bigint NOT NULL,
    item_id   text   COLLATE "C" NOT NULL,
    line      bytea  NOT NULL,
    PRIMARY KEY (item_type, day, item_id)
) PARTITION BY RANGE (item_type, day);
-- It comes packed.
ALTER TABLE archived_item ALTER COLUMN line SET STORAGE EXTERNAL;

-- How far each day is, and where it was exported to.
CREATE TABLE archived_day (
    item_type   text   COLLATE "C" NOT NULL,
    day         bigint NOT NULL,
    state       text   COLLATE "C" NOT NULL
        CONSTRAINT archived_day_state_known
        CHECK (state IN ('OPEN', 'CLOSED', 'EXPORTED', 'DROPPED')),
    file        text,
    digest      text,
    exported_at bigint,
    dropped_at  bigint,
    restored_at bigint,
    PRIMARY KEY (item_type, day)
);

-- Days that could not be filled, exported, verified or dropped, and why; a row goes when the step goes well.
CREATE TABLE archive_trouble (
    item_type text   COLLATE "C" NOT NULL,
    day       bigint NOT NULL,
    step      text   COLLATE "C" NOT NULL
        CONSTRAINT archive_trouble_step_known
        CHECK (step IN ('MOVE', 'ARCHIVE', 'EXPORT', 'VERIFY', 'DROP')),
    why       text   NOT NULL,
    since     bigint NOT NULL,
    PRIMARY KEY (item_type, day, step)
);

-- What was moved, by the quarter of an hour of its acceptance: the totals of any date in any zone are what is hot and
-- what was moved. Kept when a day is dropped.
CREATE TABLE archived_sum (
    item_type    text   COLLATE "C" NOT NULL,
    quarter      bigint NOT NULL,
    day          bigint NOT NULL,
    status       text   COLLATE "C" NOT NULL,
    currency     text   COLLATE "C" NOT NULL,
    -- The import; empty for none.
    bulk_id      text   COLLATE "C" NOT NULL,
    items        bigint NOT NULL,
    amount_minor bigint NOT NULL,
    PRIMARY KEY (item_type, quarter, day, status, currency, bulk_id)
) WITH (fillfactor = 70);
CREATE INDEX archived_sum_day ON archived_sum (item_type, day, quarter);
CREATE INDEX archived_sum_bulk ON archived_sum (item_type, bulk_id) WHERE bulk_id <> '';

-- The send log of what was moved, for certificates: turns of one lane in one hour, packed. Kept when a day is dropped.
-- Calls that belong to no item have an empty type.
CREATE TABLE archived_turns (
    chunk_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    lane      text   COLLATE "C" NOT NULL,
    hour      bigint NOT NULL,
    item_type text   COLLATE "C" NOT NULL,
    day       bigint NOT NULL,
    turns     bytea  NOT NULL
);
CREATE INDEX archived_turns_hour ON archived_turns (lane, hour);
CREATE INDEX archived_turns_day ON archived_turns (item_type, day);

-- Ids that were archived, for years: the first halves of SHA-256 of type and id (the key), and of the content hash (zeroes
-- once it was erased). A row has up to 25 of them, since the header of a row and its entry in an index are as long as what is
-- kept of an id (docs/decisions/0071): the first 8 bytes of each key as a number, which the index has, and for each the 24
-- bytes that follow: the other 8 of the key, 16 of the content. Nine full rows fill a page.
CREATE TABLE known_pack (
    heads  bigint[] NOT NULL,
    rests  bytea    NOT NULL,
    day    integer  NOT NULL,
    status smallint NOT NULL,
    CONSTRAINT known_pack_fits CHECK (length(rests) = 24 * cardinality(heads))
);
-- Neither compressed nor moved out of the row: hashes cannot be compressed, and a row is short.
ALTER TABLE known_pack ALTER heads SET STORAGE PLAIN, ALTER rests SET STORAGE PLAIN;
-- Entries go to their place at once. A list of pending ones would be read from end to end by every look-up.
CREATE INDEX known_pack_heads ON known_pack USING gin (heads) WITH (fastupdate = off);
CREATE INDEX known_pack_day ON known_pack USING brin (day) WITH (pages_per_range = 32, autosummarize = on);

-- A row for each id.
CREATE VIEW known_item AS
SELECT int8send(h.head) || substr(p.rests, CAST(24 * h.n - 23 AS integer), 8) AS key,
       substr(p.rests, CAST(24 * h.n - 15 AS integer), 16) AS content,
       p.day, p.status, h.head, p.heads
FROM known_pack p CROSS JOIN LATERAL unnest(p.heads) WITH ORDINALITY AS h (head, n);

-- The number that a key begins with.
CREATE FUNCTION tg_head(of_key bytea) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT
RETURN CAST(CAST('x' || encode(substr(of_key, 1, 8), 'hex') AS bit(64)) AS bigint);

-- Which of these are known; of two keys that begin alike, both are. Asked for a thousand at once by every admission, so its
-- plan is made once, and always by the index: a table that has just begun to grow looks to the planner as if reading it
-- whole were cheaper, and comparing two lists is not. It sees what the statement that calls it sees.
CREATE FUNCTION tg_known(of_heads bigint[])
RETURNS TABLE (key bytea, content bytea, day integer, status smallint)
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY SELECT k.key, k.content, k.day, k.status FROM known_item k
        WHERE k.heads && of_heads AND k.head = ANY (of_heads);
END
$$;

-- Makes the partition of a day, or finds it. With the rights of the owner of the tables, as events do. It is attached
-- and not created in place: that would keep readers of the whole archive waiting. What a person has made by hand is left
-- alone and named (TG001).
CREATE FUNCTION tg_archive_make(of_type text, of_day bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part   text := 'archived_' || lower(of_type) || '_' || of_day;
    there  regclass := to_regclass(quote_ident(part));
    bounds text;
BEGIN
    IF there IS NOT NULL THEN
        SELECT pg_get_expr(c.relpartbound, c.oid) INTO bounds
            FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = CAST('archived_item' AS regclass) AND i.inhrelid = there;
        IF bounds IS NULL THEN
            RAISE EXCEPTION 'the table % was not made by Tollgate and is in the way; drop it or rename it', part
                USING ERRCODE = 'TG001';
        END IF;
        IF strpos(bounds, of_day::text) = 0 OR strpos(bounds, (of_day + 1)::text) = 0 THEN
            RAISE EXCEPTION 'the partition % was not made by Tollgate (%); detach it from archived_item and rename it', part, bounds
                USING ERRCODE = 'TG001';
        END IF;
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE archived_item INCLUDING ALL)', part);
    BEGIN
        EXECUTE format('ALTER TABLE archived_item ATTACH PARTITION %I FOR VALUES FROM (%L, %s) TO (%L, %s)',
                       part, of_type, of_day, of_type, of_day + 1);
    EXCEPTION WHEN invalid_object_definition OR check_violation THEN
        RAISE EXCEPTION 'a partition of archived_item that was not made by Tollgate is in the way (%); detach it', SQLERRM
            USING ERRCODE = 'TG001';
    END;
    RETURN true;
END
$$;

-- Removes the partitions of days before this one on which nothing ended. Each is looked into under its lock: what is
-- being moved into it is waited for, and keeps it.
CREATE FUNCTION tg_archive_prune(of_type text, before_day bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    prefix text := 'archived_' || lower(of_type) || '_';
    part   text;
    filled boolean;
    pruned bigint := 0;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = CAST('archived_item' AS regclass)
          AND starts_with(c.relname, prefix)
          AND substr(c.relname, length(prefix) + 1) ~ '^[0-9]+$'
          AND CAST(substr(c.relname, length(prefix) + 1) AS bigint) < before_day
          AND NOT EXISTS (SELECT 1 FROM archived_day d WHERE d.item_type = of_type
               AND d.day = CAST(substr(c.relname, length(prefix) + 1) AS bigint))
    LOOP
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part);
        EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I)', part) INTO filled;
        IF NOT filled THEN
            EXECUTE format('DROP TABLE %I', part);
            pruned := pruned + 1;
        END IF;
    END LOOP;
    RETURN pruned;
END
$$;

CREATE FUNCTION tg_archive_drop(of_type text, of_day bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    part text := 'archived_' || lower(of_type) || '_' || of_day;
BEGIN
    -- A table of this name that is not a partition is somebody else's.
    IF EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = CAST('archived_item' AS regclass)
               AND inhrelid = to_regclass(quote_ident(part))) THEN
        EXECUTE format('DROP TABLE %I', part);
    END IF;
    RETURN true;
END
$$;
