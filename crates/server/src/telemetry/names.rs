//! Every metric there is, and what it means. The handbook has the same list; a test compares them.

use metrics::{counter, describe_counter, describe_gauge, describe_histogram};

const COUNTERS: [(&str, &str); 28] = [
    (
        "tollgate_archived_items_total",
        "ended items that were moved into the archive, by item type",
    ),
    (
        "tollgate_leader_changes_total",
        "times that this process began to lead",
    ),
    (
        "tollgate_intake_failures_total",
        "tries to plan what was accepted that failed, by what: request (a single payment), chunk (of a file)",
    ),
    (
        "rate_limiter_slot_assignment_failures_total",
        "items refused because their lane never opens again",
    ),
    (
        "tollgate_clock_jumps_total",
        "times that the store's clock was found to have jumped; each began a new era",
    ),
    ("tollgate_turns_total", "turns that were used"),
    (
        "tollgate_turns_dropped_total",
        "turns that were missed and never used",
    ),
    (
        "tollgate_sends_total",
        "exchanges with downstreams, by lane, kind (send, probe) and outcome",
    ),
    (
        "tollgate_windows_corrected_total",
        "window counters that reconciliation corrected",
    ),
    ("dispatch_batch_claimed_total", "items that were claimed"),
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
        "payments whose bank says another amount or currency than was sent, by lane",
    ),
    (
        "tollgate_rule_refusals_total",
        "payments that a rule refused, by rule",
    ),
    (
        "tollgate_rule_stops_total",
        "payments that a rule held or rejected before they were sent, by rule and by what followed",
    ),
    (
        "tollgate_rule_errors_total",
        "times a rule could not be judged, and refused, by rule",
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
        "requests without a token, with a wrong one, or with one whose role is not enough",
    ),
    (
        "tollgate_api_wrong_tokens_total",
        "tokens that are not known",
    ),
    (
        "tollgate_api_connections_cut_off_total",
        "connections that were cut off to make room for others",
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

const GAUGES: [(&str, &str); 42] = [
    (
        "tollgate_archive_last_round_timestamp_seconds",
        "when everything that was due for the archive was last moved, or this process began to archive",
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
        "on PostgreSQL: days from the first hot one on that have a partition, by item type",
    ),
    (
        "tollgate_archive_days_in_trouble",
        "days of the archive that could not be filled, exported, verified or dropped, also if a person has seen it",
    ),
    (
        "tollgate_needs_you",
        "what needs a person, by kind; 0 for what a person has marked as seen",
    ),
    (
        "tollgate_leader",
        "1 on the process that leads, 0 on a standby; embedded engine on PostgreSQL",
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
        "connections to the store that are in use",
    ),
    (
        "tollgate_store_connections_max",
        "connections to the store that there may be",
    ),
    (
        "tollgate_store_waiting",
        "operations that wait for a connection to the store",
    ),
    (
        "tollgate_unplanned",
        "payments that were accepted and are not planned yet, by what: request, line (of a file)",
    ),
    (
        "tollgate_unplanned_oldest_seconds",
        "how long ago the oldest single payment that is not planned yet was accepted",
    ),
    (
        "tollgate_unplanned_failing",
        "single payments and chunks of files whose last try to be planned failed",
    ),
    (
        "tollgate_task_queue_workers",
        "on Temporal: who works on a task queue",
    ),
    (
        "dispatch_queue_depth",
        "items in the queue, by type and status",
    ),
    ("tollgate_in_doubt", "items in doubt: sent, outcome unknown"),
    (
        "tollgate_in_doubt_minor_units",
        "the amount at risk in them, in minor units",
    ),
    (
        "tollgate_in_doubt_oldest_seconds",
        "how long the oldest has been in doubt",
    ),
    ("tollgate_api_connections", "connections of the API"),
    ("tollgate_bulks_running", "imports in progress"),
    ("tollgate_feed_paused", "1 while the feed is paused"),
    (
        "tollgate_feed_in_trouble",
        "1 while the feed's brokers cannot be used as configured",
    ),
    (
        "tollgate_feed_lag_records",
        "records of the feed that are not read yet",
    ),
    (
        "tollgate_feed_last_record_age_seconds",
        "how long ago the feed's last record was imported",
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
        "how long the oldest event has waited to be published",
    ),
    (
        "tollgate_events_in_trouble",
        "1 while the brokers do not take events",
    ),
    ("tollgate_lane_open", "1 while the lane sends"),
    (
        "tollgate_lane_refusal_storm",
        "1 while a refusal storm has paused the lane",
    ),
    ("tollgate_lane_limit_per_second", "the hard limit in force"),
    ("tollgate_lane_waiting", "items that wait on the lane"),
    (
        "tollgate_lane_overdue",
        "items that wait although their time has come",
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
        "the way from a slot to the send; longer for one in a hundred",
    ),
    (
        "tollgate_lane_plan_fill_ratio",
        "slots given in the next minute, of those it has",
    ),
    (
        "tollgate_lane_utilisation_ratio",
        "sends in the last minute, of what the hard limit allows",
    ),
];

const HISTOGRAMS: [(&str, &str); 4] = [
    (
        "rate_limiter_slot_assignment_duration_seconds",
        "time to give slots to the items of one admission",
    ),
    (
        "rate_limiter_window_lookahead_depth",
        "windows between the requested time and the slot",
    ),
    (
        "tollgate_turn_lateness_seconds",
        "how late a turn was used after its exact time",
    ),
    (
        "dispatch_cycle_duration_seconds",
        "one cycle of the dispatcher",
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
