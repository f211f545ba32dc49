//! `NeedsYou`: what waits for a person is counted with its amounts, and what a person has seen is kept.

use std::time::Duration;

use tollgate_core::id::{Item, ItemType};
use tollgate_core::ports::{
    BulkSum, ByTime, ChunkEnd, ChunkId, LineError, Need, NewAudit, NewChunk, NewRequest, NewSeen,
    PageFrom, PageToken, Pile, Worklists, WorklistsAsked,
};

use super::fixture::{
    Fixture, MINUTE, SECOND, new_item, ops, payment, payments, plan, there_and_back, usd,
};
use super::operator_actions::{State, bring};

fn notifications() -> ItemType {
    ItemType::new("NOTIFICATION")
}

impl dyn Fixture + '_ {
    pub(super) async fn worklists(&self) -> Worklists {
        let asked = WorklistsAsked {
            money: vec![payments(), ItemType::new("INVOICE")],
            payments: payments(),
            notifications: notifications(),
        };
        self.store().worklists(asked).await.unwrap()
    }
    async fn see(&self, kind: Need, count: u64, mark: i64) {
        let seen = NewSeen { count, mark };
        self.store().mark_seen(kind, seen, ops()).await.unwrap();
    }
    async fn price(&self, item: &Item, currency: &str, minor: i64) {
        let id = &item.id;
        self.damage(&format!(
            "UPDATE item_queue SET currency = '{currency}', amount_minor = {minor}
             WHERE item_id = '{id}'"
        ))
        .await;
    }
}

fn summed(pile: &Pile) -> Vec<(&str, u64, i64)> {
    let counted: u64 = pile.amounts.iter().map(|it| it.count).sum();
    assert_eq!(pile.count, counted, "{pile:?}");
    let amounts = pile.amounts.iter();
    amounts
        .map(|it| (it.currency.as_str(), it.count, it.amount_minor))
        .collect()
}

pub async fn what_waits_for_a_person_is_counted_with_its_amounts_since_the_oldest(f: &dyn Fixture) {
    let first = f.now().await;
    for (n, state) in [State::Held, State::Held, State::Dead, State::Ready]
        .into_iter()
        .enumerate()
    {
        let item = bring(f, state, &format!("p{n}")).await;
        f.price(&item, if n == 0 { "EUR" } else { "USD" }, 10).await;
    }
    let lost = bring(f, State::InDoubt, "lost").await;
    let id = &lost.id;
    f.damage(&format!(
        "UPDATE item_queue SET status = 'IN_DOUBT' WHERE item_id = '{id}'"
    ))
    .await;
    let told = f.worklists().await;
    assert_eq!(summed(&told.held), [("EUR", 1, 10), ("USD", 1, 10)]);
    assert_eq!(summed(&told.dead), [("USD", 1, 10)]);
    assert_eq!(summed(&told.in_doubt), [("USD", 1, 100)]);
    assert!(!told.held.is_capped && told.now >= first);
    let oldest = told.held.oldest.unwrap();
    let due = f.view(&payment("p0")).await.due;
    assert_eq!(oldest, due.min(f.view(&payment("p1")).await.due));
    let sum = f.store().held_sum(&payments()).await.unwrap();
    assert_eq!(sum.all_of(&payments()), told.held);
    let none = [&told.not_planned, &told.differing, &told.rejected_imports];
    assert_eq!(none.map(|pile| pile.count), [0, 0, 0]);
}

pub async fn what_is_held_is_told_page_by_page_by_when_it_was_due(f: &dyn Fixture) {
    for id in ["c", "a", "b"] {
        bring(f, State::Held, id).await;
        f.advance(SECOND).await;
    }
    bring(f, State::Ready, "d").await;
    for (order, expected) in [
        (ByTime::Oldest, ["c", "a", "b"]),
        (ByTime::Newest, ["b", "a", "c"]),
    ] {
        let page = async |from: PageFrom<PageToken>| {
            let page = f.store().held(&payments(), order, from, 2).await.unwrap();
            page.map(|it| it.id.to_string())
        };
        there_and_back(page, &expected).await;
    }
    let (kind, from) = (payments(), PageFrom::Start);
    let all = f.store().held(&kind, ByTime::Oldest, from, 1).await;
    let all = all.unwrap();
    let (held, view) = (&all.items[0], f.view(&payment("c")).await);
    assert_eq!((held.due, &held.lane), (view.due, &view.lane));
    assert_eq!((held.money, &held.why), (view.money, &view.last_error));
}

pub async fn what_is_held_is_a_bucket_of_its_own_in_the_totals(f: &dyn Fixture) {
    for (n, state) in [State::Held, State::Held, State::Ready]
        .into_iter()
        .enumerate()
    {
        bring(f, state, &format!("p{n}")).await;
    }
    let lost = bring(f, State::HeldInDoubt, "lost").await;
    let id = &lost.id;
    f.damage(&format!(
        "UPDATE item_queue SET status = 'IN_DOUBT' WHERE item_id = '{id}'"
    ))
    .await;
    let to = f.now().await + tollgate_core::SignedDuration::from_hours(1);
    let from = tollgate_core::Timestamp::UNIX_EPOCH;
    let totals = f.store().totals(&payments(), from, to).await.unwrap();
    let told: Vec<_> = totals
        .iter()
        .map(|it| (it.status.as_str(), it.count, it.amount_minor))
        .collect();
    let expected = [
        ("HELD", 2, 200),
        ("IN_DOUBT", 1, 100),
        ("SCHEDULED", 1, 100),
    ];
    assert_eq!(told, expected);
}

