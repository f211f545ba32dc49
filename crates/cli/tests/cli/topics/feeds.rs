//! Feeds from outside: a Kafka cluster that is not ours, a bank, and a server between them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::footing::{Footing, on_both_footings};
use crate::fixture::http::{get, post};
use crate::fixture::kafka::{Kafka, Record};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::{BINARY, eventually, eventually_or};

const LONG: Duration = Duration::from_mins(1);

/// The configuration of a feed called `in`.
pub(crate) fn feed(kafka: &Kafka) -> String {
    let broker = &kafka.broker;
    format!(
        "[feeds.in]\nkind = \"kafka\"\nbrokers = [\"{broker}\"]\ntopic = \"payments\"\n\
         dead_letter_topic = \"dead\"\nresults_topic = \"results\"\n"
    )
}

pub(crate) fn cluster() -> Kafka {
    let mut kafka = Kafka::start();
    kafka.create(&["payments", "dead", "results"]);
    kafka
}

pub(crate) fn record(id: &str) -> Record {
    Record {
        key: Some(id.to_owned()),
        ..Record::of(payment(id).to_string())
    }
}

pub(crate) fn shown(address: SocketAddr) -> Option<Value> {
    let feeds = get(address, "/admin/feeds").ok()?.body["feeds"].clone();
    feeds.as_array()?.first().cloned()
}

pub(crate) fn wait_until(pair: &Pair, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually_or(what, LONG, || match shown(pair.server.address) {
        Some(feed) if is_so(&feed) => Ok(feed),
        other => Err(format!("{other:?}")),
    })
}

