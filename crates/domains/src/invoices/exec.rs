//! The exec flow of an invoice: look at it as it is now, then charge it once. What must wait, for a
//! check, for the next retry or for an answer, has gone back to the queue before the flow ends.

use std::time::Duration;

use metrics::counter;
use serde::{Deserialize, Serialize};
use tollgate_core::actor;
use tollgate_core::flow::{Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState};
use tollgate_core::ports::{AttemptView, ItemView, NewAudit, StatusMove, Store};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::{Executes, Inline};

use super::charge::ChargeInvoice;
use super::checks::{Finding, Subject, Verdict};
use super::error::BillingError;
use super::status::{as_it_is, failed, paid};
use super::{CHECKED, Invoices, document};
use crate::steps::EXEC_STEP;

/// A skipped invoice comes with the first occurrence after this, however often its schedule fires; less
/// than a minute, so that none of a schedule by the minute is left out.
const SHORTEST_REST: Duration = Duration::from_secs(59);

#[derive(Debug)]
pub struct InvoiceExecFlow;

impl Flow for InvoiceExecFlow {
    const NAME: &'static str = "InvoiceExecWorkflow";
    type In = ExecInput;
    type Out = Billed;

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        let checked = ctx
            .step(CheckInvoice {
                input: input.clone(),
            })
            .await?;
        Ok(End::Done(match checked {
            Checked::Charge => ctx.step(ChargeInvoice { input }).await?,
            Checked::NotNow(billed) => billed,
        }))
    }
}

impl Executes for Invoices {
    const BATCH_FLOW: &'static str = "InvoiceExecBatchWorkflow";
    const BATCH_STEP: &'static str = "charge_invoices";

    fn store(&self) -> &dyn Store {
        &*self.store
    }
    /// All senders of a process share its gate.
    async fn settled(&self) {
        self.sender.settled().await;
    }
    async fn fenced(&self) -> String {
        self.sender.fenced().await
    }
    async fn execute(ctx: Inline<Self>, input: ExecInput) -> Result<(), FlowError> {
        InvoiceExecFlow::run(ctx, input).await.map(drop)
    }
}

/// What became of the invoice for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Billed {
    Paid,
    /// It has ended without being paid.
    Failed(String),
    /// It comes back as its next run: with its schedule, with the next retry, or to be asked about.
    Waits(String),
    /// Another run owns it.
    Superseded(String),
}

/// What the checks say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Checked {
    Charge,
    NotNow(Billed),
}

/// Reads the invoice as it is now and walks the chain of checks; what follows is written down.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CheckInvoice {
    pub input: ExecInput,
}

impl Step for CheckInvoice {
    const NAME: &'static str = "check_invoice";
    const SHORT: bool = true;
    type Out = Checked;
    type World = Invoices;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        EXEC_STEP
    }
    async fn run(&self, world: &Invoices, _: &Call) -> Result<Checked, StepError> {
        let view = match owned(world, &self.input).await? {
            Ok(view) => view,
            Err(not_ours) => return Ok(Checked::NotNow(not_ours)),
        };
        let now = world.store.now().await?;
        let kept = document(&view)?;
        let customer = world.customers.get(&kept.customer_id).await?;
        let checks = world.checks.chain().await?;
        let finding = checks.find(&Subject {
            invoice_id: view.item.id.as_str(),
            customer_id: &kept.customer_id,
            status: &view.status,
            money: view.money,
            created_at: view.created_at,
            declines: declined(&view).count(),
            was_charged: of_state(&view, AttemptState::Done).next().is_some(),
            undecided: is_undecided(&view),
            customer: customer.as_ref(),
            now,
        });
        self.record(world, &finding).await?;
        self.follow(world, &view, finding, now).await
    }
}

impl CheckInvoice {
    async fn record(&self, world: &Invoices, finding: &Finding) -> Result<(), StepError> {
        let verdict = finding.verdict.to_string();
        counter!("tollgate_invoice_checks_total", "check" => finding.check.clone(), "verdict" => verdict.clone())
            .increment(1);
        let entry = NewAudit {
            item: Some(self.input.item.clone()),
            action: CHECKED.to_owned(),
            actor: actor::CHECKS.to_owned(),
            detail: format!("{}: {verdict}: {}", finding.check, finding.reason),
        };
        Ok(world.store.write_audit(entry).await?)
    }

