//! What goes wrong with a feed holds up nothing else, and is said.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::ports::FeedView;
use tollgate_dispatch::FeedStart;

use crate::feed_fixture::{Answering, CHUNK, END, Running, Source, has_reached, stands_at};

const MINUTE: Duration = Duration::from_mins(1);

fn is_in_trouble(view: &FeedView) -> bool {
    view.trouble.is_some()
}

fn is_fine(view: &FeedView) -> bool {
    view.trouble.is_none()
}

fn answering(answering: Answering) -> Source {
    Source {
        answering,
        ..Source::default()
    }
}

#[tokio::test]
async fn a_results_topic_that_never_answers_holds_up_no_reading() {
    let running = Running::of(FeedStart::Earliest, answering(Answering::Silent));
    running.until_at(8 * CHUNK).await;
    running.chunk_ends(1, 1..=3).await;
    let is_asked = has_reached(&running.source.answers, 1);
    running.until("it is answered", is_asked).await;
    running.chunk_ends(2, 4..=4).await;
    running.until_at(10 * CHUNK).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_refused_are_tried_again_at_growing_intervals() {
    let source = Source {
        log_end: AtomicI64::new(CHUNK),
        committed: AtomicI64::new(CHUNK),
        ..answering(Answering::Refused)
    };
    let running = Running::of(FeedStart::Earliest, source);
    running
        .until_some_time("it is read", stands_at(CHUNK))
        .await;
    running.chunk_ends(1, 1..=3).await;
    let began = Instant::now();
    let is_asked = has_reached(&running.source.answers, 8);
    running.until_some_time("it is tried again", is_asked).await;
    let least = [1, 2, 4, 8, 16, 30, 30].iter().sum();
    assert!(began.elapsed() >= Duration::from_secs(least));
    assert_eq!(running.trouble().await.as_deref(), Some("no results topic"));
    running.stop().await;
}

/// Its producer has died; nothing fails, and committed records lie behind.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_stays_open_is_trouble_after_two_minutes() {
    let source = Source {
        committed: AtomicI64::new(250),
        ..Source::default()
    };
    let running = Running::of(FeedStart::Earliest, source);
    running.until_some_time("it is read", stands_at(250)).await;
    let began = Instant::now();
    running.until_some_time("it is said", is_in_trouble).await;
    assert!(began.elapsed() > MINUTE);
    assert_eq!(
        running.trouble().await.unwrap(),
        "partition 0 of topic t has records from 250 on, but none could be read for 2 minutes: they belong to a transaction that is \
         still open, or come after it; find its producer, or abort the transaction with kafka-transactions.sh"
    );
    running.source.committed.store(300, Ordering::SeqCst);
    running.until_some_time("it is read", stands_at(300)).await;
    running.until_some_time("it is over", is_fine).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn committed_records_that_a_broker_does_not_return_are_trouble() {
    let source = Source {
        readable: AtomicI64::new(250),
        ..Source::default()
    };
    let running = Running::of(FeedStart::Earliest, source);
    running.until_some_time("it is said", is_in_trouble).await;
    let said = running.trouble().await.unwrap();
    assert!(said.contains("the broker returns none of them"), "{said}");
    running.stop().await;
}

/// Some brokers answer a fetch beyond the end with nothing.
#[tokio::test(start_paused = true)]
async fn a_log_that_ends_before_the_position_pauses_the_feed() {
    let running = Running::start(FeedStart::Latest);
    running.until_some_time("it is read", stands_at(END)).await;
    running.source.log_end.store(END - 1, Ordering::SeqCst);
    let is_paused = |view: &FeedView| view.paused.is_some();
    running.until_some_time("it is paused", is_paused).await;
    let why = running.view().await.unwrap().paused.unwrap().why;
    assert!(why.contains("ends at 19999"), "{why}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_position_that_is_out_of_range_although_the_log_has_it_is_trouble() {
    let source = Source {
        spoilt: AtomicI64::new(300),
        ..Source::default()
    };
    let running = Running::of(FeedStart::Earliest, source);
    running.until_some_time("it is said", is_in_trouble).await;
    assert_eq!(
        running.trouble().await.unwrap(),
        "the broker rejects position 300 of partition 0 of topic t as out of range, although it lists it; check the partition's log"
    );
    let began = Instant::now();
    let fetches = &running.source.fetches;
    let is_tried = has_reached(fetches, fetches.load(Ordering::SeqCst) + 5);
    running.until_some_time("it is tried again", is_tried).await;
    assert!(began.elapsed() > Duration::from_secs(15), "at intervals");
    running.source.spoilt.store(-1, Ordering::SeqCst);
    // The first chunk has what comes before it.
    running
        .until_some_time("it is read", stands_at(300 + 7 * CHUNK))
        .await;
    running.until_some_time("it is over", is_fine).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_waits_for_its_own_chunks_is_not_in_trouble() {
    let running = Running::start(FeedStart::Earliest);
    running
        .until_some_time("it is read", stands_at(8 * CHUNK))
        .await;
    // Once a second it asks where the log ends.
    let has_waited = has_reached(&running.source.looks, 300);
    running.until_some_time("it waits", has_waited).await;
    assert_eq!(running.trouble().await, None);
    assert_eq!(running.position().await, Some(8 * CHUNK));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_panics_is_trouble_and_goes_on_when_it_can() {
    let running = Running::start(FeedStart::Earliest);
    running.source.panics_at.store(1500, Ordering::SeqCst);
    running.until_some_time("it is said", is_in_trouble).await;
    let said = running.trouble().await.unwrap();
    let begins = "partition 0 of topic t is not read because of an internal error: assertion";
    assert!(said.starts_with(begins), "{said}");
    let began = Instant::now();
    // One time reads ten times a tenth of a chunk.
    let fetches = &running.source.fetches;
    let is_tried = has_reached(fetches, fetches.load(Ordering::SeqCst) + 3 * 10);
    running.until_some_time("it is tried again", is_tried).await;
    assert!(began.elapsed() > MINUTE);
    assert!(is_in_trouble(&running.view().await.unwrap()), "it lasts");
    running.source.panics_at.store(-1, Ordering::SeqCst);
    running
        .until_some_time("it is read", stands_at(8 * CHUNK))
        .await;
    running.until_some_time("it is over", is_fine).await;
    running.stop().await;
}
