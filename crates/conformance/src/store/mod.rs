//! The promises of the store ports as cases that know no backend, listed once.
//!
//! A backend's test binary implements [`Fixture`] and calls [`crate::store_cases!`] with the path
//! of a function that makes one: every case then is a test of its own, on a store of its own.

pub mod accounts;
pub mod admit;
pub mod amendments;
pub mod archive;
pub mod archive_days;
pub mod attempts;
pub mod batches;
pub mod bulks;
pub mod calendars;
pub mod call_turns;
pub mod certificate;
pub mod claim;
pub mod clock;
pub mod day_troubles;
pub mod dead_letters;
pub mod deadlines;
pub mod declines;
pub mod doubts;
pub mod eras;
pub mod erasures;
pub mod evidence;
pub mod failures;
pub mod feed_changes;
pub mod feed_lines;
pub mod feeds;
mod fixture;
pub mod flows;
pub mod forty_days;
pub mod guards;
pub mod health;
pub mod hours;
pub mod job_asks;
pub mod jobs;
pub mod lanes;
pub mod lists;
pub mod moves;
pub mod needs_you;
pub mod operator_actions;
pub mod outbox;
pub mod pauses;
mod planning;
pub mod plans;
pub mod queue;
pub mod races;
pub mod records;
pub mod recounts;
pub mod replans;
pub mod requests;
pub mod rule_stops;
pub mod scenarios;
pub mod seed_views;
pub mod sessions;
pub mod settings;
pub mod status_checks;
pub mod storms;
pub mod takeovers;
pub mod timetables;
pub mod turns;
pub mod walk;

pub use fixture::Fixture;

