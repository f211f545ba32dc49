//! Taking payments in: starts init flows and waits for their answers.
//!
//! A payment's first init flow is `init-payment-{id}`. A corrected request under the same id,
//! after the first was refused, is `init-payment-{id}~2`, and so on; the same request again finds
//! the flow that answered it. A payment that was refused because its lane did not exist is corrected by
//! making the lane.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tollgate_core::details::Details;
use tollgate_core::flow::Flow;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::lane_in_force::no_such_lane;
use tollgate_core::ports::{
    Engine, FlowView, Memo, Start, Started, Store, StoreError, Unreachable,
};

use super::init::{Answer, InitInput, LANE, PaymentInitFlow, Verdict};
use super::{INIT_TASK_QUEUE, PaymentRequest, item};

/// A refused payment may be corrected at most this often under one id.
const MAX_CORRECTIONS: u32 = 100;

pub struct Intake {
    pub store: Arc<dyn Store>,
    pub engine: Arc<dyn Engine>,
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intake").finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    Answered(Verdict),
    /// Durable, but not answered within the wait.
    Initializing {
        init_flow: FlowId,
    },
}

/// What is known of a payment that has no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrecorded {
    /// On its way.
    Initializing,
    /// Not taken in, and why: by field, or by the rule that was against it.
    Refused(Details),
}

#[derive(Debug, Error)]
pub enum IntakeError {
    /// Try the same again later.
    #[error("{0}")]
    Unavailable(String),
    /// The id was refused and corrected too often.
    #[error("{0}")]
    UsedUp(String),
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for IntakeError {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        if error.may_pass() {
            Self::Unavailable(why)
        } else {
            Self::Failed(why)
        }
    }
}

