//! A payment as its caller writes it, parsed into types that cannot be wrong. All errors at once,
//! each under its field. Nothing here depends on the time of day, so that a repeat of a good
//! request is never refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::money::{Currency, Money};

/// What is wrong, by field.
pub type Details = BTreeMap<String, String>;

const MAX_ACCOUNT_CHARS: usize = 64;
const MAX_NAME_CHARS: usize = 140;
const MAX_METADATA_BYTES: usize = 4096;
/// Ids that are words of the API.
const RESERVED_IDS: [&str; 2] = ["bulk", "check-status"];
const FIELDS: [&str; 11] = [
    "paymentId",
    "amount",
    "currency",
    "debtor",
    "creditor",
    "executeAt",
    "deadline",
    "onMissedDeadline",
    "gateway",
    "reference",
    "metadata",
];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentRequest {
    pub payment_id: ItemId,
    pub money: Money,
    pub debtor: Party,
    pub creditor: Party,
    pub execute_at: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    /// Rather wait for a person than run after the deadline.
    #[serde(default)]
    pub hold_if_late: bool,
    pub gateway: Option<String>,
    pub reference: Option<String>,
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    pub account: String,
    pub name: String,
}

impl PaymentRequest {
    pub fn parse(body: &Value) -> Result<Self, Details> {
        let Some(fields) = body.as_object() else {
            let what = "must be a JSON object with a payment's fields".to_owned();
            return Err(Details::from([("body".to_owned(), what)]));
        };
        let mut reader = Reader {
            fields,
            wrong: Details::new(),
        };
        reader.no_others();
        let payment_id = reader.id();
        let money = reader.money();
        let debtor = reader.party("debtor");
        let creditor = reader.party("creditor");
        let execute_at = reader.time("executeAt");
        let deadline = reader.time("deadline");
        let hold_if_late = reader.hold_if_late();
        let gateway = reader.optional_text("gateway", MAX_ACCOUNT_CHARS);
        let reference = reader.optional_text("reference", MAX_NAME_CHARS);
        let metadata = reader.metadata();
        match (payment_id, money, debtor, creditor) {
            (Some(payment_id), Some(money), Some(debtor), Some(creditor))
                if reader.wrong.is_empty() =>
            {
                Ok(Self {
                    payment_id,
                    money,
                    debtor,
                    creditor,
                    execute_at,
                    deadline,
                    hold_if_late,
                    gateway,
                    reference,
                    metadata,
                })
            }
            _ => Err(reader.wrong),
        }
    }
}

/// Reads one field after another and notes what is wrong.
struct Reader<'a> {
    fields: &'a Map<String, Value>,
    wrong: Details,
}

