//! The three services that a status check asks, as they are documented: Elasticsearch's document call,
//! the IDB facade and the PGI gateway. Each call is written down with its begin and its end, so that
//! whoever reads it can judge what ran beside what.

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    answers::{Answer, Said},
    calls::{CallPlace, ServiceCall},
    contract::{Counter, HungUp, struck},
    entry::Kind,
    faults::Strike,
    ledger::Ledger,
    request::{percent_decode, read_body},
};

const NOTIFY: &str = "/api/v1/payments/notify";
const CHECKS: &str = "/api/v1/payments/";
const CHECK: &str = "/check-status";
/// Who has a payment of which nobody has said it.
const GATEWAYS: [&str; 3] = ["stripe", "adyen", "paypal"];

/// A call to one of the services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Service {
    Lookup { index: String, id: String },
    Notify,
    Check { id: String },
}

impl Service {
    /// None for what is no call to a service.
    pub(crate) fn of(head: &Parts) -> Option<Self> {
        let path = head.uri.path();
        if head.method == Method::POST && path == NOTIFY {
            return Some(Self::Notify);
        }
        if head.method == Method::POST {
            let id = path.strip_prefix(CHECKS)?.strip_suffix(CHECK)?;
            return segment(id).map(|id| Self::Check { id });
        }
        let (index, id) = document(path)?;
        (head.method == Method::GET).then_some(Self::Lookup { index, id })
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Lookup { .. } => Kind::Lookup,
            Self::Notify => Kind::Notify,
            Self::Check { .. } => Kind::Check,
        }
    }
}

/// `/{index}/_doc/{id}`
pub(crate) fn document(path: &str) -> Option<(String, String)> {
    let (index, id) = path.strip_prefix('/')?.split_once("/_doc/")?;
    segment(index).zip(segment(id))
}

