//! `Archive`: items leave the hot tables, are found again, and are never taken in twice.

use std::time::Duration;

use futures::future::join_all;
use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::id::{Item, ItemType, LaneName};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    Admission, AuditWanted, KnownAsked, KnownContent, MoveWanted, Moved, NewAudit, NewItem,
    NewRecord, StatusMove, Then, Total,
};
use tollgate_core::{SignedDuration, Timestamp};

use super::fixture::{
    Fixture, bank, claim_all, given, new_item, ops, payment, payments, plan, send, settlement,
};
use super::operator_actions::{STATES, State, bring};

pub(super) const DAY: Duration = Duration::from_hours(24);
/// Items are ended so many at a time, so that they share commits.
const AT_ONCE: usize = 100;

/// Sends and ends these items.
pub(super) async fn ended(f: &dyn Fixture, ids: &[&str]) -> Vec<Item> {
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
pub(super) async fn finished(f: &dyn Fixture, ids: &[String]) {
    let names: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (items, store) = (f.dispatched(&names).await, f.store());
    for some in items.chunks(AT_ONCE) {
        let finish = |item| {
            let done = StatusMove::new(&["SCHEDULED"], "PROCESSING");
            store.finish(item, 1, done)
        };
        for is_done in join_all(some.iter().map(finish)).await {
            assert!(is_done.unwrap());
        }
    }
}

pub(super) fn all(ended_before: Timestamp) -> MoveWanted {
    MoveWanted {
        item_type: payments(),
        ended_before,
        after: None,
        at_most: 100,
        remembered: true,
    }
}

/// Moves what ended before today, with room for the last days; returns what the last call said.
pub(super) async fn moved(f: &dyn Fixture) -> u64 {
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

pub(super) async fn rows(f: &dyn Fixture, table: &str) -> u64 {
    let count = f
        .typed(&format!("SELECT count(*) FROM {table}"))
        .await
        .unwrap();
    count[0][0].as_deref().unwrap().parse().unwrap()
}

pub(super) async fn line(f: &dyn Fixture, item: &Item) -> ArchivedItem {
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

pub async fn a_clock_that_jumps_over_the_end_of_a_day_moves_nothing_twice_and_loses_nothing(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let first = ArchiveDay::of(f.now().await);
    finished(f, &["a".to_owned()]).await;
    // Over the ends of two days, then back over one of them.
    f.advance(2 * DAY).await;
    finished(f, &["b".to_owned()]).await;
    assert_eq!(moved(f).await, 1);
    f.turn_back(DAY).await;
    finished(f, &["c".to_owned()]).await;
    assert_eq!(moved(f).await, 0, "one ended today, the other tomorrow");
    f.advance(2 * DAY).await;
    assert_eq!(moved(f).await, 2);
    let days = f.store().archived_days(&payments(), None, 10).await;
    let days = days.unwrap().into_iter().map(|it| (it.day, it.count()));
    let expected = [(first, 1), (first.after(1), 1), (first.after(2), 1)];
    assert_eq!(days.collect::<Vec<_>>(), expected);
    for id in ["a", "b", "c"] {
        assert_eq!(f.admit_one(new_item(id)).await, Admission::Archived, "{id}");
    }
    assert_eq!(rows(f, "item_queue").await, 0);
    assert_eq!(rows(f, "known_item").await, 3);
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
            wanted.after.clone_from(&said.next);
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

pub async fn what_is_asked_for_while_items_move_has_all_of_them(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let begin = f.now().await;
    let names: Vec<String> = (0..40).map(|n| format!("a{n:02}")).collect();
    let ids: Vec<&str> = names.iter().map(String::as_str).collect();
    let items = ended(f, &ids).await;
    for item in &items {
        let entry = NewAudit {
            item: Some(item.clone()),
            action: "NOTED".into(),
            actor: "ops".into(),
            detail: "because".into(),
        };
        f.store().write_audit(entry).await.unwrap();
    }
    f.advance(DAY).await;
    let (store, to) = (f.store(), f.now().await);
    let (kind, first_hot) = (payments(), ArchiveDay::of(to));
    let prepared = store.prepare_days(&kind, first_hot.before(1), first_hot);
    prepared.await.unwrap();
    let moving = async {
        let mut wanted = MoveWanted {
            at_most: 1,
            ..all(first_hot.start())
        };
        loop {
            let said = f.store().move_ended(wanted.clone()).await.unwrap();
            let Some(next) = said.next else { break };
            wanted.after = Some(next);
        }
    };
    let trail = async |item: &Item| {
        let wanted = AuditWanted {
            item: Some(item.clone()),
            limit: 100,
            ..AuditWanted::default()
        };
        store.audit_log(wanted).await.unwrap().items
    };
    assert_eq!(trail(&items[0]).await.len(), 1);
    let asking = async {
        while rows(f, "item_queue").await > 0 {
            let proof = store.certificate(&bank(), begin, to).await.unwrap();
            assert_eq!(proof.sends, 40, "turns of items that move are missing");
            let trails = join_all(items.iter().map(&trail)).await;
            for (item, trail) in items.iter().zip(trails) {
                assert_eq!(trail.len(), 1, "{item}");
            }
        }
    };
    tokio::join!(moving, asking);
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

/// Neither its rows move, nor is a line written that would count as an item of its day.
async fn stays_hot(f: &dyn Fixture, day: ArchiveDay) {
    assert_eq!(moved(f).await, 0);
    let lines = f.store().archived_lines(&payments(), day, None, 10).await;
    assert_eq!(lines.unwrap(), Vec::<String>::new());
}

pub async fn an_item_of_a_lane_in_a_storm_or_of_a_dropped_day_stays_hot(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    ended(f, &["a"]).await;
    f.damage("UPDATE lane_cursor SET storm_id = 7 WHERE lane = 'bank'")
        .await;
    f.advance(DAY).await;
    let day = ArchiveDay::of(f.now().await).before(1);
    stays_hot(f, day).await;
    f.damage("UPDATE lane_cursor SET storm_id = NULL WHERE lane = 'bank'")
        .await;
    let number = day.number();
    f.damage(&format!(
        "INSERT INTO archived_day (item_type, day, state) VALUES ('PAYMENT', {number}, 'DROPPED')"
    ))
    .await;
    stays_hot(f, day).await;
    let wanted = all(ArchiveDay::of(f.now().await).start());
    let said = f.store().move_ended(wanted.clone()).await.unwrap();
    assert_eq!((said.moved, said.in_files), (0, vec![day]), "it is said");
    f.damage("DELETE FROM archived_day WHERE state = 'DROPPED'")
        .await;
    let said = f.store().move_ended(wanted).await.unwrap();
    assert_eq!((said.moved, said.in_files), (1, vec![]));
}

pub async fn days_of_the_archive_are_found_whatever_the_order_of_acceptance(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let (begin, quarter) = (f.now().await, Duration::from_mins(15));
    // Accepted one after the other; the one in the middle ended last.
    for (id, days) in [("first", 1), ("middle", 3), ("last", 2)] {
        finished(f, &[id.to_owned()]).await;
        // From the one moment: the quarters may go past midnight.
        let end = begin.as_microsecond() + days * 86_400_000_000_i64;
        f.damage(&format!(
            "UPDATE item_queue SET finished_at = {end} WHERE item_id = '{id}'"
        ))
        .await;
        f.advance(quarter).await;
    }
    let to = f.now().await;
    f.advance(4 * DAY).await;
    assert_eq!(moved(f).await, 3);
    let found = async |from, to| {
        let found = f.store().found_in(&payments(), from, to).await.unwrap();
        (found.hot, found.archive)
    };
    let day = ArchiveDay::of(begin);
    let all = (false, Some((day.after(1), day.after(3))));
    assert_eq!(found(None, None).await, all);
    assert_eq!(found(Some(begin), Some(to)).await, all);
    assert_eq!(found(Some(to + quarter), None).await, (false, None));
    assert_eq!(found(None, Some(begin - quarter)).await, (false, None));
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
