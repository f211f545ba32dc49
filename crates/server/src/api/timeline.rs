//! What happened to a payment or an invoice, in order, in words that a support person can read out.

use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AttemptView, AuditEntry, ItemView};
use utoipa::ToSchema;

/// One thing that happened to a payment.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Event {
    pub(super) at: Timestamp,
    #[schema(example = "sent to the bank")]
    pub(super) what: String,
}

pub(super) fn timeline(view: &ItemView, audit: &[AuditEntry]) -> Vec<Event> {
    let plain = [
        (Some(view.created_at), "taken in"),
        (view.claimed_at, "claimed by the dispatcher"),
        (view.dispatched_at, "execution started"),
        (view.finished_at, "ended"),
    ];
    let plain = plain.into_iter().filter_map(|(at, what)| event(at, what));
    let mut events: Vec<Event> = plain.collect();
    events.extend(view.attempts.iter().flat_map(of_attempt));
    events.extend(audit.iter().filter_map(of_audit));
    events.sort_by_key(|event| event.at);
    events
}

/// What is known from elsewhere takes its place among the rest.
pub(super) fn add(events: &mut Vec<Event>, others: Vec<Event>) {
    events.extend(others);
    events.sort_by_key(|event| event.at);
}

fn event(at: Option<Timestamp>, what: &str) -> Option<Event> {
    let what = what.to_owned();
    at.map(|at| Event { at, what })
}

fn of_attempt(attempt: &AttemptView) -> Vec<Event> {
    let verb = match attempt.kind {
        AttemptKind::Send => "sent to the bank",
        AttemptKind::Probe => "asked the bank",
    };
    let answer = match attempt.state {
        AttemptState::Open => None,
        AttemptState::Done => Some("the bank has done it".to_owned()),
        AttemptState::Refused => Some(format!("the bank has refused it: {}", attempt.detail)),
        AttemptState::Declined => Some(format!("declined: {}", attempt.detail)),
        AttemptState::Retry => Some(format!("the bank has not done it: {}", attempt.detail)),
        AttemptState::Unknown => Some(format!("no answer; in doubt: {}", attempt.detail)),
    };
    let mut events = vec![];
    events.extend(event(Some(attempt.turn_at), verb));
    events.extend(answer.and_then(|answer| event(attempt.settled_at, &answer)));
    events
}

/// Attempts tell their own outcomes; the rest of the trail is what the queue and people did.
fn of_audit(entry: &AuditEntry) -> Option<Event> {
    let (actor, detail) = (&entry.actor, &entry.detail);
    let what = match entry.action.as_str() {
        "PUT_BACK" => format!("waits in the queue: {detail}"),
        "RESTARTED" => format!("started again by the {actor}: {detail}"),
        "DEAD" => format!("given up: {detail}"),
        "HELD" => format!("held: {detail}"),
        "RELEASED" => format!("released by {actor}: {detail}"),
        "REPLAYED" => format!("replayed by {actor}: {detail}"),
        "CANCELLED" => format!("cancelled by {actor}: {detail}"),
        "RESCHEDULED" => format!("rescheduled by {actor}: {detail}"),
        "EVIDENCE" => format!("{actor} has evidence that it was done: {detail}"),
        "REOPENED" => format!("tried again by {actor}: {detail}"),
        "CHECKED" => format!("checked by {actor}: {detail}"),
        "RESOLVED" => format!("resolved by {actor}: {detail}"),
        "ANSWER_DIFFERS" => format!("the bank's answer differs: {detail}"),
        "NOT_NOTIFIED" => format!("nobody is told: {detail}"),
        _ => return None,
    };
    event(Some(entry.at), &what)
}
