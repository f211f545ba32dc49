//! A payment as its caller writes it, parsed into types that cannot be wrong. All errors at once,
//! each under its field. Nothing here depends on the time of day, so that a repeat of a good
//! request is never refused.

use jiff::Zoned;
use jiff::civil::{DateTime, date};
use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate_core::Timestamp;
use tollgate_core::details::Details;
use tollgate_core::id::ItemId;
use tollgate_core::local_time::instant;
use tollgate_core::money::{Currency, Money};

use crate::fields::Reader;

const MAX_ACCOUNT_CHARS: usize = 64;
const MAX_NAME_CHARS: usize = 140;
const MAX_METADATA_BYTES: usize = 4096;
/// Ids that are words of the API.
const RESERVED_IDS: [&str; 2] = ["bulk", "check-status"];
/// The fields that are parties, and the fields that each of these has.
pub(super) const PARTIES: [&str; 2] = ["debtor", "creditor"];
pub(super) const PARTY_FIELDS: [&str; 2] = ["account", "name"];

/// Written as it is kept: what was not given is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PaymentRequest {
    pub payment_id: ItemId,
    pub money: Money,
    pub debtor: Party,
    pub creditor: Party,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execute_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// As it was written, if it is later than the latest time that a clock can show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_given: Option<String>,
    /// Rather wait for a person than run after the deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold_if_late: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    pub account: String,
    pub name: String,
}

impl PaymentRequest {
    /// The fields of a request, the required ones first. A file's columns are made of them.
    pub const FIELDS: [&str; 11] = [
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

    pub fn parse(body: &Value) -> Result<Self, Details> {
        let mut read = Reader::new(body, &Self::FIELDS)?;
        let payment_id = id(&mut read);
        let money = money(&mut read);
        let debtor = party(&mut read, "debtor");
        let creditor = party(&mut read, "creditor");
        let execute_at = time(&mut read, "executeAt");
        let deadline = time(&mut read, "deadline");
        let deadline_given = deadline.filter(|time| *time == Timestamp::MAX);
        let deadline_given = deadline_given
            .and_then(|_| read.text("deadline"))
            .map(str::to_owned);
        let hold_if_late = hold_if_late(&mut read);
        let gateway = read.optional_text("gateway", MAX_ACCOUNT_CHARS);
        let reference = read.optional_text("reference", MAX_NAME_CHARS);
        let metadata = metadata(&mut read);
        read.end(|| {
            Some(Self {
                payment_id: payment_id?,
                money: money?,
                debtor: debtor?,
                creditor: creditor?,
                execute_at,
                deadline,
                deadline_given,
                hold_if_late,
                gateway,
                reference,
                metadata,
            })
        })
    }
}

fn id(read: &mut Reader<'_>) -> Option<ItemId> {
    const FIELD: &str = "paymentId";
    let id = read.id(FIELD)?;
    if RESERVED_IDS.contains(&id.as_str()) {
        return read.blame(FIELD, "is a reserved word; choose another id");
    }
    Some(id)
}

fn money(read: &mut Reader<'_>) -> Option<Money> {
    let amount = read.text("amount");
    let Some(currency) = read.currency("currency") else {
        let why = amount.and_then(wrong_in_any_currency)?;
        return read.blame("amount", why);
    };
    read.kept("amount", Money::parse(amount?, currency))
}

fn party(read: &mut Reader<'_>, field: &str) -> Option<Party> {
    let shape = "must be an object with account and name";
    read.part(field, &PARTY_FIELDS, shape, |party| {
        let account = party.short_text("account", MAX_ACCOUNT_CHARS);
        let name = party.short_text("name", MAX_NAME_CHARS);
        Some(Party {
            account: account?,
            name: name?,
        })
    })
}

fn time(read: &mut Reader<'_>, field: &str) -> Option<Timestamp> {
    const SHAPE: &str = "must be a time such as \"2026-11-16T16:00:00-07:00\" or \"2026-11-16T16:00:00[America/Phoenix]\"";
    read.given(field)?;
    let text = read.text(field)?;
    read.kept(field, parse_time(text).ok_or(SHAPE))
}

fn hold_if_late(read: &mut Reader<'_>) -> bool {
    const FIELD: &str = "onMissedDeadline";
    let wrong = match read.given(FIELD).map(Value::as_str) {
        None | Some(Some("run")) => return false,
        Some(Some("hold")) if read.given("deadline").is_some() => return true,
        Some(Some("hold")) => "\"hold\" needs a deadline",
        Some(_) => "must be \"run\" or \"hold\"",
    };
    read.blame::<()>(FIELD, wrong);
    false
}

fn metadata(read: &mut Reader<'_>) -> Option<Map<String, Value>> {
    const FIELD: &str = "metadata";
    let Value::Object(map) = read.given(FIELD)? else {
        return read.blame(FIELD, "must be a JSON object");
    };
    if serde_json::to_vec(map).map_or(0, |bytes| bytes.len()) > MAX_METADATA_BYTES {
        let why = format!("must have at most {MAX_METADATA_BYTES} bytes as JSON");
        return read.blame(FIELD, why);
    }
    Some(map.clone())
}

/// What is wrong with an amount whatever its currency: none has more digits than this one.
fn wrong_in_any_currency(amount: &str) -> Option<String> {
    let most_digits = Currency::from_code("CLF")?;
    let is_wrong = Money::parse(amount, most_digits).is_err();
    is_wrong.then(|| "must be an amount such as \"125.50\"".to_owned())
}

/// An offset, or a zone in brackets. A local time that does not exist is the end of its gap, as in
/// schedules and calendars; one that exists twice is the first. What lies behind the last moment that
/// a clock can show is that moment.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    let shown = pieces.date().to_datetime(pieces.time()?);
    let zone = pieces.to_time_zone().ok()?;
    let at = match (pieces.offset(), zone) {
        (None, None) => return None,
        (None, Some(zone)) => instant(shown, &zone),
        (Some(_), None) => text.parse().ok(),
        (Some(_), Some(_)) => text.parse::<Zoned>().ok().map(|zoned| zoned.timestamp()),
    };
    at.or_else(|| (shown > LAST_SHOWN).then_some(Timestamp::MAX))
}

