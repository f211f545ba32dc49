//! Every metric there is, and what it means. The handbook has the same list; a test compares them.

use metrics::{counter, describe_counter, describe_gauge, describe_histogram};

const COUNTERS: [(&str, &str); 28] = [
    (
        "tollgate_archived_items_total",
        "ended items moved into the archive, by item type",
    ),
    (
        "tollgate_leader_changes_total",
        "times that this process became the leader",
    ),
    (
        "tollgate_intake_failures_total",
        "failed attempts to plan accepted payments, by what: request (a single payment), chunk (of a file)",
    ),
    (
        "rate_limiter_slot_assignment_failures_total",
        "items refused because their lane never opens again",
    ),
    (
        "tollgate_clock_jumps_total",
        "detected jumps of the store's clock; each began a new era",
    ),
    ("tollgate_turns_total", "turns used in time"),
    (
        "tollgate_turns_dropped_total",
        "turns dropped because the process was late",
    ),
    (
        "tollgate_sends_total",
        "exchanges with downstreams, by lane, kind (send, probe) and outcome",
    ),
    (
        "tollgate_windows_corrected_total",
        "window counters that reconciliation corrected",
    ),
    ("dispatch_batch_claimed_total", "items claimed"),
    (
        "dispatch_workflow_started_total",
        "exec flows that were started",
    ),
    (
        "dispatch_workflow_start_failures_total",
        "exec flows that could not be started",
    ),
    (
        "tollgate_notification_sends_total",
        "notifications posted, by lane and outcome; repeats included",
    ),
    (
        "tollgate_answers_differ_total",
        "payments whose bank reported a different amount or currency, by lane",
    ),
    (
        "tollgate_rule_refusals_total",
        "payments that a rule refused, by rule",
    ),
    (
        "tollgate_rule_stops_total",
        "payments that a rule stopped before they were sent, by rule and consequence (hold, reject)",
    ),
    (
        "tollgate_rule_errors_total",
        "payments refused because a rule could not be evaluated, by rule",
    ),
    (
        "tollgate_status_checks_started_total",
        "status checks that were started",
    ),
    (
        "tollgate_status_checks_ended_total",
        "status checks that ended, by end (completed, failed)",
    ),
    (
        "tollgate_status_check_failed_calls_total",
        "failed calls of status checks, by service; repeats included",
    ),
    (
        "tollgate_invoice_checks_total",
        "verdicts before charges, by check and verdict",
    ),
    (
        "tollgate_api_refused_total",
        "requests without a valid token or with an insufficient role",
    ),
    (
        "tollgate_api_wrong_tokens_total",
        "requests with an unknown token",
    ),
    (
        "tollgate_api_connections_cut_off_total",
        "connections closed to make room for others",
    ),
    ("tollgate_bulk_lines_total", "lines of imports, by result"),
    (
        "tollgate_feed_records_total",
        "records of a feed that were imported by this process, by feed",
    ),
    (
        "tollgate_feed_dead_letters_total",
        "records that could not be read and went to the dead-letter topic, by feed",
    ),
    (
        "tollgate_events_published_total",
        "events that were published by this process",
    ),
];

