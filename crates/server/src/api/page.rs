//! How much a page shows.

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
