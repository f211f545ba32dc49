//! What callers write: customers and invoices, parsed into types that cannot be wrong, or with
//! every wrong field named.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_core::details::Details;
use tollgate_core::id::ItemId;
use tollgate_core::money::{Currency, Money};

use super::corrections::SettledBy;
use super::retry_schedule::RetrySchedule;
use super::schedule::ScheduleText;
use crate::digest;
use crate::fields::Reader;

/// Who invoices are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Customer {
    pub customer_id: String,
    pub currency: Currency,
    /// Where its days and months begin, unless a schedule says otherwise.
    pub time_zone: String,
    /// When a declined charge is asked for again; as configured for all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<RetrySchedule>,
}

impl Customer {
    pub fn parse(body: &Value) -> Result<Self, Details> {
        let mut read = Reader::new(body, &["customerId", "currency", "timeZone", "ladder"])?;
        let customer_id = read.id("customerId");
        let currency = read.currency("currency");
        let time_zone = read.text("timeZone").and_then(|text| {
            let known = read_zone(text);
            read.kept("timeZone", known.map(|(name, _)| name))
        });
        let ladder = read.given("ladder").and_then(|given| {
            let ladder = serde_json::from_value::<Vec<String>>(given.clone())
                .map_err(|_| "must be a list of times, such as [\"1d\", \"3d\"]".to_owned())
                .and_then(RetrySchedule::try_from);
            read.kept("ladder", ladder)
        });
        read.end(|| {
            Some(Self {
                customer_id: customer_id?.to_string(),
                currency: currency?,
                time_zone: time_zone?,
                ladder,
            })
        })
    }

    /// A zone that was once accepted and has gone since is read as UTC.
    pub fn zone(&self) -> TimeZone {
        read_zone(&self.time_zone).map_or(TimeZone::UTC, |(_, zone)| zone)
    }
}

/// A zone and how it is written properly. The error fits behind the field's name.
pub(super) fn read_zone(text: &str) -> Result<(String, TimeZone), String> {
    let unknown = || format!("{text:?} is not a time zone; write it like \"Europe/Copenhagen\"");
    let zone = TimeZone::get(text).map_err(|_| unknown())?;
    let name = zone
        .iana_name()
        .map_or_else(|| text.to_owned(), str::to_owned);
    Ok((name, zone))
}

/// An invoice as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceRequest {
    pub invoice_id: ItemId,
    pub customer_id: String,
    pub money: Money,
    pub schedule: Option<ScheduleText>,
}

impl InvoiceRequest {
    pub fn parse(body: &Value) -> Result<Self, Details> {
        let mut read = Reader::new(body, &["invoiceId", "customerId", "amount", "schedule"])?;
        let invoice_id = read.id("invoiceId");
        let customer_id = read.id("customerId");
        let money = money(&mut read);
        let schedule = schedule(&mut read);
        read.end(|| {
            Some(Self {
                invoice_id: invoice_id?,
                customer_id: customer_id?.to_string(),
                money: money?,
                schedule,
            })
        })
    }

    /// Of what was asked for, before anything was filled in: `100.0` equals `100.00`.
    pub fn content_hash(&self) -> String {
        digest::of(&self.document().to_string())
    }

    /// What is kept of it.
    pub(super) fn document(&self) -> Value {
        json!({
            "invoiceId": self.invoice_id,
            "customerId": self.customer_id,
            "amount": {"value": self.money.decimal(), "currency": self.money.currency},
            "schedule": self.schedule,
        })
    }
}

/// What execution reads of a kept invoice; amount and status are the record's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvoiceDocument {
    pub customer_id: String,
    #[serde(default)]
    pub schedule: Option<ScheduleText>,
    /// How often its amount was corrected: part of the idempotency key.
    #[serde(default)]
    pub corrections: u32,
    /// Who noted that it was paid elsewhere.
    #[serde(default)]
    pub settled_by: Option<SettledBy>,
}

