//! What a manifest counts of a line: the rest of it is copied and never looked at.

use std::borrow::Cow;

use serde::Deserialize;

/// The longest line that is read. A body has at most 64 KiB; the rest are attempts and audit entries.
pub(crate) const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LineHead<'a> {
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub status: Cow<'a, str>,
    #[serde(borrow)]
    pub currency: Cow<'a, str>,
    pub amount_minor: i64,
}

impl<'a> LineHead<'a> {
    /// The error fits behind "line N".
    pub(crate) fn read(line: &'a str) -> Result<Self, String> {
        serde_json::from_str(line).map_err(|error| format!("is not an archived item: {error}"))
    }
}