impl Reader<'_> {
    fn blame<T>(&mut self, field: &str, what: impl Into<String>) -> Option<T> {
        self.wrong.insert(field.to_owned(), what.into());
        None
    }

    fn no_others(&mut self) {
        let others = self
            .fields
            .keys()
            .filter(|key| !FIELDS.contains(&key.as_str()));
        for field in others.take(20).cloned().collect::<Vec<_>>() {
            self.blame::<()>(&field, "is not a field of a payment");
        }
    }

    /// A field that is given and not null.
    fn given(&self, field: &str) -> Option<&Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    fn id(&mut self) -> Option<ItemId> {
        let text = self.text("paymentId")?;
        if let Err(why) = check_item_id(&text) {
            return self.blame("paymentId", why);
        }
        if RESERVED_IDS.contains(&text.as_str()) {
            return self.blame("paymentId", "is a reserved word; choose another id");
        }
        Some(ItemId::new(text))
    }

    fn text(&mut self, field: &str) -> Option<String> {
        match self.given(field) {
            None => self.blame(field, "is required"),
            Some(Value::String(text)) => Some(text.clone()),
            Some(_) => self.blame(field, "must be a string"),
        }
    }

    fn optional_text(&mut self, field: &str, most: usize) -> Option<String> {
        self.given(field)?;
        let text = self.text(field)?;
        match check_text(&text, most) {
            Ok(()) => Some(text),
            Err(why) => self.blame(field, why),
        }
    }

    fn money(&mut self) -> Option<Money> {
        let amount = self.text("amount");
        let code = self.text("currency")?;
        let Some(currency) = Currency::from_code(&code) else {
            if let Some(why) = amount.and_then(|amount| wrong_in_any_currency(&amount)) {
                self.blame::<()>("amount", why);
            }
            return self.blame("currency", "must be an ISO 4217 code such as \"USD\"");
        };
        match Money::parse(&amount?, currency) {
            Ok(money) => Some(money),
            Err(why) => self.blame("amount", why),
        }
    }

    fn party(&mut self, field: &str) -> Option<Party> {
        let fields = match self.given(field) {
            None => return self.blame(field, "is required"),
            Some(Value::Object(fields)) => fields.clone(),
            Some(_) => return self.blame(field, "must be an object with account and name"),
        };
        for other in fields
            .keys()
            .filter(|key| !["account", "name"].contains(&key.as_str()))
            .take(5)
        {
            self.blame::<()>(&format!("{field}.{other}"), "is not a field of a party");
        }
        let account = self.party_text(field, &fields, "account", MAX_ACCOUNT_CHARS);
        let name = self.party_text(field, &fields, "name", MAX_NAME_CHARS);
        Some(Party {
            account: account?,
            name: name?,
        })
    }

    fn party_text(
        &mut self,
        party: &str,
        fields: &Map<String, Value>,
        field: &str,
        most: usize,
    ) -> Option<String> {
        let path = format!("{party}.{field}");
        match fields.get(field) {
            None | Some(Value::Null) => self.blame(&path, "is required"),
            Some(Value::String(text)) => match check_text(text, most) {
                Ok(()) => Some(text.clone()),
                Err(why) => self.blame(&path, why),
            },
            Some(_) => self.blame(&path, "must be a string"),
        }
    }

    fn time(&mut self, field: &str) -> Option<Timestamp> {
        self.given(field)?;
        let text = self.text(field)?;
        match parse_time(&text) {
            Some(time) => Some(time),
            None => self.blame(
                field,
                "must be a time such as \"2026-11-16T16:00:00-07:00\" or \"2026-11-16T16:00:00[America/Phoenix]\"",
            ),
        }
    }

    fn hold_if_late(&mut self) -> bool {
        let given = self.given("onMissedDeadline").map(Value::as_str);
        match given {
            None | Some(Some("run")) => false,
            Some(Some("hold")) if self.given("deadline").is_some() => true,
            Some(Some("hold")) => {
                self.blame::<()>("onMissedDeadline", "\"hold\" needs a deadline");
                false
            }
            Some(_) => {
                self.blame::<()>("onMissedDeadline", "must be \"run\" or \"hold\"");
                false
            }
        }
    }

    fn metadata(&mut self) -> Option<Map<String, Value>> {
        match self.given("metadata")? {
            Value::Object(map) => {
                let map = map.clone();
                if serde_json::to_vec(&map).map_or(0, |bytes| bytes.len()) > MAX_METADATA_BYTES {
                    return self.blame("metadata", "must have at most 4096 bytes as JSON");
                }
                Some(map)
            }
            _ => self.blame("metadata", "must be a JSON object"),
        }
    }
}

/// What is wrong with an amount whatever its currency: none has more digits than this one.
fn wrong_in_any_currency(amount: &str) -> Option<String> {
    let most_digits = Currency::from_code("CLF")?;
    let is_wrong = Money::parse(amount, most_digits).is_err();
    is_wrong.then(|| "must be an amount such as \"125.50\"".to_owned())
}

/// An offset, or a zone in brackets. A local time that does not exist is taken right after the
/// gap; one that exists twice, at the first.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if text.contains('[') {
        return text
            .parse::<jiff::Zoned>()
            .ok()
            .map(|zoned| zoned.timestamp());
    }
    text.parse().ok()
}

