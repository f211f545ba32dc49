//! The bank's side of the HTTP contract: one request in, one answer out, or none if a fault says
//! so. What takes effect is decided in the books; connections are kept by the bank.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::{sleep, timeout};

use crate::{
    books::{Arrival, Verdict},
    entry::{Effect, Entry, Kind},
    faults::FaultSource,
    ledger::Ledger,
    order::Order,
};

const PAYMENTS: &str = "/payments";
const MAX_BODY_BYTES: usize = 64 * 1024;
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// The counter that serves all connections.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) ledger: Ledger,
    pub(crate) faults: FaultSource,
    pub(crate) limit_per_second: Option<u32>,
    pub(crate) honours_keys: bool,
}

/// Makes hyper close the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the bank hung up")]
pub(crate) struct HungUp;

pub(crate) type Answer = Response<Full<Bytes>>;

/// What the client wants of us.
enum Asked {
    Pay(Order),
    Probe { payment_id: String },
}

/// Why we will not even try.
struct Complaint {
    status: StatusCode,
    field: &'static str,
    reason: String,
}

impl Counter {
    pub(crate) async fn serve(&self, request: Request<Incoming>) -> Result<Answer, HungUp> {
        let seen_at = self.ledger.now();
        let (head, body) = request.into_parts();
        let Some(kind) = kind_of(&head) else {
            return Ok(self.serve_visitor(&head));
        };
        // Drawn before the arrival is announced: whoever waits for the arrival and then changes
        // the faults does not change this one's fate.
        let fate = self.faults.draw();
        let Arrival {
            number,
            within_limit,
        } = self
            .ledger
            .arrive(seen_at, kind, key_of(&head), self.limit_per_second);

        let body = read_body(body).await?;
        let asked = self.understand(kind, &head, body.as_deref());
        let body_sha256 = body.as_deref().map(sha256_hex);
        self.ledger.amend(number, |entry| {
            entry.body_sha256 = body_sha256;
            describe(entry, asked.as_ref().ok());
        });
        if !within_limit {
            self.ledger.amend(number, |entry| entry.answered = true);
            return Ok(over_limit());
        }
        if fate.reset_before {
            return Err(HungUp);
        }
        // No await between the last byte and the effect: a client that leaves cannot undo it.
        let answer = match asked {
            Ok(Asked::Pay(order)) => self.pay(number, &order),
            Ok(Asked::Probe { payment_id }) => self.tell(number, &payment_id),
            Err(complaint) => self.refuse(number, &complaint),
        };
        // The timer rounds up to a millisecond, so a bank without latency must not sleep at all.
        if !fate.latency.is_zero() {
            sleep(fate.latency).await;
        }
        if fate.lose_answer {
            return Err(HungUp);
        }
        self.ledger.amend(number, |entry| entry.answered = true);
        Ok(answer)
    }