const GAUGES: [(&str, &str); 44] = [
    (
        "tollgate_archive_last_round_timestamp_seconds",
        "time at which everything due for the archive was last moved, or at which this process began to archive",
    ),
    (
        "tollgate_oldest_hot_item_seconds",
        "age of the oldest item in the hot tables, by item type",
    ),
    (
        "tollgate_store_bytes",
        "size of the store, the archive included",
    ),
    ("tollgate_archive_bytes", "size of the archive in the store"),
    (
        "tollgate_archive_days_without_a_file",
        "closed days of the archive that are not exported, by item type; all of them without retention.export_dir",
    ),
    (
        "tollgate_archive_days_ready",
        "on PostgreSQL: days from the first hot day on that have a partition, by item type",
    ),
    (
        "tollgate_archive_days_in_trouble",
        "days of the archive that could not be filled, exported, verified or dropped, including those marked as seen",
    ),
    (
        "tollgate_archive_days_overdue",
        "closed days of the archive that have had no file for more than a day, including those marked as seen; 0 without retention.export_dir",
    ),
    (
        "tollgate_erasures_in_trouble",
        "erasures whose last try failed, including those marked as seen",
    ),
    (
        "tollgate_needs_you",
        "what needs attention, by kind; 0 for what was marked as seen",
    ),
    (
        "tollgate_leader",
        "1 on the leader, 0 on a standby; embedded engine on PostgreSQL",
    ),
    (
        "tollgate_standbys",
        "processes that can take over; where store.leadership is standby",
    ),
    (
        "tollgate_store_writable",
        "1 while a small write to the store succeeds",
    ),
    (
        "tollgate_store_connections_in_use",
        "connections to the store in use",
    ),
    (
        "tollgate_store_connections_max",
        "maximum number of connections to the store",
    ),
    (
        "tollgate_store_waiting",
        "operations that wait for a connection to the store",
    ),
    (
        "tollgate_unplanned",
        "accepted payments that are not planned yet, by what: request, line (of a file)",
    ),
    (
        "tollgate_unplanned_oldest_seconds",
        "age of the oldest accepted single payment that is not planned yet",
    ),
    (
        "tollgate_unplanned_failing",
        "single payments and chunks of files whose last planning attempt failed",
    ),
    (
        "tollgate_task_queue_workers",
        "on Temporal: number of workers of a task queue",
    ),
    (
        "dispatch_queue_depth",
        "items in the queue, by type and status",
    ),
    ("tollgate_in_doubt", "items in doubt: sent, outcome unknown"),
    (
        "tollgate_in_doubt_minor_units",
        "total amount of items in doubt, in minor units",
    ),
    (
        "tollgate_in_doubt_oldest_seconds",
        "age of the oldest item in doubt",
    ),
    ("tollgate_api_connections", "connections of the API"),
    ("tollgate_bulks_running", "imports in progress"),
    ("tollgate_feed_paused", "1 while the feed is paused"),
    (
        "tollgate_feed_in_trouble",
        "1 while the feed has a problem, such as brokers that cannot be used or partitions without a reader",
    ),
    (
        "tollgate_feed_lag_records",
        "records of the feed that are not read yet",
    ),
    (
        "tollgate_feed_last_record_age_seconds",
        "time since the feed's last record was imported",
    ),
    (
        "tollgate_feed_position",
        "offset of the next record to read, by feed and partition",
    ),
    (
        "tollgate_events_backlog",
        "events that are not published yet, up to 100000",
    ),
    (
        "tollgate_events_oldest_age_seconds",
        "age of the oldest event that is not published yet",
    ),
    (
        "tollgate_events_in_trouble",
        "1 while the brokers do not accept some or all events, and while events are turned off but a process is configured to publish them",
    ),
    ("tollgate_lane_open", "1 while the lane sends"),
    (
        "tollgate_lane_refusal_storm",
        "1 while a refusal storm has paused the lane",
    ),
    ("tollgate_lane_limit_per_second", "the hard limit in force"),
    ("tollgate_lane_waiting", "items waiting on the lane"),
    (
        "tollgate_lane_overdue",
        "waiting items whose due time has passed",
    ),
    (
        "tollgate_lane_planned_late",
        "items that will miss their deadline, or have one and no estimate",
    ),
    (
        "tollgate_lane_drain_seconds",
        "time until the last waiting item is sent; +Inf without an estimate",
    ),
    (
        "tollgate_lane_slot_to_turn_seconds",
        "delay from slot to send, 99th percentile",
    ),
    (
        "tollgate_lane_plan_fill_ratio",
        "share of the next minute's slots that are taken",
    ),
    (
        "tollgate_lane_utilisation_ratio",
        "last minute's sends as a share of the hard limit",
    ),
];

const HISTOGRAMS: [(&str, &str); 4] = [
    (
        "rate_limiter_slot_assignment_duration_seconds",
        "time to assign slots to the items of one admission",
    ),
    (
        "rate_limiter_window_lookahead_depth",
        "windows between the requested time and the slot",
    ),
    (
        "tollgate_turn_lateness_seconds",
        "how long after its exact time a turn was used",
    ),
    (
        "dispatch_cycle_duration_seconds",
        "duration of one cycle of the dispatcher",
    ),
];

pub(super) fn describe() {
    for (name, meaning) in COUNTERS {
        describe_counter!(name, meaning);
    }
    // A first failure is told as a rise only if zero was told before.
    counter!("rate_limiter_slot_assignment_failures_total").increment(0);
    counter!("tollgate_clock_jumps_total").increment(0);
    for what in ["request", "chunk"] {
        counter!("tollgate_intake_failures_total", "what" => what).increment(0);
    }
    for (name, meaning) in GAUGES {
        describe_gauge!(name, meaning);
    }
    for (name, meaning) in HISTOGRAMS {
        describe_histogram!(name, meaning);
    }
}
