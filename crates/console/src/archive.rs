//! The archive: what takes up space, how far the files are behind, what is wrong, and its days, down to their items.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use jiff::ToSpan;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserialize;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part, query};
use super::session::Session;
use super::shell::{
    HasPage, Shell, Tab, clock, clock_or, grouped, page as drawn, soft, status_word, tabs,
};

/// So many days are on a page.
const DAYS: i32 = 62;
const TYPES: [&str; 3] = ["PAYMENT", "INVOICE", "NOTIFICATION"];

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct DaysQuery {
    before: String,
}

impl HasPage for contract::ArchivedDay {
    fn address(&self) -> String {
        let asked = query(&[("type", &self.item_type)]);
        format!("/console/archive/{}{asked}", part(&self.day))
    }
}

#[derive(Template)]
#[template(path = "archive.html")]
struct ArchivePage {
    shell: Shell,
    status: contract::ArchiveStatus,
    /// Newest first.
    days: Vec<contract::ArchivedDay>,
    /// Where older days are.
    older: Option<String>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<DaysQuery>,
) -> Result<Response, Problem> {
    let status: contract::ArchiveStatus = console.get(&session, "/admin/archive/status").await?;
    let today = TimeZone::UTC.to_datetime(status.as_of).date();
    let before: Date = (asked.before.parse()).unwrap_or_else(|_| today.saturating_add(1.day()));
    let since = before.saturating_sub((DAYS + 1).days());
    let wanted = query(&[("after", &since.to_string()), ("limit", &DAYS.to_string())]);
    let found: contract::ArchivedDayList = console
        .get(&session, &format!("/admin/archive{wanted}"))
        .await?;
    let is_before = |day: &contract::ArchivedDay| day.day.parse().is_ok_and(|it: Date| it < before);
    let mut days: Vec<contract::ArchivedDay> = found.days.into_iter().filter(is_before).collect();
    days.reverse();
    let all: u64 = status.types.iter().map(|of| of.days).sum();
    let has_more = u64::try_from(days.len()).is_ok_and(|shown| shown < all);
    let older = query(&[("before", &since.saturating_add(1.day()).to_string())]);
    Ok(drawn(&ArchivePage {
        shell: Shell::new(&session, "Archive", "Archive", ""),
        status,
        days,
        older: has_more.then(|| format!("/console/archive{older}")),
    }))
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ItemsQuery {
    #[serde(rename = "type")]
    item_type: String,
    status: String,
    account: String,
    reference: String,
    after: String,
}

/// An answer's source as people read it.
pub(super) trait InWords {
    fn words(&self) -> &'static str;
}

impl InWords for contract::AnswerSource {
    fn words(&self) -> &'static str {
        match self.from.as_str() {
            "archive" if self.restored => "the archive, restored from a file",
            "archive" => "the archive",
            "both" => "the hot tables and the archive",
            _ => "the hot tables",
        }
    }
}

#[derive(Template)]
#[template(path = "archive_day.html")]
struct DayPage {
    shell: Shell,
    tabs: Vec<Tab>,
    day: String,
    asked: ItemsQuery,
    found: contract::ArchivedItemList,
    next: Option<String>,
}

impl DayPage {
    fn is_of_payments(&self) -> bool {
        self.asked.item_type.is_empty() || self.asked.item_type == TYPES[0]
    }
    /// The page of an item, where its type has pages.
    fn page_of(&self, item: &contract::ArchivedItemLine) -> Option<String> {
        let list = match self.asked.item_type.as_str() {
            "" | "PAYMENT" => "payments",
            "INVOICE" => "invoices",
            _ => return None,
        };
        Some(format!("/console/{list}/{}", part(&item.id)))
    }
}

pub(super) async fn day(
    State(console): State<Console>,
    Path(day): Path<String>,
    session: Session,
    Query(asked): Query<ItemsQuery>,
) -> Result<Response, Problem> {
    let (account, reference) = (asked.account.trim(), asked.reference.trim());
    let conditions = |kind: &'static str, after: &str| {
        query(&[
            (kind, &asked.item_type),
            ("status", asked.status.trim()),
            ("account", account),
            ("reference", reference),
            ("after", after),
        ])
    };
    let wanted = conditions("itemType", &asked.after);
    let path = format!("/admin/archive/{}/items{wanted}", part(&day));
    let found: contract::ArchivedItemList = console.get(&session, &path).await?;
    let here = format!("/console/archive/{}", part(&day));
    let by_type = |name: &str| format!("{here}{}", query(&[("type", name)]));
    let next = found.next.as_deref();
    Ok(drawn(&DayPage {
        shell: Shell::new(&session, format!("Archive of {day}"), "Archive", ""),
        tabs: tabs(&TYPES, &asked.item_type, by_type),
        next: next.map(|after| format!("{here}{}", conditions("type", after))),
        day,
        found,
        asked,
    }))
}

/// Enough of a digest to compare by eye; the whole of it is in its title.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

/// Bytes as people say them.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates hand over references"
)]
fn size(bytes: &u64) -> String {
    let bytes = *bytes;
    let units: [(u64, &str); 3] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        Some((unit, name)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_unit_that_fits() {
        let table = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KB"),
            (1_572_864, "1.5 MB"),
            (5_368_709_120, "5.0 GB"),
        ];
        for (bytes, expected) in table {
            assert_eq!(size(&bytes), expected);
        }
    }
}