fn segment(text: &str) -> Option<String> {
    let is_one = !text.is_empty() && !text.contains('/');
    percent_decode(text).filter(|_| is_one)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notice {
    gateway_name: String,
    payment_ids: Vec<String>,
}

impl Counter {
    pub(crate) async fn serve_service(
        self: Arc<Self>,
        service: Service,
        head: &Parts,
        body: Incoming,
    ) -> Result<Answer, HungUp> {
        let kind = service.kind();
        let lot = self.faults.draw(kind);
        // Ended when this is dropped, also because the client has left.
        let call = self.ledger.begin_call(kind);
        let body = read_body(body).await?.unwrap_or_default();
        let said = self.answer(&service, head, &body, &call);
        let first = call.first_payment();
        let fate = lot.fate(first.as_deref());
        if !fate.latency.is_zero() {
            sleep(fate.latency).await;
        }
        let strike = fate.blow.map(|blow| blow.strike);
        call.amend(|call| {
            call.fault = fate.blow.map(|blow| blow.to_string());
            call.status = match strike {
                Some(Strike::Status { status, .. } | Strike::Stranger { status }) => {
                    Some(status.as_u16())
                }
                Some(Strike::Reset | Strike::Stall) => None,
                _ => Some(said.status.as_u16()),
            };
        });
        if let Some(Strike::Status { status, .. }) = strike {
            return Ok(documented_error(&service, status).whole());
        }
        struck(said, strike, &first.unwrap_or_default()).await
    }

    fn answer(&self, service: &Service, head: &Parts, body: &[u8], call: &CallPlace) -> Said {
        match service {
            Service::Lookup { index, id } => {
                call.amend(|call| call.payment_ids = vec![id.clone()]);
                found(&self.ledger, index, id)
            }
            Service::Notify => match serde_json::from_slice::<Notice>(body) {
                Ok(notice) => {
                    let count = notice.payment_ids.len();
                    call.amend(|call| {
                        call.gateway = Some(notice.gateway_name);
                        call.payment_ids = notice.payment_ids;
                    });
                    let body = json!({"status": "accepted", "processedCount": count});
                    Said::json(StatusCode::OK, body.to_string())
                }
                Err(error) => Said::error(StatusCode::BAD_REQUEST, "body", &error.to_string()),
            },
            Service::Check { id } => {
                let gateway = text(head, "x-gateway-name");
                call.amend(|call| {
                    call.payment_ids = vec![id.clone()];
                    call.gateway.clone_from(&gateway);
                });
                let is_json = text(head, header::CONTENT_TYPE.as_str());
                if gateway.is_none() || is_json.as_deref() != Some("application/json") {
                    let reason = "X-Gateway-Name and Content-Type: application/json are needed";
                    return Said::error(StatusCode::BAD_REQUEST, "headers", reason);
                }
                checked(&self.ledger, id)
            }
        }
    }
}

fn text(head: &Parts, name: &str) -> Option<String> {
    let value = head.headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// What was put there, or else a document that says who has the payment: who stands before the first
/// colon of its id, or one of three.
fn found(ledger: &Ledger, index: &str, id: &str) -> Said {
    let source = ledger.document(index, id).unwrap_or_else(|| {
        json!({"gatewayName": gateway_of(id), "amount": 5000, "currency": "USD",
               "status": "pending", "createdAt": "2024-01-15T10:30:00Z"})
    });
    let body = json!({"_index": index, "_id": id, "_version": 1, "found": true, "_source": source});
    Said::json(StatusCode::OK, body.to_string())
}

fn gateway_of(id: &str) -> &str {
    match id.split_once(':') {
        Some((gateway, _)) => gateway,
        None => {
            let sum: usize = id.bytes().map(usize::from).sum();
            GATEWAYS[sum % GATEWAYS.len()]
        }
    }
}

/// Only what took effect at the bank is completed.
fn checked(ledger: &Ledger, id: &str) -> Said {
    let status = if ledger.effective().contains_key(id) {
        "completed"
    } else {
        "pending"
    };
    let body = json!({"paymentId": id, "status": status, "gatewayReference": format!("ch_{id}")});
    Said::json(StatusCode::OK, body.to_string())
}

fn documented_error(service: &Service, status: StatusCode) -> Said {
    let body = match service {
        Service::Lookup { index, id } if status == StatusCode::NOT_FOUND => {
            json!({"_index": index, "_id": id, "found": false})
        }
        Service::Lookup { .. } => {
            json!({"error": {"type": "unavailable"}, "status": status.as_u16()})
        }
        Service::Notify => json!({"error": "Gateway unavailable", "code": "GATEWAY_ERROR"}),
        Service::Check { .. } => {
            json!({"error": "Payment not found in gateway", "code": "PAYMENT_NOT_FOUND"})
        }
    };
    Said::json(status, body.to_string())
}

/// The most services that were busy at once, among these calls.
pub fn most_at_once<'a>(calls: impl IntoIterator<Item = &'a ServiceCall>) -> usize {
    let mut edges: Vec<(Duration, i64)> = vec![];
    for call in calls {
        edges.push((call.began, 1));
        // Before the begins of the same moment: who ends then is not beside them.
        edges.extend(call.ended.map(|ended| (ended, -1)));
    }
    edges.sort();
    let (mut now, mut most) = (0, 0);
    for (_, step) in edges {
        now += step;
        most = most.max(now);
    }
    usize::try_from(most).unwrap_or(0)
}

/// A document as `PUT` writes it.
pub(crate) fn parse_document(body: Option<&[u8]>) -> Option<Value> {
    serde_json::from_slice(body?).ok().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(method: Method, path: &str) -> Option<Service> {
        let request = http::Request::builder().method(method).uri(path);
        Service::of(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn the_three_calls_are_known_by_their_documented_addresses() {
        let lookup = Service::Lookup {
            index: "payments".into(),
            id: "a b".into(),
        };
        let check = Service::Check { id: "pay_1".into() };
        let table = [
            (Method::GET, "/payments/_doc/a%20b", Some(lookup)),
            (
                Method::POST,
                "/api/v1/payments/notify",
                Some(Service::Notify),
            ),
            (
                Method::POST,
                "/api/v1/payments/pay_1/check-status",
                Some(check),
            ),
            (Method::GET, "/api/v1/payments/pay_1/check-status", None),
            (Method::POST, "/api/v1/payments//check-status", None),
            (Method::POST, "/api/v1/payments/a/b/check-status", None),
            (Method::GET, "/payments/_doc/", None),
            (Method::POST, "/payments/_doc/x", None),
            (Method::GET, "/payments/pay_1", None),
        ];
        for (method, path, expected) in table {
            assert_eq!(service(method, path), expected, "{path}");
        }
    }

    #[test]
    fn an_id_says_its_gateway_or_has_one_of_three() {
        assert_eq!(gateway_of("acme:1"), "acme");
        assert!(GATEWAYS.contains(&gateway_of("pay_001")));
    }

    #[test]
    fn calls_that_touch_are_not_at_once() {
        let call = |began: u64, ended: Option<u64>| ServiceCall {
            began: Duration::from_secs(began),
            ended: ended.map(Duration::from_secs),
            ..ServiceCall::begun(Kind::Lookup, Duration::ZERO)
        };
        assert_eq!(most_at_once(&[]), 0);
        assert_eq!(most_at_once(&[call(0, Some(1)), call(1, Some(2))]), 1);
        assert_eq!(most_at_once(&[call(0, Some(2)), call(1, Some(3))]), 2);
        assert_eq!(most_at_once(&[call(0, None), call(1, None)]), 2);
    }
}
