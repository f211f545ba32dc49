//! `Bulks`: a file is all there before any of it runs, and each of its chunks is counted once.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemType, LaneName};
use tollgate_core::ports::{
    BulkOrigin, BulkState, BulkSum, BulkView, ChunkEnd, ChunkId, ChunkTurn, Closed, Counted,
    HELD_BACK, KnownBulk, LineError, NewChunk, PageFrom, PageToken, RETRIES,
};

use super::fixture::{Fixture, HOUR, MINUTE, SECOND, payments, there_and_back};

fn id(name: &str) -> BulkId {
    BulkId::new(name)
}
fn chunk_id(bulk: &BulkId, number: u32) -> ChunkId {
    let bulk = bulk.clone();
    ChunkId { bulk, number }
}
fn chunk(number: u32) -> NewChunk {
    NewChunk {
        number,
        lines: 10,
        text: format!("text of {number}").into_bytes(),
    }
}
fn at(secs: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + secs).unwrap()
}
fn sum(lane: &str, currency: &str, accepted: u64, slot: i64, deadline: Option<i64>) -> BulkSum {
    BulkSum {
        lane: LaneName::new(lane),
        currency: currency.into(),
        accepted,
        amount_minor: 100 * i64::try_from(accepted).unwrap(),
        met: accepted - 1,
        missed: 1,
        first_slot: at(slot),
        last_slot: at(slot + 10),
        deadlines: deadline.map(|deadline| (at(deadline), at(deadline + 5))),
    }
}
fn error(line: u64) -> LineError {
    let what = |n: u64| (format!("field {n}"), "is \"wrong\" \u{0}".to_owned());
    LineError {
        line,
        id: line.is_multiple_of(2).then(|| format!("pay_{line}")),
        details: BTreeMap::from([what(1), what(line)]),
        text: line
            .is_multiple_of(2)
            .then(|| format!("{{\"line\": {line}}}")),
    }
}
/// Five accepted, two duplicates, three rejected.
fn ten_lines(number: u32) -> ChunkEnd {
    let first = u64::from(number) * 10;
    ChunkEnd {
        sums: vec![sum("bank", "USD", 5, 0, None)],
        duplicate: 2,
        rejected: (first..first + 3).map(error).collect(),
    }
}

impl dyn Fixture + '_ {
    /// An upload of so many chunks.
    async fn uploaded(&self, name: &str, chunks: u32) -> BulkId {
        let bulk = id(name);
        assert!(self.store().open_bulk(&bulk, &payments()).await.unwrap());
        for number in 1..=chunks {
            let added = self.store().add_chunk(&bulk, chunk(number)).await;
            assert!(added.unwrap());
        }
        bulk
    }
    async fn close(&self, bulk: &BulkId, key: Option<&str>, digest: &str) -> Closed {
        let (key, digest) = (key.map(str::to_owned), digest.to_owned());
        self.store().close_bulk(bulk, key, digest).await.unwrap()
    }
    async fn closed(&self, name: &str, chunks: u32) -> BulkId {
        let bulk = self.uploaded(name, chunks).await;
        assert_eq!(self.close(&bulk, None, "d").await, Closed::Running);
        bulk
    }
    async fn to_do(&self, limit: u32) -> Vec<ChunkId> {
        let store = self.store();
        let to_do = store.chunks_to_do(&payments(), limit).await.unwrap();
        to_do.into_iter().map(|to_do| to_do.chunk).collect()
    }
    async fn bulk(&self, bulk: &BulkId) -> BulkView {
        self.store().bulk(bulk).await.unwrap().unwrap()
    }
    async fn finish(&self, bulk: &BulkId, number: u32) -> bool {
        let chunk = chunk_id(bulk, number);
        let finished = self.store().finish_chunk(&chunk, ten_lines(number)).await;
        finished.unwrap()
    }
}

fn counts(view: &BulkView) -> (u64, u64, u64, u64) {
    (view.lines, view.accepted, view.duplicate, view.rejected)
}

