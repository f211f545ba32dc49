//! `Archive`: items leave the hot tables, are found again, and are never taken in twice.

use std::time::Duration;

use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayExport, DayState};
use tollgate_core::id::{Item, ItemType, LaneName};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    Admission, KnownAsked, KnownContent, MoveWanted, Moved, NewAudit, NewItem, NewRecord,
    StatusMove, StoreError, Then, Total,
};
use tollgate_core::{SignedDuration, Timestamp};

use super::fixture::{
    Fixture, bank, claim_all, given, new_item, ops, payment, payments, plan, send, settlement,
};
use super::interventions::{STATES, State, bring};

const DAY: Duration = Duration::from_hours(24);

/// Sends and ends these items.
async fn ended(f: &dyn Fixture, ids: &[&str]) -> Vec<Item> {
    let items = f.dispatched(ids).await;
    end(f, &items).await;
    items
}

async fn end(f: &dyn Fixture, items: &[Item]) {
    for item in items {
        let turns = f.turns(vec![send(item)]).await;
        let (attempt, _) = given(&turns)[0];
        let mut done = settlement(item, attempt, Outcome::Done("ok".into()));
        done.record = Some(StatusMove::new(&["SCHEDULED"], "PROCESSING"));
        done.then = Then::Finish;
        assert!(f.store().settle(done).await.unwrap());
    }
}

/// Ends these items without a send.
async fn finished(f: &dyn Fixture, ids: &[String]) {
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    for item in f.dispatched(&names).await {
        let done = StatusMove::new(&["SCHEDULED"], "PROCESSING");
        assert!(f.store().finish(&item, 1, done).await.unwrap());
    }
}

fn all(ended_before: Timestamp) -> MoveWanted {
    MoveWanted {
        item_type: payments(),
        ended_before,
        after: None,
        at_most: 100,
        remembered: true,
    }
}

/// Moves what ended before today, with room for the last days; returns what the last call said.
async fn moved(f: &dyn Fixture) -> u64 {
    let today = ArchiveDay::of(f.now().await);
    let store = f.store();
    store
        .prepare_days(&payments(), today.before(5), today)
        .await
        .unwrap();
    let (mut wanted, mut count) = (all(today.start()), 0);
    loop {
        let Moved { moved, next, .. } = store.move_ended(wanted.clone()).await.unwrap();
        count += moved;
        if next.is_none() {
            return count;
        }
        wanted.after = next;
    }
}

async fn rows(f: &dyn Fixture, table: &str) -> u64 {
    let count = f
        .typed(&format!("SELECT count(*) FROM {table}"))
        .await
        .unwrap();
    count[0][0].as_deref().unwrap().parse().unwrap()
}

async fn line(f: &dyn Fixture, item: &Item) -> ArchivedItem {
    let found = f.store().archived_item(item).await.unwrap();
    found.unwrap_or_else(|| panic!("{item} is not in the archive"))
}

pub async fn an_ended_item_moves_with_its_attempts_and_audit_and_is_found_as_before(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let items = ended(f, &["a", "b"]).await;
    let entry = NewAudit {
        item: Some(items[0].clone()),
        action: "LOOKED_AT".into(),
        actor: "ops".into(),
        detail: "why".into(),
    };
    f.store().write_audit(entry).await.unwrap();
    let before = f.view(&items[0]).await;
    let audited = f.store().audit(Some(&items[0]), 10).await.unwrap();
    assert_eq!(moved(f).await, 0, "it ended today");
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 2);
    for table in ["item_queue", "item_body", "attempt"] {
        assert_eq!(rows(f, table).await, 0, "{table}");
    }
    let after = f.view(&items[0]).await;
    assert_eq!(
        after.archived.as_ref().map(|it| it.day),
        Some(ArchiveDay::of(before.finished_at.unwrap()))
    );
    assert_eq!(
        (
            after.status,
            after.content_hash,
            after.body,
            after.slot,
            after.attempts.len()
        ),
        (
            before.status,
            before.content_hash,
            before.body,
            before.slot,
            1
        )
    );
    assert_eq!(f.store().audit(Some(&items[0]), 10).await.unwrap(), audited);
    assert_eq!(moved(f).await, 0, "a second run finds nothing");
}

