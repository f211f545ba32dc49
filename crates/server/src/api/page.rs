//! How much a page shows, and where it begins.

use serde::Deserialize;
use tollgate_core::ports::Bookmark;
use utoipa::IntoParams;

use super::body::wrong;
use super::error::ApiError;
use super::words;

const DEFAULT_LIMIT: u32 = 100;
const MOST: u32 = 1000;

/// What is asked of a list that has no filter and is not in the order of ids.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct NewestFirst {
    /// Page token: the `next` of the previous page.
    #[param(schema_with = words::bookmark)]
    after: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

impl NewestFirst {
    /// Where the page begins, and how much it shows.
    pub(super) fn read(&self) -> Result<(Option<Bookmark>, u32), ApiError> {
        let after = self.after.as_deref().map(bookmark).transpose()?;
        Ok((after, limit(self.limit)?))
    }
}

/// As many as were asked for, or the default.
pub(super) fn limit(asked: Option<u32>) -> Result<u32, ApiError> {
    let limit = asked.unwrap_or(DEFAULT_LIMIT);
    if (1..=MOST).contains(&limit) {
        return Ok(limit);
    }
    Err(wrong("limit", format!("must be between 1 and {MOST}")))
}

/// Where a page begins that is not in the order of ids.
pub(super) fn bookmark(after: &str) -> Result<Bookmark, ApiError> {
    let what = "must be the \"next\" of the previous page, unchanged";
    Bookmark::parse(after).ok_or_else(|| wrong("after", what))
}
