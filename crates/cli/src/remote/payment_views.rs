//! What `tollgate payments …` prints.

use jiff::Timestamp;
use tollgate_client::contract::{
    Attempt, Event, Payment, PaymentList, PaymentParty, PendingPayment, PlannedPayment,
    RefusedPayment, ReopenedStorm,
};

use super::table::{elsewhere, facts, more, row, status_word, table};

/// What there is to show of a payment. A kind of payment that does not have something leaves it out.
#[derive(Default)]
struct Shown<'p> {
    id: &'p str,
    status: &'p str,
    amount: Option<&'p str>,
    currency: Option<&'p str>,
    debtor: Option<String>,
    creditor: Option<String>,
    reference: Option<&'p str>,
    gateway: Option<&'p str>,
    lane: Option<&'p str>,
    queue_status: Option<&'p str>,
    sends: Option<u32>,
    execute_at: Option<Timestamp>,
    slot: Option<Timestamp>,
    estimate: Option<Timestamp>,
    deadline: Option<&'p str>,
    why_not_running: Option<&'p str>,
}

impl<'p> Shown<'p> {
    fn of(payment: &'p Payment) -> Self {
        match payment {
            Payment::Known(planned) => Self::planned(planned),
            Payment::Initializing(pending) => Self::pending(pending),
            Payment::NotTaken(refused) => Self {
                id: &refused.payment_id,
                status: &refused.status,
                ..Self::default()
            },
        }
    }

    fn planned(it: &'p PlannedPayment) -> Self {
        Self {
            id: &it.payment_id,
            status: &it.status,
            amount: Some(&it.amount),
            currency: Some(&it.currency),
            debtor: Some(party(&it.debtor)),
            creditor: Some(party(&it.creditor)),
            reference: it.reference.as_deref(),
            gateway: it.gateway.as_deref(),
            lane: Some(&it.lane),
            queue_status: Some(&it.queue_status),
            sends: Some(it.sends),
            execute_at: it.execute_at,
            slot: Some(it.scheduled_time),
            estimate: it.foreseen.estimate,
            deadline: it.deadline.as_deref(),
            why_not_running: it.why_not_running.as_deref(),
        }
    }

    fn pending(it: &'p PendingPayment) -> Self {
        Self {
            id: &it.payment_id,
            status: &it.status,
            amount: Some(&it.amount),
            currency: Some(&it.currency),
            why_not_running: Some(&it.why_not_running),
            ..Self::default()
        }
    }

    fn facts(&self) -> String {
        facts(&[
            ("payment", &self.id),
            ("status", &status_word(self.status)),
            ("amount", &self.amount),
            ("currency", &self.currency),
            ("debtor", &self.debtor),
            ("creditor", &self.creditor),
            ("reference", &self.reference),
            ("gateway", &self.gateway),
            ("lane", &self.lane),
            ("queue", &self.queue_status),
            ("sends", &self.sends),
            ("requested", &self.execute_at),
            ("slot", &self.slot),
            ("estimate", &self.estimate),
            ("deadline", &self.deadline),
            ("why not running", &self.why_not_running),
        ])
    }
}

fn party(party: &PaymentParty) -> String {
    format!("{}, {}", party.name, party.account)
}

/// A payment, for people.
pub(super) fn payment(payment: &Payment) -> String {
    let (sent, events) = match payment {
        Payment::Known(it) => (attempts(&it.attempts), timeline(&it.timeline)),
        Payment::Initializing(_) | Payment::NotTaken(_) => (String::new(), String::new()),
    };
    let refused = match payment {
        Payment::NotTaken(refused) => not_taken(refused),
        Payment::Known(_) | Payment::Initializing(_) => String::new(),
    };
    let facts = Shown::of(payment).facts();
    format!("{facts}{refused}{sent}\n{events}")
}

/// Why it was refused.
fn not_taken(refused: &RefusedPayment) -> String {
    let details = refused.details.iter();
    let lines = details.map(|(what, why)| format!("refused: {what}: {why}\n"));
    lines.collect()
}

/// What was sent and what was asked, with what the other side knows it by; nothing if nothing was.
pub(super) fn attempts(attempts: &[Attempt]) -> String {
    if attempts.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = attempts
        .iter()
        .map(|it| {
            row(&[
                &it.kind,
                &it.outcome,
                &it.run,
                &it.sent_at,
                &it.idempotency_key,
            ])
        })
        .collect();
    let header = ["what", "outcome", "run", "sent", "key"];
    format!("\n{}", table(&header, &rows))
}

/// What happened, an event per line.
pub(super) fn timeline(events: &[Event]) -> String {
    let events = events.iter();
    let lines: Vec<String> = events
        .map(|event| format!("  {}  {}", event.at, event.what))
        .collect();
    lines.join("\n")
}

pub(super) fn list(page: &PaymentList) -> String {
    let header = [
        "payment",
        "status",
        "amount",
        "currency",
        "lane",
        "queue",
        "slot",
        "meets deadline",
    ];
    if page.payments.is_empty() && page.next.is_none() {
        let text = format!("no payments\n{}", elsewhere(page.archived.as_ref()));
        return text.trim_end().to_owned();
    }
    let rows: Vec<Vec<String>> = page
        .payments
        .iter()
        .map(|it| {
            row(&[
                &it.payment_id,
                &status_word(&it.status),
                &it.amount,
                &it.currency,
                &it.lane,
                &it.queue_status,
                &it.scheduled_time,
                &it.meets_deadline,
            ])
        })
        .collect();
    table(&header, &rows)
        + &counted(page)
        + &elsewhere(page.archived.as_ref())
        + &more(page.next.as_ref())
}

/// How many there are, if that is known.
fn counted(page: &PaymentList) -> String {
    match (page.count, page.at_least) {
        (None, _) => String::new(),
        (Some(count), true) => format!("more than {count} payments\n"),
        (Some(1), false) => "1 payment\n".to_owned(),
        (Some(count), false) => format!("{count} payments\n"),
    }
}

/// The payments of a storm after a reopen, as text.
pub(super) fn reopened(storm: &ReopenedStorm) -> String {
    let verb = if storm.preview {
        "would be reopened"
    } else {
        "reopened"
    };
    let amounts = storm.amounts.iter();
    let amounts = amounts.map(|(currency, amount)| format!("{amount} {currency}"));
    let count = format!("{} payments {verb}", storm.reopened);
    let reopened: Vec<String> = std::iter::once(count).chain(amounts).collect();
    let kept = storm.kept;
    let mut lines = vec![format!("{}; {kept} stay rejected", reopened.join(", "))];
    let kept = storm.kept_because.iter();
    lines.extend(kept.map(|(id, why)| format!("  {id}: {why}")));
    if !storm.complete {
        lines.push("there are more payments; run the command again".to_owned());
    }
    lines.join("\n")
}
