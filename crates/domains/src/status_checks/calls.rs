//! The three calls of a check, each a step under the contract's name.

use std::time::Duration;

use async_trait::async_trait;
use metrics::counter;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tollgate_core::flow::{Call, Policy, Step, StepError};
use tollgate_core::ports::{CallError, TakeTurn};
use tollgate_dispatch::Gate;

use super::grouping::kept;
use super::{TURN_PATIENCE, WorkflowConfig, World};

/// A longer name of a gateway is none.
const MAX_GATEWAY_CHARS: usize = 128;

/// What goes wrong in a check. The first word is the error's type, for whoever reads it elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PaymentCheckError {
    #[error("PaymentNotFoundException: payment {payment_id} is not known")]
    PaymentNotFound { payment_id: String },
    #[error("ElasticsearchException: {why}")]
    Elasticsearch { payment_id: String, why: CallError },
    #[error("IdbFacadeException: {why}")]
    IdbFacade {
        gateway: String,
        payment_ids: Vec<String>,
        why: CallError,
    },
    #[error("PgiGatewayException: {why}")]
    PgiGateway {
        gateway: String,
        payment_id: String,
        why: CallError,
    },
}

impl PaymentCheckError {
    fn may_pass(&self) -> bool {
        match self {
            Self::PaymentNotFound { .. } => false,
            Self::Elasticsearch { why, .. }
            | Self::IdbFacade { why, .. }
            | Self::PgiGateway { why, .. } => matches!(why, CallError::Failed(_)),
        }
    }

    /// Which service, and about which gateway and payment; a chunk is named by its first payment.
    fn about(&self) -> (&'static str, Option<&str>, Option<&str>) {
        match self {
            Self::PaymentNotFound { payment_id } | Self::Elasticsearch { payment_id, .. } => {
                ("elasticsearch", None, Some(payment_id))
            }
            Self::IdbFacade {
                gateway,
                payment_ids,
                ..
            } => {
                let first = payment_ids.first().map(String::as_str);
                ("idb_facade", Some(gateway), first)
            }
            Self::PgiGateway {
                gateway,
                payment_id,
                ..
            } => ("pgi_gateway", Some(gateway), Some(payment_id)),
        }
    }

    /// Told once per try; the last one is also what the check's result says.
    fn into_step(self, call: &Call) -> StepError {
        let (flow, attempt, retry) = (&call.flow_id, call.attempt, self.may_pass());
        let (service, gateway, payment) = self.about();
        counter!("tollgate_status_check_failed_calls_total", "service" => service).increment(1);
        tracing::info!(%flow, gateway, payment, attempt, retry, error = %self, "a call of a status check failed");
        StepError {
            message: kept(&self.to_string()),
            retry,
        }
    }
}

/// Which gateway a payment is with, by Elasticsearch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetGatewayForPayment {
    pub payment_id: String,
    pub config: WorkflowConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayInfo {
    pub payment_id: String,
    pub gateway_name: String,
}

impl Step for GetGatewayForPayment {
    const NAME: &'static str = "getGatewayForPayment";
    type Out = GatewayInfo;
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.payment_id)
    }
    fn policy(&self) -> Policy {
        self.config.policy()
    }
    async fn run(&self, world: &World, call: &Call) -> Result<GatewayInfo, StepError> {
        let (id, within) = (&self.payment_id, self.config.call_timeout());
        let found = world.services.gateway_of(id, within).await;
        let found = found.and_then(|name| {
            let long = || CallError::Refused("the gateway's name is not valid".to_owned());
            let is_name = !name.trim().is_empty() && name.chars().count() <= MAX_GATEWAY_CHARS;
            is_name.then_some(name).ok_or_else(long)
        });
        let payment_id = id.clone();
        match found {
            Ok(gateway_name) => Ok(GatewayInfo {
                payment_id,
                gateway_name,
            }),
            Err(CallError::NotFound) => {
                Err(PaymentCheckError::PaymentNotFound { payment_id }.into_step(call))
            }
            Err(why) => Err(PaymentCheckError::Elasticsearch { payment_id, why }.into_step(call)),
        }
    }
}

/// Tells the IDB facade about one chunk.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallIdbFacade {
    pub chunk_index: u32,
    pub gateway: String,
    pub payment_ids: Vec<String>,
    pub config: WorkflowConfig,
}

impl Step for CallIdbFacade {
    const NAME: &'static str = "callIdbFacade";
    type Out = ();
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.chunk_index)
    }
    fn policy(&self) -> Policy {
        self.config.policy()
    }
    async fn run(&self, world: &World, call: &Call) -> Result<(), StepError> {
        let told = match nameable(&self.gateway) {
            Ok(()) => {
                let turn = world.turn_of(&self.gateway);
                let within = self.config.call_timeout();
                let services = &world.services;
                services
                    .announce(&self.gateway, &self.payment_ids, within, &turn)
                    .await
            }
            // Before anybody is told: nobody of this gateway could be asked about.
            Err(why) => Err(why),
        };
        told.map_err(|why| {
            let error = PaymentCheckError::IdbFacade {
                gateway: self.gateway.clone(),
                payment_ids: self.payment_ids.clone(),
                why,
            };
            error.into_step(call)
        })
    }
}

