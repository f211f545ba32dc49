//! Erasures of personal data.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words;

/// An erasure, or its preview.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErasureRequest {
    /// Erase every ended payment to or from this account, and every ended invoice of this customer. Either this or `item`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, example = "DE02120300000000202051")]
    pub account: Option<String>,
    /// Erase one item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<ErasureItem>,
    /// Reason, recorded in the audit log. Required to start. It must not contain the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "request 4711 under article 17"
    )]
    pub reason: Option<String>,
    /// Only preview it.
    #[serde(default)]
    pub dry_run: bool,
    /// The `digest` of the preview to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 64, max_length = 64)]
    pub digest: Option<String>,
}

/// A payment or an invoice.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ErasureItem {
    /// `PAYMENT` or `INVOICE`.
    #[serde(rename = "type")]
    #[schema(example = "PAYMENT")]
    pub item_type: String,
    /// Id of the item.
    #[schema(example = "pay_001")]
    pub id: String,
}

/// What an erasure would do. To confirm it, send the same request with `digest` instead of `dryRun`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasurePreview {
    /// Which kind of answer this is.
    #[schema(schema_with = words::preview_kind)]
    pub kind: String,
    /// Confirms exactly these items.
    pub digest: String,
    /// Number of items to erase in the hot tables. The archive, exported files and texts are searched when the erasure runs.
    pub count: u64,
    /// Whether there are more items than a preview counts (10,000). The erasure itself has no limit.
    pub more: bool,
    /// Up to 20 of these items.
    pub first: Vec<ErasureItem>,
    /// Number of items that are left out because they have not ended.
    pub left_out: u64,
    /// Up to 20 of the items that are left out.
    pub first_left_out: Vec<ErasureLeftOut>,
    /// Places in which the erasure does not delete data, and what removes the data there.
    pub outside: Vec<ErasureOutside>,
}

/// An item that is left out.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ErasureLeftOut {
    /// The item.
    pub item: ErasureItem,
    /// Why it is left out.
    #[schema(example = "it has not ended: it is SCHEDULED")]
    pub reason: String,
}

/// A place in which the erasure does not delete data.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ErasureOutside {
    /// The place, such as backups.
    pub place: String,
    /// The command or the time that removes the data there.
    pub ends: String,
}

/// An erasure and its progress.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Erasure {
    /// Which kind of answer this is.
    #[schema(schema_with = words::erasure_kind)]
    pub kind: String,
    /// Id of the erasure.
    #[schema(example = "erasure-20261116-170000-000123")]
    pub erasure_id: String,
    /// Current stage; `DONE` at the end.
    #[schema(schema_with = words::erasure_stage)]
    pub stage: String,
    /// Who started it.
    pub actor: String,
    /// Reason that the actor gave.
    pub reason: String,
    /// Payments and invoices erased in the hot tables.
    pub items: u64,
    /// Payments and invoices erased in the archive.
    pub archived: u64,
    /// Notifications about erased payments.
    pub notifications: u64,
    /// Other texts: rejected lines, job results, audit entries, settings.
    pub texts: u64,
    /// Exported files that were rewritten.
    pub files: u64,
    /// Items and exported days that were left out. `firstLeftOut` has the reasons.
    pub left_out: u64,
    /// Up to 100 of the items and days that were left out.
    pub first_left_out: Vec<ErasureLeftOut>,
    /// Reason why the last try failed. Tollgate retries. Null while the erasure makes progress.
    #[schema(example = "/exports/.lock cannot be written: Not a directory")]
    pub trouble: Option<String>,
    /// Time of the first failure since the last progress, or null.
    pub troubled_since: Option<Timestamp>,
    /// Start.
    pub started_at: Timestamp,
    /// End. Null while it runs.
    pub ended_at: Option<Timestamp>,
    /// Places in which the erasure does not delete data, and what removes the data there.
    pub outside: Vec<ErasureOutside>,
}

/// The preview of an erasure, or the erasure itself; `kind` says which.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "kind", mapping(
    ("preview" = "#/components/schemas/ErasurePreview"),
    ("erasure" = "#/components/schemas/Erasure"),
)))]
pub enum ErasureOrPreview {
    /// What the erasure would do.
    Preview(ErasurePreview),
    /// The erasure.
    Erasure(Box<Erasure>),
}