fn check_text(text: &str, most: usize) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("must not be empty".to_owned());
    }
    if text.chars().count() > most {
        return Err(format!("must have at most {most} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn good() -> Value {
        json!({
            "paymentId": "pay_001", "amount": "125.50", "currency": "USD",
            "debtor": {"account": "A-1", "name": "Ann"},
            "creditor": {"account": "B-2", "name": "Bob"},
        })
    }

    #[test]
    fn a_payment_with_every_field_wrong_is_told_so_about_every_field() {
        let body = json!({
            "paymentId": "-x", "amount": 125.5, "currency": "QQQ",
            "debtor": {"account": "", "name": 7}, "creditor": "Bob",
            "executeAt": "tomorrow", "deadline": 5, "onMissedDeadline": "explode",
            "gateway": "x".repeat(65), "reference": "a\u{7}b", "metadata": [], "colour": "red",
        });
        let wrong = PaymentRequest::parse(&body).unwrap_err();
        let fields: Vec<_> = wrong.keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            [
                "amount",
                "colour",
                "creditor",
                "currency",
                "deadline",
                "debtor.account",
                "debtor.name",
                "executeAt",
                "gateway",
                "metadata",
                "onMissedDeadline",
                "paymentId",
                "reference",
            ]
        );
    }

    #[test]
    fn an_empty_object_lacks_what_is_required_and_nothing_else() {
        let wrong = PaymentRequest::parse(&json!({})).unwrap_err();
        let fields: Vec<_> = wrong.keys().map(String::as_str).collect();
        assert_eq!(
            fields,
            ["amount", "creditor", "currency", "debtor", "paymentId"]
        );
        assert!(
            PaymentRequest::parse(&json!([1]))
                .unwrap_err()
                .contains_key("body")
        );
    }

    #[test]
    fn an_amount_that_is_wrong_in_any_currency_is_told_beside_a_wrong_currency() {
        for (amount, is_wrong) in [
            ("abc", true),
            ("-1", true),
            ("1.23456", true),
            ("1.5", false),
        ] {
            let mut body = good();
            body["amount"] = json!(amount);
            body["currency"] = json!("QQQ");
            let wrong = PaymentRequest::parse(&body).unwrap_err();
            assert!(wrong.contains_key("currency"), "{wrong:?}");
            assert_eq!(
                wrong.contains_key("amount"),
                is_wrong,
                "{amount}: {wrong:?}"
            );
        }
    }

    #[test]
    fn holding_needs_a_deadline_and_null_is_none() {
        for deadline in [None, Some(Value::Null)] {
            let mut body = good();
            body["onMissedDeadline"] = json!("hold");
            if let Some(deadline) = deadline {
                body["deadline"] = deadline;
            }
            let wrong = PaymentRequest::parse(&body).unwrap_err();
            assert!(wrong["onMissedDeadline"].contains("needs a deadline"));
        }
    }

    #[test]
    fn words_of_the_api_are_no_ids() {
        for id in ["bulk", "check-status"] {
            let mut body = good();
            body["paymentId"] = json!(id);
            assert!(PaymentRequest::parse(&body).unwrap_err()["paymentId"].contains("reserved"));
        }
    }

    #[test]
    fn times_may_carry_an_offset_or_a_zone() {
        let time = |text: &str| parse_time(text).map(|t| t.to_string());
        let expected = Some("2026-11-16T23:00:00Z".to_owned());
        assert_eq!(time("2026-11-16T16:00:00-07:00"), expected);
        assert_eq!(time("2026-11-16T16:00:00[America/Phoenix]"), expected);
        // The hour that New York skips, and the one it has twice.
        assert_eq!(
            time("2026-03-08T02:30:00[America/New_York]").unwrap(),
            "2026-03-08T07:30:00Z"
        );
        assert_eq!(
            time("2026-11-01T01:30:00[America/New_York]").unwrap(),
            "2026-11-01T05:30:00Z"
        );
        assert_eq!(
            time("2026-11-16T16:00:00"),
            None,
            "a time without a zone means nothing"
        );
        assert_eq!(time("2026-11-16T16:00:00[Mars/Base]"), None);
    }
}
