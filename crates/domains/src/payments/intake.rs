//! Taking payments in: makes each request durable, starts its init flow and waits for the answer.
//!
//! A request is a row of the store before anyone is answered, and stays one until its payment is planned or refused.
//! Its first init flow is `init-payment-{id}`. A corrected request under the same id, after the first was refused, has
//! `init-payment-{id}~2`, and so on; its second try has `init-payment-{id}~2.2`.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tollgate_core::details::Details;
use tollgate_core::erasure::is_erased;
use tollgate_core::flow::Flow;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::lane_in_force::no_such_lane;
use tollgate_core::ports::{
    Acceptance, Admission, Engine, FlowView, ItemView, Known, KnownContent, Memo, NewRequest,
    RequestState, RequestView, Start, Started, Store, StoreError, Unreachable,
};

use super::init::{Answer, InitInput, PaymentInitFlow, Verdict};
use super::{INIT_TASK_QUEUE, PaymentRequest, item};
use crate::archived::archived;

pub struct Intake {
    pub store: Arc<dyn Store>,
    pub engine: Arc<dyn Engine>,
}

impl std::fmt::Debug for Intake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Intake").finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub enum Accepted {
    /// Planned; `is_new` by this very request.
    Planned {
        view: Box<ItemView>,
        is_new: bool,
    },
    /// Durable, and not planned yet.
    Initializing {
        init_flow: FlowId,
    },
    /// The same payment was withdrawn before it was planned.
    Cancelled {
        init_flow: FlowId,
    },
    /// The same payment has ended and lies in a file of the archive.
    Archived(Known),
    /// The id is known, and what it was taken in with was erased.
    Erased,
    /// The id is known with other content.
    Conflict,
    Invalid(Details),
    /// By a rule, or because its lane does not exist.
    Refused(Details),
}

/// What is known of a payment that has no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrecorded {
    /// Accepted, and not planned yet.
    Initializing(RequestView),
    /// Withdrawn before it was planned.
    Cancelled(RequestView),
    /// Not taken in, and why: by field, or by the rule that was against it.
    Refused(Details),
}

