-- The spine: items, gate, attempts, flows, settings and audit. No foreign keys:
-- what belongs together is written in one transaction. All times are microseconds since 1970, UTC.

CREATE TABLE node (
    one   INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL
) STRICT;
INSERT INTO node (one, epoch) VALUES (1, 0);

-- The stretch in which the clock is known to have run evenly: only times of one era tell how long
-- something took. The boots of machines whose nodes vouch for it, and when each began, by it.
CREATE TABLE clock_era (
    one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL,
    since  INTEGER NOT NULL
) STRICT;
INSERT INTO clock_era (one, number, since) VALUES (1, 0, 0);

CREATE TABLE clock_boot (
    boot_id TEXT    NOT NULL PRIMARY KEY,
    began   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Written to find out whether anything can be written.
CREATE TABLE write_probe (
    one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    at  INTEGER NOT NULL
) STRICT;
INSERT INTO write_probe (one, at) VALUES (1, 0);

CREATE TABLE setting (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    version    INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (kind, name, version)
) STRICT, WITHOUT ROWID;

-- What was accepted and is not planned yet: its admission ends it. A refused one keeps the verdict until other
-- content follows, a cancelled one keeps its id used; both have no document any more.
CREATE TABLE request (
    item_type        TEXT    NOT NULL,
    item_id          TEXT    NOT NULL,
    state            TEXT    NOT NULL
        CONSTRAINT request_state_known CHECK (state IN ('WAITING', 'REFUSED', 'CANCELLED')),
    content_hash     TEXT    NOT NULL,
    amount_minor     INTEGER NOT NULL,
    currency         TEXT    NOT NULL,
    document         TEXT    NOT NULL,
    -- Why it was refused, whether it is not valid at all, and the flow that has judged it.
    details          TEXT    NOT NULL,
    invalid          INTEGER NOT NULL DEFAULT 0,
    init_workflow_id TEXT,
    correction       INTEGER NOT NULL,
    -- Begun, and the last of them that failed.
    tries            INTEGER NOT NULL,
    failed_try       INTEGER NOT NULL,
    last_error       TEXT,
    -- Instead of the time that was asked for.
    moved_to         INTEGER,
    -- When it was refused or cancelled.
    ended_at         INTEGER,
    accepted_at      INTEGER NOT NULL,
    due_at           INTEGER NOT NULL,
    PRIMARY KEY (item_type, item_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_due ON request (item_type, due_at) WHERE state = 'WAITING';
CREATE INDEX request_shown ON request (item_type, item_id) WHERE state <> 'REFUSED';
CREATE INDEX request_accepted ON request (item_type, accepted_at) WHERE state <> 'REFUSED';

-- What owners had taken in, by quarters of an hour, whatever became of it; for daily totals.
CREATE TABLE owner_total (
    item_type    TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    quarter      INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    PRIMARY KEY (item_type, owner, currency, quarter)
) STRICT, WITHOUT ROWID;

-- What an item was taken in with, and what init has derived from it: written once, and again only when a
-- person corrects it. Apart from the item's row, which every move writes anew.
CREATE TABLE item_body (
    item_type        TEXT NOT NULL,
    item_id          TEXT NOT NULL,
    content_hash     TEXT NOT NULL,
    body             TEXT NOT NULL,
    init_workflow_id TEXT NOT NULL,
    -- What it came in with, if that was a file.
    bulk_id          TEXT,
    PRIMARY KEY (item_type, item_id)
-- Not WITHOUT ROWID: rows lie in the order in which they came, so that ids in no order scatter the entries of a narrow index
-- over the file, and not whole rows.
) STRICT;
CREATE INDEX item_body_bulk ON item_body (item_type, bulk_id, item_id)
    WHERE bulk_id IS NOT NULL;
-- By what people look for payments. Written once, with the body.
CREATE INDEX item_body_debtor ON item_body (json_extract(body, '$.debtor.account'), item_id)
    WHERE item_type = 'PAYMENT' AND json_valid(body);
CREATE INDEX item_body_creditor ON item_body (json_extract(body, '$.creditor.account'), item_id)
    WHERE item_type = 'PAYMENT' AND json_valid(body);
CREATE INDEX item_body_reference ON item_body (json_extract(body, '$.reference'), item_id)
    WHERE item_type = 'PAYMENT' AND json_valid(body) AND json_extract(body, '$.reference') IS NOT NULL;

-- A replan opens a new generation, which counts only what was placed since.
CREATE TABLE lane_plan (
    lane         TEXT    NOT NULL PRIMARY KEY,
    generation   INTEGER NOT NULL,
    replan_since INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE lane_window (
    lane         TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    window_start INTEGER NOT NULL,
    used         INTEGER NOT NULL,
    next_open    INTEGER,
    PRIMARY KEY (lane, generation, window_start)
) STRICT, WITHOUT ROWID;

CREATE TABLE lane_cursor (
    lane         TEXT    NOT NULL PRIMARY KEY,
    last_turn    INTEGER,
    -- The last turn of a call that belongs to no item.
    last_call    INTEGER,
    closed_until INTEGER,
    -- Who closed it, and why; none of both if its downstream asked for quiet.
    closed_by    TEXT,
    closed_why   TEXT,
    -- The refusal storm that has paused it.
    storm_id     INTEGER
) STRICT, WITHOUT ROWID;

-- A connector as it was configured at a start; its newest row is the configuration in force. Until
-- one answer is not a refusal, its sends are a canary, and `places` lists their attempts (JSON).
CREATE TABLE connector_watch (
    watch_id  INTEGER NOT NULL PRIMARY KEY,
    lane      TEXT    NOT NULL,
    connector TEXT    NOT NULL,
    digest    TEXT    NOT NULL,
    canary    INTEGER NOT NULL,
    streak    INTEGER NOT NULL,
    passed    INTEGER NOT NULL,
    places    TEXT    NOT NULL,
    -- Attempts up to this one belong to storms that are over.
    since     INTEGER NOT NULL
) STRICT;
CREATE INDEX connector_watch_name ON connector_watch (lane, connector, watch_id);

-- Its refusals are the attempts of its connector from the first on, up to the last once it is lifted.
CREATE TABLE storm (
    storm_id      INTEGER NOT NULL PRIMARY KEY,
    lane          TEXT    NOT NULL,
    watch_id      INTEGER NOT NULL,
    reason        TEXT    NOT NULL,
    first_attempt INTEGER NOT NULL,
    last_attempt  INTEGER,
    began_at      INTEGER NOT NULL,
    lifted_at     INTEGER
) STRICT;

-- An item: its business status, its slot and its place in the queue.
CREATE TABLE item_queue (
    item_type           TEXT   NOT NULL,
    item_id             TEXT   NOT NULL,
    lane                TEXT   NOT NULL,
    currency            TEXT   NOT NULL,
    amount_minor        INTEGER NOT NULL,
    created_at          INTEGER NOT NULL,
    -- The slot: when it was asked for, and where it was placed.
    requested_time      INTEGER NOT NULL,
    window_start        INTEGER NOT NULL,
    scheduled_time      INTEGER NOT NULL,
    generation          INTEGER NOT NULL,
    -- The slot's, whatever happens after it.
    deadline            INTEGER,
    -- Rather HELD than sent after this time.
    hold_after          INTEGER,
    -- Only while somebody looks for it by them: a rule about twins, one about daily totals, or a list by owner.
    duplicate_key       TEXT,
    owner               TEXT,
    counted             INTEGER NOT NULL DEFAULT 0,
    by_owner            INTEGER NOT NULL DEFAULT 0,
    queue_status        TEXT   NOT NULL
        CONSTRAINT queue_status_known
        CHECK (queue_status IN ('READY', 'CLAIMED', 'DISPATCHED', 'DEAD', 'CANCELLED', 'HELD')),
    status              TEXT   NOT NULL,
    -- When the business status was written.
    updated_at          INTEGER NOT NULL,
    scheduled_exec_time INTEGER NOT NULL,
    run                 INTEGER NOT NULL,
    fence               INTEGER NOT NULL,
    retry_count         INTEGER NOT NULL,
    -- Connections and exchanges of this item that failed: the pause after the next failure is by this number.
    failures            INTEGER NOT NULL DEFAULT 0,
    claimed_at          INTEGER,
    dispatched_at       INTEGER,
    finished_at         INTEGER,
    dispatch_batch_id   TEXT,
    exec_workflow_id    TEXT,
    last_error          TEXT,
    -- The rules that hold it, and those that a person let it pass.
    held_by             TEXT,
    passed_rules        TEXT,
    PRIMARY KEY (item_type, item_id)
-- In the order in which they came, like the bodies.
) STRICT;

-- Lists by status, and the worklist of what nobody knows the outcome of.
CREATE INDEX item_queue_status ON item_queue (item_type, status, item_id);
-- The totals of a day read that day, however many there were.
CREATE INDEX item_queue_created ON item_queue (item_type, created_at, item_id);
-- That worklist as people go through it: the oldest first, or the largest of a currency.
CREATE INDEX item_queue_doubt_age ON item_queue (item_type, updated_at, item_id, currency, amount_minor)
    WHERE status = 'IN_DOUBT';
CREATE INDEX item_queue_doubt_amount ON item_queue (item_type, currency, amount_minor, item_id)
    WHERE status = 'IN_DOUBT';
CREATE INDEX item_queue_twin ON item_queue (item_type, duplicate_key, created_at)
    WHERE duplicate_key IS NOT NULL;
-- By status: what is asked for are the few that were withdrawn.
CREATE INDEX item_queue_counted ON item_queue (item_type, owner, currency, status, created_at)
    WHERE counted = 1;
CREATE INDEX item_queue_owner ON item_queue (item_type, owner, status)
    WHERE by_owner = 1;
-- For a list of all of them, page by page.
CREATE INDEX item_queue_owner_page ON item_queue (item_type, owner, item_id)
    WHERE by_owner = 1;

-- One partial index per question the dispatcher asks. The lane leads, since the types of a lane
-- share its credit.
CREATE INDEX item_queue_ready ON item_queue (lane, item_type, scheduled_exec_time)
    WHERE queue_status = 'READY';
CREATE INDEX item_queue_claimed ON item_queue (lane, item_type, claimed_at)
    WHERE queue_status = 'CLAIMED';
CREATE INDEX item_queue_running ON item_queue (lane, item_type, dispatched_at)
    WHERE queue_status = 'DISPATCHED' AND finished_at IS NULL;
CREATE INDEX item_queue_hold ON item_queue (item_type, hold_after)
    WHERE queue_status = 'READY' AND hold_after IS NOT NULL;
CREATE INDEX item_queue_held ON item_queue (lane) WHERE queue_status = 'HELD';
-- The worklist of what is held, and its sums: the longest due first.
CREATE INDEX item_queue_held_due ON item_queue (item_type, scheduled_exec_time, item_id, currency, amount_minor, created_at, status)
    WHERE queue_status = 'HELD';
-- What was tried in vain more than twice and has not ended.
CREATE INDEX item_queue_failing ON item_queue (item_type, created_at)
    WHERE queue_status IN ('READY', 'CLAIMED', 'DISPATCHED') AND failures > 2;
-- What may miss its deadline: by how much time it has between being due and being late.
CREATE INDEX item_queue_tight ON item_queue (lane, (deadline - scheduled_exec_time))
    WHERE deadline IS NOT NULL AND finished_at IS NULL
      AND queue_status IN ('READY', 'CLAIMED', 'DISPATCHED');
CREATE INDEX item_queue_dead ON item_queue (item_type, item_id, currency, amount_minor, scheduled_exec_time)
    WHERE queue_status = 'DEAD';
-- Dead letters as people go through them: what was due last first.
CREATE INDEX item_queue_dead_due ON item_queue (item_type, scheduled_exec_time, item_id)
    WHERE queue_status = 'DEAD';
-- What is held, page by page.
CREATE INDEX item_queue_held_page ON item_queue (item_type, item_id) WHERE queue_status = 'HELD';

-- A send: the intent before the first byte, its turn, and its outcome. A row without an item is a call, which has a
-- turn and no outcome; one without a lane had no turn, as what a person or another service knows.
CREATE TABLE attempt (
    -- A number is never given again, though attempts move to the archive.
    attempt_id      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    item_type       TEXT    NOT NULL,
    item_id         TEXT    NOT NULL,
    run             INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    lane            TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL,
    turn_at         INTEGER NOT NULL,
    era             INTEGER NOT NULL,
    settled_at      INTEGER,
    detail          TEXT    NOT NULL,
    -- Refused, and a person has had its item tried again since: another key may be asked.
    reopened        INTEGER NOT NULL DEFAULT 0,
    -- Which configuration of a connector sent it; none if its refusals do not count.
    watch_id        INTEGER
) STRICT;
CREATE INDEX attempt_item ON attempt (item_type, item_id);
-- The turns of a lane, for its certificate.
CREATE INDEX attempt_turn ON attempt (lane, turn_at);
-- What a streak counts, and what a storm has refused.
CREATE INDEX attempt_refused ON attempt (watch_id, attempt_id) WHERE state = 'REFUSED';
-- An item has at most one open attempt: of two senders that ask at once, one gets a turn. One that
-- asks late is refused by the attempts it has not seen (docs/decisions/0002).
CREATE UNIQUE INDEX attempt_open ON attempt (item_type, item_id) WHERE state = 'OPEN';

CREATE TABLE audit_log (
    audit_id      INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    batch_id      TEXT,
    item_type     TEXT,
    item_id       TEXT,
    action        TEXT    NOT NULL,
    status_before TEXT,
    status_after  TEXT,
    actor         TEXT    NOT NULL,
    detail        TEXT    NOT NULL,
    created_at    INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_log_item ON audit_log (item_type, item_id) WHERE item_id IS NOT NULL;
CREATE INDEX audit_log_actor ON audit_log (actor);
CREATE INDEX audit_log_action ON audit_log (action);
-- What people did, among what the machine did.
CREATE INDEX audit_log_people ON audit_log (audit_id)
    WHERE actor NOT IN ('breaker', 'checks', 'configuration', 'demo', 'dispatcher', 'feed', 'payments',
        'reconciliation', 'rules', 'sender', 'status-check', 'storm', 'sweep', 'sweeper',
        'tollgate');

CREATE TABLE flow (
    flow_id    TEXT    NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    state      TEXT    NOT NULL
        CONSTRAINT flow_state_known CHECK (state IN ('PENDING', 'LIVE', 'DONE', 'FAILED')),
    is_child   INTEGER NOT NULL,
    -- When it was put here, and when it is due, by the clock as it was then.
    started_at INTEGER NOT NULL,
    due_at     INTEGER NOT NULL,
    input      TEXT    NOT NULL,
    progress   TEXT,
    result     TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX flow_due ON flow (is_child, due_at) WHERE state = 'PENDING';
CREATE INDEX flow_live ON flow (flow_id) WHERE state = 'LIVE';
-- What has ended and takes no item along, once it is old. In the order in which flows come.
CREATE INDEX flow_ended ON flow (started_at) WHERE state IN ('DONE', 'FAILED');

CREATE TABLE journal (
    flow_id TEXT NOT NULL,
    key     TEXT NOT NULL,
    result  TEXT NOT NULL,
    PRIMARY KEY (flow_id, key)
) STRICT, WITHOUT ROWID;

-- Files of items. What was given up is DISCARDED until its chunks are gone.
CREATE TABLE bulk (
    bulk_id         TEXT    NOT NULL PRIMARY KEY,
    item_type       TEXT    NOT NULL,
    state           TEXT    NOT NULL
        CONSTRAINT bulk_state_known
        CHECK (state IN ('UPLOADING', 'RUNNING', 'DONE', 'DISCARDED')),
    -- Written when the upload is complete.
    idempotency_key TEXT,
    digest          TEXT,
    -- What its sender calls it, and who that was.
    file_name       TEXT,
    actor           TEXT,
    lines           INTEGER NOT NULL,
    chunks_left     INTEGER NOT NULL,
    accepted        INTEGER NOT NULL,
    duplicate       INTEGER NOT NULL,
    rejected        INTEGER NOT NULL,
    -- No chunk was taken in before an earlier one.
    order_kept      INTEGER NOT NULL DEFAULT 1,
    -- Of a feed: rejected records are answered.
    answers         INTEGER NOT NULL DEFAULT 0,
    opened_at       INTEGER NOT NULL,
    touched_at      INTEGER NOT NULL,
    started_at      INTEGER,
    -- When a line was last rejected.
    rejected_at     INTEGER,
    ended_at        INTEGER
) STRICT, WITHOUT ROWID;
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

-- The work list: a chunk that has ended is deleted. With a rowid, since its text is large.
CREATE TABLE bulk_chunk (
    bulk_id    TEXT    NOT NULL,
    chunk_no   INTEGER NOT NULL,
    -- Tries that failed, why, and when the next one is due. Before the text, which is read for itself only.
    tries      INTEGER NOT NULL DEFAULT 0,
    due_at     INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    -- Since when it fails, and how often a try ended because an earlier chunk came first.
    failing_since INTEGER,
    holds      INTEGER NOT NULL DEFAULT 0,
    -- Of a feed: when it was read. Only an order among partitions: nothing waits for this time.
    added_at   INTEGER NOT NULL DEFAULT 0,
    text       BLOB    NOT NULL,
    PRIMARY KEY (bulk_id, chunk_no)
) STRICT;
CREATE INDEX bulk_chunk_failing ON bulk_chunk (bulk_id) WHERE tries > 0;

CREATE TABLE bulk_error (
    bulk_id TEXT    NOT NULL,
    line_no INTEGER NOT NULL,
    item_id TEXT,
    details TEXT    NOT NULL,
    -- The line itself, to correct it; none if it is too long.
    line_text TEXT,
    -- Of a feed: still to be answered.
    unanswered INTEGER NOT NULL DEFAULT 0,
    -- Of a feed: since when it need not be answered any more. Lines of files go with their file.
    answered_at INTEGER,
    PRIMARY KEY (bulk_id, line_no)
) STRICT, WITHOUT ROWID;
CREATE INDEX bulk_error_unanswered ON bulk_error (bulk_id, line_no) WHERE unanswered;
CREATE INDEX bulk_error_answered ON bulk_error (answered_at) WHERE answered_at IS NOT NULL;

-- What was accepted, as it was placed then.
CREATE TABLE bulk_sum (
    bulk_id        TEXT    NOT NULL,
    lane           TEXT    NOT NULL,
    currency       TEXT    NOT NULL,
    accepted       INTEGER NOT NULL,
    amount_minor   INTEGER NOT NULL,
    met            INTEGER NOT NULL,
    missed         INTEGER NOT NULL,
    first_slot     INTEGER NOT NULL,
    last_slot      INTEGER NOT NULL,
    first_deadline INTEGER,
    last_deadline  INTEGER,
    PRIMARY KEY (bulk_id, lane, currency)
) STRICT, WITHOUT ROWID;

-- Status checks, kept for a while after their end.
CREATE TABLE status_check (
    check_id  TEXT    NOT NULL PRIMARY KEY,
    phase     TEXT    NOT NULL
        CONSTRAINT status_check_phase_known
        CHECK (phase IN ('ES_LOOKUP', 'GATEWAY_PROCESSING', 'AGGREGATING', 'COMPLETED')),
    total     INTEGER NOT NULL,
    gateways  INTEGER NOT NULL DEFAULT 0,
    opened_at INTEGER NOT NULL,
    ended_at  INTEGER,
    -- One of them, when it has ended.
    result    TEXT,
    error     TEXT
) STRICT;
CREATE INDEX status_check_age ON status_check (opened_at, check_id);

-- List 0 has the payments to look up, list n the chunks of the n-th gateway.
CREATE TABLE status_check_part (
    check_id TEXT    NOT NULL,
    list_no  INTEGER NOT NULL,
    part_no  INTEGER NOT NULL,
    body     TEXT    NOT NULL,
    outcome  TEXT,
    failed   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (check_id, list_no, part_no)
) STRICT;

-- Sessions of the console, by the hash of what a browser shows.
CREATE TABLE session (
    secret_sha256 TEXT    NOT NULL PRIMARY KEY,
    token_sha256  TEXT    NOT NULL,
    ends_at       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_token ON session (token_sha256, ends_at);
CREATE INDEX session_end ON session (ends_at);

-- What a person has seen of what needs one, by kind: it is told again when there is more of it. What has happened is
-- seen up to a mark.
CREATE TABLE need_seen (
    kind       TEXT    NOT NULL PRIMARY KEY,
    seen_count INTEGER NOT NULL,
    mark       INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    reason     TEXT    NOT NULL,
    seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Acts on many items: a preview until a person confirms it by its digest.
CREATE TABLE job (
    job_id         TEXT    NOT NULL PRIMARY KEY,
    item_type      TEXT    NOT NULL,
    act            TEXT    NOT NULL,
    -- From when on slots are given, for a reschedule.
    requested_time INTEGER,
    filter         TEXT    NOT NULL,
    state          TEXT    NOT NULL
        CONSTRAINT job_state_known CHECK (state IN ('PREVIEW', 'RUNNING', 'DONE', 'STOPPED')),
    -- Both are written when the preview is complete.
    digest         TEXT,
    summary        TEXT    NOT NULL,
    actor          TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    total          INTEGER NOT NULL,
    done           INTEGER NOT NULL,
    left_out       INTEGER NOT NULL,
    previewed_at   INTEGER NOT NULL,
    started_at     INTEGER,
    ended_at       INTEGER,
    stopped        TEXT
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX job_digest ON job (digest) WHERE digest IS NOT NULL;
CREATE INDEX job_age ON job (started_at, job_id) WHERE started_at IS NOT NULL;
CREATE INDEX job_running ON job (started_at, job_id) WHERE state = 'RUNNING';
CREATE INDEX job_preview ON job (previewed_at, job_id) WHERE state = 'PREVIEW';

-- The items of a job as they were previewed, many in a row. With a rowid, since a body is large. One whose items are
-- all looked at is deleted.
CREATE TABLE job_chunk (
    job_id   TEXT    NOT NULL,
    chunk_no INTEGER NOT NULL,
    body     TEXT    NOT NULL,
    PRIMARY KEY (job_id, chunk_no)
) STRICT;

-- What became of each item of a job that was looked at.
CREATE TABLE job_result (
    job_id   TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    item_id  TEXT    NOT NULL,
    -- Why; none if the act was done.
    left_out TEXT,
    -- What the bank said, if it was asked.
    answer   TEXT,
    PRIMARY KEY (job_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX job_result_left_out ON job_result (job_id, number) WHERE left_out IS NOT NULL;

-- Erasures of personal data. The account is kept while one runs, so that it can go on after a crash, and not longer.
CREATE TABLE erasure (
    erasure_id     TEXT    NOT NULL PRIMARY KEY,
    -- One of both; no account once it has ended.
    account        TEXT,
    item_type      TEXT,
    item_id        TEXT,
    -- How far it is, and where it goes on within that.
    stage          TEXT    NOT NULL,
    place          TEXT    NOT NULL,
    actor          TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    items          INTEGER NOT NULL,
    archived       INTEGER NOT NULL,
    notifications  INTEGER NOT NULL,
    texts          INTEGER NOT NULL,
    files          INTEGER NOT NULL,
    left_out       INTEGER NOT NULL,
    first_left_out TEXT    NOT NULL,
    purged         TEXT,
    -- Why it comes no further, and since when.
    trouble        TEXT,
    troubled_since INTEGER,
    started_at     INTEGER NOT NULL,
    ended_at       INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX erasure_running ON erasure (started_at, erasure_id) WHERE ended_at IS NULL;

-- Feeds: topics whose records are taken in. A few rows.
CREATE TABLE feed (
    feed       TEXT    NOT NULL PRIMARY KEY,
    topic      TEXT    NOT NULL,
    -- When a process last asked for partitions: a feed that no process configures any more is not read.
    shared_at  INTEGER NOT NULL DEFAULT 0,
    -- Another one when the topic was created again.
    topic_id   TEXT,
    -- It is paused because of that, or was resumed and the new topic is not known yet.
    recreated  INTEGER NOT NULL DEFAULT false,
    -- While it is paused.
    paused_why TEXT,
    paused_by  TEXT,
    paused_at  INTEGER,
    -- The last trouble with its source, since when, and when it was last said: what is not said again is over.
    trouble    TEXT,
    trouble_at INTEGER,
    said_at    INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- The processes that read a feed. For a while it may be of two topics: after the configuration was changed, old processes
-- still read the old one.
CREATE TABLE feed_reader (
    feed       TEXT    NOT NULL,
    topic      TEXT    NOT NULL,
    owner      TEXT    NOT NULL,
    seen_until INTEGER NOT NULL,
    PRIMARY KEY (feed, topic, owner)
) STRICT, WITHOUT ROWID;

-- Where a feed stands. The position moves with the records that were read up to it.
CREATE TABLE feed_partition (
    feed           TEXT    NOT NULL,
    topic          TEXT    NOT NULL,
    partition_no   INTEGER NOT NULL,
    bulk_id        TEXT    NOT NULL,
    -- Of the topic that its position is in; it stays while the feed is configured for another one.
    topic_id       TEXT,
    -- Added to a topic that had been looked at before: nothing of it is passed.
    from_first     INTEGER NOT NULL DEFAULT false,
    -- The topic was created again without it. It keeps its fence and counts, in case that it is added again: numbers of
    -- chunks are never given twice.
    gone           INTEGER NOT NULL DEFAULT false,
    position       INTEGER,
    log_end        INTEGER,
    -- Of the last holding, and who holds it until when. Without an owner: since when.
    fence          INTEGER NOT NULL DEFAULT 0,
    owner          TEXT,
    leased_until   INTEGER NOT NULL DEFAULT 0,
    -- Written so far.
    chunks         INTEGER NOT NULL DEFAULT 0,
    records        INTEGER NOT NULL DEFAULT 0,
    dead_letters   INTEGER NOT NULL DEFAULT 0,
    last_record_at INTEGER,
    PRIMARY KEY (feed, topic, partition_no)
) STRICT, WITHOUT ROWID;

-- Events: every move of an item, until it is published. The row is written by the transaction that makes the move, by
-- triggers that exist only while events are on (`cold/outbox/switch.rs`). A number is never given again.
CREATE TABLE outbox (
    event_no       INTEGER PRIMARY KEY AUTOINCREMENT,
    -- Random, since numbers begin again where a restored backup stands.
    event_id       TEXT    NOT NULL DEFAULT (lower(hex(randomblob(16)))),
    item_type      TEXT    NOT NULL,
    item_id        TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    at             INTEGER NOT NULL,
    currency       TEXT    NOT NULL,
    amount_minor   INTEGER NOT NULL,
    lane           TEXT,
    scheduled_time INTEGER
) STRICT;

-- Events that were refused, and those of the same item behind them: here they hold up no others. Only the process that
-- publishes writes here, so a look that goes on from item to item skips nothing.
CREATE TABLE outbox_refused (
    event_no       INTEGER PRIMARY KEY,
    event_id       TEXT    NOT NULL,
    item_type      TEXT    NOT NULL,
    item_id        TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    at             INTEGER NOT NULL,
    currency       TEXT    NOT NULL,
    amount_minor   INTEGER NOT NULL,
    lane           TEXT,
    scheduled_time INTEGER
) STRICT;
CREATE INDEX outbox_refused_by_item ON outbox_refused (item_type, item_id, event_no);

-- Whether events are on, and who publishes them until when.
CREATE TABLE event_relay (
    one               INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    is_on             INTEGER NOT NULL,
    fence             INTEGER NOT NULL,
    owner             TEXT,
    leased_until      INTEGER NOT NULL,
    published         INTEGER NOT NULL,
    last_published_at INTEGER,
    trouble           TEXT,
    trouble_at        INTEGER,
    settings          TEXT    NOT NULL DEFAULT '',
    difference        TEXT,
    differs_until     INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO event_relay (one, is_on, fence, leased_until, published) VALUES (1, 0, 0, 0, 0);

-- The archive: items that have ended and are older than hot_days lie in a file for each month beside this one
-- (sqlite/archive_files.rs). Here is how far each day of a type is, and where it was exported to.
CREATE TABLE archived_day (
    item_type   TEXT    NOT NULL,
    day         INTEGER NOT NULL,
    state       TEXT    NOT NULL
        CONSTRAINT archived_day_state_known
        CHECK (state IN ('OPEN', 'CLOSED', 'EXPORTED', 'DROPPED')),
    file        TEXT,
    digest      TEXT,
    exported_at INTEGER,
    dropped_at  INTEGER,
    restored_at INTEGER,
    PRIMARY KEY (item_type, day)
) STRICT, WITHOUT ROWID;

-- Days that could not be filled, exported, verified or dropped, and why; a row goes when the step goes well.
CREATE TABLE archive_trouble (
    item_type TEXT    NOT NULL,
    day       INTEGER NOT NULL,
    step      TEXT    NOT NULL
        CONSTRAINT archive_trouble_step_known
        CHECK (step IN ('MOVE', 'ARCHIVE', 'EXPORT', 'VERIFY', 'DROP')),
    why       TEXT    NOT NULL,
    since     INTEGER NOT NULL,
    PRIMARY KEY (item_type, day, step)
) STRICT, WITHOUT ROWID;

-- What was moved, by the quarter of an hour of its acceptance: the totals of any date in any zone are what is hot and
-- what was moved. Kept when a day is dropped.
CREATE TABLE archived_sum (
    item_type    TEXT    NOT NULL,
    quarter      INTEGER NOT NULL,
    day          INTEGER NOT NULL,
    status       TEXT    NOT NULL,
    currency     TEXT    NOT NULL,
    -- The import; empty for none.
    bulk_id      TEXT    NOT NULL,
    items        INTEGER NOT NULL,
    amount_minor INTEGER NOT NULL,
    PRIMARY KEY (item_type, quarter, day, status, currency, bulk_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX archived_sum_day ON archived_sum (item_type, day, quarter);
CREATE INDEX archived_sum_bulk ON archived_sum (item_type, bulk_id) WHERE bulk_id <> '';

-- The send log of what was moved, for certificates: turns of one lane in one hour, packed. Kept when a day is dropped.
-- Calls that belong to no item have an empty type.
CREATE TABLE archived_turns (
    chunk_id  INTEGER NOT NULL PRIMARY KEY,
    lane      TEXT    NOT NULL,
    hour      INTEGER NOT NULL,
    item_type TEXT    NOT NULL,
    day       INTEGER NOT NULL,
    turns     BLOB    NOT NULL
) STRICT;
CREATE INDEX archived_turns_hour ON archived_turns (lane, hour);
CREATE INDEX archived_turns_day ON archived_turns (item_type, day);

-- Ids that were archived, for years: the first halves of SHA-256 of type and id, and of the content hash (zeroes once it
-- was erased).
CREATE TABLE known_item (
    key     BLOB    NOT NULL PRIMARY KEY,
    content BLOB    NOT NULL,
    day     INTEGER NOT NULL,
    status  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