    /// Requests that are not payment traffic: never limited, never recorded, never harmed.
    fn serve_visitor(&self, head: &Parts) -> Answer {
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/ledger") => answer(StatusCode::OK, &json!(self.ledger.summary())),
            (_, path) if is_payments(path) => error(
                StatusCode::METHOD_NOT_ALLOWED,
                "method",
                "send with POST, probe with GET",
            ),
            _ => error(StatusCode::NOT_FOUND, "path", "no such place at this bank"),
        }
    }

    fn understand(
        &self,
        kind: Kind,
        head: &Parts,
        body: Option<&[u8]>,
    ) -> Result<Asked, Complaint> {
        let path = head.uri.path();
        match kind {
            Kind::Send if path != PAYMENTS => Err(complaint(
                StatusCode::NOT_FOUND,
                "path",
                "send to /payments",
            )),
            Kind::Send if self.honours_keys && key_of(head).is_none() => Err(complaint(
                StatusCode::BAD_REQUEST,
                "Idempotency-Key",
                "is missing",
            )),
            Kind::Send => {
                let too_large = || complaint(StatusCode::PAYLOAD_TOO_LARGE, "body", "is too large");
                let order = Order::parse(body.ok_or_else(too_large)?);
                order.map(Asked::Pay).map_err(|malformed| Complaint {
                    status: StatusCode::BAD_REQUEST,
                    field: malformed.field,
                    reason: malformed.to_string(),
                })
            }
            Kind::Probe => {
                let payment_id = path.strip_prefix("/payments/").filter(|id| !id.is_empty());
                let payment_id = payment_id.and_then(percent_decode);
                payment_id
                    .map(|payment_id| Asked::Probe { payment_id })
                    .ok_or_else(|| {
                        complaint(
                            StatusCode::NOT_FOUND,
                            "path",
                            "ask for /payments/{paymentId}",
                        )
                    })
            }
        }
    }

    fn pay(&self, number: usize, order: &Order) -> Answer {
        match self.ledger.pay(number, order, self.honours_keys) {
            Verdict::Accepted { answer } => json_response(StatusCode::OK, answer),
            Verdict::KeyHasAnotherBody => error(
                StatusCode::UNPROCESSABLE_ENTITY,
                "Idempotency-Key",
                "was used with another body",
            ),
        }
    }

    fn tell(&self, number: usize, payment_id: &str) -> Answer {
        if self.ledger.probe(number, payment_id) {
            answer(
                StatusCode::OK,
                &json!({"paymentId": payment_id, "status": "accepted"}),
            )
        } else {
            error(StatusCode::NOT_FOUND, "paymentId", "never took effect here")
        }
    }

    fn refuse(&self, number: usize, complaint: &Complaint) -> Answer {
        self.ledger
            .amend(number, |entry| entry.effect = Effect::RefusedOther);
        error(complaint.status, complaint.field, &complaint.reason)
    }
}

fn kind_of(head: &Parts) -> Option<Kind> {
    match head.method {
        Method::POST if is_payments(head.uri.path()) => Some(Kind::Send),
        Method::GET if is_payments(head.uri.path()) => Some(Kind::Probe),
        _ => None,
    }
}

fn is_payments(path: &str) -> bool {
    path == PAYMENTS || path.starts_with("/payments/")
}

fn key_of(head: &Parts) -> Option<String> {
    let key = head.headers.get("idempotency-key")?;
    Some(String::from_utf8_lossy(key.as_bytes()).into_owned())
}

/// None if it is larger than a payment can be; hung up if its end never came.
async fn read_body(body: Incoming) -> Result<Option<Bytes>, HungUp> {
    let whole = Limited::new(body, MAX_BODY_BYTES).collect();
    match timeout(BODY_DEADLINE, whole).await {
        Ok(Ok(whole)) => Ok(Some(whole.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Ok(None),
        Ok(Err(_)) | Err(_) => Err(HungUp),
    }
}

fn describe(entry: &mut Entry, asked: Option<&Asked>) {
    match asked {
        Some(Asked::Pay(order)) => {
            entry.payment_id = Some(order.payment_id.clone());
            entry.amount = Some(order.amount_text.clone());
            entry.currency = Some(order.currency.clone());
        }
        Some(Asked::Probe { payment_id }) => entry.payment_id = Some(payment_id.clone()),
        None => {}
    }
}

fn sha256_hex(bytes: &[u8]) -> String {
    format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(bytes)))
}

/// None for a broken escape, or for bytes that are not UTF-8.
fn percent_decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn complaint(status: StatusCode, field: &'static str, reason: &str) -> Complaint {
    Complaint {
        status,
        field,
        reason: reason.to_owned(),
    }
}

fn over_limit() -> Answer {
    let mut answer = error(
        StatusCode::TOO_MANY_REQUESTS,
        "limit",
        "too many in this second",
    );
    let headers = answer.headers_mut();
    headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

fn error(status: StatusCode, field: &str, reason: &str) -> Answer {
    answer(
        status,
        &json!({"error": {"field": field, "reason": reason}}),
    )
}

fn answer(status: StatusCode, body: &Value) -> Answer {
    json_response(status, body.to_string())
}

fn json_response(status: StatusCode, json: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(json)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response
}
