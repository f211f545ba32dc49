//! Customers of invoices.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// A customer: the party that is charged for invoices.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"customerId": "c_1", "currency": "DKK", "timeZone": "Europe/Copenhagen"}))]
pub struct Customer {
    /// Customer id, chosen by the client.
    #[schema(schema_with = words::id)]
    pub customer_id: String,
    /// ISO 4217 code of the customer's invoices.
    #[schema(pattern = "^[A-Z]{3}$")]
    pub currency: String,
    /// IANA time zone for schedules that name none.
    pub time_zone: String,
    /// Retry schedule: the delay after each decline, such as `1d` or `12h`. Default:
    /// `invoices.ladder` of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    pub ladder: Option<Vec<String>>,
}

/// New values of a customer; replaces all fields.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"currency": "DKK", "timeZone": "Europe/Copenhagen", "ladder": ["1d", "3d"]}))]
pub struct CustomerChange {
    /// ISO 4217 code. Cannot change while the customer has outstanding invoices.
    #[schema(pattern = "^[A-Z]{3}$")]
    pub currency: String,
    /// IANA time zone for schedules that name none.
    pub time_zone: String,
    /// Retry schedule: the delay after each decline. Default: `invoices.ladder` of the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 20)]
    pub ladder: Option<Vec<String>>,
    /// Reason, recorded in the audit log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 500)]
    pub reason: Option<String>,
}

/// Customers, sorted by id.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct CustomerList {
    /// The customers of this page.
    pub customers: Vec<Customer>,
    /// Page token: pass it as `after`. Null on the last page.
    pub next: Option<String>,
}