/// All cases, as tests. `$new` is the absolute path of an `async fn() -> impl Fixture`.
#[macro_export]
macro_rules! store_cases {
    ($new:path) => {
        $crate::store_case_module! { $new, clock,
            the_clock_never_runs_backwards_by_itself
            moving_the_time_moves_the_clock_of_every_node
        }
        $crate::store_case_module! { $new, eras,
            the_era_goes_on_for_a_boot_that_has_seen_its_clock_run_evenly
            whoever_cannot_vouch_for_the_clock_opens_a_new_era
            a_jump_opens_an_era_that_begins_now_and_only_its_finder_vouches_for
            a_lane_that_was_closed_by_another_eras_clock_is_open
            an_attempt_belongs_to_the_era_of_its_turn
            a_turn_of_an_older_era_is_soon_past_however_far_the_clock_was_set_back
            what_a_clock_that_was_ahead_has_dispatched_is_due_when_it_is_set_back
            what_a_clock_that_was_ahead_has_claimed_is_ready_when_it_is_set_back
            nothing_is_due_before_the_time_it_asked_for_however_the_clock_is_set
            what_has_had_its_turn_or_was_dispatched_by_this_clock_stays
            flows_that_a_clock_ahead_has_started_keep_their_delay_when_it_is_set_back
        }
        $crate::store_case_module! { $new, jobs,
            a_job_acts_on_each_of_its_items_once_and_says_what_became_of_each
            items_that_moved_since_the_preview_are_left_out
            of_two_jobs_on_the_same_items_the_first_acts
            released_items_wait_for_slots_that_are_free_and_move_nobody_else
            replayed_items_wait_for_slots_as_if_they_had_never_failed
            rescheduled_items_are_due_no_earlier_than_their_time
            reopened_items_were_refused_and_nothing_else
            workers_at_the_same_time_act_on_each_item_once
            a_job_goes_on_after_a_restart_where_it_was
            a_stopped_job_leaves_the_rest_as_it_is
            jobs_are_listed_newest_first_and_done_oldest_first
            a_preview_is_nothing_until_it_is_confirmed_and_is_forgotten_when_it_is_old
            candidates_come_page_by_page_from_the_index_that_serves_them
        }
        $crate::store_case_module! { $new, erasures,
            what_has_ended_is_erased_and_the_rest_is_named
            an_account_is_found_in_its_usual_spellings_page_by_page
            an_erased_id_is_taken_for_good_and_never_sent_again
            what_counted_for_an_owner_counts_for_nobody
            a_text_that_names_the_account_is_found_wherever_it_is
            an_erasure_in_trouble_says_why_until_it_comes_further
            rejected_lines_and_results_of_jobs_of_what_was_erased_in_the_archive_go
            what_the_audit_log_repeats_of_settings_about_erased_items_goes
            an_erasure_that_has_ended_does_not_know_its_account
        }
        $crate::store_case_module! { $new, outbox,
            every_move_of_an_item_is_an_event_and_nothing_else_is
            settings_of_the_publisher_are_kept_and_a_difference_for_a_while
            a_clock_that_was_ahead_gives_no_right_to_publish
            an_item_that_is_settled_by_a_person_has_one_event_which_says_so
            an_item_has_its_events_in_the_order_of_its_moves
            an_invoice_has_its_own_events_in_the_order_of_its_moves
            an_event_says_what_moved_and_a_notification_is_none
            a_request_that_is_withdrawn_before_it_is_planned_is_an_event
            events_are_written_only_while_they_are_on
            events_are_published_by_one_process_at_a_time
            refused_events_are_set_aside_and_hold_up_only_their_item
        }
        $crate::store_case_module! { $new, job_asks,
            what_a_bank_said_is_written_once_with_its_evidence
            a_job_that_waits_for_banks_keeps_no_other_waiting
        }
        $crate::store_case_module! { $new, health,
            a_store_that_can_be_written_says_so_and_counts_its_connections
        }
        $crate::store_case_module! { $new, admit,
            an_admitted_item_has_its_status_slot_body_and_place_in_the_queue
            what_a_caller_writes_comes_back_byte_for_byte
            an_unknown_lane_is_refused_by_name_and_nothing_is_written
            one_bad_item_harms_no_other_and_answers_keep_their_order
            an_empty_batch_has_no_answers
            the_same_content_again_gets_the_same_answer_whatever_has_happened_since
            other_content_under_a_known_id_is_a_conflict_and_changes_nothing
            the_same_id_twice_in_one_batch_is_admitted_once
            of_two_contents_of_one_id_only_the_one_with_a_lane_is_new
            payment_42_and_invoice_42_never_meet
            the_deadline_is_told_with_the_slot_and_kept
            no_slot_lies_before_the_requested_time_or_before_now
            a_full_window_is_evenly_spread
            jittered_slots_lie_anywhere_inside_their_window
            no_window_is_given_more_than_the_gate_can_send_in_it
            batches_at_once_for_one_instant_overfill_no_window_and_leave_no_gap
            an_id_admitted_by_fifty_callers_at_once_is_new_once
            batches_that_name_lanes_and_ids_in_opposite_orders_all_get_answers
            a_caller_that_hangs_up_leaves_all_of_an_item_or_nothing
        }
        $crate::store_case_module! { $new, guards,
            of_two_contents_of_one_id_the_one_that_no_guard_refuses_is_new
            a_daily_total_is_reached_and_not_passed
            what_a_guard_refuses_leaves_nothing_behind_and_its_id_is_free
            a_new_day_has_a_new_total
            what_was_withdrawn_does_not_count
            a_duplicate_is_refused_within_its_time_and_taken_after_it
            an_item_that_is_known_gets_its_answer_whatever_its_guards_say
            what_its_lane_never_takes_does_not_count
            callers_at_once_never_pass_a_daily_total_and_leave_nothing_of_it
            of_duplicates_at_once_one_is_taken_in
        }
        $crate::store_case_module! { $new, claim,
            only_what_is_due_within_reach_is_claimed
            the_oldest_is_claimed_first
            a_claim_is_never_larger_than_its_limit_even_with_stale_claims
            the_credit_is_what_the_gate_can_send_less_what_is_unsent
            the_types_of_a_lane_share_its_credit
            the_slowest_lane_has_a_credit_of_one
            every_claim_of_an_item_has_a_higher_fence
            a_stale_claim_is_taken_again_under_a_higher_fence_as_its_next_run
            a_claim_tells_how_long_until_the_items_time
            a_claim_leaves_other_lanes_and_other_types_alone
            a_claimed_item_shows_when_it_was_claimed
            lanes_with_work_in_reach_are_named_and_others_are_not
            stale_claims_make_a_lane_due
            next_in_tells_when_the_next_item_comes_into_reach
            a_paused_lane_has_nothing_due_until_it_is_resumed
            a_lane_closed_by_its_downstream_has_nothing_due_until_it_opens
            an_item_without_its_body_is_dead_and_harms_nobody
            claimers_at_once_never_share_an_item_nor_exceed_their_limit
            claimers_at_once_stay_within_the_credit_together
        }
        $crate::store_case_module! { $new, queue,
            an_item_nobody_admitted_is_not_there
            a_started_item_is_dispatched_whether_its_flow_is_new_or_known
            a_failed_start_goes_back_with_one_more_retry_and_is_dead_at_the_maximum
            a_start_under_an_old_fence_moves_nothing
            a_start_that_moved_nothing_keeps_nobody_elses_from_moving
            a_released_claim_is_ready_again_and_counts_for_nobody
            what_a_run_no_longer_owns_is_not_to_be_executed_by_it
            an_item_put_back_is_ready_as_its_next_run_after_the_pause
            an_item_put_back_in_place_keeps_the_time_at_which_it_was_due
            a_run_that_does_not_own_the_item_cannot_put_it_back
            finishing_ends_the_item_and_moves_its_record
            finishing_by_another_run_changes_nothing
            a_record_moves_only_from_where_it_may
            a_flow_may_act_before_its_start_was_recorded
            what_was_dispatched_long_ago_without_an_end_is_orphaned
            an_orphaned_item_is_told_even_if_its_body_is_lost
            an_orphaned_item_is_restarted_as_its_next_run_after_a_pause
            an_orphaned_item_too_often_is_dead
            an_item_that_may_not_be_restarted_is_dead_at_once_with_the_reason
            what_has_ended_is_not_restarted
            an_item_shows_all_that_is_known_of_it
            an_item_moves_to_one_place_whoever_acts_at_once
            no_starts_at_all_move_nothing
        }
        $crate::store_case_module! { $new, turns,
            turns_of_a_block_lie_a_spacing_apart_and_reach_to_the_horizon
            whoever_is_told_later_has_changed_nothing_and_is_served_when_asking_again
            an_attempt_and_its_turn_are_on_record_when_the_turn_is_given
            turns_of_successive_blocks_keep_their_distance
            a_lane_that_was_idle_does_not_save_turns_up
            no_turn_lies_before_its_plan
            a_slow_lane_reserves_no_turn_beyond_the_horizon
            the_cursor_survives_a_restart
            a_clock_set_back_never_moves_the_cursor_back
            a_clock_set_back_by_an_hour_stops_a_lane_for_a_second_only
            a_run_that_does_not_own_the_item_gets_no_turn
            a_flow_may_take_its_turn_before_its_start_was_recorded
            a_second_sender_finds_the_attempt_open
            whoever_has_not_seen_the_latest_attempt_gets_no_turn
            an_item_named_twice_in_one_block_gets_one_turn
            senders_at_once_for_one_item_get_one_turn
            one_who_may_not_send_takes_nobodys_turn
            a_missed_turn_is_replaced_in_the_log
            a_missed_turn_that_was_taken_over_is_not_given_again
            a_paused_lane_gives_no_turns_and_says_who_paused_it
            a_lane_closed_by_its_downstream_gives_no_turns_until_it_opens
            a_lane_nobody_made_gives_no_turns
            a_lowered_limit_binds_every_turn_after_those_reserved
            takers_at_once_share_one_even_pace
            lanes_have_turns_of_their_own
        }
        $crate::store_case_module! { $new, takeovers,
            a_node_that_was_taken_over_from_neither_sends_nor_moves_items
            what_a_node_had_sent_is_settled_after_another_took_over
            a_process_that_never_took_over_is_never_fenced
        }
        $crate::store_case_module! { $new, storms,
            a_canary_is_five_turns_and_no_sixth_however_many_nodes_ask
            the_first_answer_that_is_no_refusal_ends_the_canary
            five_refusals_pause_the_lane_with_the_reason_and_the_last_answer
            another_configuration_begins_a_canary_and_the_same_one_goes_on
            after_a_storm_is_lifted_the_lane_begins_with_a_canary
            twenty_refusals_among_the_last_twenty_five_answers_pause_the_lane
            refusals_that_come_at_once_pause_the_lane_once
            what_is_not_watched_or_not_refused_makes_no_storm
            what_a_dead_sender_left_keeps_its_place_and_does_not_stop_the_lane
            a_question_behind_sends_that_wait_for_a_canary_gets_its_turn
            a_question_about_a_canary_that_was_done_ends_the_canary
            what_a_storm_refused_is_told_until_it_is_reopened
            a_refusal_is_suspect_until_a_later_payment_is_accepted
        }
        $crate::store_case_module! { $new, failures,
            failures_of_an_item_are_counted_and_not_its_runs
        }
        $crate::store_case_module! { $new, attempts,
            an_item_never_sent_has_no_history
            an_open_attempt_whose_turn_may_still_be_used_makes_the_item_busy
            an_open_attempt_whose_turn_has_passed_is_unknown
            a_history_tells_all_attempts_oldest_first
            an_attempt_with_a_word_that_nobody_knows_is_told_as_a_bug
            every_outcome_is_written_to_its_attempt
            settling_may_finish_the_item_and_move_its_record_together
            settling_may_send_the_item_back_as_its_next_run
            settling_may_let_the_flow_go_on_with_its_record_moved
            an_outcome_after_a_takeover_changes_nothing_but_that_it_was_done
            that_it_was_done_is_written_even_when_it_was_disproved
            nothing_is_sent_after_it_was_done_by_whatever_run
            an_outcome_is_written_once
            evidence_is_written_even_when_the_run_no_longer_owns_the_item
            a_record_that_may_not_move_stays_while_the_outcome_is_written
            a_shorter_wish_for_quiet_never_shortens_a_longer_one
            whoever_takes_over_from_a_sender_does_not_lose_its_answer
            a_run_that_does_not_own_the_item_takes_nothing_over
        }
        $crate::store_case_module! { $new, lanes,
            a_new_lane_has_the_defaults_and_the_first_version
            a_change_is_a_new_version_and_what_it_omits_keeps_its_value
            lanes_are_listed_by_name_with_the_version_in_force
            a_change_that_would_never_send_names_its_field_and_changes_nothing
            a_lane_is_a_setting_with_its_author_and_its_audit_entry
            changes_at_once_become_versions_one_after_the_other
            a_change_opens_no_lane_that_its_downstream_closed
            windows_are_told_in_order_from_a_time_on
            a_raised_limit_opens_the_room_that_is_left
            a_lowered_limit_treats_fuller_windows_as_full
            a_changed_window_size_rebuilds_counters_that_agree_with_the_slots
            new_items_go_by_the_rebuilt_counters
            a_changed_window_size_leaves_past_windows_as_they_were
            a_lane_that_never_sent_has_an_empty_certificate
            the_certificate_equals_a_count_of_what_was_granted
            the_certificate_names_the_limits_that_were_in_force
        }
        $crate::store_case_module! { $new, pauses,
            a_pause_with_an_end_holds_at_once_and_ends_by_itself
            a_pause_with_a_beginning_stops_sends_from_there_until_it_is_lifted
            a_pause_with_both_ends_stops_sends_between_them
            no_turn_lies_after_the_beginning_of_a_pause
            a_paused_lane_is_not_due_and_next_in_is_its_known_end
            new_slots_lie_after_a_known_end_of_a_pause
            an_endless_pause_gives_slots_as_if_the_lane_were_open
            a_pause_that_ends_before_it_begins_is_refused
            a_lane_closed_for_a_while_gives_no_turn_until_then_and_tells_who_closed_it
            a_shorter_closing_never_shortens_a_longer_one
        }
        $crate::store_case_module! { $new, deadlines,
            what_must_not_run_late_is_held_after_its_deadline
            holding_stays_within_its_limit_and_its_type
            what_may_have_been_done_is_not_held
            what_is_being_executed_is_not_held_by_its_deadline_alone
            a_send_after_its_deadline_is_too_late_and_opens_nothing
            a_turn_that_lies_after_the_deadline_is_too_late_before_it
            a_run_that_would_be_late_is_held_by_its_owner_only
            a_released_item_runs_late_now_and_is_not_held_again
        }
        $crate::store_case_module! { $new, operator_actions,
            only_what_has_not_ended_and_was_surely_not_done_is_cancelled
            only_what_has_not_ended_and_was_surely_not_done_is_rescheduled
            whoever_was_about_to_send_what_a_person_moves_is_given_no_turn
            of_a_turn_and_a_cancellation_at_once_one_happens
            only_what_is_held_is_released
            cancelling_moves_the_record_from_where_it_may
            a_cancelled_item_gives_its_room_back_even_behind_full_windows
            a_rescheduled_item_moves_with_its_slot_its_counters_and_its_queue_row
        }
        $crate::store_case_module! { $new, moves,
            every_event_moves_an_item_as_the_table_says
        }
        $crate::store_case_module! { $new, declines,
            what_was_declined_may_be_given_another_time_although_it_was_in_doubt
            what_has_ended_and_was_declined_is_tried_again_as_its_next_run
            what_may_have_been_done_is_never_tried_again_by_a_person
            what_was_disproved_and_then_refused_is_tried_again
            a_proof_of_a_run_that_lost_the_item_is_written_and_proves_nothing_yet
            a_history_tells_each_attempts_key
        }
        $crate::store_case_module! { $new, doubts,
            what_is_in_doubt_is_told_page_by_page_in_the_order_of_its_ids
            what_is_in_doubt_is_told_the_oldest_or_the_largest_first
            what_is_at_risk_is_summed_by_currency_since_the_oldest
            only_what_is_in_doubt_is_resolved
            nothing_is_resolved_while_an_answer_is_awaited
            what_a_dead_sender_left_open_keeps_people_waiting_no_longer_than_an_answer_may_take
            a_persons_word_is_about_the_sends_they_looked_at
            what_a_person_has_ended_can_be_paid_by_nobody_any_more
            what_the_downstream_has_said_is_done_is_nobodys_to_deny
            what_a_person_says_was_not_done_is_sent_again_at_once
            a_decision_is_on_record_with_who_and_why
            an_item_is_decided_or_given_its_turn_and_never_both
            one_decision_counts_whoever_decides_at_once
        }
        $crate::store_case_module! { $new, dead_letters,
            what_is_dead_is_told_page_by_page_what_was_due_last_first
            a_dead_letter_tells_what_it_is_and_why_it_was_given_up
            a_replayed_item_is_ready_at_once_as_its_next_run_with_all_its_retries
            only_what_is_dead_is_replayed
            an_item_replayed_by_many_at_once_is_replayed_once
        }
        $crate::store_case_module! { $new, needs_you,
            what_waits_for_a_person_is_counted_with_its_amounts_since_the_oldest
            what_is_held_is_told_page_by_page_by_when_it_was_due
            what_is_held_is_a_bucket_of_its_own_in_the_totals
            what_was_seen_is_kept_with_its_author_until_less_is_left
            what_has_happened_is_told_once_per_payment_until_it_was_seen
            files_with_rejected_lines_are_told_until_they_were_seen
            what_is_not_planned_in_time_or_fails_waits_for_a_person
            notifications_that_fail_again_and_again_wait_for_a_person
        }
        $crate::store_case_module! { $new, records,
            a_list_goes_page_by_page_in_the_order_of_ids
            an_item_tells_its_body_and_the_keys_that_it_was_sent_under
            a_line_of_a_list_tells_what_the_item_tells
            a_list_by_status_follows_the_record
            a_list_by_lane_leaves_the_others_out_and_looks_at_so_many_at_a_time
            a_list_by_bulk_has_what_was_taken_in_with_it_and_nothing_else
            an_owners_items_are_found_by_their_status_if_they_were_written_to_be
            bodies_come_in_the_order_of_the_items_that_were_asked_for
        }
        $crate::store_case_module! { $new, batches,
            what_is_under_way_is_what_items_say_after_every_event
            an_item_that_is_claimed_again_is_under_way_once
            stale_claims_are_found_in_every_batch_and_starts_are_not
            a_takeover_releases_exactly_the_claims
            a_backlog_beside_what_is_under_way_is_counted_exactly
        }
        $crate::store_case_module! { $new, races,
            an_item_that_is_cancelled_as_it_is_claimed_is_never_sent
            an_item_cancelled_by_many_at_once_gives_its_room_back_once
            rescheduling_and_admitting_at_once_overfill_no_window
            a_replan_beside_admissions_claims_and_cancels_loses_nothing
        }
        $crate::store_case_module! { $new, plans,
            what_waits_is_told_page_by_page_in_the_order_of_its_slots
            only_what_is_ready_and_was_never_attempted_waits
            a_replan_after_a_blackout_leaves_closed_time
            a_replan_after_a_pause_begins_at_its_end
            a_replan_after_a_raised_limit_finishes_earlier
            a_replan_after_a_lowered_limit_overfills_nothing
            a_replan_closes_the_gaps_that_cancelled_items_left
            a_backlog_is_placed_from_now_on
            a_replanned_jitter_is_spread_and_a_second_replan_moves_nothing
            what_is_under_way_or_was_attempted_stays_where_it_is
        }
        $crate::store_case_module! { $new, timetables,
            what_is_not_sent_is_told_one_by_one_and_counted_behind_that
            what_is_under_way_is_unsent_until_its_turn
            what_is_tight_is_told_by_the_time_it_has_left
            what_is_tight_in_a_file_is_told_apart_from_the_rest_of_its_lane
            whatever_has_a_slot_is_claimed_on_it_and_what_was_put_back_is_not
            a_line_of_a_list_tells_whether_it_was_sent_and_when
            first_sends_are_told_with_their_slots_newest_first
        }
        $crate::store_case_module! { $new, lists,
            items_are_listed_by_when_they_were_accepted_to_and_fro
            items_are_found_by_status_account_and_reference
            items_are_found_by_whom_they_belong_to
            usual_ends_are_found_among_few_items_and_along_the_list_of_many
            requests_are_listed_by_time_among_the_items
        }
        $crate::store_case_module! { $new, replans,
            a_replan_is_open_from_its_beginning_to_its_end
            a_replan_begun_again_is_the_end_of_the_older_one
            a_replan_that_was_cut_off_is_continued
            a_lane_is_adjusted_and_its_replan_begun_at_once_or_not_at_all
            a_lane_nobody_made_is_not_replanned
            a_new_generation_knows_what_is_under_way_and_nothing_else
            a_step_of_a_replan_knows_what_was_claimed_before_it
            others_go_on_between_the_steps_of_a_replan
            an_item_whose_lane_never_opens_again_keeps_its_time
            a_replan_leaves_other_lanes_and_types_alone
        }
        $crate::store_case_module! { $new, recounts,
            a_recount_changes_nothing_when_all_is_right
            a_recount_finds_the_room_that_dead_items_held
            a_recount_does_nothing_while_a_replan_is_open
            the_room_of_a_held_item_comes_back_once
            a_held_item_that_is_rescheduled_is_not_held_again
            a_changed_window_size_does_not_count_what_was_withdrawn
        }
        $crate::store_case_module! { $new, calendars,
            calendars_are_listed_by_name_with_the_version_in_force
            a_calendar_is_a_setting_with_its_author_and_its_audit_entry
            a_wrong_calendar_says_what_is_wrong_and_leaves_everything_as_it_was
            a_lane_may_name_only_a_calendar_that_exists
            a_new_version_binds_all_lanes_that_name_it_at_once
        }
        $crate::store_case_module! { $new, hours,
            no_slot_lies_in_closed_time
            slots_keep_to_weekly_hours
            a_window_that_is_partly_closed_takes_what_its_open_part_can_send
            a_closed_lane_gives_no_turn_until_it_opens
            no_turn_lies_after_the_closing
            a_closed_lane_is_not_due_and_next_in_is_its_opening
            a_lane_that_never_opens_again_refuses_and_leaves_nothing_behind
            nothing_is_placed_at_the_end_of_time
            nobody_is_rescheduled_to_where_the_lane_never_opens
            a_slot_is_told_as_it_is_kept
        }
        $crate::store_case_module! { $new, scenarios,
            increase_sees_occupancy
            decrease_treats_as_full
            idempotency
            concurrent_bulk_ingestion
            no_lookahead_exhaustion
            no_config_propagation_delay
        }
        $crate::store_case_module! { $new, certificate,
            the_certificate_equals_a_brute_force_count
            the_certificate_names_its_limits_and_who_set_them
            utilisation_is_what_was_sent_of_what_was_allowed
            a_certificate_of_a_quiet_time_holds_and_has_no_peaks
            rounds_at_the_same_time_move_each_turn_of_a_call_once
        }
        $crate::store_case_module! { $new, walk,
            a_walk_keeps_every_promise_evenly_spread
            a_walk_keeps_every_promise_with_jitter
            another_walk_keeps_every_promise
        }
        $crate::store_case_module! { $new, flows,
            each_node_that_takes_over_has_a_higher_epoch
            a_node_that_was_taken_over_from_writes_nothing_more
            starting_a_flow_twice_changes_nothing
            a_flow_started_by_many_at_once_is_new_once
            a_due_flow_is_handed_out_once_per_epoch
            a_running_flow_is_due_at_once_for_the_next_node_even_if_the_clock_was_set_back
            what_a_node_that_is_gone_had_claimed_is_ready_again
            a_start_delay_is_honoured_and_the_wait_is_told
            due_flows_are_handed_out_within_the_limit_and_oldest_first
            children_come_before_all_others
            the_first_record_of_a_step_stays_and_survives
            an_ended_flow_shows_its_end_and_has_no_journal
            a_flow_that_goes_on_as_new_is_due_with_its_new_input_and_an_empty_journal
            the_latest_progress_is_shown_while_a_flow_runs
        }
        $crate::store_case_module! { $new, requests,
            what_was_accepted_comes_back_whole_after_a_restart
            the_same_again_and_other_content_change_nothing
            of_many_that_accept_an_id_at_once_one_is_new
            what_is_planned_is_not_accepted_again
            admission_ends_the_request_in_its_own_transaction
            a_refusal_at_admission_is_kept_and_told_to_its_flow_again
            a_refused_request_gives_way_to_other_content
            a_request_that_was_refused_or_cancelled_has_the_time_of_its_end
            while_a_request_waits_its_id_is_taken
            a_failed_try_is_told_and_followed_after_growing_pauses
            a_try_that_tells_nothing_is_looked_at
            a_request_can_be_withdrawn_until_it_is_planned
            a_request_that_was_given_another_time_is_planned_from_it
            of_withdrawing_and_planning_at_once_one_happens
            totals_count_a_request_from_its_acceptance_on_and_once
            requests_are_told_page_by_page_and_by_state
        }
        $crate::store_case_module! { $new, bulks,
            a_bulk_says_what_its_sender_calls_it_and_who_that_is
            a_chunk_that_fails_holds_back_its_own_file_for_half_a_minute
            a_chunk_that_fails_waits_and_is_told
            an_upload_is_no_work_until_it_is_closed
            an_id_of_a_bulk_is_given_once
            a_chunk_added_twice_is_there_once
            chunks_are_added_to_open_uploads_only
            what_was_uploaded_comes_back_byte_for_byte_after_a_restart
            closing_again_changes_nothing
            a_key_belongs_to_the_first_upload_that_was_closed_under_it
            uploads_closed_at_once_under_one_key_are_one_bulk
            chunks_to_do_are_those_of_closed_bulks_the_oldest_first
            a_chunk_is_counted_once_whoever_ends_it_at_once
            the_last_chunk_ends_its_bulk_whoever_ends_at_once
            what_was_accepted_is_summed_by_lane_and_currency
            rejected_lines_are_told_page_by_page
            uploads_that_were_given_up_or_left_are_removed_some_chunks_at_a_time
            bulks_are_told_page_by_page_the_newest_first
        }
        $crate::store_case_module! { $new, feeds,
            partitions_are_shared_and_given_back_and_taken_from_the_silent
            who_knows_no_partitions_does_not_count
            two_topics_of_a_feed_are_shared_out_each_for_itself
            a_feed_or_a_partition_that_nobody_reads_is_shown
            partitions_that_are_added_later_are_read_from_their_beginning
            a_position_moves_with_its_records_and_by_compare_and_set
            partitions_take_turns_after_files
            who_lost_a_partition_writes_nothing
            of_writers_at_once_one_moves_the_position
            a_feed_that_is_paused_is_neither_held_nor_moved
            a_topic_that_was_created_again_pauses_its_feed
            a_topic_that_is_created_again_during_a_pause_is_not_resumed_unseen
            partitions_that_the_topic_no_longer_has_are_not_held
            a_seek_moves_a_paused_feed_and_ends_its_holding
            trouble_with_a_feed_is_told_until_it_is_over
            a_clock_that_was_ahead_holds_no_partition_and_hides_no_trouble
        }
        $crate::store_case_module! { $new, feed_changes,
            records_of_a_corrected_item_type_follow_when_nothing_of_the_former_waits
            partitions_that_a_topic_lacks_since_it_was_created_again_need_no_reader
            a_partition_that_is_added_again_is_another_one_with_new_chunks
            a_partition_that_is_not_listed_for_a_while_keeps_its_position
            only_the_reader_of_a_position_pauses_its_feed_because_of_it
            a_feed_that_no_process_configures_is_forgotten
            dead_letters_of_all_topics_of_a_feed_are_counted
            a_topic_that_is_created_again_while_another_one_is_configured_pauses_its_feed
            a_topic_that_waits_to_be_the_feeds_is_not_read_if_it_was_created_again
        }
        $crate::store_case_module! { $new, feed_lines,
            rejected_records_are_answered_once_each_and_judged_again_when_read_again
            records_that_are_read_again_have_their_last_verdict_only
            rejected_records_are_deleted_by_their_age_once_they_need_no_answer
            rejected_records_of_a_forgotten_feed_are_deleted_by_their_age
        }
        $crate::store_case_module! { $new, amendments,
            only_what_was_surely_not_done_is_amended
            an_amended_item_is_lost_to_the_run_that_was_about_to_send_it
            an_item_that_is_settled_has_ended_and_gives_its_room_back
            of_two_amendments_of_one_document_the_second_is_refused
        }
        $crate::store_case_module! { $new, rule_stops,
            rules_hold_only_what_its_run_is_about_to_send_and_was_surely_not_done
            rules_reject_an_item_with_its_record_and_its_run_ends_it
            a_release_passes_the_rules_that_held_an_item_and_keeps_its_deadline
            an_item_that_rules_hold_is_judged_again_at_its_new_time
            items_with_a_status_come_page_by_page_as_rules_see_them
        }
        $crate::store_case_module! { $new, evidence,
            evidence_is_an_answered_question_and_makes_the_item_due
            a_person_may_agree_with_evidence_and_not_decide_against_it
            evidence_is_refused_for_what_is_not_in_doubt_or_being_asked_about
        }
        $crate::store_case_module! { $new, call_turns,
            a_call_keeps_its_distance_from_sends_and_is_logged_like_them
            calls_take_no_more_than_their_share
            callers_at_once_share_one_cursor
            a_closed_lane_gives_a_call_no_turn_and_says_why
        }
        $crate::store_case_module! { $new, status_checks,
            an_id_of_a_check_is_given_once
            parts_come_back_byte_for_byte_in_their_order
            a_part_that_is_there_stays_as_it_is
            the_first_outcome_of_a_part_stays
            progress_counts_the_chunks_and_not_the_lookups
            a_check_moves_on_and_never_back
            the_first_end_of_a_check_stays
            old_checks_are_forgotten_some_parts_at_a_time_the_oldest_first
            checks_are_told_page_by_page_the_newest_first
            checks_of_one_moment_are_all_on_some_page
            a_check_tells_how_far_it_is_with_each_gateway
        }
        $crate::store_case_module! { $new, settings,
            the_version_in_force_is_the_newest
            old_versions_stay_readable_newest_first
            settings_of_other_names_and_kinds_never_meet
            a_setting_leaves_an_audit_entry_with_its_author
            settings_written_at_once_become_versions_one_after_the_other
            a_setting_is_replaced_only_while_it_is_the_version_in_force
            of_many_that_replace_one_version_at_once_one_succeeds
            settings_of_a_kind_are_listed_page_by_page_as_they_are_in_force
        }
        $crate::store_case_module! { $new, sessions,
            a_session_lasts_until_its_time_is_over
            a_session_that_was_ended_is_over_at_once_and_no_other
            a_token_has_so_many_sessions_and_the_oldest_makes_room
        }
        $crate::store_case_module! { $new, accounts,
            totals_tie_out_by_count_and_by_amount
            totals_count_what_was_accepted_from_one_time_and_before_another
            totals_count_one_type_only
            the_depths_count_every_state_that_is_not_an_end
            what_is_no_money_is_counted_and_adds_nothing
            an_audit_entry_tells_who_did_what_to_which_item_and_when
            the_newest_entries_come_first_of_one_item_or_of_all
            the_audit_log_goes_page_by_page_by_item_by_actor_and_by_action
            the_audit_log_is_narrowed_to_people_and_to_a_stretch_of_time
            all_entries_of_an_action_are_found_however_many_others_there_are
        }
        $crate::store_case_module! { $new, archive,
            an_ended_item_moves_with_its_attempts_and_audit_and_is_found_as_before
            only_what_has_ended_and_nothing_refers_to_moves
            an_archived_id_is_never_taken_in_again
            an_id_that_is_moved_while_it_is_admitted_again_is_new_for_nobody
            a_clock_that_jumps_over_the_end_of_a_day_moves_nothing_twice_and_loses_nothing
            totals_and_certificates_of_any_day_are_unchanged_by_archiving
            turns_of_calls_stay_in_the_certificate_when_they_are_old
            what_is_asked_for_while_items_move_has_all_of_them
            what_is_erased_from_the_archive_is_known_as_erased
            an_item_of_a_lane_in_a_storm_or_of_a_dropped_day_stays_hot
            days_of_the_archive_are_found_whatever_the_order_of_acceptance
            nothing_moves_that_a_sender_of_an_older_claim_still_works_on
        }
        $crate::store_case_module! { $new, archive_days,
            a_day_is_closed_exported_dropped_and_restored_line_by_line
            a_restore_changes_nothing_that_is_there
            a_day_in_the_database_keeps_its_sums_and_ids_when_dropped_ones_are_forgotten
            a_restore_is_checked_against_what_is_known_of_ids
            a_day_whose_lines_are_erased_is_not_dropped_by_its_old_file
            a_partition_made_by_hand_is_named_and_nothing_is_lost
            what_grows_with_each_payment_is_what_the_handbook_says
            a_flow_that_ended_goes_by_its_age_unless_an_item_under_way_needs_it
        }
        $crate::store_case_module! { $new, day_troubles,
            a_trouble_stays_through_a_restart_until_the_step_goes_well
            a_table_made_by_hand_is_named_and_keeps_only_its_own_day
        }
        $crate::store_case_module! { $new, forty_days,
            forty_days_leave_the_hot_tables_flat_and_every_day_can_be_restored
        }
        $crate::store_case_module! { $new, seed_views,
            the_queue_is_read_as_payment_exec_queue
            bodies_are_read_as_payment_exec_context
            the_audit_log_is_read_as_dispatch_audit_log
            an_update_of_exec_rate_config_is_the_next_version_of_the_setting
            what_two_operators_change_at_once_in_exec_rate_config_holds
            exec_rate_config_takes_what_the_api_takes
        }
    };
}

/// The cases of one file, as a module of tests.
#[doc(hidden)]
#[macro_export]
macro_rules! store_case_module {
    ($new:path, $module:ident, $($case:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let fixture = $new().await;
                    $crate::store::$module::$case(&fixture).await;
                }
            )*
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_listed() {
        let list = include_str!("mod.rs");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            // What the cases share, which is no case.
            if path.ends_with("fixture.rs") || path.ends_with("mod.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            for case in text.split("pub async fn ").skip(1) {
                let (name, _) = case.split_once('(').unwrap();
                assert!(list.contains(&format!(" {name}\n")), "{name} is not listed");
            }
        }
    }
}