impl From<Unreachable> for IntakeError {
    fn from(error: Unreachable) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl Intake {
    /// Takes one payment in. When this returns `Ok`, it is durable.
    #[tracing::instrument(skip_all, fields(item = %item(&payment.payment_id)))]
    pub async fn accept(
        &self,
        payment: PaymentRequest,
        wait: Duration,
    ) -> Result<Accepted, IntakeError> {
        let hash = payment.content_hash();
        if let Some(known) = self.store.item(&item(&payment.payment_id)).await? {
            let verdict = if known.content_hash == hash {
                Verdict::Scheduled {
                    placed: known.placed(),
                    repeat: true,
                }
            } else {
                Verdict::Conflict
            };
            return Ok(Accepted::Answered(verdict));
        }
        for correction in 1..=MAX_CORRECTIONS {
            let init_flow = init_flow(&payment.payment_id, correction);
            let input = InitInput {
                payments: vec![payment.clone()],
            };
            let started = self.start(&init_flow, &input).await?;
            let answered = match self.answer(&init_flow, wait).await {
                // It is durable, whatever became of the question.
                Err(IntakeError::Unavailable(_)) if started == Started::New => None,
                answered => answered?,
            };
            let Some(answer) = answered.and_then(|mut all| all.pop()) else {
                return unanswered(&started, init_flow);
            };
            let same = answer.content_hash == hash;
            let is_over = same && self.is_over(&answer.verdict).await?;
            let verdict = match answer.verdict {
                Verdict::Scheduled { placed, .. } if same => Verdict::Scheduled {
                    placed,
                    repeat: started == Started::Already,
                },
                Verdict::Scheduled { .. } | Verdict::Conflict => Verdict::Conflict,
                refused @ (Verdict::Invalid(_) | Verdict::Refused { .. }) if same && !is_over => {
                    refused
                }
                // Other content was refused before, and this is a correction of it; or what it was
                // refused for is there now.
                Verdict::Invalid(_) | Verdict::Refused { .. } => continue,
            };
            return Ok(Accepted::Answered(verdict));
        }
        Err(IntakeError::UsedUp(format!(
            "payment {} was corrected {MAX_CORRECTIONS} times; choose another id",
            payment.payment_id
        )))
    }

    /// Takes a batch in, at most [`super::MAX_BATCH`] payments, and waits for its answers.
    pub async fn accept_batch(
        &self,
        init_flow: &FlowId,
        payments: Vec<PaymentRequest>,
        wait: Duration,
    ) -> Result<Option<Vec<Answer>>, IntakeError> {
        self.start(init_flow, &InitInput { payments }).await?;
        self.answer(init_flow, wait).await
    }

    /// What became of a payment that has no record, by its last init flow; nothing if it had none.
    pub async fn unrecorded(&self, id: &ItemId) -> Result<Option<Unrecorded>, IntakeError> {
        let mut latest = FlowView::NotFound;
        for correction in 1..=MAX_CORRECTIONS {
            match self
                .engine
                .view(&init_flow(id, correction), Duration::ZERO)
                .await?
            {
                FlowView::NotFound => break,
                view => latest = view,
            }
        }
        match latest {
            FlowView::NotFound | FlowView::Failed { .. } => Ok(None),
            FlowView::Running { .. } => Ok(Some(Unrecorded::Initializing)),
            FlowView::Done { result_json } => Ok(answers(&result_json)?.pop().and_then(unrecorded)),
        }
    }

    /// Whether it was refused for want of a lane that exists by now.
    async fn is_over(&self, verdict: &Verdict) -> Result<bool, IntakeError> {
        match verdict {
            Verdict::Refused { rule, message } if rule == LANE => {
                let lanes = self.store.lanes().await?;
                let mut lacked = lanes.iter().map(|lane| no_such_lane(&lane.name));
                Ok(lacked.any(|why| why == *message))
            }
            Verdict::Refused { .. }
            | Verdict::Invalid(_)
            | Verdict::Scheduled { .. }
            | Verdict::Conflict => Ok(false),
        }
    }

    async fn start(&self, init_flow: &FlowId, input: &InitInput) -> Result<Started, IntakeError> {
        let start = Start {
            id: init_flow.clone(),
            name: PaymentInitFlow::NAME.to_owned(),
            task_queue: INIT_TASK_QUEUE.to_owned(),
            input_json: serde_json::to_string(input)
                .map_err(|e| IntakeError::Failed(e.to_string()))?,
            delay: Duration::ZERO,
            memo: Memo::new(),
        };
        match self.engine.start(vec![start]).await?.pop() {
            Some(Started::Failed(why)) => Err(IntakeError::Failed(why)),
            Some(started) => Ok(started),
            None => Err(IntakeError::Failed("the engine gave no answer".to_owned())),
        }
    }

    async fn answer(
        &self,
        init_flow: &FlowId,
        wait: Duration,
    ) -> Result<Option<Vec<Answer>>, IntakeError> {
        match self.engine.view(init_flow, wait).await? {
            FlowView::Done { result_json } => answers(&result_json).map(Some),
            FlowView::Failed { error } => Err(IntakeError::Failed(error)),
            FlowView::Running { .. } | FlowView::NotFound => Ok(None),
        }
    }
}

fn answers(result_json: &str) -> Result<Vec<Answer>, IntakeError> {
    serde_json::from_str(result_json).map_err(|e| IntakeError::Failed(e.to_string()))
}

fn unrecorded(answer: Answer) -> Option<Unrecorded> {
    match answer.verdict {
        // Its record was written since somebody looked for it.
        Verdict::Scheduled { .. } => Some(Unrecorded::Initializing),
        Verdict::Conflict => None,
        Verdict::Invalid(details) => Some(Unrecorded::Refused(details)),
        Verdict::Refused { rule, message } => {
            Some(Unrecorded::Refused(Details::from([(rule, message)])))
        }
    }
}

/// Only who started the flow knows that it works on the same content; anybody else comes again.
fn unanswered(started: &Started, init_flow: FlowId) -> Result<Accepted, IntakeError> {
    if *started == Started::New {
        return Ok(Accepted::Initializing { init_flow });
    }
    Err(IntakeError::Unavailable(format!(
        "{init_flow} has not ended yet"
    )))
}

/// Ids of payments have no `~`, so the flows of two payments never meet.
fn init_flow(id: &ItemId, correction: u32) -> FlowId {
    match correction {
        0 | 1 => FlowId::new(format!("init-payment-{id}")),
        _ => FlowId::new(format!("init-payment-{id}~{correction}")),
    }
}
