//! The languages this bank can speak besides the contract: Stripe's transfers and PayPal's payouts, each with its login.
//! Only requests and answers are translated; faults, keys, limits and the ledger are the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode, request::Parts};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    answers::Said,
    entry::Kind,
    order::{Order, parse_amount},
    request::{ClientRequest, Complaint, percent_decode},
};

/// What a bank speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// docs/bank.md, without a login.
    #[default]
    Contract,
    /// Stripe transfers: a form, and a bearer token that begins with `sk_`.
    Stripe,
    /// PayPal payouts: a batch of one, and OAuth 2.0. A bank that honours no keys refuses known batches.
    Paypal,
}

const TRANSFERS: &str = "/v1/transfers";
const PAYOUTS: &str = "/v1/payments/payouts";
const TOKENS: &str = "/v1/oauth2/token";

/// The tokens that are valid, by their text.
#[derive(Debug)]
pub(crate) struct Tokens {
    lives: Duration,
    valid: Mutex<HashMap<String, Instant>>,
    issued: AtomicU64,
    away: AtomicBool,
}

impl Tokens {
    pub(crate) fn living(lives: Duration) -> Self {
        Self {
            lives,
            valid: Mutex::default(),
            issued: AtomicU64::default(),
            away: AtomicBool::default(),
        }
    }