pub async fn an_upload_is_no_work_until_it_is_closed(f: &dyn Fixture) {
    let before = f.now().await;
    let bulk = f.uploaded("b1", 2).await;
    assert_eq!(f.to_do(10).await, []);
    let view = f.bulk(&bulk).await;
    assert_eq!(view.state, BulkState::Uploading);
    assert_eq!((view.started_at, counts(&view)), (None, (20, 0, 0, 0)));
    assert_eq!(f.store().bulks_running(&payments()).await.unwrap(), 0);
    assert_eq!(f.close(&bulk, None, "d").await, Closed::Running);
    assert_eq!(f.to_do(10).await, [chunk_id(&bulk, 1), chunk_id(&bulk, 2)]);
    let view = f.bulk(&bulk).await;
    assert_eq!(
        (view.state, view.item_type),
        (BulkState::Running, payments())
    );
    assert!(view.opened_at >= before && view.started_at >= Some(view.opened_at));
    assert_eq!(view.ended_at, None);
    assert_eq!(f.store().bulks_running(&payments()).await.unwrap(), 1);
}

pub async fn an_id_of_a_bulk_is_given_once(f: &dyn Fixture) {
    let bulk = id("b1");
    let opens = (0..8).map(|_| {
        let (store, bulk) = (f.store(), bulk.clone());
        async move { store.open_bulk(&bulk, &payments()).await.unwrap() }
    });
    let opened = join_all(opens).await;
    assert_eq!(opened.iter().filter(|opened| **opened).count(), 1);
    assert_eq!(f.store().bulk(&id("b2")).await.unwrap(), None);
}

pub async fn a_chunk_added_twice_is_there_once(f: &dyn Fixture) {
    let bulk = f.uploaded("b1", 2).await;
    let other = NewChunk {
        text: b"other".to_vec(),
        ..chunk(2)
    };
    assert!(f.store().add_chunk(&bulk, other).await.unwrap());
    assert_eq!(f.bulk(&bulk).await.lines, 20);
    let text = f.store().chunk(&chunk_id(&bulk, 2)).await.unwrap();
    assert_eq!(text, Some(b"text of 2".to_vec()), "the first stays");
}

pub async fn chunks_are_added_to_open_uploads_only(f: &dyn Fixture) {
    let closed = f.closed("b1", 1).await;
    let dropped = f.uploaded("b2", 1).await;
    f.store().drop_upload(&dropped).await.unwrap();
    for bulk in [&closed, &dropped, &id("b3")] {
        assert!(
            !f.store().add_chunk(bulk, chunk(2)).await.unwrap(),
            "{bulk}"
        );
    }
    assert_eq!(f.close(&dropped, None, "d").await, Closed::Gone);
    assert_eq!(f.close(&id("b3"), None, "d").await, Closed::Gone);
    assert_eq!(f.store().bulk(&dropped).await.unwrap(), None);
    f.store().drop_upload(&closed).await.unwrap();
    assert_eq!(f.bulk(&closed).await.state, BulkState::Running, "it stays");
    assert_eq!(f.to_do(10).await, [chunk_id(&closed, 1)]);
}

pub async fn what_was_uploaded_comes_back_byte_for_byte_after_a_restart(f: &dyn Fixture) {
    let bulk = f.uploaded("b1", 1).await;
    let text: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let odd = NewChunk {
        number: 2,
        lines: 1,
        text: text.clone(),
    };
    assert!(f.store().add_chunk(&bulk, odd).await.unwrap());
    assert_eq!(f.close(&bulk, Some("key"), "d").await, Closed::Running);
    f.restart().await;
    assert_eq!(f.to_do(10).await.len(), 2);
    let read = f.store().chunk(&chunk_id(&bulk, 2)).await.unwrap();
    assert!(read == Some(text));
    assert_eq!(f.store().chunk(&chunk_id(&bulk, 3)).await.unwrap(), None);
}

