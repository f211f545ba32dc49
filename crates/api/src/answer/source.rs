//! Where an answer comes from, and what a list does not have because it is in the archive: never silently partial.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, status_code};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{FoundIn, ItemView};

use super::error::ApiError;
use super::of::Of;
use crate::App;

pub(crate) const FROM: [&str; 3] = ["hot", "archive", "both"];
/// Says of a list as a file what `archived` says of a page.
const ARCHIVED: HeaderName = HeaderName::from_static("tollgate-archived");

/// Where an answer comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    from: &'static str,
    restored: bool,
}

impl Of<Source> for contract::AnswerSource {
    fn of(source: Source) -> Self {
        Self {
            from: source.from.to_owned(),
            restored: source.restored,
        }
    }
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

/// What a list leaves out; `what` names the items.
fn left_out(what: &str, (first, last): (ArchiveDay, ArchiveDay)) -> contract::ArchivedPart {
    let days = if first == last {
        format!("on {first}")
    } else {
        format!("from {first} to {last}")
    };
    let what = format!(
        "Archived {what} are not in this list: some ended {days}. List a day with tollgate archive items DAY or GET /admin/archive/{{day}}/items."
    );
    archived_days(first, last, what)
}

/// What a list leaves out, in words of its own.
pub(crate) fn archived_days(
    first: ArchiveDay,
    last: ArchiveDay,
    what: String,
) -> contract::ArchivedPart {
    contract::ArchivedPart {
        first_day: first.to_string(),
        last_day: last.to_string(),
        what,
    }
}

/// For a list that is a file.
pub(crate) fn mark(part: Option<&contract::ArchivedPart>, response: &mut Response) {
    let days = part.map(|part| format!("{}/{}", part.first_day, part.last_day));
    let days = days.and_then(|days| HeaderValue::from_str(&days).ok());
    if let Some(days) = days {
        response.headers_mut().insert(ARCHIVED, days);
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
    ) -> Result<Option<contract::ArchivedPart>, ApiError> {
        let found = self.store.found_in(item_type, from, to).await?;
        Ok(found.archive.map(|days| left_out(what, days)))
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
