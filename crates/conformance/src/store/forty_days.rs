//! `Archive`, for forty days in a row: the hot tables stay as small as thirty days, no answer about a day changes,
//! and every archived day comes back in an empty store as it was.

use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayState, DayView};
use tollgate_core::certificate::Certificate;
use tollgate_core::ports::{Admission, Total};
use tollgate_core::{SignedDuration, Timestamp};

use super::archive::{DAY, all, ended, finished, rows};
use super::fixture::{Fixture, bank, new_item, payments, plan};

const DAYS: usize = 40;
const HOT_DAYS: u32 = 30;
/// Payments a day; `TGTEST_ARCHIVE_PER_DAY` asks for more.
const A_DAY: usize = 500;
/// Of those, sent: the rest ends without a send, which is quicker.
const SENT: usize = 3;
/// Lines of a day, or ids, that are handed over together.
const PAGE: usize = 500;

fn per_day() -> usize {
    let asked = std::env::var("TGTEST_ARCHIVE_PER_DAY").ok();
    asked.and_then(|it| it.parse().ok()).unwrap_or(A_DAY)
}

/// The answers about a day when it was over.
#[derive(Debug, PartialEq)]
struct Told {
    totals: Vec<Total>,
    certificate: Certificate,
}

pub async fn forty_days_leave_the_hot_tables_flat_and_every_day_can_be_restored(f: &dyn Fixture) {
    let a_day = per_day();
    f.lane(plan(1000, 4)).await;
    let (mut ids, mut told, mut hot) = (vec![], vec![], vec![]);
    for number in 0..DAYS {
        let from = ArchiveDay::of(f.now().await).start();
        ids.extend(one_day(f, number, a_day).await);
        f.advance(DAY).await;
        told.push((from, told_of(f, from).await));
        archive(f).await;
        hot.push(rows(f, "item_queue").await);
        assert_eq!(rows(f, "item_body").await, hot[number]);
    }
    let flat = u64::from(HOT_DAYS) * a_day as u64;
    let from_day_31 = &hot[HOT_DAYS as usize - 1..];
    assert!(from_day_31.iter().all(|rows| *rows == flat), "{hot:?}");
    for (from, before) in &told {
        assert_eq!(told_of(f, *from).await, *before, "{from}");
    }
    let days = f.store().archived_days(&payments(), None, 100).await;
    let days = days.unwrap();
    assert_eq!(days.len(), DAYS - HOT_DAYS as usize);
    let is_whole = |day: &DayView| day.count() == a_day as u64 && day.state == DayState::Closed;
    assert!(days.iter().all(is_whole), "{days:?}");
    no_id_is_taken_again(f, &ids, days.len() * a_day).await;
    let empty = f.another().await;
    empty.lane(plan(1000, 4)).await;
    for day in &days {
        restored(f, &*empty, day).await;
    }
    no_id_is_taken_again(&*empty, &ids[..days.len() * a_day], days.len() * a_day).await;
    for (from, before) in &told[..days.len()] {
        let after = told_of(&*empty, *from).await;
        assert_eq!(after.totals, before.totals, "restored: {from}");
        let sends = [&after, before].map(|told| told.certificate.sends);
        assert_eq!(sends, [SENT as u64; 2], "restored: {from}");
    }
}

/// The payments of a day, some of them sent.
async fn one_day(f: &dyn Fixture, number: usize, count: usize) -> Vec<String> {
    let ids: Vec<String> = (0..count).map(|n| format!("d{number:02}-{n:06}")).collect();
    let sent: Vec<&str> = ids[..SENT].iter().map(String::as_str).collect();
    ended(f, &sent).await;
    for some in ids[SENT..].chunks(PAGE) {
        finished(f, some).await;
    }
    ids
}

async fn told_of(f: &dyn Fixture, from: Timestamp) -> Told {
    let (store, to) = (f.store(), from + SignedDuration::from_hours(24));
    Told {
        totals: store.totals(&payments(), from, to).await.unwrap(),
        certificate: store.certificate(&bank(), from, to).await.unwrap(),
    }
}

/// As the archiver does it.
async fn archive(f: &dyn Fixture) {
    let first_hot = ArchiveDay::of(f.now().await).before(HOT_DAYS);
    let (store, kind) = (f.store(), payments());
    let oldest = first_hot.before(2);
    store.prepare_days(&kind, oldest, first_hot).await.unwrap();
    loop {
        let moved = store.move_ended(all(first_hot.start())).await.unwrap();
        if moved.next.is_none() {
            break;
        }
    }
    store.close_days(&kind, first_hot).await.unwrap();
}

async fn no_id_is_taken_again(f: &dyn Fixture, ids: &[String], archived: usize) {
    let mut found = 0;
    for some in ids.chunks(PAGE) {
        for said in f.admit(some.iter().map(|id| new_item(id)).collect()).await {
            assert!(
                matches!(said, Admission::Archived | Admission::Repeat(_)),
                "{said:?}"
            );
            found += usize::from(said == Admission::Archived);
        }
    }
    assert_eq!(found, archived);
}

/// Brings the lines of a day into a store that has nothing of it, and compares item by item.
async fn restored(f: &dyn Fixture, empty: &dyn Fixture, day: &DayView) {
    let (kind, before) = (payments(), lines(f, day.day).await);
    assert_eq!(before.len() as u64, day.count());
    let store = empty.store();
    for page in before.chunks(PAGE) {
        let items = page.iter().map(|line| serde_json::from_str(line).unwrap());
        let items: Vec<ArchivedItem> = items.collect();
        let put = store.restore_items(&kind, day.day, items, true);
        put.await.unwrap();
    }
    store.complete_day(&kind, day.day, None).await.unwrap();
    assert_eq!(lines(empty, day.day).await, before, "{}", day.day);
    let view = store.archived_day(&kind, day.day).await.unwrap().unwrap();
    assert_eq!(view.sums, day.sums);
}

async fn lines(f: &dyn Fixture, day: ArchiveDay) -> Vec<String> {
    let (store, kind, mut lines, mut after) = (f.store(), payments(), vec![], None);
    loop {
        let limit = u32::try_from(PAGE).unwrap();
        let page = store.archived_lines(&kind, day, after.as_ref(), limit);
        let page = page.await.unwrap();
        let Some(last) = page.last() else {
            return lines;
        };
        let last: ArchivedItem = serde_json::from_str(last).unwrap();
        after = Some(last.id);
        lines.extend(page);
    }
}