pub async fn only_what_has_ended_and_nothing_refers_to_moves(f: &dyn Fixture) {
    for state in STATES {
        bring(f, state, &format!("{state:?}")).await;
    }
    f.lane(plan(100, 4)).await;
    let open = f.dispatched(&["open"]).await;
    f.turns(vec![send(&open[0])]).await;
    f.advance(2 * DAY).await;
    assert_eq!(moved(f).await, 2);
    for state in STATES {
        let found = f
            .store()
            .item(&payment(&format!("{state:?}")))
            .await
            .unwrap();
        let is_archived = found.map(|view| view.archived.is_some());
        let expected = match state {
            State::Nobody => None,
            State::Finished | State::Cancelled => Some(true),
            _ => Some(false),
        };
        assert_eq!(is_archived, expected, "{state:?}");
    }
}

pub async fn an_archived_id_is_never_taken_in_again(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 1);
    let other = NewItem {
        record: NewRecord {
            content_hash: "another".into(),
            ..new_item("a").record
        },
        ..new_item("a")
    };
    let said = f
        .admit(vec![new_item("a"), new_item("new"), other, new_item("a")])
        .await;
    assert!(
        matches!(
            said[..],
            [
                Admission::Archived,
                Admission::New(_),
                Admission::Conflict,
                Admission::Archived
            ]
        ),
        "{said:?}"
    );
    assert_eq!(rows(f, "item_queue").await, 1);
    assert_eq!(rows(f, "item_body").await, 1);
    // Another type may have the id.
    let invoices = ItemType::new("INVOICE");
    let said = f
        .store()
        .admit(&invoices, vec![new_item("a")])
        .await
        .unwrap();
    assert!(matches!(said[..], [Admission::New(_)]), "{said:?}");
    let known = |hash: &str| KnownAsked {
        item: payment("a"),
        content_hash: hash.to_owned(),
    };
    let asked = vec![known("hash of a"), known("another")];
    let told = f.store().known(asked).await.unwrap();
    let told: Vec<_> = told
        .into_iter()
        .flatten()
        .map(|it| (it.content, it.status))
        .collect();
    let status = "PROCESSING".to_owned();
    assert_eq!(
        told,
        [
            (KnownContent::Same, status.clone()),
            (KnownContent::Other, status)
        ]
    );
}

pub async fn an_id_that_is_moved_while_it_is_admitted_again_is_new_for_nobody(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let ids: Vec<String> = (0..60).map(|n| format!("p{n:02}")).collect();
    finished(f, &ids).await;
    f.advance(DAY).await;
    let moving = async {
        let today = ArchiveDay::of(f.now().await);
        f.store()
            .prepare_days(&payments(), today.before(2), today)
            .await
            .unwrap();
        let mut wanted = all(today.start());
        wanted.at_most = 3;
        loop {
            let said = f.store().move_ended(wanted.clone()).await.unwrap();
            wanted.after = said.next.clone();
            if said.next.is_none() {
                break;
            }
        }
    };
    let admitting = async {
        for _ in 0..20 {
            let again = ids.iter().map(|id| new_item(id)).collect();
            for said in f.admit(again).await {
                assert!(
                    matches!(said, Admission::Repeat(_) | Admission::Archived),
                    "{said:?}"
                );
            }
        }
    };
    tokio::join!(moving, admitting);
    assert_eq!(moved(f).await, 0);
    assert_eq!(rows(f, "item_queue").await, 0);
    assert_eq!(rows(f, "known_item").await, 60);
}

