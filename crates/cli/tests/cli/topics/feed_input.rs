//! What a feed meets besides payments: a record of ten megabytes, a position that is not in the log, a topic that it has no
//! right to, and records of another schema.

use std::time::Duration;

use serde_json::json;

use crate::fixture::http::{get, post};
use crate::fixture::kafka::Record;
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::eventually_or;
use crate::topics::feeds::{act, cluster, feed, record, tollgate, wait_for_paid, wait_until};

const LONG: Duration = Duration::from_mins(1);

pub(crate) fn at_0(record: Record) -> Record {
    Record {
        partition: Some(0),
        ..record
    }
}

/// How many of a kind need a person, and what is said of the first.
fn needs(pair: &Pair, kind: &str) -> Option<(u64, String)> {
    let told = get(pair.server.address, "/admin/needs-you").unwrap().body;
    let needs = told["needs"].as_array().unwrap();
    let need = needs.iter().find(|need| need["kind"] == kind)?;
    Some((need["count"].as_u64()?, need.to_string()))
}

fn wait_for_need(pair: &Pair, kind: &str, count: u64) -> String {
    eventually_or(kind, LONG, || match needs(pair, kind) {
        Some((found, said)) if found == count => Ok(said),
        other => Err(format!("{other:?}")),
    })
}

#[test]
fn a_huge_record_is_put_aside_and_a_position_beyond_the_end_pauses_the_feed() {
    let mut kafka = cluster();
    let pair = pair(&feed(&kafka));
    let address = pair.server.address;
    // Of a partition that held so much, the mock keeps nothing that comes later.
    let huge = Record {
        partition: Some(1),
        ..Record::of(vec![b' '; 10_000_000])
    };
    kafka.produce("payments", &[huge, at_0(record("p0"))]);
    wait_until(&pair, "all is read", |feed| feed["records"] == 2);
    wait_for_paid(&pair, &["p0"]);
    let dead = kafka.read("dead");
    let reason = &dead[0].headers["dead-letter-reason"];
    assert_eq!(reason, "has 10000000 bytes; at most 65536 are read");
    wait_for_need(&pair, "feed-dead-letters", 1);
    let known = json!({"reason": "their sender knows"});
    let answer = post(address, "/admin/needs-you/feed-dead-letters/seen", &known).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(needs(&pair, "feed-dead-letters"), None);

    let seek = |offset: u64| json!({"partition": 0, "offset": offset, "reason": "a test"});
    let because = json!({"reason": "a test"});
    assert_eq!(act(address, "pause", &because).0, 200);
    let said = wait_for_need(&pair, "feeds-stopped", 1);
    assert!(said.contains("paused by local: a test"), "{said}");
    assert_eq!(act(address, "seek", &seek(1000)).0, 200);
    assert_eq!(act(address, "resume", &because).0, 200);
    let feed = wait_until(&pair, "it is paused", |feed| feed["pausedBy"] == "feed");
    let why = feed["pausedWhy"].as_str().unwrap();
    let says = "partition 0 of topic payments ends at 1, but the next position to read is 1000";
    assert!(why.starts_with(says), "{why}");
    wait_for_need(&pair, "feeds-stopped", 1);
    assert_eq!(act(address, "seek", &seek(1)).0, 200);
    assert_eq!(act(address, "resume", &because).0, 200);
    kafka.produce("payments", &[at_0(record("p1"))]);
    wait_for_paid(&pair, &["p0", "p1"]);
    eventually_or("nothing is stopped", LONG, || {
        let need = needs(&pair, "feeds-stopped");
        need.is_none().then_some(()).ok_or(format!("{need:?}"))
    });
}

