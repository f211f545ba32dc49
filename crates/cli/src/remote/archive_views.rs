//! What `tollgate archive …` prints.

use std::fmt::Write as _;

use tollgate_client::contract::{
    ArchiveRound, ArchiveStatus, ArchivedAudit, ArchivedDay, ArchivedDayList, ArchivedItemList,
    VerifiedDay, VerifiedExport,
};

use super::table::{cell, more, row, source, status_word, table};

pub(super) fn list(page: &ArchivedDayList) -> String {
    if page.days.is_empty() {
        return "the archive is empty".to_owned();
    }
    let header = ["day", "type", "state", "items", "file"];
    let rows: Vec<Vec<String>> = page
        .days
        .iter()
        .map(|it| row(&[&it.day, &it.item_type, &it.state, &it.count, &it.file]))
        .collect();
    table(&header, &rows) + &troubles(&page.days) + &more(page.next.as_ref())
}

/// A line for each day that is not in order.
fn troubles(days: &[ArchivedDay]) -> String {
    let troubled = days.iter().filter_map(|day| day.trouble.as_ref());
    troubled.fold(String::new(), |text, why| format!("{text}{why}\n"))
}

pub(super) fn items_listed(page: &ArchivedItemList) -> String {
    let header = [
        "item", "status", "amount", "currency", "lane", "accepted", "ended",
    ];
    let from = source(&page.source);
    if page.items.is_empty() && page.next.is_none() {
        return format!("no items, from {from}");
    }
    let rows: Vec<Vec<String>> = page
        .items
        .iter()
        .map(|it| {
            row(&[
                &it.id,
                &status_word(&it.status),
                &it.amount,
                &it.currency,
                &it.lane,
                &it.created_at,
                &it.finished_at,
            ])
        })
        .collect();
    format!("{}from {from}\n", table(&header, &rows)) + &more(page.next.as_ref())
}

pub(super) fn entries(page: &ArchivedAudit) -> String {
    let header = ["at", "actor", "action", "item", "detail"];
    let from = source(&page.source);
    if page.entries.is_empty() && page.next.is_none() {
        return format!("no audit entries, from {from}");
    }
    let rows: Vec<Vec<String>> = page
        .entries
        .iter()
        .map(|it| row(&[&it.at, &it.actor, &it.action, &it.item, &it.detail]))
        .collect();
    format!("{}from {from}\n", table(&header, &rows)) + &more(page.next.as_ref())
}

pub(super) fn status(status: &ArchiveStatus) -> String {
    let header = [
        "type",
        "hot days",
        "oldest hot item",
        "days",
        "to export",
        "oldest to export",
    ];
    let types: Vec<Vec<String>> = status
        .types
        .iter()
        .map(|it| {
            row(&[
                &it.item_type,
                &it.hot_days,
                &it.oldest_hot,
                &it.days,
                &it.days_to_export,
                &it.oldest_to_export,
            ])
        })
        .collect();
    let parts = status.parts.iter();
    let parts: Vec<Vec<String>> = parts.map(|it| row(&[&it.name, &it.bytes])).collect();
    let mut text = table(&header, &types);
    // Writing to a string does not fail.
    let _ = write!(text, "\n{}", table(&["what", "bytes"], &parts));
    let troubles = status.troubles.iter().map(|trouble| &trouble.what);
    for why in troubles.chain(&status.overdue) {
        let _ = writeln!(text, "{why}");
    }
    text
}

pub(super) fn days(answer: &ArchivedDayList) -> String {
    answer.days.iter().map(day).collect::<Vec<_>>().join("\n")
}

fn day(view: &ArchivedDay) -> String {
    let ArchivedDay {
        day,
        item_type,
        count,
        state,
        ..
    } = view;
    let mut text = format!("{day} {item_type}: {count} items, {state}\n");
    let facts = [
        ("file", view.file.clone()),
        ("sha256", view.sha256.clone()),
        ("exported", view.exported_at.as_ref().map(cell)),
        ("dropped", view.dropped_at.as_ref().map(cell)),
        ("restored", view.restored_at.as_ref().map(cell)),
        ("trouble", view.trouble.clone()),
    ];
    for (title, fact) in facts {
        if let Some(fact) = fact {
            let _ = writeln!(text, "{title:<8}  {fact}");
        }
    }
    let totals: Vec<Vec<String>> = view
        .totals
        .iter()
        .map(|it| {
            row(&[
                &status_word(&it.status),
                &it.currency,
                &it.count,
                &it.amount,
            ])
        })
        .collect();
    let header = ["status", "currency", "items", "amount"];
    text + &table(&header, &totals)
}

pub(super) fn verified(answer: &VerifiedDay) -> String {
    let one = |file: &VerifiedExport| {
        let with = if file.compared_with_database {
            "its manifest and the database"
        } else {
            "its manifest"
        };
        format!("{}: {} lines, equal to {with}", file.file, file.lines)
    };
    answer.files.iter().map(one).collect::<Vec<_>>().join("\n")
}

pub(super) fn done(round: &ArchiveRound) -> String {
    let mut text = format!(
        "{} items moved, {} days exported, {} days dropped\n",
        round.moved, round.exported, round.dropped
    );
    for why in round.troubles.iter().chain(&round.skipped) {
        let _ = writeln!(text, "{why}");
    }
    text
}