/// `{"cron": "0 0 1 * *", "timeZone": "UTC", "calendar": null}`
fn schedule(read: &mut Reader<'_>) -> Option<ScheduleText> {
    const SHAPE: &str = r#"must be written like {"cron": "0 0 1 * *"}"#;
    read.given("schedule")?;
    let fields = ["cron", "timeZone", "calendar"];
    read.part("schedule", &fields, SHAPE, |schedule| {
        let cron = schedule.text("cron");
        let mut perhaps = |field| {
            schedule.given(field)?;
            schedule.text(field).map(str::to_owned)
        };
        let (time_zone, calendar) = (perhaps("timeZone"), perhaps("calendar"));
        Some(ScheduleText {
            cron: cron?.to_owned(),
            time_zone,
            calendar,
        })
    })
}

/// `{"value": "100.00", "currency": "DKK"}`
fn money(read: &mut Reader<'_>) -> Option<Money> {
    const SHAPE: &str = r#"must be written like {"value": "100.00", "currency": "DKK"}"#;
    read.part("amount", &["value", "currency"], SHAPE, |amount| {
        let value = amount.text("value");
        let currency = amount.currency("currency")?;
        amount.kept("value", Money::parse(value?, currency))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invoice(amount: &Value) -> Result<InvoiceRequest, Details> {
        let body = json!({"invoiceId": "inv_1", "customerId": "c_1", "amount": amount});
        InvoiceRequest::parse(&body)
    }

    #[test]
    fn sameness_is_of_content_and_not_of_spelling() {
        let hash = |value: &str| {
            let amount = json!({"value": value, "currency": "DKK"});
            invoice(&amount).unwrap().content_hash()
        };
        assert_eq!(hash("100.0"), hash("100.00"));
        assert_eq!(hash("100"), hash("100.00"));
        assert_ne!(hash("100.01"), hash("100.00"));
        let with_null = json!({"invoiceId": "inv_1", "customerId": "c_1", "schedule": null,
            "amount": {"value": "100", "currency": "DKK"}});
        let with_null = InvoiceRequest::parse(&with_null).unwrap();
        assert_eq!(with_null.content_hash(), hash("100"));
    }

    #[test]
    fn every_wrong_field_of_an_invoice_is_named() {
        let amount = |value: &str| json!({"value": value, "currency": "DKK"});
        let table = [
            (amount("0"), "amount.value", "greater than zero"),
            (amount("-5.00"), "amount.value", "decimal number"),
            (amount("1.005"), "amount.value", "2 decimal digits"),
            (amount("a lot"), "amount.value", "decimal number"),
            (
                json!({"value": "1", "currency": "XYZ"}),
                "amount.currency",
                "ISO 4217",
            ),
            (
                json!({"value": 100, "currency": "DKK"}),
                "amount.value",
                "must be a string",
            ),
            (json!({"value": "1"}), "amount.currency", "is required"),
            (json!("100"), "amount", "written like"),
            (json!(null), "amount", "is required"),
        ];
        for (given, field, said) in table {
            let wrong = invoice(&given).unwrap_err();
            let why = wrong
                .get(field)
                .unwrap_or_else(|| panic!("{given}: {wrong:?}"));
            assert!(why.contains(said), "{given}: {why}");
        }
        let wrong = InvoiceRequest::parse(&json!({})).unwrap_err();
        let named: Vec<_> = wrong.keys().collect();
        assert_eq!(named, ["amount", "customerId", "invoiceId"]);
        let wrong = InvoiceRequest::parse(&json!({"colour": 1})).unwrap_err();
        assert!(wrong["colour"].contains("unknown"));
        assert!(InvoiceRequest::parse(&json!([])).unwrap_err()["body"].contains("object"));
    }

    #[test]
    fn a_customer_needs_a_currency_and_a_zone_that_exist() {
        let customer = |currency: &str, zone: &str| {
            let body = json!({"customerId": "c_1", "currency": currency, "timeZone": zone});
            Customer::parse(&body)
        };
        let good = customer("DKK", "europe/copenhagen").unwrap();
        assert_eq!(good.time_zone, "Europe/Copenhagen", "as it is written");
        let wrong = customer("KRONER", "Europe/Nowhere").unwrap_err();
        assert!(wrong["currency"].contains("ISO 4217"));
        assert!(wrong["timeZone"].contains("Europe/Nowhere"));
        let ladder =
            json!({"customerId": "c_1", "currency": "DKK", "timeZone": "UTC", "ladder": ["1x"]});
        assert!(Customer::parse(&ladder).unwrap_err()["ladder"].contains("1x"));
    }
}
