//! What a description's expressions know: the fields of what is sent, and of what was answered.

use std::collections::HashMap;
use std::fmt;

use http::HeaderMap;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::Request;
use tollgate_expression::{Facts, Value, Vocabulary, map, plain};

use crate::judge::Answer;

const PARTY: &[&str] = &["account", "name"];

/// What a description is about: which fields a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    Payments,
    Invoices,
}

/// So many of the words below are about the answer. The others are about the request.
pub(super) const OF_ANSWER: usize = 4;
const PAYMENT_WORDS: &[&str] = &[
    "status",
    "headers",
    "body",
    "text",
    "paymentId",
    "amount",
    "amountMinor",
    "currency",
    "debtor",
    "creditor",
    "gateway",
    "reference",
    "key",
];
const PARTIES: &[(&str, &[&str])] = &[("debtor", PARTY), ("creditor", PARTY)];
const INVOICE_WORDS: &[&str] = &[
    "status",
    "headers",
    "body",
    "text",
    "invoiceId",
    "customerId",
    "amount",
    "amountMinor",
    "currency",
    "key",
];

static PAYMENT: Vocabulary = Vocabulary {
    variables: PAYMENT_WORDS.split_at(OF_ANSWER).1,
    objects: PARTIES,
};
static PAYMENT_ANSWER: Vocabulary = Vocabulary {
    variables: PAYMENT_WORDS,
    objects: PARTIES,
};
static INVOICE: Vocabulary = Vocabulary {
    variables: INVOICE_WORDS.split_at(OF_ANSWER).1,
    objects: &[],
};
static INVOICE_ANSWER: Vocabulary = Vocabulary {
    variables: INVOICE_WORDS,
    objects: &[],
};

impl Subject {
    pub(crate) fn request_words(self) -> &'static Vocabulary {
        match self {
            Self::Payments => &PAYMENT,
            Self::Invoices => &INVOICE,
        }
    }

    pub(crate) fn answer_words(self) -> &'static Vocabulary {
        match self {
            Self::Payments => &PAYMENT_ANSWER,
            Self::Invoices => &INVOICE_ANSWER,
        }
    }

    /// One with everything in it.
    pub fn sample(self) -> Request {
        let (reference, key, body) = match self {
            Self::Payments => (
                "pay_001",
                "payment-pay_001",
                r#"{"paymentId":"pay_001","amount":"125.50","currency":"EUR",
                    "debtor":{"account":"DE-1","name":"Ann"},"creditor":{"account":"US-2","name":"Bob"},
                    "gateway":"default","reference":"invoice 7"}"#,
            ),
            Self::Invoices => (
                "inv_1",
                "invoice-inv_1-1",
                r#"{"invoiceId":"inv_1","customerId":"c_1","amount":"100.00","currency":"EUR"}"#,
            ),
        };
        Request {
            reference: reference.to_owned(),
            idempotency_key: key.to_owned(),
            body_json: body.to_owned(),
            sent_by: None,
        }
    }

    /// What is known before anything is sent. A field that the request does not have is null.
    pub(crate) fn facts(self, request: &Request) -> Facts {
        let fields: Json = serde_json::from_str(&request.body_json).unwrap_or_default();
        let text = |name: &str| fields.get(name).and_then(Json::as_str);
        let currency = text("currency").and_then(Currency::from_code);
        let minor = text("amount").zip(currency);
        let minor = minor.and_then(|(amount, currency)| Money::parse(amount, currency).ok());
        let minor = minor.map_or(Value::Null, |money| Value::Int(money.minor));
        let known = self.request_words().variables.iter().map(|name| {
            let value = match *name {
                "key" => request.idempotency_key.as_str().into(),
                "paymentId" | "invoiceId" => request.reference.as_str().into(),
                "amountMinor" => minor.clone(),
                field => fields.get(field).map_or(Value::Null, plain),
            };
            (*name, value)
        });
        Facts::new(known.collect(), currency)
    }

    /// The same, and what was answered.
    pub(crate) fn facts_after(self, request: &Request, answer: &Answer) -> Facts {
        let mut facts = self.facts(request);
        facts.learn("status", Value::Int(i64::from(answer.status)));
        facts.learn("headers", headers(&answer.headers));
        let body = serde_json::from_slice(&answer.body).map_or(Value::Null, |Body(body)| body);
        facts.learn("body", body);
        let text = String::from_utf8_lossy(&answer.body);
        facts.learn("text", text.as_ref().into());
        facts
    }
}

/// Names in lower case; of a header that came twice, the first.
fn headers(headers: &HeaderMap) -> Value {
    map(headers.keys().filter_map(|name| {
        let value = headers.get(name)?;
        let value = String::from_utf8_lossy(value.as_bytes());
        Some((name.as_str().to_owned(), value.as_ref().into()))
    }))
}

/// JSON as an expression sees it. An object that names a field twice is not JSON here: nobody can tell which counts.
struct Body(Value);

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without a field that is named twice")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(Value::Bool(it))
    }
    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(Value::Int(it))
    }
    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(i64::try_from(it).map_or(Value::UInt(it), Value::Int))
    }
    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(Value::Float(it))
    }
    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut all = vec![];
        while let Some(Body(value)) = seq.next_element()? {
            all.push(value);
        }
        Ok(all.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut all = HashMap::new();
        while let Some((name, Body(value))) = fields.next_entry::<String, Body>()? {
            if all.insert(name, value).is_some() {
                return Err(de::Error::custom("a field is named twice"));
            }
        }
        Ok(map(all))
    }
}
