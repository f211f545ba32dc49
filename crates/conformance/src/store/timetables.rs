//! `Timetables`: what has not been sent, how close it is to its deadline, and the way from slot to turn.

use tollgate_core::id::{BulkId, LaneName};
use tollgate_core::ports::{ActionResult, ChunkId, NewItem, RecordsWanted, UnsentOnLane};

use super::fixture::{
    Fixture, HOUR, SECOND, bank, claim_all, many, new_item, new_item_at, ops, payment, payments,
    plan, signed,
};
use super::planning::{or_hold, secs};

async fn unsent(f: &dyn Fixture, near: u32) -> UnsentOnLane {
    let found = f.store().unsent(&bank(), &[payments()], near).await;
    found.unwrap().unwrap()
}

pub async fn what_is_not_sent_is_told_one_by_one_and_counted_behind_that(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let slots = f.place(many("p", 45, hour)).await;
    let all = unsent(f, 45).await;
    assert_eq!((all.near.len(), &all.far), (45, &None));
    let told: Vec<_> = all.near.iter().map(|it| it.due).collect();
    let slots: Vec<_> = slots.iter().map(|placed| placed.scheduled).collect();
    assert_eq!(told, slots);
    assert!(all.near.iter().all(|it| it.is_ready));
    // Twelve and a half: the rest of the second window by the queue, the others by their counters.
    let some = unsent(f, 12).await;
    let far = some.far.unwrap();
    assert_eq!((some.near.len(), far.from), (12, slots[12]));
    assert_eq!((far.count, far.windows_from), (8, hour + secs(8)));
    let windows: Vec<_> = far.windows.iter().map(|window| window.used).collect();
    assert_eq!(windows, [10, 10, 5]);
    let nowhere = LaneName::new("nowhere");
    let there = f.store().unsent(&nowhere, &[payments()], 10).await.unwrap();
    assert_eq!(there, None);
}

pub async fn what_is_under_way_is_unsent_until_its_turn(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(&["p", "q"]).await;
    let claimed = f.place(vec![new_item("r")]).await;
    f.claim(claim_all()).await;
    let all = unsent(f, 100).await;
    assert_eq!(all.near.len(), 3);
    assert!(all.near.iter().all(|it| !it.is_ready));
    assert!(all.near.iter().any(|it| it.due == claimed[0].scheduled));
    let (_, turn) = f.sent(&items[0]).await;
    let all = unsent(f, 100).await;
    assert_eq!((all.near.len(), all.last_turn), (2, Some(turn)));
}

pub async fn what_is_tight_is_told_by_the_time_it_has_left(f: &dyn Fixture) {
    f.lane(plan(1, 10)).await;
    let hour = f.next_hour().await;
    // One every ten seconds; the deadline is the same for all but the first, which has none.
    let items = (0..4).map(|n| match n {
        0 => new_item_at("p0", hour),
        n => or_hold(new_item_at(&format!("p{n}"), hour), hour + secs(25)),
    });
    f.place(items.collect()).await;
    let tight = async |slack: i64| f.store().tight(&bank(), secs(slack)).await.unwrap().len();
    assert_eq!([tight(-5).await, tight(0).await, tight(6).await], [0, 1, 2]);
    assert_eq!(tight(100_000).await, 3);
    let with_deadline = async || f.store().with_deadline(&bank()).await.unwrap();
    assert_eq!(with_deadline().await, 3);
    assert_eq!(
        f.store().tight(&LaneName::new("other"), secs(9)).await,
        Ok(vec![])
    );
    // What has gone is tight no more, and what is only under way still is.
    assert_eq!(f.cancel("p3").await, ActionResult::Yes);
    assert_eq!((tight(0).await, with_deadline().await), (0, 2));
    f.advance_to(hour + secs(11)).await;
    f.dispatch_all().await;
    assert_eq!(with_deadline().await, 2);
    f.sent(&payment("p1")).await;
    assert_eq!(with_deadline().await, 1);
}