pub async fn totals_and_certificates_of_any_day_are_unchanged_by_archiving(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let begin = f.now().await;
    ended(f, &["a", "b", "c"]).await;
    f.place(vec![new_item("waits")]).await;
    f.advance(DAY).await;
    let to = f.now().await + SignedDuration::from_mins(15);
    let quarter = tollgate_core::guard::quarter_of(begin);
    let told = || async {
        let store = f.store();
        let totals: Vec<Total> = store.totals(&payments(), quarter, to).await.unwrap();
        let proofs = [
            (begin, to),
            (begin, begin + SignedDuration::from_secs(1)),
            (quarter, to),
        ];
        let mut told = vec![];
        for (from, to) in proofs {
            told.push(store.certificate(&bank(), from, to).await.unwrap());
        }
        (totals, told)
    };
    let before = told().await;
    assert_eq!(before.1[0].sends, 3);
    assert_eq!(moved(f).await, 3);
    let after = told().await;
    assert_eq!(before.0, after.0);
    assert_eq!(before.1.len(), after.1.len());
    for (before, after) in before.1.iter().zip(&after.1) {
        assert_eq!(before, after);
    }
}

pub async fn turns_of_calls_stay_in_the_certificate_when_they_are_old(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.damage(
        "INSERT INTO attempt (item_type, item_id, run, kind, state, lane, idempotency_key, turn_at, era, detail)
         VALUES ('', '', 0, 'CALL', 'CALL', 'bank', '', 1000000000000000, 0, '')",
    )
    .await;
    let at = Timestamp::from_microsecond(1_000_000_000_000_000).unwrap();
    let sends = || async {
        let (from, to) = (
            at - SignedDuration::from_secs(5),
            at + SignedDuration::from_secs(5),
        );
        f.store()
            .certificate(&bank(), from, to)
            .await
            .unwrap()
            .sends
    };
    assert_eq!(sends().await, 1);
    assert_eq!(f.store().move_calls(at, 10).await.unwrap(), 0);
    let now = f.now().await;
    assert_eq!(f.store().move_calls(now, 10).await.unwrap(), 1);
    assert_eq!(rows(f, "attempt").await, 0);
    assert_eq!(sends().await, 1);
}

pub async fn a_day_is_closed_exported_dropped_and_restored_line_by_line(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a", "b", "c"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    let (store, kind) = (f.store(), payments());
    let view = || async {
        f.store()
            .archived_day(&payments(), day)
            .await
            .unwrap()
            .unwrap()
    };
    let first = view().await;
    assert_eq!((first.state, first.count()), (DayState::Open, 3));
    let export = DayExport {
        file: "PAYMENT.ndjson.gz".into(),
        digest: "00".into(),
        at: f.now().await,
    };
    let marked = store.mark_exported(&kind, day, export.clone());
    assert!(!marked.await.unwrap(), "an open day is not exported");
    assert!(!store.drop_day(&kind, day).await.unwrap());
    let today = ArchiveDay::of(f.now().await);
    assert_eq!(store.close_days(&kind, today).await.unwrap(), 1);
    assert!(
        !store.drop_day(&kind, day).await.unwrap(),
        "it is nowhere else"
    );
    let lines = store.archived_lines(&kind, day, None, 2).await.unwrap();
    assert_eq!(lines.len(), 2);
    let after = payment("b").id;
    let rest = store
        .archived_lines(&kind, day, Some(&after), 2)
        .await
        .unwrap();
    let items = [
        line(f, &payment("a")).await,
        line(f, &payment("b")).await,
        line(f, &payment("c")).await,
    ];
    assert_eq!(rest.len(), 1);
    assert!(
        store
            .mark_exported(&kind, day, export.clone())
            .await
            .unwrap()
    );
    assert!(store.drop_day(&kind, day).await.unwrap());
    assert!(store.drop_day(&kind, day).await.unwrap(), "again");
    let dropped = view().await;
    assert_eq!(
        (dropped.state, &dropped.sums),
        (DayState::Dropped, &first.sums)
    );
    assert!(store.item(&payment("a")).await.unwrap().is_none());
    assert_eq!(f.admit_one(new_item("a")).await, Admission::Archived);
    let known = store.known(vec![KnownAsked {
        item: payment("a"),
        content_hash: String::new(),
    }]);
    let known = known.await.unwrap().remove(0).unwrap();
    assert_eq!(
        (known.state, known.export),
        (DayState::Dropped, Some(export.clone()))
    );
    for _ in 0..2 {
        store
            .restore_items(&kind, day, items.to_vec(), true)
            .await
            .unwrap();
    }
    store.complete_day(&kind, day, Some(export)).await.unwrap();
    let restored = view().await;
    assert_eq!(
        (restored.state, restored.sums),
        (DayState::Exported, first.sums)
    );
    let again = store.archived_lines(&kind, day, None, 10).await.unwrap();
    assert_eq!(again, [lines, rest].concat());
}