/// Has the PGI gateway ask about one payment.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallPgiGateway {
    pub gateway: String,
    pub payment_id: String,
    pub config: WorkflowConfig,
}

/// That the call worked, and whether the answer is evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    pub completed: bool,
    pub reference: Option<String>,
}

impl Step for CallPgiGateway {
    const NAME: &'static str = "callPgiGateway";
    type Out = CallResult;
    type World = World;

    fn key(&self) -> String {
        format!("{}-{}", Self::NAME, self.payment_id)
    }
    fn policy(&self) -> Policy {
        self.config.policy()
    }
    async fn run(&self, world: &World, call: &Call) -> Result<CallResult, StepError> {
        let turn = world.turn_of(&self.gateway);
        let within = self.config.call_timeout();
        let services = &world.services;
        let asked = services
            .ask(&self.gateway, &self.payment_id, within, &turn)
            .await;
        match asked {
            Ok(answer) => Ok(CallResult {
                completed: answer.completed,
                reference: answer.reference.map(|reference| kept(&reference)),
            }),
            Err(why) => {
                let error = PaymentCheckError::PgiGateway {
                    gateway: self.gateway.clone(),
                    payment_id: self.payment_id.clone(),
                    why,
                };
                Err(error.into_step(call))
            }
        }
    }
}

/// A gateway's name goes into a header, and comes from a document that anybody may have written.
fn nameable(gateway: &str) -> Result<(), CallError> {
    let is_plain = gateway.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain && gateway.trim() == gateway && !gateway.is_empty() {
        return Ok(());
    }
    Err(CallError::Refused(
        "the gateway's name cannot be sent in a header: it must be printable ASCII; correct it in Elasticsearch"
            .to_owned(),
    ))
}

/// The turn at a gateway's lane, if it has one.
struct LaneTurn<'a> {
    gate: &'a Gate,
    lane: Option<&'a tollgate_core::id::LaneName>,
    share: rust_decimal::Decimal,
}

impl World {
    fn turn_of(&self, gateway: &str) -> LaneTurn<'_> {
        LaneTurn {
            gate: &self.gate,
            lane: self.lanes.get(gateway),
            share: self.lane_share,
        }
    }
}

#[async_trait]
impl TakeTurn for LaneTurn<'_> {
    async fn take(&self) -> Result<(), String> {
        let Some(lane) = self.lane else {
            return Ok(());
        };
        let patience: Duration = TURN_PATIENCE;
        self.gate.call_turn(lane, self.share, patience).await
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::id::FlowId;

    use super::*;

    #[test]
    fn only_what_a_header_carries_unchanged_is_a_name() {
        for good in ["stripe", "Stripe EU", "a:b/c~1", "x"] {
            assert_eq!(nameable(good), Ok(()), "{good:?}");
        }
        for bad in ["", " ", " a", "a ", "a\r\nx: y", "a\0", "é", "a\tb", "🏦"] {
            assert!(nameable(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn only_what_may_pass_is_tried_again_and_every_error_says_its_type() {
        let call = Call {
            flow_id: FlowId::new("payment-check-1"),
            attempt: 1,
        };
        let idb = |why| PaymentCheckError::IdbFacade {
            gateway: "stripe".into(),
            payment_ids: vec![],
            why,
        };
        let pgi = |why| PaymentCheckError::PgiGateway {
            gateway: "stripe".into(),
            payment_id: "p".into(),
            why,
        };
        let es = |why| PaymentCheckError::Elasticsearch {
            payment_id: "p".into(),
            why,
        };
        let not_found = PaymentCheckError::PaymentNotFound {
            payment_id: "p".into(),
        };
        let refused = || CallError::Refused("status 400".into());
        let failed = || CallError::Failed("status 500".into());
        let table = [
            (
                not_found,
                false,
                "PaymentNotFoundException: payment p is not known",
            ),
            (es(refused()), false, "ElasticsearchException: status 400"),
            (es(failed()), true, "ElasticsearchException: status 500"),
            (idb(refused()), false, "IdbFacadeException: status 400"),
            (idb(failed()), true, "IdbFacadeException: status 500"),
            (pgi(refused()), false, "PgiGatewayException: status 400"),
            (pgi(failed()), true, "PgiGatewayException: status 500"),
        ];
        for (error, retry, message) in table {
            let error = error.into_step(&call);
            assert_eq!((error.retry, error.message.as_str()), (retry, message));
        }
    }
}
