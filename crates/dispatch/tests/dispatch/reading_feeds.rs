//! How far a feed reads, where it begins, and how often it tries in vain.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Author, FeedView, Feeds, Sought};
use tollgate_dispatch::FeedStart;

use crate::feed_fixture::{CHUNK, END, Running, Source, partition};

#[tokio::test]
async fn a_partition_is_not_read_further_while_enough_of_it_waits() {
    let running = Running::start(FeedStart::Earliest);
    running.until_at(8 * CHUNK).await;
    running.until_looked(3).await;
    assert_eq!(running.position().await, Some(8 * CHUNK));
    assert_eq!(running.source.fetches.load(Ordering::SeqCst), 80);
    running.chunk_ends(1, [].into_iter()).await;
    running.until_at(9 * CHUNK).await;
    running.until_looked(3).await;
    assert_eq!(running.source.fetches.load(Ordering::SeqCst), 90);
    running.stop().await;
}

/// An open transaction begins at 250.
fn committed_to_250() -> Source {
    Source {
        committed: AtomicI64::new(250),
        waits_for_long: true,
        ..Source::default()
    }
}

#[tokio::test]
async fn a_corrected_item_type_is_read_once_the_chunks_of_the_former_one_are_imported() {
    let mut running = Running::of(FeedStart::Earliest, committed_to_250());
    running.until_at(250).await;
    running.restart("INVOICE", 500).await;
    running
        .until("it says why it waits", |view| view.trouble.is_some())
        .await;
    let view = running.view().await.unwrap();
    assert_eq!(
        view.trouble.unwrap().what,
        "partition 0 of topic t is read as INVOICE once its chunks of PAYMENT are imported; chunks left: 1"
    );
    assert_eq!(view.partitions[0].position, Some(250));
    running.chunk_ends(1, [].into_iter()).await;
    running.until_at(500).await;
    let view = running.view().await.unwrap();
    assert_eq!(view.partitions[0].item_type, Some(ItemType::new("INVOICE")));
    running.stop().await;
}

#[tokio::test]
async fn an_open_transaction_holds_up_nothing_that_lies_before_it() {
    let running = Running::of(FeedStart::Earliest, committed_to_250());
    running.until_at(250).await;
    assert_eq!(running.view().await.unwrap().partitions[0].records, 250);
    running.stop().await;
}

/// As for a process that was stopped while it waited for records, and wakes up when they are deleted.
#[tokio::test]
async fn a_position_that_was_deleted_pauses_the_feed_unless_its_reader_has_lost_it() {
    let running = Running::of(FeedStart::Earliest, committed_to_250());
    running.until_at(250).await;
    let author = || Author::new("ops", "because");
    assert!(running.store.pause_feed("in", author()).await.unwrap());
    let place = partition();
    let sought = running.store.seek_feed(&place, END - 1, author());
    assert_eq!(sought.await.unwrap(), Sought::Moved(Some(250)));
    assert!(running.store.resume_feed("in", author()).await.unwrap());
    running.source.first.store(END - 1, Ordering::SeqCst);
    running
        .until("it is held again", |view| {
            view.paused.is_some() || view.partitions[0].owner.is_some()
        })
        .await;
    assert_eq!(running.view().await.unwrap().paused, None);

    running.source.first.store(END, Ordering::SeqCst);
    running
        .until("its reader pauses it", |view| view.paused.is_some())
        .await;
    let pause = running.view().await.unwrap().paused.unwrap();
    assert!(pause.why.contains("begins at 20000"), "{}", pause.why);
    running.stop().await;
}

#[tokio::test]
async fn a_feed_that_starts_at_the_latest_record_reads_none_before() {
    let running = Running::start(FeedStart::Latest);
    running.until_at(END).await;
    let view = running.view().await.unwrap();
    assert_eq!(view.partitions[0].records, 0);
    running.stop().await;
}

/// They were written before anybody could look.
#[tokio::test]
async fn the_first_records_of_a_partition_that_is_added_later_are_read() {
    let running = Running::start(FeedStart::Latest);
    running.until_at(END).await;
    let author = || Author::new("ops", "because");
    // A paused feed looks at its topic at once, and takes the partition when it is resumed.
    assert!(running.store.pause_feed("in", author()).await.unwrap());
    running.source.topic.lock().unwrap().partitions = vec![0, 1];
    let looks = running.source.topics.load(Ordering::SeqCst);
    running
        .until("it is looked at", |_| {
            running.source.topics.load(Ordering::SeqCst) > looks + 1
        })
        .await;
    assert!(running.store.resume_feed("in", author()).await.unwrap());
    running
        .until("the new one is read", |view| {
            let added = view.partitions.get(1);
            added.is_some_and(|added| added.records > 0)
        })
        .await;
    let view = running.view().await.unwrap();
    assert_eq!(view.partitions[0].records, 0);
    running.stop().await;
}

#[tokio::test]
async fn the_topic_of_a_paused_feed_is_looked_at_with_every_share() {
    let running = Running::start(FeedStart::Latest);
    running.until_at(END).await;
    let author = || Author::new("ops", "because");
    assert!(running.store.pause_feed("in", author()).await.unwrap());
    running.source.topic.lock().unwrap().id = Some("another".into());
    let is_recreated = |view: &FeedView| {
        let pause = view.paused.as_ref();
        pause.is_some_and(|pause| pause.why.contains("created again"))
    };
    running
        .until("it is said why it should not be resumed", is_recreated)
        .await;
    assert!(running.store.resume_feed("in", author()).await.unwrap());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn trouble_is_met_at_growing_intervals_and_moves_nothing() {
    let began = Instant::now();
    let source = Source {
        is_away: true,
        ..Source::default()
    };
    let running = Running::of(FeedStart::Earliest, source);
    let tried = async {
        while running.source.fetches.load(Ordering::SeqCst) < 8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let tried = tokio::time::timeout(Duration::from_hours(1), tried).await;
    assert!(tried.is_ok(), "{:?}", running.view().await);
    let least = [1, 2, 4, 8, 16, 30, 30].iter().sum();
    assert!(began.elapsed() >= Duration::from_secs(least));
    assert_eq!(running.position().await, Some(0));
    let trouble = running.view().await.unwrap().trouble.unwrap();
    assert_eq!(trouble.what, "no broker");

    // Another process is fine and says so; this one still is not.
    running.store.note_trouble("in", None).await.unwrap();
    running
        .until("it is said again", |view| view.trouble.is_some())
        .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_loses_the_brokers_lets_its_partitions_go_after_a_while() {
    let running = Running::start(FeedStart::Latest);
    running.until_at(END).await;
    running.source.is_lost.store(true, Ordering::SeqCst);
    let let_go = async {
        while running.view().await.unwrap().partitions[0].owner.is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let let_go = tokio::time::timeout(Duration::from_hours(1), let_go).await;
    let view = running.view().await.unwrap();
    assert!(let_go.is_ok(), "{view:?}");
    assert_eq!(view.trouble.unwrap().what, "no broker");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn positions_are_shown_to_the_brokers_tools_and_a_refusal_stops_nothing() {
    let running = Running::start(FeedStart::Latest);
    let shown = async {
        while running.source.shown.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let shown = tokio::time::timeout(Duration::from_hours(1), shown).await;
    let view = running.view().await.unwrap();
    assert!(shown.is_ok(), "it is not tried again: {view:?}");
    let last = running.source.shown.lock().unwrap()[1].clone();
    assert_eq!(last, [(0, END)]);
    assert_eq!((view.paused, view.trouble), (None, None));
    running.stop().await;
}