pub async fn what_is_tight_in_a_file_is_told_apart_from_the_rest_of_its_lane(f: &dyn Fixture) {
    f.lane(plan(1, 10)).await;
    let hour = f.next_hour().await;
    // One every ten seconds, one deadline for all; the file has every second one.
    let file = BulkId::new("b-1");
    let items = (0..4_u32).map(|n| {
        let item = or_hold(new_item_at(&format!("p{n}"), hour), hour + secs(25));
        let bulk = BulkId::new(if n.is_multiple_of(2) { "b-1" } else { "b-11" });
        let init_flow = ChunkId { bulk, number: n }.flow();
        NewItem { init_flow, ..item }
    });
    f.place(items.collect()).await;
    let tight = async |bulk: &BulkId, slack: i64| {
        let (bank, payments) = (bank(), payments());
        let store = f.store();
        let tight = store.tight_in_bulk(&bank, &payments, bulk, secs(slack));
        let dues = tight.await.unwrap().into_iter().map(|it| it.due);
        dues.collect::<Vec<_>>()
    };
    assert_eq!(tight(&file, 0).await, [], "the second one has five seconds");
    assert_eq!(tight(&file, 6).await, [hour + secs(20)]);
    assert_eq!(tight(&BulkId::new("b-11"), 0).await, [hour + secs(30)]);
    assert_eq!(tight(&BulkId::new("none"), 1000).await, []);
    let mut both = tight(&file, 1000).await;
    both.sort();
    assert_eq!(both, [hour, hour + secs(20)]);
    // What has gone is tight no more, and what is only under way still is.
    assert_eq!(f.cancel("p2").await, ActionResult::Yes);
    f.advance_to(hour + secs(1)).await;
    f.dispatch_all().await;
    assert_eq!(tight(&file, 1000).await, [hour]);
    f.sent(&payment("p0")).await;
    assert_eq!(tight(&file, 1000).await, []);
}

pub async fn whatever_has_a_slot_is_claimed_on_it_and_what_was_put_back_is_not(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let claimed = f.claimed_one("p").await;
    assert!(claimed.on_slot);
    let pause = SECOND;
    assert!(
        f.store()
            .put_back(&payment("p"), claimed.run, pause, "closed")
            .await
            .unwrap()
    );
    let again = f.claim(claim_all()).await.remove(0);
    assert!(!again.on_slot, "its time is not its slot");
    assert!(
        f.store()
            .put_back(&payment("p"), again.run, pause, "closed")
            .await
            .unwrap()
    );
    let later = f.now().await + signed(HOUR / 2);
    let moved = f.store().reschedule(&payment("p"), later, ops()).await;
    assert_eq!(moved, Ok(ActionResult::Yes));
    let moved = f.claim(claim_all()).await.remove(0);
    assert!(moved.run > 2 && moved.on_slot, "{moved:?}");
}

pub async fn a_line_of_a_list_tells_whether_it_was_sent_and_when(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let line = async || {
        let wanted = RecordsWanted {
            item_type: payments(),
            status: None,
            lane: None,
            owner: None,
            bulk: None,
            after: None,
            limit: 10,
        };
        let mut page = f.store().records(wanted).await.unwrap();
        page.items.remove(0)
    };
    let waits = line().await;
    assert_eq!((waits.was_sent, waits.last_turn), (false, None));
    assert_eq!((waits.due, waits.has_ended), (waits.slot, false));
    let turn = f.sent(&item).await.1;
    let sent = line().await;
    assert_eq!((sent.was_sent, sent.last_turn), (true, Some(turn)));
    let back = f.store().put_back(&item, 1, HOUR, "again").await;
    assert!(back.unwrap());
    let again = line().await;
    assert_eq!((again.was_sent, again.last_turn), (false, Some(turn)));
    assert!(again.due > again.slot && !again.has_ended);
}

pub async fn first_sends_are_told_with_their_slots_newest_first(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    let items: Vec<NewItem> = (0..3).map(|n| new_item_at(&format!("p{n}"), now)).collect();
    let slots = f.place(items).await;
    f.dispatch_all().await;
    let mut turns = vec![];
    for n in 0..3 {
        f.advance(SECOND).await;
        turns.push(f.sent(&payment(&format!("p{n}"))).await.1);
    }
    let sent = f.store().sent_on_slots(&bank(), 100).await.unwrap();
    let told: Vec<_> = sent
        .iter()
        .map(|it| (it.slot, it.turn, it.before))
        .collect();
    let slot = |n: usize| slots[n].scheduled;
    assert_eq!(
        told,
        [
            (slot(2), turns[2], Some(turns[1])),
            (slot(1), turns[1], Some(turns[0])),
            (slot(0), turns[0], None),
        ]
    );
    let last = f.store().sent_on_slots(&bank(), 1).await.unwrap();
    assert_eq!(last, sent[..1]);
}
