//! The exec flow: execute, post-process, notify. It knows nothing of the queue's machinery; what
//! must wait has gone back to the queue before the flow ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_core::actor;
use tollgate_core::flow::{Call, Ctx, End, ExecInput, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::id::LaneName;
use tollgate_core::ports::{ItemView, NewAudit, Request, Store, Then};
use tollgate_dispatch::{Executes, IfDone, Inline, Job, Sent};

use super::before_send::stopped_by_rules;
use super::notify::SendNotifications;
use super::prepare::PaymentContext;
use super::routes::DEFAULT_GATEWAY;
use super::status::{moves, notified};
use super::{Bank, Payments};
use crate::notifications::Event;
use crate::steps::{EXEC_STEP, SEND_STEP};

/// How often a payment whose gateway is gone looks for it.
const GATEWAY_PAUSE: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub struct PaymentExecFlow;

impl Flow for PaymentExecFlow {
    const NAME: &'static str = "PaymentExecWorkflow";
    type In = ExecInput;
    type Out = Sent;

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        let end = ctx
            .step(ExecutePayment {
                input: input.clone(),
            })
            .await?;
        let event = match &end {
            Sent::Done(answer) => {
                ctx.step(PostProcess {
                    input: input.clone(),
                    answer: answer.clone(),
                })
                .await?;
                Event::Processing
            }
            Sent::Refused(_) | Sent::Declined(_) => Event::Rejected,
            Sent::Ended(_) | Sent::Requeued(_) | Sent::Held | Sent::Superseded(_) => {
                return Ok(End::Done(end));
            }
        };
        ctx.step(SendNotifications { input, event }).await?;
        Ok(End::Done(end))
    }
}

impl Executes for Payments {
    const BATCH_FLOW: &'static str = "PaymentExecBatchWorkflow";
    const BATCH_STEP: &'static str = "execute_payments";

    fn store(&self) -> &dyn Store {
        &*self.store
    }
    /// All senders of a process share its gate.
    async fn settled(&self) {
        self.routes.default.sender.settled().await;
    }
    async fn fenced(&self) -> String {
        self.routes.default.sender.fenced().await
    }
    async fn execute(ctx: Inline<Self>, input: ExecInput) -> Result<(), FlowError> {
        PaymentExecFlow::run(ctx, input).await.map(drop)
    }
}

/// Sends the payment (SCHEDULED → ACCEPTED) unless the rules in force now are against it, or finds
/// out what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ExecutePayment {
    pub input: ExecInput,
}

impl Step for ExecutePayment {
    const NAME: &'static str = "execute_payment";
    type Out = Sent;
    type World = Payments;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        SEND_STEP
    }
    async fn after_cut_off(world: &Payments) {
        world.settled().await;
    }
    async fn run(&self, world: &Payments, call: &Call) -> Result<Sent, StepError> {
        let context = PaymentContext::read(&self.input.context_json)
            .map_err(|e| StepError::last(format!("the context cannot be read: {e}")))?;
        let Some(bank) = world.routes.connected(context.connector.as_deref()) else {
            return self.wait_for_gateway(world, &context).await;
        };
        if let Some(stopped) = stopped_by_rules(world, &self.input, &context).await? {
            return Ok(stopped);
        }
        let key = self.key(world, bank, &context).await?;
        // A flow of its own goes through all its steps, under the names that its readers know.
        let is_alone = call.flow_id == self.input.item.exec_flow(self.input.run);
        let ends = world.receivers.is_empty() && !is_alone;
        let if_done = ends.then(|| if_done(&context));
        let job = Job {
            item: self.input.item.clone(),
            run: self.input.run,
            request: bank_request(&context, key),
            moves: moves(),
            accounts: vec![context.debtor.account, context.creditor.account],
            refused_then: Then::Stay,
            if_done,
        };
        Ok(bank.sender.send(&job).await?)
    }
}

