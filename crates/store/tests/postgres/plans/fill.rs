//! A database as it is after a while: a million items, most of them finished or planned for
//! later, few under way.

use tollgate_conformance::postgres::{self as cluster, Cluster};

/// The n-th item of the fill, from 1 to a million.
pub(super) fn id(n: u32) -> String {
    format!("p{}", 1_000_000 + n)
}
/// Whose payment it is, and what makes another its duplicate; each has a hundred and ten of a million.
pub(super) fn debtor(n: u32) -> String {
    format!("debtor-{}", n % 10_000)
}
pub(super) fn duplicate(n: u32) -> String {
    format!("twin-{}", n % 100_000)
}
/// The file that every second item around it came in.
pub(super) fn bulk(n: u32) -> String {
    format!("b{}", 1_000_000 + n / 10_000)
}
pub(super) fn flow(n: u32) -> String {
    format!("f{}", 1_000_000 + n)
}

/// These items are DISPATCHED and have no end; every second one of lane "bank" has an open attempt.
pub(super) const RUNNING: std::ops::RangeInclusive<u32> = 600_001..=602_000;

/// These items wait for a person, as do 101 that are DEAD; one in 51 of those that are READY must not run late.
pub(super) const HELD: std::ops::RangeInclusive<u32> = 990_000..=990_100;

/// Faster, and without effect on any plan: nothing is logged for recovery, and no autovacuum
/// comes in between.
const PREPARE: &str = "
    DO $$ DECLARE name text; BEGIN
        FOREACH name IN ARRAY ARRAY['item_queue', 'item_body', 'lane_window',
                'attempt', 'flow', 'journal', 'audit_log', 'setting', 'owner_total', 'bulk',
                'bulk_chunk', 'bulk_error', 'bulk_sum', 'status_check',
                'status_check_part', 'job', 'job_chunk', 'job_result', 'outbox',
                'outbox_refused'] LOOP
            EXECUTE format('ALTER TABLE %I SET UNLOGGED', name);
        END LOOP;
    END $$;
    -- Half of all items go through lane 'bank', the others through a hundred others.
    CREATE FUNCTION lane_of(n integer) RETURNS text LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN n % 2 = 0 THEN 'bank' ELSE 'lane-' || (n / 2 % 100) END
    $$;
    -- One a second: the last of them in four days, those up to number 622,200 are due.
    CREATE FUNCTION time_of(n integer) RETURNS bigint LANGUAGE sql STABLE AS $$
        SELECT (extract(epoch FROM now()) * 1000000)::bigint + (n - 622200) * 1000000::bigint
    $$;";

const QUEUE: &str = "
    INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
            requested_time, window_start, scheduled_time, generation, deadline, hold_after,
            duplicate_key, owner, counted, by_owner, queue_status, status, updated_at,
            scheduled_exec_time, run, fence, retry_count, claimed_at, dispatched_at, finished_at,
            dispatch_batch_id)
    SELECT 'PAYMENT', 'p' || 1000000 + n, lane_of(n), 'USD', n, time_of(n - 400000), time_of(n),
           time_of(n) - time_of(n) % 4000000, time_of(n), 0,
           CASE WHEN n % 11 = 0 THEN time_of(n + CASE WHEN n % 77 = 0 THEN -1 ELSE 3600 END) END,
           CASE WHEN n > 610000 AND n % 51 = 0 THEN time_of(n) END,
           'twin-' || n % 100000, 'debtor-' || n % 10000, true, n % 10 = 0,
           CASE WHEN n <= 602000 THEN 'DISPATCHED' WHEN n <= 602200 THEN 'CLAIMED'
                WHEN n BETWEEN 990000 AND 990100 THEN 'HELD'
                WHEN n BETWEEN 991000 AND 991100 THEN 'DEAD' ELSE 'READY' END,
           CASE WHEN n <= 600000 THEN 'PROCESSING' WHEN n % 99 = 0 THEN 'CANCELLED'
                ELSE 'SCHEDULED' END,
           time_of(n), time_of(n), 1, 1, 0, CASE WHEN n <= 602200 THEN time_of(n) END,
           CASE WHEN n <= 602000 THEN time_of(n) END, CASE WHEN n <= 600000 THEN time_of(n) END,
           CASE WHEN n <= 602200 THEN 'FILL-' || n / 500 END
    FROM generate_series(1, 1000000) n";

