//! A try to take a payment in that failed. Its request is durable, so nothing is lost: the failure is noted on the
//! request, the flow ends, and the next try follows after a pause.

use metrics::counter;
use tollgate_core::flow::{Call, StepError};
use tollgate_core::ports::StoreError;

use super::init::{Answer, Verdict};
use super::request::PaymentRequest;
use super::rules_in_force::RulesError;
use super::{Payments, item};

/// Trouble that may pass is tried so often within a step, which takes a second or two; the wait that follows
/// is in the store, where people see it.
const TRIES_IN_STEP: u32 = 4;

/// Why items could not be judged. It says nothing about them.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) why: String,
    may_pass: bool,
}

impl Trouble {
    pub(crate) fn lasting(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            may_pass: false,
        }
    }

    /// A step that has been tried so often was cut off by its timeout, or the store was away.
    pub(crate) fn of_many_tries(call: &Call) -> Result<(), Self> {
        if call.attempt <= 2 * TRIES_IN_STEP {
            return Ok(());
        }
        Err(Self::lasting("the store was unavailable or too slow"))
    }

    /// Whether the step gives this try up.
    pub(crate) fn is_enough(&self, call: &Call) -> bool {
        !self.may_pass || call.attempt >= TRIES_IN_STEP
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self {
            why: error.to_string(),
            may_pass: error.may_pass(),
        }
    }
}

/// Rules that this node cannot read are waited out: no payment is taken in by older ones.
impl From<RulesError> for Trouble {
    fn from(error: RulesError) -> Self {
        match error {
            RulesError::Store(error) => error.into(),
            RulesError::Wrong(_) => Self {
                why: format!("the rules in force: {error}"),
                may_pass: true,
            },
        }
    }
}

impl From<Trouble> for StepError {
    fn from(trouble: Trouble) -> Self {
        Self {
            message: trouble.why,
            retry: trouble.may_pass,
        }
    }
}

/// Notes the failure on the requests of these payments. Where that cannot be written because the store is away, the
/// step waits for it; where no request waits, the trouble is the step's own.
pub(super) async fn note(
    world: &Payments,
    payments: &[PaymentRequest],
    trouble: Trouble,
) -> Result<(), StepError> {
    let mut noted = false;
    for payment in payments {
        let item = item(&payment.payment_id);
        let hash = payment.content_hash();
        match world.store.try_failed(&item, &hash, &trouble.why).await {
            Ok(None) => {}
            Ok(Some(tries)) => {
                noted = true;
                let error = trouble.why.as_str();
                tracing::error!(%item, tries, error, "an accepted payment could not be planned; it is tried again");
                count("request");
            }
            Err(away) if away.may_pass() => return Err(away.into()),
            // The request is looked at again without it.
            Err(error) => {
                noted = true;
                let why = trouble.why.as_str();
                tracing::error!(%item, %error, why, "a failed attempt could not be recorded; Tollgate retries it");
                count("request");
            }
        }
    }
    if noted { Ok(()) } else { Err(trouble.into()) }
}

/// Tries that failed, of single payments (`request`) and of the chunks of files (`chunk`).
pub(crate) fn count(what: &'static str) {
    counter!("tollgate_intake_failures_total", "what" => what).increment(1);
}

/// What is said of payments that wait for their next try.
pub(super) fn answers(payments: &[PaymentRequest]) -> Vec<Answer> {
    let answer = |payment: &PaymentRequest| Answer {
        content_hash: payment.content_hash(),
        verdict: Verdict::Deferred,
    };
    payments.iter().map(answer).collect()
}
