//! The init flow: prepare (pure) and admit (one transaction), for one payment or a thousand.
//! It ends at once; nothing waits here for a payment's time.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::ports::{Admission, Placed, StoreError};
use tollgate_core::retry;

use super::prepare::{self, NotTaken};
use super::request::{Details, PaymentRequest};
use super::{Payments, item, item_type};

/// Database trouble is waited out, however long it lasts: what was accepted is never given up.
const STORE_STEP: Policy = Policy {
    timeout: Duration::from_secs(30),
    retry: retry::Policy {
        max_attempts: u32::MAX,
        first_pause: Duration::from_millis(200),
        factor: 2,
        longest_pause: Duration::from_secs(10),
    },
};

#[derive(Debug)]
pub struct PaymentInitFlow;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InitInput {
    pub payments: Vec<PaymentRequest>,
}

/// The answer for one payment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Scheduled {
        placed: Placed,
        repeat: bool,
    },
    /// The id is known with other content.
    Conflict,
    Invalid(Details),
    /// By a rule, or because its lane does not exist.
    Refused {
        rule: String,
        message: String,
    },
}

/// A verdict, and the content it was given for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub content_hash: String,
    pub verdict: Verdict,
}

impl Flow for PaymentInitFlow {
    const NAME: &'static str = "PaymentInitWorkflow";
    type In = InitInput;
    type Out = Vec<Answer>;

    async fn run<C: Ctx>(ctx: C, input: InitInput) -> Result<End<Self>, FlowError> {
        let checked = ctx
            .step(Prepare {
                payments: input.payments.clone(),
            })
            .await?;
        let answers = ctx
            .step(Admit {
                payments: input.payments,
                checked,
            })
            .await?;
        Ok(End::Done(answers))
    }
}

/// Checks every payment at one moment. Only what is wrong is kept: the rest follows from the input.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prepare {
    pub payments: Vec<PaymentRequest>,
}

/// Which payments are not taken, by their place in the batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    not_taken: BTreeMap<usize, NotTaken>,
}

impl Step for Prepare {
    const NAME: &'static str = "prepare";
    const SHORT: bool = true;
    type Out = Checked;
    type World = Payments;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &Payments, _: &Call) -> Result<Checked, StepError> {
        let at = world.store.now().await.map_err(step_error)?;
        let verdicts = self
            .payments
            .iter()
            .map(|payment| prepare::check(payment, at))
            .enumerate();
        let not_taken = verdicts
            .filter_map(|(place, check)| Some((place, check.err()?)))
            .collect();
        Ok(Checked { not_taken })
    }
}

/// Writes record, slot, context and queue row of every payment that passed, in one transaction.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Admit {
    pub payments: Vec<PaymentRequest>,
    pub checked: Checked,
}

impl Step for Admit {
    const NAME: &'static str = "admit";
    const SHORT: bool = true;
    type Out = Vec<Answer>;
    type World = Payments;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &Payments, call: &Call) -> Result<Vec<Answer>, StepError> {
        let mut not_taken = self.checked.not_taken.clone();
        let mut items = Vec::with_capacity(self.payments.len());
        for (place, payment) in self.payments.iter().enumerate() {
            if not_taken.contains_key(&place) {
                continue;
            }
            match world.routes.route(payment.gateway.as_deref()) {
                Ok(route) => items.push(
                    prepare::build(payment, route, &call.flow_id)
                        .map_err(|e| StepError::last(e.to_string()))?,
                ),
                Err(why) => drop(not_taken.insert(place, why)),
            }
        }
        let admitted = world
            .store
            .admit(&item_type(), items)
            .await
            .map_err(step_error)?;
        let mut admitted = admitted.into_iter().map(verdict);
        let mut answers = Vec::with_capacity(self.payments.len());
        for (place, payment) in self.payments.iter().enumerate() {
            let verdict = match not_taken.get(&place) {
                None => admitted
                    .next()
                    .ok_or_else(|| StepError::last("an admission is missing"))?,
                Some(not_taken) => self
                    .not_taken(world, payment, not_taken)
                    .await
                    .map_err(step_error)?,
            };
            answers.push(Answer {
                content_hash: payment.content_hash(),
                verdict,
            });
        }
        Ok(answers)
    }
}

impl Admit {
    /// Sameness is judged before validation: a repeat never fails because time has passed.
    async fn not_taken(
        &self,
        world: &Payments,
        payment: &PaymentRequest,
        why: &NotTaken,
    ) -> tollgate_core::ports::StoreResult<Verdict> {
        if let Some(known) = world.store.item(&item(&payment.payment_id)).await? {
            if known.content_hash != payment.content_hash() {
                return Ok(Verdict::Conflict);
            }
            return Ok(Verdict::Scheduled {
                placed: known.placed(),
                repeat: true,
            });
        }
        Ok(match why.clone() {
            NotTaken::Invalid(details) => Verdict::Invalid(details),
            NotTaken::Refused { rule, message } => Verdict::Refused { rule, message },
        })
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
/// Trouble passes; a bug does not, and must not be tried for ever.
fn step_error(error: StoreError) -> StepError {
    match error {
        StoreError::Unavailable(_) | StoreError::Fenced(_) => {
            StepError::retryable(error.to_string())
        }
        StoreError::Invalid(_) | StoreError::Bug(_) => StepError::last(error.to_string()),
    }
}

fn verdict(admission: Admission) -> Verdict {
    match admission {
        Admission::New(placed) => Verdict::Scheduled {
            placed,
            repeat: false,
        },
        Admission::Repeat(placed) => Verdict::Scheduled {
            placed,
            repeat: true,
        },
        Admission::Conflict => Verdict::Conflict,
        Admission::Refused(message) => Verdict::Refused {
            rule: "lane".to_owned(),
            message,
        },
    }
}