pub async fn closing_again_changes_nothing(f: &dyn Fixture) {
    let bulk = f.uploaded("b1", 1).await;
    for _ in 0..2 {
        assert_eq!(f.close(&bulk, Some("key"), "d").await, Closed::Running);
    }
    let started_at = f.bulk(&bulk).await.started_at;
    f.advance(MINUTE).await;
    assert!(f.finish(&bulk, 1).await);
    assert_eq!(f.close(&bulk, Some("key"), "d").await, Closed::Running);
    let view = f.bulk(&bulk).await;
    assert_eq!((view.state, view.started_at), (BulkState::Done, started_at));
}

pub async fn a_key_belongs_to_the_first_upload_that_was_closed_under_it(f: &dyn Fixture) {
    let by_key = async |key: &str| f.store().bulk_by_key(&payments(), key).await.unwrap();
    let first = f.uploaded("b1", 1).await;
    let second = f.uploaded("b2", 1).await;
    assert_eq!(by_key("key").await, None, "nobody has closed anything");
    assert_eq!(f.close(&second, Some("key"), "two").await, Closed::Running);
    let known = KnownBulk {
        bulk: second.clone(),
        digest: "two".into(),
    };
    assert_eq!(by_key("key").await, Some(known.clone()));
    assert_eq!(
        f.close(&first, Some("key"), "one").await,
        Closed::Known(known)
    );
    assert_eq!(f.store().bulk(&first).await.unwrap(), None, "given up");
    let third = f.uploaded("b3", 1).await;
    assert_eq!(f.close(&third, Some("other"), "two").await, Closed::Running);
    let (store, invoices) = (f.store(), ItemType::new("INVOICE"));
    let other_type = store.bulk_by_key(&invoices, "key").await;
    assert_eq!(other_type.unwrap(), None);
}

pub async fn uploads_closed_at_once_under_one_key_are_one_bulk(f: &dyn Fixture) {
    let mut bulks = vec![];
    for n in 0..6 {
        bulks.push(f.uploaded(&format!("b{n}"), 1).await);
    }
    let closing = bulks.iter().map(|bulk| f.close(bulk, Some("key"), "d"));
    let closed = join_all(closing).await;
    let running = closed.iter().filter(|c| **c == Closed::Running).count();
    assert_eq!(running, 1, "{closed:?}");
    assert_eq!(f.to_do(10).await.len(), 1);
}

pub async fn chunks_to_do_are_those_of_closed_bulks_the_oldest_first(f: &dyn Fixture) {
    let young = f.closed("b2", 2).await;
    let old = f.closed("b1", 12).await;
    let store = f.store();
    let invoices = ItemType::new("INVOICE");
    store.open_bulk(&id("b0"), &invoices).await.unwrap();
    store.add_chunk(&id("b0"), chunk(1)).await.unwrap();
    f.close(&id("b0"), None, "d").await;
    let mut expected: Vec<_> = (1..=12).map(|n| chunk_id(&old, n)).collect();
    expected.extend([chunk_id(&young, 1), chunk_id(&young, 2)]);
    assert_eq!(f.to_do(100).await, expected);
    assert_eq!(f.to_do(3).await, expected[..3]);
    assert!(f.finish(&old, 2).await);
    expected.remove(1);
    assert_eq!(f.to_do(100).await, expected);
    let invoices = store.chunks_to_do(&invoices, 100).await.unwrap();
    let invoices: Vec<_> = invoices.into_iter().map(|it| it.chunk).collect();
    assert_eq!(invoices, [chunk_id(&id("b0"), 1)]);
}

