//! The init flow: prepare (pure) and admit (one transaction), for one payment or a thousand.
//! It ends at once; nothing waits here for a payment's time.

use std::collections::BTreeMap;

use metrics::counter;
use serde::{Deserialize, Serialize};
use tollgate_core::details::{Details, one};
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Admission, ChunkId, KnownContent, Placed, Refusal, StoreResult};

use super::bulk::breathe;
use super::deferred::{self, Trouble};
use super::guard_rule::GuardRule;
use super::prepare::{self, NotTaken};
use super::request::PaymentRequest;
use super::{Payments, item, item_type};
use crate::archived::archived;
use crate::steps::STORE_STEP;

/// At most this many payments are worked on before others get their turn on the thread.
const PAYMENTS_AT_ONCE: usize = 32;

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
    /// No verdict: a try failed, and its request waits for the next one.
    Deferred,
    /// Its request was withdrawn before it was planned.
    Cancelled,
    /// Known from the archive, with the same content.
    Archived,
    /// Known from the archive; its content was erased.
    Erased,
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

/// What the checks found, by the payments' places in the batch.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checked {
    /// The version of the rules that the payments were checked by.
    rules_version: i64,
    /// The gateways that the routing table has chosen, where it is not the default one.
    gateways: BTreeMap<usize, String>,
    /// What is left to judge while they are written.
    guards: Vec<GuardRule>,
    not_taken: BTreeMap<usize, NotTaken>,
    /// Nothing could be checked; the requests wait for their next try.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    failed: bool,
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
    async fn run(&self, world: &Payments, call: &Call) -> Result<Checked, StepError> {
        let checked = match Trouble::of_many_tries(call) {
            Ok(()) => self.check(world).await,
            Err(trouble) => Err(trouble),
        };
        match checked {
            Err(trouble) if trouble.is_enough(call) => {
                deferred::note(world, &self.payments, trouble).await?;
                Ok(Checked {
                    failed: true,
                    ..Checked::default()
                })
            }
            checked => Ok(checked?),
        }
    }
}

impl Prepare {
    /// Checks every payment at one moment.
    pub(super) async fn check(&self, world: &Payments) -> Result<Checked, Trouble> {
        let at = world.store.now().await?;
        let book = world.rules.at(at).await?;
        let mut checked = Checked {
            rules_version: book.version,
            guards: book.guards().to_vec(),
            ..Checked::default()
        };
        for (place, payment) in self.payments.iter().enumerate() {
            let find = |gateway: Option<&str>| world.routes.route(gateway);
            match prepare::check(payment, at, &book, find) {
                Err(why) => {
                    count(&why);
                    checked.not_taken.insert(place, why);
                }
                Ok(to) if payment.gateway.is_none() && to.connector.is_some() => {
                    checked.gateways.insert(place, to.gateway);
                }
                Ok(_) => {}
            }
        }
        Ok(checked)
    }
}

/// Writes every payment that passed, in one transaction.
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
        if self.checked.failed {
            return Ok(deferred::answers(&self.payments));
        }
        let admitted = match Trouble::of_many_tries(call) {
            Ok(()) => self.admit(world, &call.flow_id).await,
            Err(trouble) => Err(trouble),
        };
        match admitted {
            Err(trouble) if trouble.is_enough(call) => {
                deferred::note(world, &self.payments, trouble).await?;
                Ok(deferred::answers(&self.payments))
            }
            answers => Ok(answers?),
        }
    }
}