pub async fn what_was_seen_is_kept_with_its_author_until_less_is_left(f: &dyn Fixture) {
    assert_eq!(f.worklists().await.seen, []);
    f.see(Need::Held, 5, 0).await;
    f.see(Need::Held, 7, 3).await;
    let seen = f.worklists().await.seen.remove(0);
    assert_eq!((seen.kind, seen.count, seen.mark), (Need::Held, 7, 3));
    assert_eq!(seen.author, ops());
    let store = f.store();
    let left = async |left| {
        store.lower_seen(Need::Held, left).await.unwrap();
        let seen = f.worklists().await.seen;
        seen.first().map(|seen| seen.count)
    };
    assert_eq!(left(9).await, Some(7), "only ever fewer");
    assert_eq!(left(2).await, Some(2));
    assert_eq!(left(0).await, None);
    let trail = store.audit(None, 10).await.unwrap();
    let seen: Vec<_> = trail.iter().filter(|it| it.action == "SEEN").collect();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].detail, "held, 7 of them: because");
}

pub async fn what_has_happened_is_told_once_per_payment_until_it_was_seen(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("a"), new_item("b")]).await;
    let differs = async |id: &str| {
        let entry = NewAudit {
            item: Some(payment(id)),
            action: "ANSWER_DIFFERS".into(),
            actor: "payments".into(),
            detail: "another amount".into(),
        };
        f.store().write_audit(entry).await.unwrap();
    };
    differs("a").await;
    differs("a").await;
    let told = f.worklists().await.differing;
    assert_eq!(summed(&told), [("USD", 1, 100)], "a step that ran twice");
    f.see(Need::AnswersDiffer, told.count, told.last).await;
    assert_eq!(f.worklists().await.differing.count, 0);
    differs("b").await;
    let told = f.worklists().await.differing;
    assert_eq!(summed(&told), [("USD", 1, 100)], "and it is the new one");
}

pub async fn files_with_rejected_lines_are_told_until_they_were_seen(f: &dyn Fixture) {
    let ended = async |name: &str, rejected: u32| {
        let bulk = tollgate_core::id::BulkId::new(name);
        let store = f.store();
        assert!(store.open_bulk(&bulk, &payments()).await.unwrap());
        let chunk = NewChunk {
            number: 1,
            lines: rejected,
            text: vec![],
        };
        assert!(store.add_chunk(&bulk, chunk).await.unwrap());
        store.close_bulk(&bulk, None, "d".into()).await.unwrap();
        let line = |line| LineError {
            line,
            id: None,
            details: std::collections::BTreeMap::new(),
            text: None,
        };
        let end = ChunkEnd {
            sums: Vec::<BulkSum>::new(),
            duplicate: 0,
            rejected: (0..rejected).map(u64::from).map(line).collect(),
        };
        let chunk = ChunkId { bulk, number: 1 };
        assert!(store.finish_chunk(&chunk, end).await.unwrap());
        f.advance(Duration::from_millis(1)).await;
    };
    let told = async || {
        let told = f.worklists().await;
        (told.rejected_imports.count, told.rejected_lines)
    };
    assert_eq!(told().await, (0, 0));
    ended("good", 0).await;
    ended("bad", 3).await;
    ended("worse", 4).await;
    assert_eq!(told().await, (2, 7));
    let last = f.worklists().await.rejected_imports.last;
    f.see(Need::ImportsRejected, 2, last).await;
    assert_eq!(told().await, (0, 0));
    ended("again", 1).await;
    assert_eq!(told().await, (1, 1));
    // A feed never ends, and a large file not for a while: what they reject is told at once.
    f.damage("UPDATE bulk SET state = 'RUNNING', ended_at = NULL WHERE bulk_id = 'again'")
        .await;
    assert_eq!(told().await, (1, 1));
}

pub async fn what_is_not_planned_in_time_or_fails_waits_for_a_person(f: &dyn Fixture) {
    let request = |id: &str| NewRequest {
        item: payment(id),
        content_hash: "hash".into(),
        money: usd(100),
        document: "{}".into(),
        again: false,
    };
    f.store().accept(request("a")).await.unwrap();
    f.store().accept(request("b")).await.unwrap();
    assert_eq!(f.worklists().await.not_planned.count, 0, "just accepted");
    let failed = f.store().try_failed(&payment("a"), "hash", "no").await;
    assert_eq!(failed.unwrap(), Some(1));
    let told = f.worklists().await.not_planned;
    assert_eq!(summed(&told), [("USD", 1, 100)]);
    f.advance(MINUTE + SECOND).await;
    let told = f.worklists().await.not_planned;
    assert_eq!(summed(&told), [("USD", 2, 200)]);
    assert!(told.oldest.is_some());
}

pub async fn notifications_that_fail_again_and_again_wait_for_a_person(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = ["a", "b", "c"].map(new_item).to_vec();
    f.store().admit(&notifications(), items).await.unwrap();
    for (id, failures) in [("a", 2), ("b", 3)] {
        f.damage(&format!(
            "UPDATE item_queue SET failures = {failures} WHERE item_id = '{id}'"
        ))
        .await;
    }
    let told = f.worklists().await;
    assert_eq!(told.failing_notifications.count, 1);
    assert_eq!(told.dead.count, 0);
    for status in ["CLAIMED", "DISPATCHED"] {
        f.damage(&format!(
            "UPDATE item_queue SET queue_status = '{status}' WHERE item_id = 'b'"
        ))
        .await;
        let told = f.worklists().await.failing_notifications;
        assert_eq!(told.count, 1, "while it is tried once more: {status}");
    }
    f.damage("UPDATE item_queue SET queue_status = 'DEAD' WHERE item_id = 'c'")
        .await;
    let told = f.worklists().await;
    let (failing, dead) = (told.failing_notifications, told.dead);
    assert_eq!((failing.count, failing.amounts), (2, vec![]));
    assert_eq!(dead.count, 0, "only money counts as such");
}