pub async fn a_chunk_is_counted_once_whoever_ends_it_at_once(f: &dyn Fixture) {
    let bulk = f.closed("b1", 2).await;
    let finished = join_all((0..8).map(|_| f.finish(&bulk, 1))).await;
    assert_eq!(finished.iter().filter(|finished| **finished).count(), 1);
    let view = f.bulk(&bulk).await;
    assert_eq!(counts(&view), (20, 5, 2, 3));
    assert_eq!((view.state, view.sums.len()), (BulkState::Running, 1));
    assert_eq!(f.store().chunk(&chunk_id(&bulk, 1)).await.unwrap(), None);
    assert!(!f.finish(&bulk, 7).await, "there is no such chunk");
    assert_eq!(f.bulk(&bulk).await, view);
}

pub async fn the_last_chunk_ends_its_bulk_whoever_ends_at_once(f: &dyn Fixture) {
    let bulk = f.closed("b1", 8).await;
    let finished = join_all((1..=8).map(|number| f.finish(&bulk, number))).await;
    assert!(finished.iter().all(|finished| *finished));
    let view = f.bulk(&bulk).await;
    assert_eq!(
        (view.state, counts(&view)),
        (BulkState::Done, (80, 40, 16, 24))
    );
    assert!(view.ended_at >= view.started_at);
    assert_eq!(f.to_do(10).await, []);
    assert_eq!(f.store().bulks_running(&payments()).await.unwrap(), 0);
}

pub async fn what_was_accepted_is_summed_by_lane_and_currency(f: &dyn Fixture) {
    let bulk = f.closed("b1", 3).await;
    let ends = [
        vec![
            sum("bank", "EUR", 2, 50, None),
            sum("bank", "USD", 3, 100, None),
        ],
        vec![
            sum("bank", "USD", 4, 20, Some(500)),
            sum("acme", "USD", 5, 0, Some(1)),
        ],
        vec![sum("bank", "USD", 1, 60, Some(400))],
    ];
    for (number, sums) in (1..).zip(ends) {
        let end = ChunkEnd {
            sums,
            ..ChunkEnd::default()
        };
        let finished = f.store().finish_chunk(&chunk_id(&bulk, number), end).await;
        assert!(finished.unwrap());
    }
    let usd = BulkSum {
        met: 2 + 3,
        missed: 3,
        last_slot: at(110),
        deadlines: Some((at(400), at(505))),
        ..sum("bank", "USD", 8, 20, None)
    };
    let expected = [
        sum("acme", "USD", 5, 0, Some(1)),
        sum("bank", "EUR", 2, 50, None),
        usd,
    ];
    let view = f.bulk(&bulk).await;
    assert_eq!(view.sums, expected);
    assert_eq!(view.accepted, 15);
}

pub async fn rejected_lines_are_told_page_by_page(f: &dyn Fixture) {
    let bulk = f.closed("b1", 3).await;
    for number in [2, 1, 3] {
        f.finish(&bulk, number).await;
    }
    let other = f.closed("b2", 1).await;
    f.finish(&other, 1).await;
    let page = async |after, limit| {
        let errors = f.store().bulk_errors(&bulk, after, limit).await.unwrap();
        errors.iter().map(|error| error.line).collect::<Vec<_>>()
    };
    assert_eq!(page(0, 4).await, [10, 11, 12, 20]);
    assert_eq!(page(20, 4).await, [21, 22, 30, 31]);
    assert_eq!(page(31, 4).await, [32]);
    assert_eq!(page(u64::MAX, 4).await, [0_u64; 0]);
    let first = f.store().bulk_errors(&bulk, 0, 2).await.unwrap();
    assert_eq!(first, [error(10), error(11)], "as they were given");
}

