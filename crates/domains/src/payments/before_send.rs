//! Post-schedule validation: the rules in force now are applied once more before a payment is sent.
//!
//! The store stops it only while nothing can have been paid, so an attempt that is open, Unknown or
//! done is never judged again. After a crash at any line the step runs again: a payment that was held
//! is another run's by then, and one that was rejected is found as such by the sender, until its news
//! are queued and it ends.

use metrics::counter;
use tollgate_core::actor;
use tollgate_core::flow::{ExecInput, StepError};
use tollgate_core::ports::{ItemView, RuleStop, StoreResult};
use tollgate_dispatch::Sent;

use super::prepare::PaymentContext;
use super::rulebook::Objection;
use super::status::{PaymentStatus, moves};
use super::{PaymentRequest, Payments, RulesError, document};

/// What has become of a payment that the rules stop; none if it may be sent.
pub(super) async fn stopped_by_rules(
    world: &Payments,
    input: &ExecInput,
    context: &PaymentContext,
) -> Result<Option<Sent>, StepError> {
    let book = world.rules.latest().await.map_err(rules_error)?;
    if !book.judges_execution() {
        return Ok(None);
    }
    let (now, view) = (
        world.store.now().await?,
        world.store.item(&input.item).await?,
    );
    let Some(view) = view else {
        return Ok(None);
    };
    if view.status == PaymentStatus::Rejected.as_str() {
        return Ok(None);
    }
    let payment = as_requested_now(document(&view)?, &view);
    let passed = &view.passed_rules;
    let objection = book.objection(&payment, &context.gateway, &view.lane, now, passed);
    match objection {
        Some(objection) => Ok(stop(world, input, objection).await?),
        None => Ok(None),
    }
}

/// Rules that this node cannot read are waited out: no payment is sent by older ones.
fn rules_error(error: RulesError) -> StepError {
    match error {
        RulesError::Store(error) => error.into(),
        RulesError::Wrong(_) => StepError::retryable(format!("the rules in force: {error}")),
    }
}

/// A payment that was given another time is judged by that one.
pub(super) fn as_requested_now(payment: PaymentRequest, view: &ItemView) -> PaymentRequest {
    PaymentRequest {
        execute_at: Some(view.requested),
        ..payment
    }
}

async fn stop(
    world: &Payments,
    input: &ExecInput,
    objection: Objection,
) -> StoreResult<Option<Sent>> {
    let Objection {
        keys,
        names,
        why,
        rejects,
    } = objection;
    let stop = RuleStop {
        actor: actor::RULES,
        rules: keys,
        why: why.clone(),
        rejected: rejects.then(|| moves().refused),
    };
    let stopped = world.store.stop_by_rules(&input.item, input.run, stop);
    if !stopped.await? {
        return Ok(None);
    }
    let then = if rejects { "reject" } else { "hold" };
    for rule in names {
        counter!("tollgate_rule_stops_total", "rule" => rule, "then" => then).increment(1);
    }
    tracing::warn!(item = %input.item, then, "the rules in force stop a payment before it is sent: {why}");
    Ok(Some(if rejects {
        Sent::Refused(why)
    } else {
        Sent::Held
    }))
}