impl Admit {
    pub(super) async fn admit(
        &self,
        world: &Payments,
        flow: &FlowId,
    ) -> Result<Vec<Answer>, Trouble> {
        let mut not_taken = self.checked.not_taken.clone();
        let mut items = Vec::with_capacity(self.payments.len());
        for (place, payment) in self.payments.iter().enumerate() {
            if place % PAYMENTS_AT_ONCE == PAYMENTS_AT_ONCE - 1 {
                breathe().await;
            }
            if not_taken.contains_key(&place) {
                continue;
            }
            let chosen = self.checked.gateways.get(&place);
            let gateway = payment.gateway.as_ref().or(chosen);
            match world.routes.route(gateway.map(String::as_str)) {
                Ok(route) => items.push(
                    prepare::build(payment, route, &self.checked.guards, flow)
                        .map_err(|e| Trouble::lasting(e.to_string()))?,
                ),
                Err(why) => drop(not_taken.insert(place, why)),
            }
        }
        let admitted = world.store.admit(&item_type(), items).await?;
        let mut admitted = admitted.into_iter().map(verdict);
        let mut answers = Vec::with_capacity(self.payments.len());
        for (place, payment) in self.payments.iter().enumerate() {
            if place % PAYMENTS_AT_ONCE == PAYMENTS_AT_ONCE - 1 {
                breathe().await;
            }
            let verdict = match not_taken.get(&place) {
                None => admitted
                    .next()
                    .ok_or_else(|| Trouble::lasting("an admission is missing"))?,
                Some(not_taken) => refused(world, payment, not_taken, flow).await?,
            };
            if matches!(verdict, Verdict::Conflict) && ChunkId::of_flow(flow).is_none() {
                let id = &payment.payment_id;
                tracing::warn!(%id, "an accepted payment was not planned: another payment with its id was planned first");
            }
            answers.push(Answer {
                content_hash: payment.content_hash(),
                verdict,
            });
        }
        Ok(answers)
    }
}

/// Sameness is judged before validation: a repeat never fails because time has passed. A request that
/// waits for this payment ends with the verdict; a line of a file has none.
async fn refused(
    world: &Payments,
    payment: &PaymentRequest,
    why: &NotTaken,
    flow: &FlowId,
) -> StoreResult<Verdict> {
    let item = item(&payment.payment_id);
    if let Some(known) = world.store.item(&item).await? {
        if known.is_erased() {
            return Ok(Verdict::Erased);
        }
        if known.content_hash != payment.content_hash() {
            return Ok(Verdict::Conflict);
        }
        return Ok(Verdict::Scheduled {
            placed: known.placed(),
            repeat: true,
        });
    }
    if let Some(known) = archived(&*world.store, &item, &payment.content_hash()).await? {
        return Ok(match known.content {
            KnownContent::Same => Verdict::Archived,
            KnownContent::Other => Verdict::Conflict,
            KnownContent::Erased => Verdict::Erased,
        });
    }
    let (verdict, details) = match why.clone() {
        NotTaken::Invalid(details) => (Verdict::Invalid(details.clone()), details),
        NotTaken::Refused { rule, message } => {
            let details = one(&rule, message.as_str());
            (Verdict::Refused { rule, message }, details)
        }
    };
    let invalid = matches!(why, NotTaken::Invalid(_));
    if ChunkId::of_flow(flow).is_none() {
        let refusal = Refusal {
            content_hash: payment.content_hash(),
            init_flow: flow.clone(),
            details,
            invalid,
        };
        world.store.refuse(&item, refusal).await?;
    }
    Ok(verdict)
}

fn count(why: &NotTaken) {
    match why {
        NotTaken::Refused { rule, .. } => count_refusal(rule),
        NotTaken::Invalid(_) => {}
    }
}

/// Rules are few, so a name is a good label.
fn count_refusal(rule: &str) {
    counter!("tollgate_rule_refusals_total", "rule" => rule.to_owned()).increment(1);
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
            rule: Admission::LANE.to_owned(),
            message,
        },
        Admission::RefusedBy { rule, message } => {
            count_refusal(&rule);
            Verdict::Refused { rule, message }
        }
        Admission::Cancelled => Verdict::Cancelled,
        Admission::Archived => Verdict::Archived,
        Admission::Erased => Verdict::Erased,
    }
}