/// What cannot be put aside is not passed, and only a person can grant the right: the feed does not try on and on.
#[test]
fn without_the_right_to_its_dead_letter_topic_a_feed_is_paused_and_goes_on_when_resumed() {
    const DENIED: &str =
        "the broker denies looking at topic dead; grant this client the right, then resume";
    let mut kafka = cluster();
    kafka.deny("dead", true);
    let pair = pair(&feed(&kafka));
    kafka.produce("payments", &[at_0(record("p0"))]);
    wait_for_paid(&pair, &["p0"]);
    kafka.produce(
        "payments",
        &[at_0(Record::of("poison")), at_0(record("p1"))],
    );
    let paused = |before: Option<serde_json::Value>| {
        wait_until(&pair, "it is paused", |feed| {
            feed["pausedWhy"] == DENIED && Some(&feed["pausedAt"]) != before.as_ref()
        })
    };
    let first = paused(None);
    assert_eq!(first["pausedBy"], "feed");
    assert_eq!(first["partitions"][0]["position"], 1, "nothing is passed");
    assert!(wait_for_need(&pair, "feeds-stopped", 1).contains(DENIED));
    // Resumed too early, it is paused once more.
    let resume = ["feeds", "resume", "in", "--reason", "granted"];
    let said = tollgate(&pair, &resume);
    assert!(said.contains("feed in is resumed"), "{said}");
    let again = paused(Some(first["pausedAt"].clone()));
    assert_eq!(again["partitions"][0]["position"], 1, "nothing is passed");
    kafka.deny("dead", false);
    tollgate(&pair, &resume);
    wait_for_paid(&pair, &["p0", "p1"]);
    assert_eq!(kafka.read("dead").len(), 1, "it is put aside now");
    let feed = wait_until(&pair, "all is read", |feed| feed["lag"] == 0);
    assert_eq!(feed["paused"], false);
}

/// Nobody has to restart anything: who has granted the right resumes the feed.
#[test]
fn without_the_right_to_its_topic_a_feed_is_paused_and_goes_on_when_resumed() {
    let mut kafka = cluster();
    kafka.deny("payments", true);
    let pair = pair(&feed(&kafka));
    let paused = wait_until(&pair, "it is paused", |feed| feed["pausedBy"] == "feed");
    assert_eq!(
        paused["pausedWhy"],
        "the broker denies looking at topic payments; grant this client the right, then resume"
    );
    assert_eq!(paused["trouble"], json!(null));
    kafka.deny("payments", false);
    kafka.produce("payments", &[at_0(record("p0"))]);
    tollgate(&pair, &["feeds", "resume", "in", "--reason", "granted"]);
    wait_for_paid(&pair, &["p0"]);
}

/// A producer that is upgraded in the middle: what cannot be taken any more is answered, one by one, and kept.
#[test]
fn a_schema_that_changes_mid_stream_is_answered_record_by_record_and_the_rest_is_paid() {
    let mut kafka = cluster();
    let pair = pair(&feed(&kafka));
    let mut renamed = payment("p1");
    renamed["sum"] = renamed["amount"].take();
    let mut retyped = payment("p2");
    retyped["amount"] = json!(125.5);
    let mut wrapped = json!({"version": 2});
    wrapped["payment"] = payment("p3");
    let mut records = vec![at_0(record("p0"))];
    for changed in [renamed, retyped, wrapped] {
        records.push(at_0(Record::of(changed.to_string())));
    }
    records.push(at_0(record("p4")));
    kafka.produce("payments", &records);
    wait_for_paid(&pair, &["p0", "p4"]);
    let feed = wait_until(&pair, "all is read", |feed| feed["records"] == 5);
    let state = (&feed["paused"], &feed["trouble"], &feed["deadLetters"]);
    assert_eq!(state, (&json!(false), &json!(null), &json!(0)));
    let answered = eventually_or("all are answered", LONG, || {
        let answers = kafka.read("results");
        let bodies = answers.iter().map(|answer| {
            let body = answer.value.as_deref().unwrap();
            serde_json::from_slice::<serde_json::Value>(body).unwrap()
        });
        let bodies: Vec<_> = bodies.collect();
        if bodies.len() < 3 {
            return Err(format!("{bodies:?}"));
        }
        Ok(bodies)
    });
    for (answer, (offset, field)) in
        answered
            .iter()
            .zip([(1, "sum"), (2, "amount"), (3, "payment")])
    {
        assert_eq!(answer["offset"], offset);
        assert!(answer["details"][field].is_string(), "{answer}");
    }
    let errors = "/payments/bulk/feed.in.payments.0/errors";
    let errors = get(pair.server.address, errors).unwrap();
    assert_eq!(
        errors.body["errors"].as_array().unwrap().len(),
        3,
        "{}",
        errors.text
    );
}