    async fn follow(
        &self,
        world: &Invoices,
        view: &ItemView,
        finding: Finding,
        now: Timestamp,
    ) -> Result<Checked, StepError> {
        let why = format!("{}: {}", finding.check, finding.reason);
        let billed = match finding.verdict {
            Verdict::Continue | Verdict::Ask => return Ok(Checked::Charge),
            Verdict::Settled => {
                let status = if of_state(view, AttemptState::Done).next().is_some() {
                    paid()
                } else {
                    as_it_is()
                };
                finish(world, &self.input, status, Billed::Paid).await?
            }
            Verdict::Fail => finish(world, &self.input, failed(), Billed::Failed(why)).await?,
            Verdict::Postpone(pause) => put_back(world, &self.input, pause, why).await?,
            Verdict::Skip => self.skip(world, view, why, now).await?,
        };
        Ok(Checked::NotNow(billed))
    }
}

impl CheckInvoice {
    /// It comes again with its schedule, to the second; one whose schedule never comes again has
    /// FAILED, and a person may give it another time.
    async fn skip(
        &self,
        world: &Invoices,
        view: &ItemView,
        why: String,
        now: Timestamp,
    ) -> Result<Billed, StepError> {
        match world.schedules.next_of(view, now + SHORTEST_REST).await {
            Ok(next) => {
                let now = world.store.now().await?;
                put_back(world, &self.input, until(next, now), why).await
            }
            Err(never @ BillingError::Refused(_)) => {
                let why = format!("{why}; {never}");
                finish(world, &self.input, failed(), Billed::Failed(why)).await
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a charge since the last decline may have been made. The record learns of it only when the
/// sender has looked.
fn is_undecided(view: &ItemView) -> bool {
    let may_be_made = |attempt: &&AttemptView| {
        attempt.kind == AttemptKind::Send
            && matches!(attempt.state, AttemptState::Open | AttemptState::Unknown)
    };
    let newest_first = view.attempts.iter().rev();
    newest_first
        .take_while(|attempt| !attempt.makes_way())
        .any(|attempt| may_be_made(&attempt))
}

/// Those that make way for another charge: declined, or refused and tried again by a person.
pub(super) fn declined(view: &ItemView) -> impl Iterator<Item = &AttemptView> {
    view.attempts.iter().filter(|attempt| attempt.makes_way())
}

fn of_state(view: &ItemView, state: AttemptState) -> impl Iterator<Item = &AttemptView> {
    view.attempts
        .iter()
        .filter(move |attempt| attempt.state == state)
}

/// The invoice, if this run owns it.
pub(super) async fn owned(
    world: &Invoices,
    input: &ExecInput,
) -> Result<Result<ItemView, Billed>, StepError> {
    let Some(view) = world.store.item(&input.item).await? else {
        return Err(StepError::last("there is no such invoice"));
    };
    if view.run != input.run || view.finished_at.is_some() {
        return Ok(Err(not_ours()));
    }
    match view.queue_status {
        QueueStatus::Claimed | QueueStatus::Dispatched => Ok(Ok(view)),
        QueueStatus::Ready | QueueStatus::Held | QueueStatus::Dead | QueueStatus::Cancelled => {
            Ok(Err(not_ours()))
        }
    }
}

pub(super) async fn put_back(
    world: &Invoices,
    input: &ExecInput,
    pause: Duration,
    why: String,
) -> Result<Billed, StepError> {
    let (item, run) = (&input.item, input.run);
    let is_back = world.store.put_back(item, run, pause, &why).await?;
    Ok(if is_back {
        Billed::Waits(why)
    } else {
        not_ours()
    })
}

pub(super) async fn finish(
    world: &Invoices,
    input: &ExecInput,
    status: StatusMove,
    billed: Billed,
) -> Result<Billed, StepError> {
    let has_ended = world.store.finish(&input.item, input.run, status).await?;
    Ok(if has_ended { billed } else { not_ours() })
}

fn not_ours() -> Billed {
    Billed::Superseded("another run owns the item".to_owned())
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    let left: SignedDuration = time.duration_since(now);
    Duration::try_from(left).unwrap_or_default()
}