/// What is under way; of each batch the half that goes through lane 'bank' is one row.
const BATCHES: &str = "
    INSERT INTO batch (lane, item_type, batch_id, claimed_at, items)
    SELECT lane_of(n), 'PAYMENT', 'FILL-' || n / 500, min(time_of(n)), array_agg('p' || 1000000 + n)
    FROM generate_series(600001, 602200) n GROUP BY 1, 3";

const ATTEMPTS: [&str; 2] = [
    "INSERT INTO attempt (item_type, item_id, number, run, kind, state, lane, idempotency_key,
            turn_at, era, detail)
     SELECT 'PAYMENT', 'p' || 1000000 + n, 1, 1, 'SEND', 'RETRY', lane_of(n), 'key-' || n,
            time_of(n - 1), 0, ''
     FROM generate_series(1, 400000) n",
    "INSERT INTO attempt (item_type, item_id, number, run, kind, state, lane, idempotency_key,
            turn_at, era, detail)
     SELECT 'PAYMENT', 'p' || 1000000 + n, 2, 1, 'SEND',
            CASE WHEN n <= 600000 THEN 'DONE' ELSE 'OPEN' END, lane_of(n), 'key-' || n,
            time_of(n), 0, ''
     FROM generate_series(1, 602000) n WHERE n <= 600000 OR n % 4 = 0",
];

const AUDIT: &str = "
    INSERT INTO audit_log (item_type, item_id, action, actor, detail, created_at)
    SELECT 'PAYMENT', 'p' || 1000000 + n,
           CASE WHEN n % 999 = 0 THEN 'ANSWER_DIFFERS' ELSE 'RETRY' END,
           CASE WHEN n % 1000 = 0 THEN 'sweeper' ELSE 'sender' END, '', time_of(n)
    FROM generate_series(1, 500000) n";

const BODIES: [&str; 2] = [
    "INSERT INTO owner_total (item_type, owner, currency, quarter, amount_minor)
     SELECT 'PAYMENT', 'debtor-' || d, 'USD', time_of(622200) / 900000000 * 900000000 - q * 900000000::bigint, 1
     FROM generate_series(0, 9999) d, generate_series(0, 39) q",
    "INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id, bulk_id,
            created_at)
     SELECT 'PAYMENT', 'p' || 1000000 + n, 'hash',
            CASE WHEN n > 990000 THEN '{}' ELSE
                '{\"debtor\":{\"account\":\"D' || n % 9000 || '\"},\"creditor\":{\"account\":\"C' || n
                || '\"},\"reference\":\"R' || n / 10 || '\"}' END, 'init-' || n,
            CASE WHEN n % 2 = 0 THEN 'b' || 1000000 + n / 10000 END, time_of(n)
     FROM generate_series(1, 1000000) n",
];

const FLOWS: [&str; 2] = [
    "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input, handout)
     SELECT 'f' || 1000000 + n, 'sample',
            CASE WHEN n <= 598000 THEN 'DONE' WHEN n <= 599000 THEN 'LIVE' ELSE 'PENDING' END,
            n % 10 = 0, time_of(n), time_of(n), '{}', 0
     FROM generate_series(1, 1000000) n",
    "INSERT INTO journal
     SELECT 'f' || 1000000 + 598000 + n / 3, 'step-' || n, '{}' FROM generate_series(1, 900000) n",
];