impl ExecutePayment {
    /// A payment that was refused and reopened is sent under another key, unless the bank does not
    /// remember refusals: under the old one it might repeat its answer.
    async fn key(
        &self,
        world: &Payments,
        bank: &Bank,
        context: &PaymentContext,
    ) -> Result<String, StepError> {
        let first = format!("payment-{}", context.payment_id);
        if self.input.run == 1 || !bank.sender.remembers_refusals() {
            return Ok(first);
        }
        let view = world.store.item(&self.input.item).await?;
        let attempts = view.map(|view| view.attempts).unwrap_or_default();
        let spent = attempts.iter().filter(|attempt| attempt.makes_way());
        let spent: BTreeSet<_> = spent.map(|attempt| &attempt.key).collect();
        Ok(match spent.len() {
            0 => first,
            spent => format!("{first}~{}", spent + 1),
        })
    }

    /// Its bank is configured no more, and no other may have it: it waits in the queue until it is
    /// cancelled, or its gateway is back.
    async fn wait_for_gateway(
        &self,
        world: &Payments,
        context: &PaymentContext,
    ) -> Result<Sent, StepError> {
        let why = format!(
            "its gateway {:?} is no longer configured; configure it again or cancel the payment",
            context.connector.as_deref().unwrap_or(DEFAULT_GATEWAY)
        );
        let (item, run) = (&self.input.item, self.input.run);
        let put_back = world.store.put_back(item, run, GATEWAY_PAUSE, &why);
        if put_back.await? {
            return Ok(Sent::Requeued(why));
        }
        Ok(Sent::Superseded("another run owns the item".to_owned()))
    }
}

/// A payment without receivers ends with an answer that shows no difference: nothing is left for the other steps.
fn if_done(context: &PaymentContext) -> IfDone {
    let context = context.clone();
    IfDone {
        record: notified(),
        leaves_nothing: Arc::new(move |answer| difference(&context, answer).is_none()),
    }
}

/// What a question about a payment is made of: as it was sent last, or as it would be sent first.
pub fn question_about(view: &ItemView) -> Option<Request> {
    let context = PaymentContext::read(view.body.as_deref()?).ok()?;
    let last = view.attempts.iter().rev().find(|it| !it.key.is_empty());
    let first = || format!("payment-{}", context.payment_id);
    let key = last.map_or_else(first, |attempt| attempt.key.clone());
    Some(bank_request(&context, key))
}

/// Which connector a payment goes through; `None` is the one of payments that name no gateway.
pub fn connector_of(view: &ItemView) -> Option<String> {
    PaymentContext::read(view.body.as_deref()?).ok()?.connector
}

/// What goes to the bank.
fn bank_request(context: &PaymentContext, idempotency_key: String) -> Request {
    let body = json!({
        "paymentId": context.payment_id,
        "amount": context.amount,
        "currency": context.currency,
        "debtor": context.debtor,
        "creditor": context.creditor,
        "gateway": context.gateway,
        "reference": context.reference,
    });
    Request {
        reference: context.payment_id.clone(),
        idempotency_key,
        body_json: body.to_string(),
        sent_by: None,
    }
}

/// Compares what the bank says it did with what was asked. The payment goes on, for the money has moved;
/// a difference is audited, counted and logged: a person has to ask the bank.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PostProcess {
    pub input: ExecInput,
    pub answer: String,
}

impl Step for PostProcess {
    const NAME: &'static str = "post_process";
    const SHORT: bool = true;
    type Out = ();
    type World = Payments;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        EXEC_STEP
    }
    async fn run(&self, world: &Payments, _: &Call) -> Result<(), StepError> {
        let context = PaymentContext::read(&self.input.context_json)
            .map_err(|e| StepError::last(format!("the context cannot be read: {e}")))?;
        let Some(difference) = difference(&context, &self.answer) else {
            return Ok(());
        };
        let entry = NewAudit {
            item: Some(self.input.item.clone()),
            action: "ANSWER_DIFFERS".to_owned(),
            actor: actor::PAYMENTS.to_owned(),
            detail: difference,
        };
        world.store.write_audit(entry).await?;
        if let Some(bank) = world.routes.connected(context.connector.as_deref()) {
            count_differing(&bank.lane, 1);
        }
        // What the bank says is in the audit log; it may repeat an account.
        tracing::error!(item = %self.input.item, "the bank's answer differs from what was sent");
        Ok(())
    }
}