pub async fn uploads_that_were_given_up_or_left_are_removed_some_chunks_at_a_time(f: &dyn Fixture) {
    let sweep = async |idle: Duration, most| f.store().sweep_uploads(idle, most).await.unwrap();
    let left = f.uploaded("b1", 5).await;
    f.advance(2 * HOUR).await;
    let dropped = f.uploaded("b2", 2).await;
    f.store().drop_upload(&dropped).await.unwrap();
    let alive = f.uploaded("b3", 2).await;
    let running = f.closed("b4", 2).await;
    assert_eq!(sweep(HOUR, 4).await, 4);
    assert_eq!(sweep(HOUR, 4).await, 3);
    assert_eq!(sweep(HOUR, 4).await, 0);
    assert_eq!(f.store().bulk(&left).await.unwrap(), None);
    assert!(!f.store().add_chunk(&left, chunk(6)).await.unwrap());
    assert!(
        f.store().open_bulk(&dropped, &payments()).await.unwrap(),
        "gone for good"
    );
    f.store().drop_upload(&dropped).await.unwrap();
    assert!(f.store().add_chunk(&alive, chunk(3)).await.unwrap());
    f.advance(HOUR + MINUTE).await;
    assert!(
        f.store().add_chunk(&alive, chunk(4)).await.unwrap(),
        "slow, but alive"
    );
    assert_eq!(sweep(HOUR, 9).await, 0);
    assert_eq!(f.bulk(&alive).await.lines, 40);
    assert_eq!(f.to_do(9).await.len(), 2, "what runs is nobody's to remove");
    assert_eq!(f.bulk(&running).await.state, BulkState::Running);
}

pub async fn bulks_are_told_page_by_page_the_newest_first(f: &dyn Fixture) {
    let kind = payments();
    let nothing = f.store().bulks(&kind, PageFrom::Start, 2).await.unwrap();
    assert_eq!((nothing.items.len(), nothing.next), (0, None));
    let done = f.closed("b2", 1).await;
    f.advance(MINUTE).await;
    f.closed("b3", 2).await;
    f.advance(MINUTE).await;
    let gone = f.uploaded("b4", 1).await;
    f.uploaded("b1", 3).await;
    f.store().drop_upload(&gone).await.unwrap();
    let invoices = ItemType::new("INVOICE");
    assert!(f.store().open_bulk(&id("b9"), &invoices).await.unwrap());
    let chunk = chunk_id(&done, 1);
    let ended = f.store().finish_chunk(&chunk, ten_lines(1)).await;
    assert!(ended.unwrap());

    for limit in [1, 2, 3] {
        let page = async |from: PageFrom<PageToken>| {
            let page = f.store().bulks(&kind, from, limit).await.unwrap();
            page.map(|line| line.bulk.to_string())
        };
        // Nothing given up, nothing of another type.
        there_and_back(page, &["b1", "b3", "b2"]).await;
    }
    let imports = Counted::Imports(payments());
    assert_eq!(f.store().counted(imports, 9).await.unwrap(), 3);
    let lines = f
        .store()
        .bulks(&payments(), PageFrom::Start, 9)
        .await
        .unwrap()
        .items;
    let states = lines.iter().map(|line| line.state);
    let expected = [BulkState::Uploading, BulkState::Running, BulkState::Done];
    assert!(states.eq(expected));
    let told = &lines[2];
    assert_eq!((told.lines, told.accepted), (10, 5));
    assert_eq!((told.duplicate, told.rejected), (2, 3));
    assert!(told.ended_at.is_some() && told.opened_at < lines[1].opened_at);
}

