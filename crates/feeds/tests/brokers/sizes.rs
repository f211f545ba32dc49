//! A topic that takes small messages only: what is written to it gets smaller until it fits.

use bytes::Bytes;
use tollgate_core::Timestamp;
use tollgate_core::ports::{
    DeadRecord, EventRecord, EventSink, FeedRecord, FeedSource, RecordAnswer,
};
use tollgate_feeds::{KafkaEvents, KafkaFeed, KafkaTopics};

use crate::at;
use crate::broker::{self, SMALL, Written};

/// A feed that writes to a topic, and what it has written there.
async fn feed(topic: &str) -> (KafkaFeed, Written) {
    let written = Written::default();
    let port = broker::start_noting(None, Written::clone(&written)).await;
    let topics = KafkaTopics {
        records: "topic".into(),
        dead_letters: topic.into(),
        answers: Some(topic.into()),
        group: None,
    };
    (KafkaFeed::new(at(port, None), topics), written)
}

fn answer(number: usize, bytes: usize) -> RecordAnswer {
    RecordAnswer {
        key: Some(format!("p{number}")),
        body_json: "x".repeat(bytes),
        short_json: "short".into(),
    }
}

#[tokio::test]
async fn answers_that_are_too_large_together_are_written_in_parts_and_in_order() {
    let (feed, written) = feed("small").await;
    let answers: Vec<_> = (0..9)
        .map(|n| answer(n, if n == 4 { SMALL } else { 200 }))
        .collect();
    let answering = feed.answer(0, &answers, Timestamp::UNIX_EPOCH);
    answering.await.unwrap();
    let written = written.lock().unwrap();
    let keys = written.iter().map(|record| record.key.clone().unwrap());
    let expected = (0..9).map(|n| format!("p{n}"));
    assert!(keys.eq(expected), "each once, in order");
    assert_eq!(written[4].value.as_deref(), Some(&b"short"[..]));
    assert_eq!(written[5].value.as_ref().unwrap().len(), 200);
}

/// A whole event is 200 bytes or more; the one that no message can hold stops those after it.
#[tokio::test]
async fn events_that_are_too_large_together_are_written_in_parts_up_to_one_that_is_too_large_alone()
{
    let written = Written::default();
    let port = broker::start_noting(None, Written::clone(&written)).await;
    let sink = KafkaEvents::new(at(port, None), "small".into());
    let event = |number: usize, bytes: usize| EventRecord {
        key: format!("p{number}"),
        body_json: "x".repeat(bytes),
    };
    let mut events: Vec<_> = (0..9).map(|number| event(number, 200)).collect();
    for (acknowledged, trouble) in [
        (9, None),
        (
            5,
            Some("topic small rejects a message of this size; raise its max.message.bytes"),
        ),
    ] {
        written.lock().unwrap().clear();
        let published = sink.publish(&events, Timestamp::UNIX_EPOCH).await;
        let places: Vec<_> = (0..acknowledged).collect();
        assert_eq!(published.acknowledged, places);
        let said = published.trouble.map(|trouble| trouble.to_string());
        assert_eq!(said.as_deref(), trouble);
        let written = written.lock().unwrap();
        let keys = written.iter().map(|record| record.key.clone().unwrap());
        let expected = (0..acknowledged).map(|number| format!("p{number}"));
        assert!(keys.eq(expected), "each once, in order: {written:?}");
        events[5] = event(5, SMALL);
    }
}

#[tokio::test]
async fn a_dead_letter_loses_what_is_too_large_and_says_where_it_came_from() {
    let (feed, written) = feed("small").await;
    let large = || Some(vec![b'x'; SMALL]);
    let small = || Some(b"small".to_vec());
    let header = |value| vec![("foreign".to_owned(), value)];
    let records = [
        (small(), small(), header(small())),
        (small(), large(), header(small())),
        (large(), small(), header(small())),
        (small(), small(), header(large())),
    ];
    let letters = (0..).zip(records).map(|(offset, (key, value, headers))| {
        let record = FeedRecord {
            offset,
            key,
            value,
            headers,
        };
        DeadRecord {
            partition: 3,
            record,
            reason: "is not JSON".into(),
        }
    });
    let letters: Vec<_> = letters.collect();
    let put_aside = feed.dead_letter(&letters, Timestamp::UNIX_EPOCH).await;
    put_aside.unwrap();
    let written = written.lock().unwrap();
    let shown = written.iter().map(|record| {
        let has = |name| record.headers.contains_key(name);
        let offset = record.headers[&b"dead-letter-offset"[..]].clone().unwrap();
        (
            String::from_utf8(offset.to_vec()).unwrap(),
            record.key.is_some(),
            record.value.is_some(),
            has(&b"foreign"[..]),
            has(&b"dead-letter-truncated"[..]),
        )
    });
    let expected = [
        ("0", true, true, true, false),
        ("1", true, false, true, true),
        ("2", false, false, false, true),
        ("3", false, false, false, true),
    ];
    let expected = expected.map(|(offset, a, b, c, d)| (offset.to_owned(), a, b, c, d));
    assert!(shown.eq(expected), "{written:?}");
}

/// It was small as long as it was packed. The broker closes the connection on so large a request, which says nothing of its size.
#[tokio::test]
async fn a_dead_letter_that_no_request_can_hold_is_put_aside_without_its_value() {
    const LARGE: usize = 20 * 1024 * 1024;
    let (feed, written) = feed("any").await;
    let letter = |offset, bytes| DeadRecord {
        partition: 3,
        record: FeedRecord {
            offset,
            key: Some(b"key".to_vec()),
            value: Some(vec![b'x'; bytes]),
            headers: vec![],
        },
        reason: "is not JSON".into(),
    };
    let letters = [letter(0, LARGE), letter(1, SMALL)];
    let put_aside = feed.dead_letter(&letters, Timestamp::UNIX_EPOCH).await;
    put_aside.unwrap();
    let written = written.lock().unwrap();
    let values = written.iter().map(|record| record.value.as_ref());
    let lengths: Vec<_> = values.map(|value| value.map(Bytes::len)).collect();
    assert_eq!(lengths, [None, Some(SMALL)]);
    assert!(
        written[0]
            .headers
            .contains_key(&b"dead-letter-truncated"[..])
    );
}
