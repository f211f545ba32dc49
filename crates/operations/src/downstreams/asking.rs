//! A person asks a bank about one payment: through a running server, with a turn in the bank's lane, or directly where
//! no server runs. Nothing follows from the answer; the payment's own flow asks for itself.

use std::sync::Arc;
use std::time::Duration;

use rust_decimal::Decimal;
use tollgate_config::{Config, Downstream, NamedBank};
use tollgate_contract::BankAnswer;
use tollgate_core::Timestamp;
use tollgate_core::id::LaneName;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{Request, TakeTurn};
use tollgate_dispatch::{CallTurnAt, Gate};
use tollgate_downstream::{AskResult, HttpConnector};

use crate::downstreams::connector;
use crate::downstreams::shown_request::shown;

/// How long a question waits for its turn.
const TURN_WITHIN: Duration = Duration::from_secs(10);

/// The way to one bank.
#[derive(Debug)]
pub struct Asker {
    connector: HttpConnector,
    lane: LaneName,
}

impl Asker {
    pub(crate) fn lane(&self) -> &LaneName {
        &self.lane
    }

    /// For several questions, by one connection.
    pub(crate) fn new(mut bank: NamedBank) -> anyhow::Result<Self> {
        let lane = bank.bank.lane.clone();
        bank.bank.max_connections = 1;
        let connector = connector(bank)?;
        Ok(Self { connector, lane })
    }
}

/// What a running server asks with.
#[derive(Debug)]
pub struct Asking {
    downstream: Downstream,
    gate: Arc<Gate>,
    share: Decimal,
}

impl Asking {
    pub fn new(config: &Config, gate: &Arc<Gate>) -> Self {
        Self {
            downstream: config.downstream.clone(),
            gate: Arc::clone(gate),
            share: config.status_check.lane_share,
        }
    }

    pub fn bank(&self, name: &str) -> anyhow::Result<NamedBank> {
        self.downstream.bank(name)
    }

    /// Takes a turn in the bank's lane, and another one if nothing was asked. The error says why not.
    pub(crate) async fn question(
        &self,
        asker: &Asker,
        request: &Request,
        now: Timestamp,
    ) -> Result<AskResult, String> {
        let turn = CallTurnAt {
            gate: &self.gate,
            lane: &asker.lane,
            share: self.share,
            patience: TURN_WITHIN,
        };
        match asker.connector.ask(request, now, Some(&turn)).await {
            // A busy machine misses a turn now and then.
            Err(_) => asker.connector.ask(request, now, Some(&turn)).await,
            answer => answer,
        }
    }

    /// Takes a turn in the bank's lane. The error says why nothing was asked.
    pub async fn ask(
        &self,
        bank: NamedBank,
        request: &Request,
        now: Timestamp,
    ) -> anyhow::Result<BankAnswer> {
        let lane = bank.bank.lane.clone();
        let turn = CallTurnAt {
            gate: &self.gate,
            lane: &lane,
            share: self.share,
            patience: TURN_WITHIN,
        };
        asked(bank, request, now, Some(&turn)).await
    }
}

/// Asks the configured bank of this name without a server, and so outside of its lane: this question is in nobody's
/// limit. Only the id of the payment is known.
pub async fn ask_directly(
    config: &Config,
    name: &str,
    payment_id: &str,
    now: Timestamp,
) -> anyhow::Result<BankAnswer> {
    let request = only_the_id(payment_id);
    asked(config.downstream.bank(name)?, &request, now, None).await
}

/// Of a payment of which nothing else is known.
pub fn only_the_id(payment_id: &str) -> Request {
    Request {
        reference: payment_id.to_owned(),
        idempotency_key: format!("payment-{payment_id}"),
        body_json: serde_json::json!({ "paymentId": payment_id }).to_string(),
        sent_by: None,
    }
}

/// With a connection of its own: those of payments stay theirs.
async fn asked(
    mut bank: NamedBank,
    request: &Request,
    now: Timestamp,
    turn: Option<&dyn TakeTurn>,
) -> anyhow::Result<BankAnswer> {
    let question = shown(&bank, AttemptKind::Probe, request)?;
    let settle_secs = bank.bank.settle_secs;
    bank.bank.max_connections = 1;
    let asked = connector(bank)?.ask(request, now, turn).await;
    let asked = asked.map_err(|why| anyhow::anyhow!("the bank was not asked: {why}"))?;
    Ok(BankAnswer {
        question,
        explanation: explained(&asked, &request.reference, settle_secs),
        status: asked.status,
        body: asked.body,
        means: asked.means.to_owned(),
        line: asked.line,
        reference: asked.reference,
    })
}

fn explained(asked: &AskResult, id: &str, settle_secs: u64) -> String {
    let why = asked.why.as_deref().unwrap_or_default();
    match asked.means {
        "done" | "done before" => {
            let named = asked.reference.as_deref();
            let named = named.map(|it| format!(" as {it}")).unwrap_or_default();
            format!("the bank has {id}{named}")
        }
        "not known" => format!(
            "the bank does not know {id}; from {settle_secs} seconds after a send, this proves that it was not executed"
        ),
        "declined" => format!("the bank has declined {id}: {why}"),
        "stop" => "the bank refuses our credentials: check login and URL".to_owned(),
        _ => format!("this proves nothing about {id}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(means: &'static str, reference: Option<&str>, why: Option<&str>) -> String {
        let asked = AskResult {
            status: Some(200),
            body: String::new(),
            means,
            line: None,
            reference: reference.map(str::to_owned),
            why: why.map(str::to_owned),
        };
        explained(&asked, "pay_1", 60)
    }

    #[test]
    fn every_meaning_is_a_sentence() {
        assert_eq!(
            said("done", Some("tr_1"), None),
            "the bank has pay_1 as tr_1"
        );
        assert!(said("not known", None, None).contains("60 seconds after a send"));
        assert!(said("stop", None, None).contains("check login and URL"));
        let lost = said("unknown", None, Some("status 502"));
        assert_eq!(lost, "this proves nothing about pay_1: status 502");
    }
}