/// From here on, by some offset, no clock can show the time.
const LAST_SHOWN: DateTime = date(9999, 12, 29).at(0, 0, 0, 0);

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
            "2026-03-08T07:00:00Z",
            "right after the gap"
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
        let both = "2026-11-16T16:00:00-07:00[America/Phoenix]";
        assert_eq!(time(both), expected);
        assert_eq!(time("2026-11-16T16:00:00-05:00[America/Phoenix]"), None);
    }

    #[test]
    fn a_deadline_that_no_clock_can_show_is_the_latest_one_and_kept_as_given() {
        for given in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59[Asia/Tokyo]"] {
            let mut body = good();
            body["deadline"] = json!(given);
            let payment = PaymentRequest::parse(&body).unwrap();
            assert_eq!(payment.deadline, Some(Timestamp::MAX));
            assert_eq!(payment.deadline_given.as_deref(), Some(given));
            let kept = serde_json::to_string(&payment).unwrap();
            assert_eq!(
                serde_json::from_str::<PaymentRequest>(&kept).unwrap(),
                payment
            );
        }
        let mut body = good();
        body["deadline"] = json!("2026-11-16T16:00:00Z");
        assert_eq!(PaymentRequest::parse(&body).unwrap().deadline_given, None);
        for never in [
            "9999-12-32T00:00:00Z",
            "9999-13-01T00:00:00Z",
            "99999-12-31T00:00:00Z",
        ] {
            assert_eq!(parse_time(never), None, "{never}");
        }
    }
}
