//! Where an answer comes from, and what a list does not have because it is in the archive: never silently partial.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde::Serialize;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, status_code};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{FoundIn, ItemView};
use utoipa::ToSchema;

use super::error::ApiError;
use crate::api::App;
use crate::api::contract::words;

pub(crate) const FROM: [&str; 3] = ["hot", "archive", "both"];
/// Says of a list as a file what `archived` says of a page.
const ARCHIVED: HeaderName = HeaderName::from_static("tollgate-archived");

/// Where an answer comes from.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[schema(as = AnswerSource)]
pub(crate) struct Source {
    /// `hot`: tables of items that have not ended or ended lately. `archive`: items that ended `hot_days` ago or
    /// earlier.
    #[schema(schema_with = words::answer_from)]
    from: &'static str,
    /// Whether it was in a file only and was restored into the database.
    restored: bool,
}

impl Source {
    pub(crate) const HOT: Self = Self {
        from: FROM[0],
        restored: false,
    };
    pub(crate) const BOTH: Self = Self {
        from: FROM[2],
        restored: false,
    };

    pub(crate) fn archive(restored: bool) -> Self {
        Self {
            from: FROM[1],
            restored,
        }
    }

    /// Nothing at all is what the hot tables say.
    pub(crate) fn of(all: &[FoundIn]) -> Self {
        let hot = all.iter().any(|found| found.hot);
        let archive = all.iter().any(|found| found.archive.is_some());
        match (hot, archive) {
            (true, true) => Self::BOTH,
            (false, true) => Self::archive(false),
            (_, false) => Self::HOT,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.from
    }
}

/// What fits a list and is not in it, because it is in the archive.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArchivedPart)]
pub(crate) struct ArchivedPart {
    /// UTC day of the end, about the first.
    #[schema(example = "2026-01-02")]
    first_day: String,
    #[schema(example = "2026-10-16")]
    last_day: String,
    /// One sentence for people.
    what: String,
}

impl ArchivedPart {
    pub(crate) fn new(what: &str, (first, last): (ArchiveDay, ArchiveDay)) -> Self {
        let days = if first == last {
            format!("on {first}")
        } else {
            format!("from {first} to {last}")
        };
        Self {
            first_day: first.to_string(),
            last_day: last.to_string(),
            what: format!(
                "Archived {what} are not in this list: some ended {days}. List a day with tollgate archive items DAY or GET /admin/archive/{{day}}/items."
            ),
        }
    }

    /// In words of its own.
    pub(crate) fn of_days(first: ArchiveDay, last: ArchiveDay, what: String) -> Self {
        Self {
            first_day: first.to_string(),
            last_day: last.to_string(),
            what,
        }
    }

    /// For a list that is a file.
    pub(crate) fn mark(part: Option<&Self>, response: &mut Response) {
        let days = part.map(|part| format!("{}/{}", part.first_day, part.last_day));
        let days = days.and_then(|days| HeaderValue::from_str(&days).ok());
        if let Some(days) = days {
            response.headers_mut().insert(ARCHIVED, days);
        }
    }
}

/// Whether items of the archive can have this status.
pub(crate) fn may_have_ended(status: Option<&str>) -> bool {
    status.is_none_or(|status| status_code(status) != 0)
}

impl App {
    /// What the archive has of a list by acceptance.
    pub(crate) async fn archived_part(
        &self,
        (item_type, what): (&ItemType, &str),
        from: Option<Timestamp>,
        to: Option<Timestamp>,
    ) -> Result<Option<ArchivedPart>, ApiError> {
        let found = self.store.found_in(item_type, from, to).await?;
        Ok(found.archive.map(|days| ArchivedPart::new(what, days)))
    }

    pub(crate) async fn source_of(&self, view: &ItemView) -> Result<Source, ApiError> {
        let Some(from) = &view.archived else {
            return Ok(Source::HOT);
        };
        let day = self.store.archived_day(&view.item.item_type, from.day);
        let is_restored = day.await?.is_some_and(|day| day.restored_at.is_some());
        Ok(Source::archive(is_restored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_from_where_something_of_it_is() {
        let day = ArchiveDay::of(Timestamp::UNIX_EPOCH);
        let found = |hot, archive: bool| FoundIn {
            hot,
            archive: archive.then_some((day, day)),
        };
        for (all, expected) in [
            (vec![], "hot"),
            (vec![found(false, false)], "hot"),
            (vec![found(true, false)], "hot"),
            (vec![found(false, true), found(false, false)], "archive"),
            (vec![found(false, true), found(true, false)], "both"),
        ] {
            assert_eq!(Source::of(&all).name(), expected, "{all:?}");
        }
    }

    #[test]
    fn only_what_can_have_ended_can_be_archived() {
        assert!(may_have_ended(None) && may_have_ended(Some("PROCESSING")));
        assert!(!may_have_ended(Some("SCHEDULED")) && !may_have_ended(Some("IN_DOUBT")));
    }
}