/// Begins at zero with the process: a rate is told from two values on.
pub(super) fn count_differing(lane: &LaneName, by: u64) {
    counter!("tollgate_answers_differ_total", "lane" => lane.to_string()).increment(by);
}

/// Where the bank echoes amount or currency, they must be the ones that were sent.
fn difference(context: &PaymentContext, answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let sent = [("amount", &context.amount), ("currency", &context.currency)];
    sent.into_iter().find_map(|(field, sent)| {
        let said = match answer.get(field)? {
            Value::String(said) => said.clone(),
            Value::Number(said) => said.to_string(),
            _ => return None,
        };
        (!is_same(&said, sent)).then(|| format!("{field}: sent {sent}, the bank reported {said}"))
    })
}

/// 125.5 is 125.50, and usd is USD.
fn is_same(said: &str, sent: &str) -> bool {
    let number = |text: &str| text.parse::<Decimal>().ok();
    match (number(said), number(sent)) {
        (Some(said), Some(sent)) => said == sent,
        _ => said.eq_ignore_ascii_case(sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payments::Party;

    fn context() -> PaymentContext {
        let party = |account: &str| Party {
            account: account.into(),
            name: "N".into(),
        };
        PaymentContext {
            payment_id: "pay_1".into(),
            amount: "125.50".into(),
            currency: "USD".into(),
            debtor: party("a"),
            creditor: party("b"),
            gateway: "default".into(),
            connector: None,
            reference: None,
        }
    }

    #[test]
    fn an_answer_that_differs_does_not_end_the_payment() {
        let end = if_done(&context());
        assert!((end.leaves_nothing)(
            r#"{"amount": "125.5", "currency": "usd"}"#
        ));
        assert!((end.leaves_nothing)("accepted"));
        assert!(!(end.leaves_nothing)(r#"{"amount": "125.51"}"#));
        assert!(!(end.leaves_nothing)(r#"{"currency": "EUR"}"#));
    }

    #[test]
    fn the_bank_gets_the_documented_bytes() {
        let request = bank_request(&context(), "payment-pay_1".into());
        let body: Value = serde_json::from_str(&request.body_json).unwrap();
        let expected = json!({
            "paymentId": "pay_1", "amount": "125.50", "currency": "USD",
            "debtor": {"account": "a", "name": "N"}, "creditor": {"account": "b", "name": "N"},
            "gateway": "default", "reference": null,
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn an_answer_that_differs_is_noticed_and_silence_is_not_a_difference() {
        let said = |answer: &str| difference(&context(), answer);
        let same = [
            r#"{"paymentId":"pay_1"}"#,
            r#"{"amount":"125.50","currency":"USD"}"#,
            r#"{"amount":"125.5","currency":"usd"}"#,
            r#"{"amount":125.5}"#,
            r#"{"amount":null,"currency":{"code":"EUR"}}"#,
        ];
        for answer in same {
            assert_eq!(said(answer), None, "{answer}");
        }
        let other = [
            (
                r#"{"amount":"12550"}"#,
                "amount: sent 125.50, the bank reported 12550",
            ),
            (
                r#"{"amount":1255.0}"#,
                "amount: sent 125.50, the bank reported 1255.0",
            ),
            (
                r#"{"amount":"many"}"#,
                "amount: sent 125.50, the bank reported many",
            ),
            (
                r#"{"currency":"EUR"}"#,
                "currency: sent USD, the bank reported EUR",
            ),
        ];
        for (answer, told) in other {
            assert_eq!(said(answer).as_deref(), Some(told), "{answer}");
        }
    }
}