/// A hundred thousand files, almost all of them done; twenty run, as many were given up, and a
/// thousand uploads were left.
const BULKS: [&str; 4] = [
    "INSERT INTO bulk (bulk_id, item_type, state, idempotency_key, digest, lines, chunks_left,
            accepted, duplicate, rejected, opened_at, touched_at, started_at)
     SELECT 'b' || 1000000 + n, 'PAYMENT',
            CASE WHEN n <= 98960 THEN 'DONE' WHEN n <= 98980 THEN 'RUNNING'
                 WHEN n <= 99000 THEN 'DISCARDED' ELSE 'UPLOADING' END,
            CASE WHEN n <= 98980 THEN 'key-' || n END, 'digest', 1000, 500, 990, 5, 5, time_of(n),
            time_of(n * 6), CASE WHEN n <= 98980 THEN time_of(n) END
     FROM generate_series(1, 100000) n",
    "INSERT INTO bulk_chunk
     SELECT 'b' || 1000000 + n, k, 'text' FROM generate_series(98961, 99000) n,
            generate_series(1, 500) k",
    "INSERT INTO bulk_error
     SELECT 'b' || 1000000 + n, k, 'p', '{}' FROM generate_series(1, 100000) n,
            generate_series(1, 5) k",
    "INSERT INTO bulk_sum
     SELECT 'b' || 1000000 + n, 'bank', c, 990, 99000, 990, 0, 0, 0, NULL, NULL
     FROM generate_series(1, 100000) n, unnest(ARRAY['EUR', 'USD']) c",
];

/// Fifty thousand customers, each changed once.
const CUSTOMERS: &str = "
    INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
    SELECT 'customer', 'c' || 1000000 + n, v, '{}', 'ops', '', time_of(n)
    FROM generate_series(1, 50000) n, generate_series(1, 2) v";

/// Lane "bank" is planned full for the next two hours and half full after that.
const LANES: [&str; 4] = [
    "INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
     SELECT 'lane', 'lane-' || l, v, body, actor, reason, time_of(v)
     FROM setting, generate_series(0, 99) l, generate_series(1, 1000) v
     WHERE name = 'bank' AND version = 1",
    "INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
     SELECT 'lane', 'bank', v, body, actor, reason, time_of(v)
     FROM setting, generate_series(2, 5000) v WHERE name = 'bank' AND version = 1",
    "INSERT INTO lane_plan SELECT 'lane-' || l FROM generate_series(0, 99) l;
     INSERT INTO lane_cursor (lane) SELECT 'lane-' || l FROM generate_series(0, 99) l",
    "INSERT INTO lane_window (lane, generation, window_start, used, next_open)
     SELECT CASE WHEN l < 50 THEN 'bank' ELSE 'lane-' || l END, 0, start, used,
            CASE WHEN used = 100 THEN start + 4000000 END
     FROM generate_series(0, 99) l, generate_series(0, 4999) w,
          LATERAL (SELECT (time_of(622200) / 4000000 - 245000 + w
                           + CASE WHEN l < 50 THEN l * 5000 ELSE 243000 END) * 4000000) s (start),
          LATERAL (SELECT CASE WHEN start < time_of(622200 + 7200) THEN 100 ELSE 50 END) u (used)",
];

/// Each with fifty parts of lookups and ten gateways of twenty chunks; the first are old.
const CHECKS: [&str; 2] = [
    "INSERT INTO status_check (check_id, phase, total, gateways, opened_at, ended_at, result)
     SELECT 'payment-check-' || n, 'COMPLETED', 1000, 10, time_of(300000 + n * 160), time_of(n), '{}'
     FROM generate_series(1, 2000) n",
    "INSERT INTO status_check_part
     SELECT 'payment-check-' || n, CASE WHEN p <= 50 THEN 0 ELSE (p - 51) / 20 + 1 END,
            CASE WHEN p <= 50 THEN p - 1 ELSE (p - 51) % 20 END, '[]', '{}', p % 10 = 0
     FROM generate_series(1, 2000) n, generate_series(1, 250) p",
];

