//! The step that charges an invoice, whichever of its retries it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_core::Timestamp;
use tollgate_core::flow::{Call, ExecInput, Policy, Step, StepError};
use tollgate_core::ports::{AttemptView, ItemView, Request, Then};
use tollgate_dispatch::{Executes, IfDeclined, IfDone, Job, Sent};

use super::exec::{Billed, declined, finish, owned, put_back};
use super::request::Customer;
use super::retry_schedule::Retry;
use super::status::{failed, moves, paid, pending_again};
use super::{Invoices, document};
use crate::steps::SEND_STEP;

const WAITS_FOR_RETRY: &str = "declined; it waits for the next retry";

/// Charges the customer, or finds out what became of an earlier charge.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChargeInvoice {
    pub input: ExecInput,
}

impl Step for ChargeInvoice {
    const NAME: &'static str = "charge_invoice";
    type Out = Billed;
    type World = Invoices;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        SEND_STEP
    }
    async fn after_cut_off(world: &Invoices) {
        world.settled().await;
    }
    async fn run(&self, world: &Invoices, _: &Call) -> Result<Billed, StepError> {
        let view = match owned(world, &self.input).await? {
            Ok(view) => view,
            Err(not_ours) => return Ok(not_ours),
        };
        let kept = document(&view)?;
        let customer_id = kept.customer_id;
        let customer = world.customers.get(&customer_id).await?;
        let now = world.store.now().await?;
        match retry(world, &view, customer.as_ref(), now) {
            Retry::Charge { number, then } => {
                let number = number.saturating_add(kept.corrections);
                let request = charge(&view, &customer_id, number);
                self.send(world, request, then).await
            }
            Retry::Wait(pause) => {
                put_back(world, &self.input, pause, WAITS_FOR_RETRY.to_owned()).await
            }
            Retry::Exhausted => {
                let why = "declined after all retries".to_owned();
                finish(world, &self.input, failed(), Billed::Failed(why)).await
            }
        }
    }
}

impl ChargeInvoice {
    async fn send(
        &self,
        world: &Invoices,
        request: Request,
        next_retry: Option<Duration>,
    ) -> Result<Billed, StepError> {
        let job = Job {
            item: self.input.item.clone(),
            run: self.input.run,
            request,
            moves: moves(),
            accounts: vec![],
            refused_then: Then::Finish,
            if_done: Some(IfDone::always(paid())),
        };
        let if_declined = match next_retry {
            Some(after) => IfDeclined {
                record: pending_again(),
                then: Then::Requeue {
                    after,
                    why: WAITS_FOR_RETRY.to_owned(),
                },
            },
            None => IfDeclined {
                record: failed(),
                then: Then::Finish,
            },
        };
        let sent = world.sender.send_or(&job, Some(&if_declined)).await?;
        Ok(match sent {
            Sent::Ended(_) => Billed::Paid,
            // By an earlier run, which did not own it any more.
            Sent::Done(_) => finish(world, &self.input, paid(), Billed::Paid).await?,
            Sent::Declined(why) if next_retry.is_some() => Billed::Waits(why),
            Sent::Declined(why) | Sent::Refused(why) => Billed::Failed(why),
            Sent::Requeued(why) => Billed::Waits(why),
            Sent::Held => Billed::Waits("held".to_owned()),
            Sent::Superseded(why) => Billed::Superseded(why),
        })
    }
}

/// What goes to the provider. The key is numbered by charge: one whose answer was lost is sent
/// again under its own key, and only a decline or a correction makes way for another.
fn charge(view: &ItemView, customer_id: &str, number: u32) -> Request {
    let id = &view.item.id;
    let body = json!({
        "invoiceId": id,
        "customerId": customer_id,
        "amount": view.money.decimal(),
        "currency": view.money.currency,
    });
    Request {
        reference: id.to_string(),
        idempotency_key: format!("invoice-{id}-{number}"),
        body_json: body.to_string(),
        sent_by: None,
    }
}

/// What the retry schedule says of the invoice. A charge in doubt is asked about whatever it says.
fn retry(world: &Invoices, view: &ItemView, customer: Option<&Customer>, now: Timestamp) -> Retry {
    let schedule = customer.and_then(|customer| customer.ladder.as_ref());
    let schedule = schedule.unwrap_or(&world.retry_schedule);
    let declined: Vec<_> = declined(view)
        .map(|attempt| attempt.settled_at.unwrap_or(attempt.turn_at))
        .collect();
    let last = view.attempts.iter().rposition(AttemptView::makes_way);
    let since = &view.attempts[last.map_or(0, |place| place + 1)..];
    let wanted = if since.is_empty() {
        view.requested
    } else {
        // It was begun, and is gone on with.
        Timestamp::MAX
    };
    schedule.retry(&declined, wanted, now)
}
