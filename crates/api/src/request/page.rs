//! How much a page shows, where it begins, and how long its list is.

use serde::Deserialize;
use tollgate_core::ports::{Counted, MOST_SORTED, PageFrom, PageToken};
use utoipa::IntoParams;

use super::body::wrong;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{Format, ROWS_AT_ONCE};
use crate::contract::words;

const DEFAULT_LIMIT: u32 = 100;
const MOST: u32 = 1000;

/// What is asked of a list that has no filter and is not in the order of ids.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct NewestFirst {
    /// Page token: the `next` of a page.
    #[param(schema_with = words::page_token)]
    after: Option<String>,
    /// Page token: the `previous` of a page.
    #[param(schema_with = words::page_token)]
    before: Option<String>,
    /// Default: 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// `json`: one page. `csv` or `ndjson`: the whole list as a file; `limit` does not apply.
    #[param(schema_with = words::list_format)]
    format: Option<String>,
}

impl NewestFirst {
    pub(crate) fn read(&self) -> Result<PageRequest, ApiError> {
        PageRequest::read(
            self.after.as_deref(),
            self.before.as_deref(),
            self.limit,
            self.format.as_deref(),
        )
    }
}

/// Which page of a list by rank, or all of it.
#[derive(Debug, Clone)]
pub(crate) struct PageRequest {
    pub(crate) from: PageFrom<PageToken>,
    pub(crate) limit: u32,
    /// None is a page of JSON.
    pub(crate) format: Option<Format>,
}

impl PageRequest {
    pub(crate) fn read(
        after: Option<&str>,
        before: Option<&str>,
        most: Option<u32>,
        format: Option<&str>,
    ) -> Result<Self, ApiError> {
        let format = Format::parse(format)?;
        let most = limit(most)?;
        Ok(Self {
            from: page_from(after, before, page_token)?,
            limit: if format.is_some() { ROWS_AT_ONCE } else { most },
            format,
        })
    }

    /// The next part of a file.
    pub(crate) fn on(&self, next: Option<PageToken>) -> Option<Self> {
        let from = PageFrom::After(next?);
        Some(Self {
            from,
            ..self.clone()
        })
    }
}

/// From which place on: `after` and `before` exclude each other.
pub(crate) fn page_from<T, K>(
    after: Option<T>,
    before: Option<T>,
    read: impl Fn(&str, T) -> Result<K, ApiError>,
) -> Result<PageFrom<K>, ApiError> {
    Ok(match (after, before) {
        (None, None) => PageFrom::Start,
        (Some(after), None) => PageFrom::After(read("after", after)?),
        (None, Some(before)) => PageFrom::Before(read("before", before)?),
        (Some(_), Some(_)) => return Err(wrong("before", "is not allowed with after")),
    })
}

/// As many as were asked for, or the default.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, ApiError> {
    let limit = asked.unwrap_or(DEFAULT_LIMIT);
    if (1..=MOST).contains(&limit) {
        return Ok(limit);
    }
    Err(wrong("limit", format!("must be between 1 and {MOST}")))
}

/// Where a page begins that is not in the order of ids.
pub(crate) fn page_token(field: &str, token: &str) -> Result<PageToken, ApiError> {
    let what = "must be a page token of the same list, unchanged";
    PageToken::parse(token).ok_or_else(|| wrong(field, what))
}

/// How long a list is, as an answer says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) count: u64,
    /// There are more than `count`.
    pub(crate) at_least: bool,
}

impl Length {
    /// Of so many that were found, of one more than are counted.
    pub(crate) fn of(found: u64) -> Self {
        let most = u64::from(MOST_SORTED);
        Self {
            count: found.min(most),
            at_least: found > most,
        }
    }
}

impl App {
    /// How many a list has, up to 10,000.
    pub(crate) async fn length(&self, list: Counted) -> Result<Length, ApiError> {
        let found = self.store.counted(list, MOST_SORTED + 1).await?;
        Ok(Length::of(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_counted_up_to_ten_thousand() {
        let told = |found| {
            let Length { count, at_least } = Length::of(found);
            (count, at_least)
        };
        assert_eq!(told(0), (0, false));
        assert_eq!(told(10_000), (10_000, false));
        assert_eq!(told(10_001), (10_000, true));
    }

    #[test]
    fn a_page_lies_behind_a_place_or_before_it() {
        let asked = |after, before| PageRequest::read(after, before, None, None);
        let place = || PageToken::new(7, "a");
        assert_eq!(asked(None, None).unwrap().from, PageFrom::Start);
        let after = asked(Some("7.a"), None).unwrap().from;
        assert_eq!(after, PageFrom::After(place()));
        let before = asked(None, Some("7.a")).unwrap().from;
        assert_eq!(before, PageFrom::Before(place()));
        assert!(asked(Some("7.a"), Some("7.a")).is_err());
        assert!(asked(Some("a"), None).is_err());
        assert!(asked(None, Some("a")).is_err());
    }
}