/// Almost all of them done, some stopped, and old previews that nobody has confirmed.
const JOBS: [&str; 3] = [
    "INSERT INTO job (job_id, item_type, act, filter, state, digest, summary, actor, reason, total,
            done, left_out, previewed_at, started_at, ended_at)
     SELECT 'job-' || n, 'PAYMENT', 'cancel', '{}',
            CASE WHEN n <= 19900 THEN 'DONE' WHEN n <= 19990 THEN 'STOPPED' ELSE 'PREVIEW' END,
            'digest-' || n, '{\"count\":500,\"amounts\":{},\"first\":[],\"excluded\":[]}', 'ops',
            '', 500, 400, 100, time_of(n), CASE WHEN n <= 19990 THEN time_of(n) END, time_of(n)
     FROM generate_series(1, 20000) n",
    "INSERT INTO job_chunk
     SELECT 'job-' || n, k, '[]' FROM generate_series(19901, 20000) n, generate_series(0, 499) k",
    "INSERT INTO job_result
     SELECT 'job-' || n, k, 'p', CASE WHEN k % 5 = 0 THEN 'it has ended' END
     FROM generate_series(1, 1000) n, generate_series(1, 500) k",
];

/// What brokers that were away for a while leave.
const EVENTS: &str = "
    INSERT INTO outbox (item_type, item_id, status, currency, amount_minor)
    SELECT 'PAYMENT', 'p' || 1000000 + n, 'SCHEDULED', 'USD', n FROM generate_series(1, 50000) n;
    INSERT INTO outbox_refused (event_no, event_id, item_type, item_id, status, at, currency, amount_minor)
    SELECT 1000000 + n, n::text, 'PAYMENT', 'p' || 1040000 + n, 'SCHEDULED', 0, 'USD', n
    FROM generate_series(1, 50000) n";