    pub(crate) fn revoke(&self) {
        self.lock().clear();
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub(crate) fn issued(&self) -> u64 {
        self.issued.load(Ordering::SeqCst)
    }

    /// None if the endpoint is away.
    pub(crate) fn issue(&self, head: &Parts) -> Option<Said> {
        if self.away.load(Ordering::SeqCst) {
            return None;
        }
        let is_known = authorization(head).is_some_and(|it| it.starts_with("Basic "));
        if !is_known {
            let body = json!({"error": "invalid_client", "error_description": "Client Authentication failed"});
            return Some(Said::json(StatusCode::UNAUTHORIZED, body.to_string()));
        }
        let number = self.issued.fetch_add(1, Ordering::SeqCst);
        let token = format!("A21AA-{number}");
        self.lock()
            .insert(token.clone(), Instant::now() + self.lives);
        let body = json!({"access_token": token, "token_type": "Bearer", "expires_in": self.lives.as_secs()});
        Some(Said::json(StatusCode::OK, body.to_string()))
    }

    fn knows(&self, token: &str) -> bool {
        let ends = self.lock().get(token).copied();
        ends.is_some_and(|ends| Instant::now() < ends)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.valid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn authorization(head: &Parts) -> Option<&str> {
    head.headers.get("authorization")?.to_str().ok()
}

impl Dialect {
    pub(crate) fn is_token_endpoint(self, head: &Parts) -> bool {
        self == Self::Paypal && head.method == Method::POST && head.uri.path() == TOKENS
    }

    /// None for what moves no money and asks for none.
    pub(crate) fn kind_of(self, head: &Parts) -> Option<Kind> {
        let path = head.uri.path();
        match (self, &head.method) {
            (Self::Contract, _) => crate::request::kind_of(head),
            (Self::Stripe, &Method::POST) if path == TRANSFERS => Some(Kind::Send),
            (Self::Stripe, &Method::GET) if path == TRANSFERS => Some(Kind::Probe),
            (Self::Paypal, &Method::POST) if path == PAYOUTS => Some(Kind::Send),
            _ => None,
        }
    }

    pub(crate) fn key_of(self, head: &Parts) -> Option<String> {
        let name = match self {
            Self::Contract | Self::Stripe => "idempotency-key",
            Self::Paypal => "paypal-request-id",
        };
        let key = head.headers.get(name)?;
        Some(String::from_utf8_lossy(key.as_bytes()).into_owned())
    }

    /// Why a caller is not let in.
    pub(crate) fn turns_away(self, head: &Parts, tokens: &Tokens) -> Option<Said> {
        let bearer = authorization(head).and_then(|it| it.strip_prefix("Bearer "));
        let (is_known, body) = match self {
            Self::Contract => return None,
            Self::Stripe => (
                bearer.is_some_and(|token| token.starts_with("sk_")),
                json!({"error": {"type": "invalid_request_error", "message": "Invalid API Key provided"}}),
            ),
            Self::Paypal => (
                bearer.is_some_and(|token| tokens.knows(token)),
                json!({"error": "invalid_token", "error_description": "Token signature verification failed"}),
            ),
        };
        (!is_known).then(|| Said::json(StatusCode::UNAUTHORIZED, body.to_string()))
    }

    /// What is asked, and the name of its batch if it has one.
    pub(crate) fn understand(
        self,
        kind: Kind,
        head: &Parts,
        body: Option<&[u8]>,
        key_needed: bool,
    ) -> Result<(ClientRequest, Option<String>), Complaint> {
        let asked = match (self, kind) {
            (Self::Contract, _) => {
                return ClientRequest::understand(kind, head, body, key_needed)
                    .map(|asked| (asked, None));
            }
            (Self::Stripe, Kind::Probe) => head
                .uri
                .query()
                .and_then(|query| field(query, "transfer_group"))
                .map(|payment_id| (ClientRequest::Probe { payment_id }, None)),
            (Self::Stripe, _) => body
                .and_then(transfer)
                .map(|order| (ClientRequest::Pay(order), None)),
            (Self::Paypal, _) => body.and_then(payout),
        };
        asked.ok_or_else(|| Complaint {
            status: StatusCode::BAD_REQUEST,
            field: "body",
            reason: "a field is missing or cannot be read".to_owned(),
        })
    }

    /// What the contract would say, in this language.
    pub(crate) fn say(self, said: Said, kind: Kind, asked_id: &str, key: Option<&str>) -> Said {
        let fields: Value = serde_json::from_str(&said.json).unwrap_or_default();
        let (status, json) = match self {
            Self::Contract => return said,
            Self::Stripe => stripe(said.status, kind, &fields),
            Self::Paypal => paypal(said.status, asked_id, key, &fields),
        };
        Said {
            status,
            json: json.to_string(),
            ..said
        }
    }
}

fn stripe(status: StatusCode, kind: Kind, said: &Value) -> (StatusCode, Value) {
    let transfer = || {
        let minor = said["amount"]
            .as_str()
            .and_then(|it| it.parse::<Decimal>().ok());
        let minor = minor.map(|it| (it * Decimal::ONE_HUNDRED).trunc());
        let minor = minor.and_then(|it| it.to_string().parse::<i64>().ok());
        let currency = said["currency"].as_str().unwrap_or("eur").to_lowercase();
        json!({"id": said["bankReference"].as_str().unwrap_or("tr_0"), "object": "transfer", "amount": minor,
               "currency": currency, "transfer_group": said["paymentId"]})
    };
    match (status.as_u16(), kind) {
        (404, Kind::Probe) => (StatusCode::OK, json!({"object": "list", "data": []})),
        (200..=299, Kind::Probe) => (status, json!({"object": "list", "data": [transfer()]})),
        (200..=299, _) => (status, transfer()),
        // The key was used with another body.
        (422, _) => (
            StatusCode::BAD_REQUEST,
            stripe_error("idempotency_error", said),
        ),
        (409, _) => (status, stripe_error("idempotency_error", said)),
        _ => (status, stripe_error("invalid_request_error", said)),
    }
}

fn stripe_error(kind: &str, said: &Value) -> Value {
    json!({"error": {"type": kind, "message": said["error"]["reason"]}})
}

fn paypal(
    status: StatusCode,
    asked_id: &str,
    key: Option<&str>,
    said: &Value,
) -> (StatusCode, Value) {
    match status.as_u16() {
        200..=299 => {
            let is_ours = said["paymentId"].as_str() == Some(asked_id);
            let batch = if is_ours {
                json!(key)
            } else {
                said["paymentId"].clone()
            };
            let header = json!({"payout_batch_id": said["bankReference"], "batch_status": "PENDING",
                                "sender_batch_header": {"sender_batch_id": batch}});
            (StatusCode::CREATED, json!({"batch_header": header}))
        }
        _ if said["error"]["field"] == DUPLICATE => {
            let detail = json!({"field": "SENDER_BATCH_ID", "issue": "Batch with given sender_batch_id already exists"});
            let body = json!({"name": "USER_BUSINESS_ERROR", "message": "User business error.",
                              "debug_id": "1", "details": [detail]});
            (StatusCode::BAD_REQUEST, body)
        }
        _ => {
            let body = json!({"name": "VALIDATION_ERROR", "message": said["error"]["reason"], "debug_id": "1"});
            (status, body)
        }
    }
}

/// The field that the contract's refusal of a known batch names.
pub(crate) const DUPLICATE: &str = "sender_batch_id";

/// One field of a form, decoded.
fn field(form: &str, name: &str) -> Option<String> {
    form.split('&').find_map(|pair| {
        let (field, value) = pair.split_once('=')?;
        let is_it = percent_decode(field)? == name;
        is_it
            .then(|| percent_decode(&value.replace('+', " ")))
            .flatten()
    })
}

fn transfer(body: &[u8]) -> Option<Order> {
    let form = str::from_utf8(body).ok()?;
    let minor: i64 = field(form, "amount")?.parse().ok()?;
    field(form, "destination")?;
    let amount = Decimal::new(minor, 2);
    Some(Order {
        payment_id: field(form, "transfer_group")?,
        amount,
        amount_text: amount.to_string(),
        currency: field(form, "currency")?.to_uppercase(),
    })
}

fn payout(body: &[u8]) -> Option<(ClientRequest, Option<String>)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let [item] = body["items"].as_array()?.as_slice() else {
        return None;
    };
    text(&item["receiver"])?;
    let amount_text = text(&item["amount"]["value"])?;
    let order = Order {
        payment_id: text(&item["sender_item_id"])?,
        amount: parse_amount(&amount_text).ok()?,
        amount_text,
        currency: text(&item["amount"]["currency"])?,
    };
    let batch = text(&body["sender_batch_header"]["sender_batch_id"])?;
    Some((ClientRequest::Pay(order), Some(batch)))
}