pub async fn a_chunk_that_fails_holds_back_its_own_file_for_half_a_minute(f: &dyn Fixture) {
    let (bulk, other) = (f.closed("b1", 4).await, f.closed("b2", 1).await);
    let (store, second) = (f.store(), chunk_id(&bulk, 2));
    let before = async |number| store.chunks_before(&chunk_id(&bulk, number)).await.unwrap();
    let turn = async |number| before(number).await.turn(|_| false);
    assert_eq!(
        (turn(1).await, turn(2).await),
        (ChunkTurn::Now, ChunkTurn::Wait)
    );
    store.chunk_failed(&second, "no rights").await.unwrap();
    let of_others = [chunk_id(&bulk, 1), chunk_id(&other, 1)];
    assert_eq!(f.to_do(10).await, of_others);
    assert_eq!(turn(3).await, ChunkTurn::HeldBack);
    // A later failure does not make it longer, and nor does a try that ends for another chunk.
    f.advance(HELD_BACK.saturating_sub(SECOND)).await;
    store.chunk_failed(&second, "no rights").await.unwrap();
    store.hold_chunk(&chunk_id(&bulk, 3)).await.unwrap();
    assert_eq!(f.to_do(10).await, of_others);
    assert!(f.finish(&bulk, 1).await);
    f.advance(3 * SECOND).await;
    let to_do = store.chunks_to_do(&payments(), 10).await.unwrap();
    let flows: Vec<_> = to_do.iter().map(|it| it.flow().to_string()).collect();
    let expected = [
        "init-bulk-b1-2~3",
        "init-bulk-b1-3~2",
        "init-bulk-b1-4",
        "init-bulk-b2-1",
    ];
    assert_eq!(flows, expected);
    assert_eq!(
        (turn(2).await, turn(3).await),
        (ChunkTurn::Now, ChunkTurn::OutOfOrder)
    );
    assert_eq!(before(4).await.chunks.len(), 2);
    let unplanned = store.unplanned(&payments()).await.unwrap();
    assert_eq!(unplanned.failing, 1, "what was held back has not failed");
    assert!(f.bulk(&bulk).await.order_kept);
    store.order_lost(&bulk).await.unwrap();
    assert!(!f.bulk(&bulk).await.order_kept);
    assert!(f.bulk(&other).await.order_kept);
}

pub async fn a_chunk_that_fails_waits_and_is_told(f: &dyn Fixture) {
    let bulk = f.closed("b1", 3).await;
    let (store, second) = (f.store(), chunk_id(&bulk, 2));
    for tries in 1..=10 {
        let failed = store.chunk_failed(&second, "no \u{0} rights").await;
        assert_eq!(failed.unwrap(), Some(tries));
        let pause = RETRIES.pause_after(tries);
        assert!(!f.to_do(10).await.contains(&second));
        let failing = f.bulk(&bulk).await.failing.unwrap();
        assert_eq!((failing.number, failing.failed), (2, tries));
        assert!(failing.why.contains("rights"), "{}", failing.why);
        f.advance(pause + Duration::from_secs(1)).await;
        let to_do = store.chunks_to_do(&payments(), 10).await.unwrap();
        let flow = format!("init-bulk-b1-2~{}", tries + 1);
        assert_eq!(to_do[1].flow().as_str(), flow);
    }
    let unplanned = store.unplanned(&payments()).await.unwrap();
    assert_eq!((unplanned.lines, unplanned.failing), (30, 1));
    for number in 1..=3 {
        assert!(f.finish(&bulk, number).await);
    }
    assert_eq!(store.chunk_failed(&second, "late").await.unwrap(), None);
    assert_eq!(f.bulk(&bulk).await.failing, None);
    let unplanned = store.unplanned(&payments()).await.unwrap();
    assert_eq!((unplanned.lines, unplanned.failing), (0, 0));
}

pub async fn a_bulk_says_what_its_sender_calls_it_and_who_that_is(f: &dyn Fixture) {
    let bulk = BulkId::new("named");
    assert!(f.store().open_bulk(&bulk, &payments()).await.unwrap());
    let nobody = f.store().bulk(&bulk).await.unwrap().unwrap();
    assert_eq!(nobody.origin, BulkOrigin::default());
    let origin = BulkOrigin {
        file_name: Some("salaries.csv".into()),
        actor: Some("ann".into()),
    };
    let named = f.store().name_bulk(&bulk, origin.clone()).await;
    named.unwrap();
    let view = f.store().bulk(&bulk).await.unwrap().unwrap();
    assert_eq!(view.origin, origin);
    let page = f
        .store()
        .bulks(&payments(), PageFrom::Start, 10)
        .await
        .unwrap();
    assert_eq!(page.items[0].origin, origin);
}