pub async fn a_restore_changes_nothing_that_is_there(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    let day = ArchiveDay::of(f.now().await);
    f.advance(DAY).await;
    moved(f).await;
    let (store, kind) = (f.store(), payments());
    let mut item = line(f, &payment("a")).await;
    item.status = "FORGED".into();
    let forged = store
        .restore_items(&kind, day, vec![item.clone()], true)
        .await;
    assert!(
        matches!(&forged, Err(StoreError::Invalid(why)) if why.contains("another line")),
        "{forged:?}"
    );
    item.id = payment("hot").id;
    f.place(vec![new_item("hot")]).await;
    let hot = store
        .restore_items(&kind, day, vec![item.clone()], true)
        .await;
    assert!(
        matches!(&hot, Err(StoreError::Invalid(why)) if why.contains("not archived")),
        "{hot:?}"
    );
    let other = store
        .restore_items(&kind, day.before(1), vec![item], true)
        .await;
    assert!(
        matches!(&other, Err(StoreError::Invalid(why)) if why.contains("ended on")),
        "{other:?}"
    );
}

pub async fn what_is_erased_from_the_archive_is_known_as_erased(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    f.advance(DAY).await;
    moved(f).await;
    let mut item = line(f, &payment("a")).await;
    item.content_hash = None;
    item.body = None;
    assert_eq!(f.store().rewrite(vec![item.clone()]).await.unwrap(), 1);
    assert_eq!(line(f, &payment("a")).await, item);
    assert_eq!(f.admit_one(new_item("a")).await, Admission::Erased);
}

pub async fn an_item_of_a_lane_in_a_storm_or_of_a_dropped_day_stays_hot(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    f.damage("UPDATE lane_cursor SET storm_id = 7 WHERE lane = 'bank'")
        .await;
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 0);
    f.damage("UPDATE lane_cursor SET storm_id = NULL WHERE lane = 'bank'")
        .await;
    let day = ArchiveDay::of(f.now().await).before(1).number();
    f.damage(&format!(
        "INSERT INTO archived_day (item_type, day, state) VALUES ('PAYMENT', {day}, 'DROPPED')"
    ))
    .await;
    assert_eq!(moved(f).await, 0);
    f.damage("DELETE FROM archived_day WHERE state = 'DROPPED'")
        .await;
    assert_eq!(moved(f).await, 1);
}

/// Days that are simulated, and payments of each.
const DAYS: usize = 40;
const A_DAY: usize = 12;
const HOT_DAYS: u32 = 30;