pub(crate) fn wait_for_paid(pair: &Pair, ids: &[&str]) {
    let ids: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    eventually_or("all are paid", LONG, || {
        let effective = pair.bank.ledger().effective();
        let found: BTreeSet<String> = effective.keys().cloned().collect();
        if found == ids {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
    assert_eq!(
        pair.bank.ledger().doubles(),
        Vec::<String>::new(),
        "MONEY: paid twice"
    );
}

pub(crate) fn act(address: SocketAddr, what: &str, body: &Value) -> (u16, Value) {
    let answer = post(address, &format!("/admin/feeds/in/{what}"), body).unwrap();
    (answer.status, answer.body)
}

/// The command, and what it says.
pub(crate) fn tollgate(pair: &Pair, words: &[&str]) -> String {
    let server = format!("http://{}", pair.server.address);
    let output = Command::new(BINARY)
        .args(words)
        .args(["--server", &server])
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).unwrap()
}

on_both_footings!(every_record_is_paid_put_aside_or_answered);

fn every_record_is_paid_put_aside_or_answered(footing: &Footing) {
    let mut kafka = cluster();
    produce_all_kinds(&mut kafka);
    let pair = footing.pair(&feed(&kafka));
    wait_for_paid(&pair, &["p1", "p2", "p3"]);
    let feed = wait_until(&pair, "all is read", |feed| feed["records"] == 10);
    assert_eq!((&feed["lag"], &feed["deadLetters"]), (&json!(0), &json!(4)));
    assert_eq!(feed["trouble"], Value::Null);

    judge_dead_letters(&mut kafka);
    judge_answers(&mut kafka);
    let listed = tollgate(&pair, &["feeds", "list"]);
    assert!(
        listed.contains("in (payments) is running: 10 records read, 0 unread, 4 dead letters"),
        "{listed}"
    );
    let errors = get(
        pair.server.address,
        "/payments/bulk/feed.in.payments.0/errors",
    )
    .unwrap();
    assert_eq!(errors.body["errors"][0]["line"], 3, "{}", errors.text);
    assert_eq!(pair.server.stop(), Some(0));
}

/// Three payments, and everything that is none.
fn produce_all_kinds(kafka: &mut Kafka) {
    let mut other = payment("p1");
    other["amount"] = json!("999");
    let mut bad = payment("bad");
    bad["currency"] = json!("XYZ");
    let at = |partition, record| Record {
        partition: Some(partition),
        ..record
    };
    let pretty = serde_json::to_string_pretty(&payment("p2")).unwrap();
    kafka.produce(
        "payments",
        &[
            at(0, record("p1")),
            at(0, record("p1")),
            at(0, Record::of(other.to_string())),
            at(0, Record::of("{not json")),
            at(0, Record::default()),
            at(0, Record::of(pretty)),
            at(1, Record::of(vec![b'"', 0xff, b'"'])),
            at(1, Record::of(bad.to_string())),
            at(1, Record::of(vec![b' '; 3_000_000])),
            at(1, record("p3")),
        ],
    );
}

fn judge_dead_letters(kafka: &mut Kafka) {
    let dead = kafka.read("dead");
    let reasons: BTreeSet<String> = dead
        .iter()
        .map(|dead| {
            let said = |name: &str| dead.headers[&format!("dead-letter-{name}")].clone();
            let (topic, partition, offset) = (said("topic"), said("partition"), said("offset"));
            format!("{topic}/{partition}/{offset} {}", said("reason"))
        })
        .collect();
    let expected = [
        "payments/0/3 is not JSON",
        "payments/0/4 has no value (a tombstone)",
        "payments/1/0 is not valid UTF-8 (byte 2)",
        "payments/1/2 has 3000000 bytes; at most 65536 are read",
    ];
    for (found, expected) in reasons.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(dead.len(), 4);
    assert!(
        dead.iter()
            .any(|dead| dead.value.as_deref() == Some(b"{not json"))
    );
}

/// Of two records that can be read and are rejected.
fn judge_answers(kafka: &mut Kafka) {
    let answers = eventually("both are answered", LONG, || {
        let answers = kafka.read("results");
        (answers.len() >= 2).then_some(answers)
    });
    let answers: BTreeSet<String> = answers
        .iter()
        .map(|answer| {
            let body: Value = serde_json::from_slice(answer.value.as_ref().unwrap()).unwrap();
            let (id, offset) = (&body["id"], &body["offset"]);
            format!("{id} {} {offset} {}", body["partition"], body["details"])
        })
        .collect();
    assert_eq!(answers.len(), 2, "{answers:?}");
    let mut answers = answers.iter();
    assert!(
        answers
            .next()
            .unwrap()
            .starts_with("\"bad\" 1 1 {\"currency\"")
    );
    assert!(
        answers
            .next()
            .unwrap()
            .starts_with("\"p1\" 0 2 {\"paymentId\"")
    );
}

#[test]
fn a_feed_is_paused_moved_and_resumed_by_people() {
    let mut kafka = cluster();
    let pair = pair(&feed(&kafka));
    let address = pair.server.address;
    let at_0 = |id: &str| Record {
        partition: Some(0),
        ..record(id)
    };
    kafka.produce("payments", &[at_0("p0"), at_0("p1")]);
    wait_for_paid(&pair, &["p0", "p1"]);
    let seek = |offset: u64| json!({"partition": 0, "offset": offset, "reason": "a test"});
    let because = json!({"reason": "a test"});
    assert_eq!(act(address, "seek", &seek(0)).0, 409, "it runs");
    assert_eq!(act(address, "resume", &because).0, 409, "it is not paused");
    let (status, refused) = act(address, "forget", &because);
    assert_eq!(status, 409, "{refused}");

    let paused = tollgate(&pair, &["feeds", "pause", "in", "--reason", "a drill"]);
    assert!(paused.contains("feed in is paused"), "{paused}");
    let feed = shown(address).unwrap();
    assert_eq!(feed["pausedWhy"], "a drill");
    assert_eq!(feed["partitions"][0]["owner"], Value::Null);
    let listed = tollgate(&pair, &["feeds", "list"]);
    assert!(
        listed.contains("number of unread records unknown while paused"),
        "{listed}"
    );
    kafka.produce("payments", &[at_0("p2"), at_0("p3")]);
    let words = [
        "feeds",
        "seek",
        "in",
        "--partition",
        "0",
        "--offset",
        "1",
        "--reason",
        "again",
    ];
    let said = tollgate(&pair, &words);
    assert!(said.contains("Records 1 to 1 are read again"), "{said}");
    let (status, sought) = act(address, "seek", &seek(3));
    assert_eq!(status, 200, "{sought}");
    assert!(
        sought["effect"]
            .as_str()
            .unwrap()
            .contains("Records 1 to 2 are never read"),
        "{sought}"
    );
    act(address, "seek", &seek(1));
    let (status, feed) = act(address, "resume", &because);
    assert_eq!((status, &feed["paused"]), (200, &json!(false)));
    wait_for_paid(&pair, &["p0", "p1", "p2", "p3"]);
    let feed = wait_until(&pair, "all is read", |feed| feed["lag"] == 0);
    assert_eq!(feed["partitions"][0]["position"], 4);
    let audit = get(address, "/admin/audit?limit=50").unwrap().text;
    for action in ["PAUSE_FEED", "SEEK_FEED", "RESUME_FEED"] {
        assert!(audit.contains(action), "{audit}");
    }
}

/// The position is ours, and a new topic may have more records than were read of the old one.
#[test]
fn a_topic_that_was_created_again_pauses_the_feed_with_one_sentence() {
    let mut kafka = cluster();
    let at_0 = |id: &str| Record {
        partition: Some(0),
        ..record(id)
    };
    let first = pair(&feed(&kafka));
    kafka.produce("payments", &[at_0("p0"), at_0("p1")]);
    wait_for_paid(&first, &["p0", "p1"]);
    let Pair {
        runtime,
        bank,
        setting,
        server,
    } = first;
    assert_eq!(server.stop(), Some(0));
    drop(kafka);

    let mut kafka = cluster();
    let new = ["p2", "p3", "p4"].map(at_0);
    kafka.produce("payments", &new);
    let config = setting.config("127.0.0.1:0");
    let text = std::fs::read_to_string(&config).unwrap();
    let old = text
        .lines()
        .find(|line| line.starts_with("brokers"))
        .unwrap();
    let new = text.replace(old, &format!("brokers = [\"{}\"]", kafka.broker));
    std::fs::write(&config, new).unwrap();
    let server = crate::fixture::served::Served::start_with(&[], &config);
    let pair = Pair {
        runtime,
        bank,
        setting,
        server,
    };
    let feed = wait_until(&pair, "it is paused", |feed| feed["paused"] == true);
    let why = feed["pausedWhy"].as_str().unwrap();
    assert!(
        why.starts_with("topic payments was created again, but the positions are those of the old"),
        "{why}"
    );
    assert_eq!(feed["pausedBy"], "feed");
    let address = pair.server.address;
    let to_start = json!({"partition": 0, "offset": 0, "reason": "the topic is new"});
    assert_eq!(act(address, "seek", &to_start).0, 200);
    assert_eq!(act(address, "resume", &json!({"reason": "moved"})).0, 200);
    wait_for_paid(&pair, &["p0", "p1", "p2", "p3", "p4"]);
}

#[test]
fn trouble_with_a_broker_is_one_sentence_and_over_when_it_is_over() {
    let mut kafka = Kafka::start();
    let nowhere = feed(&kafka).replace(&kafka.broker, "127.0.0.1:1");
    let away = pair(&nowhere);
    let feed_in_trouble = wait_until(&away, "it says so", |feed| feed["trouble"].is_string());
    let trouble = feed_in_trouble["trouble"].as_str().unwrap();
    assert!(
        trouble.starts_with("broker 127.0.0.1:1 cannot be reached: Connection refused"),
        "{trouble}"
    );
    assert!(tollgate(&away, &["feeds", "list"]).contains(trouble));
    assert_eq!(away.server.stop(), Some(0));

    // The topic itself is missing, until it is created.
    let text = feed(&kafka).replace("\"dead\"", "\"no-such-topic\"");
    let pair = pair(&text);
    let feed = wait_until(&pair, "it says so", |feed| feed["trouble"].is_string());
    let missing =
        "topic payments does not exist on the broker; create it or correct the configuration";
    assert_eq!(feed["trouble"], missing);
    kafka.create(&["payments"]);
    wait_until(&pair, "it is over", |feed| feed["trouble"].is_null());

    // The dead-letter topic is missing: the record waits, and what comes after it.
    let at_0 = |record| Record {
        partition: Some(0),
        ..record
    };
    kafka.produce("payments", &[at_0(record("p0"))]);
    wait_for_paid(&pair, &["p0"]);
    kafka.produce(
        "payments",
        &[at_0(Record::of("poison")), at_0(record("p1"))],
    );
    let feed = wait_until(&pair, "it says so", |feed| feed["trouble"].is_string());
    let trouble = feed["trouble"].as_str().unwrap();
    assert!(
        trouble.starts_with("topic no-such-topic does not exist on the broker; create it"),
        "{trouble}"
    );
    assert_eq!(feed["partitions"][0]["position"], 1, "nothing is passed");
    kafka.create(&["no-such-topic"]);
    wait_for_paid(&pair, &["p0", "p1"]);
    wait_until(&pair, "it is over", |feed| feed["trouble"].is_null());
    assert_eq!(kafka.read("no-such-topic").len(), 1);
}