#[derive(Debug, Error)]
pub enum IntakeError {
    /// Try the same again later.
    #[error("{0}")]
    Unavailable(String),
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
        if let Some(known) = self.planned(&payment.payment_id, &hash).await? {
            return Ok(known);
        }
        match self.request(&payment, &hash).await? {
            Acceptance::Planned => match self.planned(&payment.payment_id, &hash).await? {
                Some(known) => Ok(known),
                None => Err(IntakeError::Unavailable(format!(
                    "payment {} was just changed; send it again",
                    payment.payment_id
                ))),
            },
            Acceptance::Known(request) => self.repeated(request, &hash, wait).await,
            Acceptance::New(request) => {
                let flow = init_flow(&request);
                // It is durable: what cannot be started now is started by a later look.
                let started = self.start_or_note(&request).await.ok().flatten();
                match started {
                    Some(Started::New) if !wait.is_zero() => {
                        self.answered(&payment, flow, wait).await
                    }
                    // The id was planned between our look at it and our row, perhaps with other content. A later look ends the row.
                    Some(Started::Already) => match self.planned(&payment.payment_id, &hash).await?
                    {
                        Some(known) => Ok(known),
                        None => self.repeated(request, &hash, wait).await,
                    },
                    _ => Ok(Accepted::Initializing { init_flow: flow }),
                }
            }
        }
    }

    /// The answer for a payment that is planned already: as it is now.
    async fn planned(&self, id: &ItemId, hash: &str) -> Result<Option<Accepted>, IntakeError> {
        let item = item(id);
        if let Some(view) = self.store.item(&item).await? {
            return Ok(Some(if view.is_erased() {
                Accepted::Erased
            } else if view.content_hash != hash {
                Accepted::Conflict
            } else {
                Accepted::Planned {
                    view: Box::new(view),
                    is_new: false,
                }
            }));
        }
        let known = archived(&*self.store, &item, hash).await?;
        Ok(known.map(|known| match known.content {
            KnownContent::Same => Accepted::Archived(known),
            KnownContent::Other => Accepted::Conflict,
            KnownContent::Erased => Accepted::Erased,
        }))
    }

    async fn request(
        &self,
        payment: &PaymentRequest,
        hash: &str,
    ) -> Result<Acceptance, IntakeError> {
        let mut request = NewRequest {
            item: item(&payment.payment_id),
            content_hash: hash.to_owned(),
            money: payment.money,
            document: serde_json::to_string(payment)
                .map_err(|e| IntakeError::Failed(e.to_string()))?,
            again: false,
        };
        let accepted = self.store.accept(request.clone()).await?;
        let Acceptance::Known(known) = &accepted else {
            return Ok(accepted);
        };
        let is_refused = known.state == RequestState::Refused;
        if is_refused && self.is_over(&known.details).await? {
            request.again = true;
            return Ok(self.store.accept(request).await?);
        }
        Ok(accepted)
    }

    /// The answer for a request that was there before.
    async fn repeated(
        &self,
        request: RequestView,
        hash: &str,
        wait: Duration,
    ) -> Result<Accepted, IntakeError> {
        if let Some(other) = other_content(&request.content_hash, hash) {
            return Ok(other);
        }
        let init_flow = init_flow(&request);
        match request.state {
            RequestState::Cancelled => Ok(Accepted::Cancelled { init_flow }),
            RequestState::Refused => Ok(refused(request)),
            RequestState::Waiting => {
                if wait.is_zero() || request.has_failed() {
                    return Ok(Accepted::Initializing { init_flow });
                }
                // However the try that is under way ends, the store knows it.
                let _ = self.engine.view(&init_flow, wait).await;
                self.settled(&request.id, hash, init_flow).await
            }
        }
    }

    /// Waits for the verdict of a flow that was just started.
    async fn answered(
        &self,
        payment: &PaymentRequest,
        flow: FlowId,
        wait: Duration,
    ) -> Result<Accepted, IntakeError> {
        let (id, hash) = (&payment.payment_id, payment.content_hash());
        let answer = match self.answer(&flow, wait).await {
            Ok(answers) => answers.and_then(|mut all| all.pop()),
            // It is durable, whatever became of the question.
            Err(IntakeError::Unavailable(_) | IntakeError::Failed(_)) => None,
        };
        match answer.map(|answer| answer.verdict) {
            None | Some(Verdict::Deferred) => Ok(Accepted::Initializing { init_flow: flow }),
            Some(Verdict::Invalid(details)) => Ok(Accepted::Invalid(details)),
            Some(Verdict::Refused { rule, message }) => {
                Ok(Accepted::Refused(Details::from([(rule, message)])))
            }
            Some(Verdict::Conflict) => Ok(Accepted::Conflict),
            Some(Verdict::Cancelled) => Ok(Accepted::Cancelled { init_flow: flow }),
            Some(Verdict::Erased) => Ok(Accepted::Erased),
            Some(Verdict::Archived) => match self.planned(id, &hash).await? {
                Some(known) => Ok(known),
                None => Ok(Accepted::Initializing { init_flow: flow }),
            },
            Some(Verdict::Scheduled { placed, .. }) => {
                let is_own = placed.init_flow == flow;
                match self.planned(id, &hash).await? {
                    Some(Accepted::Planned { view, .. }) => Ok(Accepted::Planned {
                        view,
                        is_new: is_own,
                    }),
                    Some(other) => Ok(other),
                    None => Ok(Accepted::Initializing { init_flow: flow }),
                }
            }
        }
    }

    /// What became of a request that somebody else had sent.
    async fn settled(
        &self,
        id: &ItemId,
        hash: &str,
        init_flow: FlowId,
    ) -> Result<Accepted, IntakeError> {
        if let Some(planned) = self.planned(id, hash).await? {
            return Ok(planned);
        }
        let Some(request) = self.store.request(&item(id)).await? else {
            return Ok(Accepted::Initializing { init_flow });
        };
        if let Some(other) = other_content(&request.content_hash, hash) {
            return Ok(other);
        }
        Ok(match request.state {
            RequestState::Waiting => Accepted::Initializing { init_flow },
            RequestState::Refused => refused(request),
            RequestState::Cancelled => Accepted::Cancelled { init_flow },
        })
    }

    /// Takes a batch in, at most [`super::MAX_BATCH`] payments, and waits for its answers. No requests are
    /// kept for it: until the answer, nothing is promised.
    pub async fn accept_batch(
        &self,
        init_flow: &FlowId,
        payments: Vec<PaymentRequest>,
        wait: Duration,
    ) -> Result<Option<Vec<Answer>>, IntakeError> {
        self.start(init_flow, &InitInput { payments }).await?;
        self.answer(init_flow, wait).await
    }

    /// What is known of a payment that has no record; nothing if it was never accepted.
    pub async fn unrecorded(&self, id: &ItemId) -> Result<Option<Unrecorded>, IntakeError> {
        let request = self.store.request(&item(id)).await?;
        Ok(request.map(|request| match request.state {
            RequestState::Waiting => Unrecorded::Initializing(request),
            RequestState::Cancelled => Unrecorded::Cancelled(request),
            RequestState::Refused => Unrecorded::Refused(request.details),
        }))
    }

    /// Whether it was refused because a lane did not exist that does by now.
    async fn is_over(&self, refusal: &Details) -> Result<bool, IntakeError> {
        let Some(message) = refusal.get(Admission::LANE) else {
            return Ok(false);
        };
        let lanes = self.store.lanes().await?;
        let mut lacked = lanes.iter().map(|lane| no_such_lane(&lane.name));
        Ok(lacked.any(|why| why == *message))
    }

    /// Starts the flow of a request's current try.
    pub(super) async fn start_try(&self, request: &RequestView) -> Result<Started, IntakeError> {
        let payment = serde_json::from_str(&request.document)
            .map_err(|e| IntakeError::Failed(format!("request {}: {e}", request.id)))?;
        let input = InitInput {
            payments: vec![payment],
        };
        self.start(&init_flow(request), &input).await
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
            None => Err(IntakeError::Failed("the engine did not answer".to_owned())),
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

/// The answer for a request that is known, unless its content is the same.
fn other_content(known: &str, hash: &str) -> Option<Accepted> {
    if is_erased(known) {
        return Some(Accepted::Erased);
    }
    (known != hash).then_some(Accepted::Conflict)
}

fn answers(result_json: &str) -> Result<Vec<Answer>, IntakeError> {
    serde_json::from_str(result_json).map_err(|e| IntakeError::Failed(e.to_string()))
}

fn refused(request: RequestView) -> Accepted {
    if request.invalid {
        Accepted::Invalid(request.details)
    } else {
        Accepted::Refused(request.details)
    }
}

/// The flow of a payment's first try.
pub fn first_init_flow(id: &ItemId) -> FlowId {
    FlowId::new(format!("init-payment-{id}"))
}

/// The flow of a request's current try. Ids of payments have no `~`, so the flows of two payments never meet.
pub fn init_flow(request: &RequestView) -> FlowId {
    let (id, correction) = (&request.id, request.correction);
    FlowId::new(match (correction, request.tries) {
        (0 | 1, 0 | 1) => format!("init-payment-{id}"),
        (_, 0 | 1) => format!("init-payment-{id}~{correction}"),
        (_, tries) => format!("init-payment-{id}~{correction}.{tries}"),
    })
}