/// One row of each table that names an account, in its first page.
const PLANTED: [&str; 9] = [
    "INSERT INTO item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
            requested_time, window_start, scheduled_time, generation, owner, counted, by_owner,
            queue_status, status, updated_at, scheduled_exec_time, run, fence, retry_count, finished_at)
     SELECT kind, 'a-planted', 'bank', 'USD', 1, time_of(1), time_of(1), 0, time_of(1), 0,
            'PLANTED-0123456789', kind = 'PAYMENT', kind = 'INVOICE', 'DISPATCHED', 'PROCESSING',
            time_of(1), time_of(1), 1, 1, 0, time_of(1)
     FROM unnest(ARRAY['PAYMENT', 'INVOICE', 'NOTIFICATION']) kind",
    "INSERT INTO item_body (item_type, item_id, content_hash, body, init_workflow_id, created_at)
     SELECT kind, 'a-planted', 'planted', body, 'init-bulk-none-1', time_of(1)
     FROM (VALUES ('PAYMENT', '{\"debtor\":{\"account\":\"PLANTED-0123456789\"}}'), ('INVOICE', '{}'),
           ('NOTIFICATION', '{\"body\":\"{\\\"data\\\":{\\\"paymentId\\\":\\\"a-planted\\\"}}\"}')) b (kind, body)",
    "INSERT INTO request (item_type, item_id, state, content_hash, amount_minor, currency, document,
            details, correction, tries, failed_try, accepted_at, due_at)
     SELECT 'PAYMENT', id, state, 'planted', 1, 'USD', '', '{\"a\":\"PLANTED-0123456789\"}', 1, 1, 0, 1, 1
     FROM (VALUES ('a-refused', 'REFUSED'), ('a-cancelled', 'CANCELLED'), ('a-told', 'REFUSED')) r (id, state)",
    "INSERT INTO bulk (bulk_id, item_type, state, file_name, lines, chunks_left, accepted, duplicate,
            rejected, opened_at, touched_at)
     VALUES ('a', 'PAYMENT', 'DONE', 'PLANTED-0123456789.csv', 1, 0, 0, 0, 1, 1, 1);
     INSERT INTO bulk_error (bulk_id, line_no, details, line_text)
     VALUES ('a', 1, '{}', 'of PLANTED-0123456789')",
    "INSERT INTO job (job_id, item_type, act, filter, state, digest, summary, actor, reason, total, done,
            left_out, previewed_at, started_at, ended_at)
     VALUES ('a', 'PAYMENT', 'cancel', '{\"account\":\"PLANTED-0123456789\"}', 'DONE', 'planted',
             '{\"count\":1,\"amounts\":{},\"first\":[],\"excluded\":[]}', 'ops', '', 1, 1, 0, 1, 1, 1);
     INSERT INTO job_result (job_id, number, item_id, answer) VALUES ('a', 1, 'a-planted', 'no')",
    "INSERT INTO audit_log (audit_id, action, actor, detail, created_at) OVERRIDING SYSTEM VALUE
     VALUES (-1, 'SEEN', 'ops', 'about PLANTED-0123456789', 1);
     INSERT INTO attempt (attempt_id, item_type, item_id, run, kind, state, lane, idempotency_key,
            turn_at, era, detail) OVERRIDING SYSTEM VALUE
     VALUES (-1, 'PAYMENT', '', 1, 'SEND', 'RETRY', 'lane-1', 'planted', 1, 0, 'no PLANTED-0123456789')",
    "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input, result)
     VALUES ('a', 'sample', 'FAILED', false, 1, 1, '', 'no PLANTED-0123456789')",
    "INSERT INTO status_check (check_id, phase, total, opened_at, ended_at, error)
     VALUES ('a', 'ES_LOOKUP', 1, time_of(900000), time_of(900000), 'no PLANTED-0123456789');
     INSERT INTO status_check_part (check_id, list_no, part_no, body, outcome)
     VALUES ('a', 0, 0, '[]', 'no PLANTED-0123456789')",
    "INSERT INTO storm (storm_id, lane, watch_id, reason, first_attempt, began_at, lifted_at)
     OVERRIDING SYSTEM VALUE VALUES (-1, 'lane-1', 1, 'PLANTED-0123456789', 1, 1, 1);
     INSERT INTO lane_cursor (lane, closed_why) VALUES ('a', 'PLANTED-0123456789');
     INSERT INTO need_seen (kind, seen_count, mark, actor, reason, seen_at)
     VALUES ('lanes-closed', 0, 0, 'ops', 'PLANTED-0123456789', 1);
     INSERT INTO feed (feed, topic, trouble, trouble_at) VALUES
         ('a', 'a', 'PLANTED-0123456789', 1), ('retired', 'a', NULL, NULL);
     INSERT INTO setting (kind, name, version, body, actor, reason, created_at)
     VALUES ('a', 'a', 1, '{}', 'ops', 'PLANTED-0123456789', 1)",
];

/// Two sessions, for two cores.
pub(super) async fn fill(cluster: &Cluster, url: &str) {
    cluster.sql("ALTER SYSTEM SET autovacuum = off").await;
    cluster.sql("SELECT pg_reload_conf()").await;
    cluster::sql(url, PREPARE).await;
    let queue = [QUEUE, BATCHES].into_iter().chain(ATTEMPTS).chain([AUDIT]);
    let others = BODIES.into_iter().chain(FLOWS).chain(LANES);
    let others = others
        .chain(BULKS)
        .chain(CHECKS)
        .chain([CUSTOMERS])
        .chain(JOBS)
        .chain([EVENTS])
        .chain(PLANTED);
    tokio::join!(run(url, queue), run(url, others));
    cluster::sql(url, "ANALYZE").await;
}

async fn run(url: &str, statements: impl Iterator<Item = &'static str>) {
    for statement in statements {
        cluster::sql(url, statement).await;
    }
}