pub async fn forty_days_leave_the_hot_tables_flat_and_no_id_is_paid_again(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let (mut ids, mut totals, mut hot): (Vec<String>, Vec<(Timestamp, Vec<Total>)>, _) =
        (vec![], vec![], vec![]);
    for day in 0..DAYS {
        let new: Vec<String> = (0..A_DAY).map(|n| format!("d{day:02}-{n:02}")).collect();
        let from = ArchiveDay::of(f.now().await).start();
        finished(f, &new).await;
        ids.extend(new);
        totals.push((from, of_day(f, from).await));
        f.advance(DAY).await;
        let first_hot = ArchiveDay::of(f.now().await).before(HOT_DAYS);
        let (store, kind) = (f.store(), payments());
        store
            .prepare_days(&kind, first_hot.before(2), first_hot)
            .await
            .unwrap();
        while store
            .move_ended(all(first_hot.start()))
            .await
            .unwrap()
            .next
            .is_some()
        {}
        store.close_days(&kind, first_hot).await.unwrap();
        hot.push(rows(f, "item_queue").await);
        assert_eq!(rows(f, "item_body").await, hot[day]);
    }
    let flat = u64::from(HOT_DAYS) * A_DAY as u64;
    assert_eq!(hot[HOT_DAYS as usize - 1], flat);
    assert!(
        hot[HOT_DAYS as usize..].iter().all(|rows| *rows == flat),
        "{hot:?}"
    );
    for (from, before) in totals {
        assert_eq!(of_day(f, from).await, before, "{from}");
    }
    let days = f
        .store()
        .archived_days(&payments(), None, 100)
        .await
        .unwrap();
    assert_eq!(days.len(), DAYS - HOT_DAYS as usize);
    assert!(
        days.iter()
            .all(|day| day.count() == A_DAY as u64 && day.state == DayState::Closed)
    );
    let again = ids.iter().map(|id| new_item(id)).collect();
    let said = f.admit(again).await;
    let archived = said.iter().filter(|it| **it == Admission::Archived).count();
    assert_eq!(archived, days.len() * A_DAY);
    assert!(
        said.iter()
            .all(|it| matches!(it, Admission::Archived | Admission::Repeat(_)))
    );
}

async fn of_day(f: &dyn Fixture, from: Timestamp) -> Vec<Total> {
    let to = from + SignedDuration::from_hours(24);
    f.store().totals(&payments(), from, to).await.unwrap()
}

/// The tables that grow with each payment, and by how many rows once it is archived. The handbook has the same list
/// (docs/operations.md, Data growth).
const GROWS: [(&str, u64); 2] = [("known_item", 1), ("archived_item", 1)];
/// Those that have some rows for each day, lane or window, however many payments there are.
const GROWS_BY_TIME: [&str; 5] = [
    "archived_day",
    "archived_sum",
    "archived_turns",
    "lane_window",
    "sqlite_sequence",
];

pub async fn what_grows_with_each_payment_is_what_the_handbook_says(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let before = tables(f).await;
    let ids: Vec<String> = (0..40).map(|n| format!("p{n:02}")).collect();
    finished(f, &ids).await;
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 40);
    for (table, rows) in tables(f).await {
        let was = before
            .iter()
            .find(|(name, _)| *name == table)
            .map_or(0, |(_, rows)| *rows);
        let grown = rows - was;
        // A partition, which its table counts.
        if table.starts_with("archived_payment_") {
            continue;
        }
        let expected = GROWS.iter().find(|(name, _)| *name == table);
        match expected {
            Some((_, each)) => assert_eq!(grown, each * 40, "{table}"),
            None if GROWS_BY_TIME.contains(&table.as_str()) => {
                assert!(grown < 20, "{table}: {grown}")
            }
            // Dispatching writes an entry for each batch.
            None if table == "audit_log" => assert!(grown < 3, "{grown}"),
            None => assert_eq!(grown, 0, "{table} grows, and nothing bounds it"),
        }
    }
}

async fn tables(f: &dyn Fixture) -> Vec<(String, u64)> {
    const SQLITE: &str = "SELECT name FROM sqlite_master WHERE type = 'table'";
    const POSTGRES: &str =
        "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()";
    let names = match f.typed(SQLITE).await {
        Ok(names) => names,
        Err(_) => f.typed(POSTGRES).await.unwrap(),
    };
    let mut tables = vec![];
    for name in names.into_iter().flatten().flatten() {
        tables.push((name.clone(), rows(f, &name).await));
    }
    tables
}

pub async fn nothing_moves_that_a_sender_of_an_older_claim_still_works_on(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("claimed")]).await;
    assert_eq!(f.claim_ids(claim_all()).await, ["claimed"]);
    f.advance(3 * DAY).await;
    assert_eq!(moved(f).await, 0);
    let lane = LaneName::new("other");
    f.store()
        .change_lane(&lane, plan(1, 4), ops())
        .await
        .unwrap();
    assert_eq!(rows(f, "item_queue").await, 1);
}
