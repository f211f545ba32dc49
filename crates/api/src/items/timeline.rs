//! What happened to a payment or an invoice, in order, in words that a support person can read out.

use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AttemptView, AuditEntry, ItemView};
use tollgate_domains::invoices;

pub(crate) fn timeline(view: &ItemView, audit: &[AuditEntry]) -> Vec<contract::Event> {
    let plain = [
        (Some(view.created_at), "accepted"),
        (view.claimed_at, "claimed by the dispatcher"),
        (view.dispatched_at, "execution started"),
        (view.finished_at, "ended"),
    ];
    let plain = plain.into_iter().filter_map(|(at, what)| event(at, what));
    let mut events: Vec<contract::Event> = plain.collect();
    let whom = downstream(view);
    events.extend(view.attempts.iter().flat_map(|a| of_attempt(a, whom)));
    events.extend(audit.iter().filter_map(of_audit));
    events.sort_by_key(|event| event.at);
    events
}

/// What is known from elsewhere takes its place among the rest.
pub(crate) fn add(events: &mut Vec<contract::Event>, others: Vec<contract::Event>) {
    events.extend(others);
    events.sort_by_key(|event| event.at);
}

fn event(at: Option<Timestamp>, what: &str) -> Option<contract::Event> {
    let what = what.to_owned();
    at.map(|at| contract::Event { at, what })
}

/// Whom support would ask about it.
fn downstream(view: &ItemView) -> &'static str {
    if view.item.item_type == invoices::item_type() {
        "the provider"
    } else {
        "the bank"
    }
}

fn of_attempt(attempt: &AttemptView, whom: &str) -> Vec<contract::Event> {
    let verb = match attempt.kind {
        AttemptKind::Send => format!("sent to {whom}"),
        AttemptKind::Probe => format!("asked {whom}"),
    };
    let detail = &attempt.detail;
    let answer = match attempt.state {
        AttemptState::Open => None,
        AttemptState::Done => Some(format!("{whom} confirmed it")),
        AttemptState::Refused => Some(format!("{whom} refused it: {detail}")),
        AttemptState::Declined => Some(format!("declined: {detail}")),
        AttemptState::Retry => Some(format!("{whom} did not execute it: {detail}")),
        AttemptState::Unknown => Some(format!("outcome unknown: {detail}")),
    };
    let mut events = vec![];
    events.extend(event(Some(attempt.turn_at), &verb));
    events.extend(answer.and_then(|answer| event(attempt.settled_at, &answer)));
    events
}

/// Attempts tell their own outcomes; the rest of the trail is what the queue and people did.
fn of_audit(entry: &AuditEntry) -> Option<contract::Event> {
    let (actor, detail) = (&entry.actor, &entry.detail);
    let what = match entry.action.as_str() {
        "PUT_BACK" => format!("waits in the queue: {detail}"),
        "RESTARTED" => format!("started again by the {actor}: {detail}"),
        "DEAD" => format!("given up: {detail}"),
        "HELD" => format!("held: {detail}"),
        "REJECTED" => format!("rejected before it was sent: {detail}"),
        "RELEASED" => format!("released by {actor}: {detail}"),
        "REPLAYED" => format!("replayed by {actor}: {detail}"),
        "CORRECTED" => format!("corrected by {actor}: {detail}"),
        "SETTLED" => format!("settled by {actor}: {detail}"),
        "CANCELLED" => format!("cancelled by {actor}: {detail}"),
        "RESCHEDULED" => format!("rescheduled by {actor}: {detail}"),
        "EVIDENCE" => format!("{actor} found that it was executed: {detail}"),
        "REOPENED" => format!("tried again by {actor}: {detail}"),
        "CHECKED" => format!("checked by {detail}"),
        "RESOLVED" => format!("resolved by {actor}: {detail}"),
        "ANSWER_DIFFERS" => format!("the bank's answer differs: {detail}"),
        "NOT_NOTIFIED" => format!("no webhook: {detail}"),
        _ => return None,
    };
    event(Some(entry.at), &what)
}
