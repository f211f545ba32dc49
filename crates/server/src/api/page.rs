//! How much a page shows, and where it begins.

use tollgate_core::ports::Bookmark;

use super::body::wrong;
use super::error::ApiError;

const DEFAULT_LIMIT: u32 = 100;
const MOST: u32 = 1000;

/// So many as were asked for, or the default.
pub(super) fn limit(asked: Option<u32>) -> Result<u32, ApiError> {
    let limit = asked.unwrap_or(DEFAULT_LIMIT);
    if (1..=MOST).contains(&limit) {
        return Ok(limit);
    }
    Err(wrong("limit", format!("must be between 1 and {MOST}")))
}

/// Where a page begins that is not in the order of ids.
pub(super) fn bookmark(after: &str) -> Result<Bookmark, ApiError> {
    let what = "must be the \"next\" of the page before, as it was told";
    Bookmark::parse(after).ok_or_else(|| wrong("after", what))
}
