//! The bank's reading of a request: what is asked, or why it will not even try. It does nothing.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::{
    charge::{self, Charge},
    contract::HungUp,
    entry::Kind,
    order::Order,
};

const PAYMENTS: &str = "/payments";
const CHARGE: &str = "/charge";
const WEBHOOKS: &str = "/webhooks";
const MAX_BODY_BYTES: usize = 64 * 1024;
const BODY_DEADLINE: Duration = Duration::from_secs(30);

/// What the client wants of us.
#[derive(Debug)]
pub(crate) enum ClientRequest {
    Pay(Order),
    Charge(Charge),
    Probe {
        payment_id: String,
    },
    /// Whether the charge under this key was made.
    AskCharge {
        key: String,
    },
}

/// The field that names what is asked about, in a refusal.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) field: &'static str,
    pub(crate) id: String,
}

/// Why we will not even try.
#[derive(Debug)]
pub(crate) struct Complaint {
    pub(crate) status: StatusCode,
    pub(crate) field: &'static str,
    pub(crate) reason: String,
}

impl ClientRequest {
    /// What faults call it: the id of the payment or invoice; of a question about a charge, its key.
    pub(crate) fn payment_id(&self) -> &str {
        match self {
            Self::Pay(order) => &order.payment_id,
            Self::Charge(charge) => &charge.invoice_id,
            Self::Probe { payment_id } => payment_id,
            Self::AskCharge { key } => key,
        }
    }

    pub(crate) fn name(&self) -> Name {
        let field = match self {
            Self::Pay(_) | Self::Probe { .. } => "paymentId",
            Self::Charge(_) => "invoiceId",
            Self::AskCharge { .. } => "key",
        };
        let id = self.payment_id().to_owned();
        Name { field, id }
    }

    /// What the ledger calls it.
    pub(crate) fn ledger_name(&self) -> String {
        match self {
            Self::Charge(charge) => charge::named(&charge.invoice_id),
            other => other.payment_id().to_owned(),
        }
    }

    pub(crate) fn understand(
        kind: Kind,
        head: &Parts,
        body: Option<&[u8]>,
        key_needed: bool,
    ) -> Result<Self, Complaint> {
        let path = head.uri.path();
        match kind {
            Kind::Send if path != PAYMENTS && path != CHARGE => Err(complaint(
                StatusCode::NOT_FOUND,
                "path",
                "send to /payments or /charge",
            )),
            Kind::Send if key_needed && key_of(head).is_none() => Err(complaint(
                StatusCode::BAD_REQUEST,
                "Idempotency-Key",
                "is missing",
            )),
            Kind::Send => {
                let too_large = || complaint(StatusCode::PAYLOAD_TOO_LARGE, "body", "is too large");
                let body = body.ok_or_else(too_large)?;
                let asked = if path == CHARGE {
                    Charge::parse(body).map(ClientRequest::Charge)
                } else {
                    Order::parse(body).map(ClientRequest::Pay)
                };
                asked.map_err(|malformed| Complaint {
                    status: StatusCode::BAD_REQUEST,
                    field: malformed.field,
                    reason: malformed.to_string(),
                })
            }
            Kind::Probe if is_charge(path) => {
                let key = path.strip_prefix("/charge/").filter(|key| !key.is_empty());
                let key = key.and_then(percent_decode);
                let nameless = || complaint(StatusCode::NOT_FOUND, "path", "ask for /charge/{key}");
                let key = key.ok_or_else(nameless)?;
                Ok(ClientRequest::AskCharge { key })
            }
            Kind::Probe | Kind::Webhook | Kind::Lookup | Kind::Notify | Kind::Check => {
                let payment_id = path.strip_prefix("/payments/").filter(|id| !id.is_empty());
                let payment_id = payment_id.and_then(percent_decode);
                let nameless = || {
                    complaint(
                        StatusCode::NOT_FOUND,
                        "path",
                        "ask for /payments/{paymentId}",
                    )
                };
                let payment_id = payment_id.ok_or_else(nameless)?;
                Ok(ClientRequest::Probe { payment_id })
            }
        }
    }
}

/// None for what moves no money and asks for none.
pub(crate) fn kind_of(head: &Parts) -> Option<Kind> {
    match head.method {
        Method::POST if is_money(head.uri.path()) => Some(Kind::Send),
        Method::GET if is_money(head.uri.path()) => Some(Kind::Probe),
        Method::POST if head.uri.path() == WEBHOOKS => Some(Kind::Webhook),
        _ => None,
    }
}

pub(crate) fn is_money(path: &str) -> bool {
    path == PAYMENTS || path.starts_with("/payments/") || is_charge(path)
}

fn is_charge(path: &str) -> bool {
    path == CHARGE || path.starts_with("/charge/")
}

pub(crate) fn key_of(head: &Parts) -> Option<String> {
    let key = head.headers.get("idempotency-key")?;
    Some(String::from_utf8_lossy(key.as_bytes()).into_owned())
}

/// None if it is larger than a payment can be; hung up if its end never came.
pub(crate) async fn read_body(body: Incoming) -> Result<Option<Bytes>, HungUp> {
    let whole = Limited::new(body, MAX_BODY_BYTES).collect();
    match timeout(BODY_DEADLINE, whole).await {
        Ok(Ok(whole)) => Ok(Some(whole.to_bytes())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Ok(None),
        Ok(Err(_)) | Err(_) => Err(HungUp),
    }
}

/// None for a broken escape, or for bytes that are not UTF-8.
pub(crate) fn percent_decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

fn complaint(status: StatusCode, field: &'static str, reason: &str) -> Complaint {
    let reason = reason.to_owned();
    Complaint {
        status,
        field,
        reason,
    }
}
