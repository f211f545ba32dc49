//! A feed under kills: processes on PostgreSQL read one topic with duplicates, poison, oversized records, tombstones
//! and other contents of known ids, and publish every move. They are killed, one is stopped and woken, and the broker goes
//! away and comes back; in `./dev soak` it is a real one, and goes by SIGKILL. The judges are the bank's ledger, which honours no
//! keys, a table that the test has the database write, and where the broker says that its partitions end.

use std::collections::BTreeSet;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use crate::fixture::kafka::{Kafka, Record};
use crate::fixture::pair::payment;
use crate::fixture::served::{Served, eventually_or};
use crate::money::kill_storm::MEASURED_ALONE;
use crate::nodes::standby::{Group, ids, set_limit};
use crate::topics::events::{events, is_published, judge_events, keep_moves};
use crate::topics::feeds::{feed, record, shown};

const LIMIT: u32 = 400;

/// How large it is, by default for every change; `./dev soak` has more of everything.
struct Size {
    payments: usize,
    nodes: usize,
    kills: usize,
    seed: u64,
}

impl Size {
    fn read() -> Self {
        let read = |name: &str, otherwise: usize| {
            let given = std::env::var(name).ok();
            given.map_or(otherwise, |given| given.parse().unwrap())
        };
        Self {
            payments: read("TGTEST_FEED_PAYMENTS", 2000),
            nodes: read("TGTEST_FEED_NODES", 2),
            kills: read("TGTEST_FEED_KILLS", 2),
            seed: read("TGTEST_SEED", 20_261_117) as u64,
        }
    }
}

/// What goes wrong with one record in ten.
fn noise(random: &mut SmallRng, known: &str) -> Record {
    match random.random_range(0..5) {
        0 => record(known),
        1 => Record::of("{\"paymentId\": "),
        2 => Record::of(vec![b'x'; 100_000]),
        3 => Record {
            key: Some(known.to_owned()),
            ..Record::default()
        },
        _ => {
            let mut other = payment(known);
            other["amount"] = json!("77777");
            Record {
                key: Some(known.to_owned()),
                ..Record::of(other.to_string())
            }
        }
    }
}

fn is_poison(record: &Record) -> bool {
    let value = record.value.as_deref();
    value.is_none_or(|value| value.len() > 65_536 || value == b"{\"paymentId\": ")
}

/// Every payment once, and something wrong after one in ten. Records with the same key are in one partition, in this
/// order: other contents never come first.
fn all_records(random: &mut SmallRng, ids: &[String]) -> Vec<Record> {
    let mut records = vec![];
    for (n, id) in ids.iter().enumerate() {
        records.push(record(id));
        if random.random_bool(0.1) {
            let known = &ids[random.random_range(0..=n)];
            records.push(noise(random, known));
        }
    }
    records
}

#[test]
fn processes_killed_while_they_read_a_topic_lose_and_double_nothing() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let size = Size::read();
    println!("feed storm: seed {}", size.seed);
    let mut random = SmallRng::seed_from_u64(size.seed);
    let mut kafka = Kafka::start_durable();
    let topics = ["payments", "dead", "results", "events"];
    kafka.create_with(4 * size.payments.div_ceil(2000), &topics);
    let extra = format!("{}{}", feed(&kafka), events(&kafka));
    let group = Group::new(&extra);
    let mut nodes: Vec<Served> = (0..size.nodes).map(|_| group.start()).collect();
    keep_moves(&group.runtime, &group.database);
    set_limit(nodes[0].address, LIMIT);

    let ids = ids("f", size.payments);
    let records = all_records(&mut random, &ids);
    let poison = records.iter().filter(|record| is_poison(record)).count();
    // One part before each kill, and one for the end.
    let mut parts = records.chunks(records.len().div_ceil(size.kills + 1));
    let mut produced = 0;
    for (round, part) in parts.by_ref().take(size.kills).enumerate() {
        kafka.produce("payments", part);
        let at_least = produced + 1;
        produced += part.len();
        wait_for_records(&nodes[0], at_least as u64);
        // Every other process begins while the broker is away.
        let is_away = round % 2 == 1;
        kafka.away(is_away);
        nodes.remove(0).kill();
        nodes.push(group.start());
        if is_away {
            kafka.away(false);
        }
    }
    // Stopped until the others have read everything, and woken: what it still wants to write is refused.
    let stopped = nodes.remove(0);
    wait_for_records(&nodes[0], 1 + produced as u64 / 2);
    stopped.signal("-STOP");
    for part in parts {
        kafka.produce("payments", part);
    }

    let (total, reader) = (records.len(), &nodes[0]);
    let feed = eventually_or("all is read", Duration::from_mins(4), || {
        match shown(reader.address) {
            Some(feed) if feed["records"] == total && feed["lag"] == 0 => Ok(feed),
            other => Err(format!("{total} records: {other:?}")),
        }
    });
    assert_eq!(feed["deadLetters"], poison, "counted with their records");
    assert_eq!(feed["paused"], false, "{feed}");
    stopped.signal("-CONT");
    all_end(&group, total);
    group.all_paid_once(&ids);
    assert_eq!(put_aside(&mut kafka), poison, "all of them, once or more");
    let feed = shown(stopped.address).unwrap();
    assert_eq!(feed["records"], total, "nobody has read one again");
    nothing_is_skipped(&mut kafka, &feed, total);
    is_published(reader.address);
    judge_events(&group.runtime, &group.database, &mut kafka);
    assert_eq!(stopped.stop(), Some(0));
    for node in nodes {
        assert_eq!(node.stop(), Some(0));
    }
}

/// The more there are, the longer it takes. What was read is a chunk first, and payments only when a leader has taken it in.
fn all_end(group: &Group, records: usize) {
    let each = Duration::from_millis(50);
    let patience = Duration::from_mins(2) + each * u32::try_from(records).unwrap();
    let unfinished = "SELECT (SELECT count(*) FROM bulk_chunk)
         + (SELECT count(*) FROM item_queue WHERE finished_at IS NULL)";
    eventually_or("all payments end", patience, || {
        let left = group.count(unfinished);
        (left == 0).then_some(()).ok_or(format!("{left} are left"))
    });
}

/// Every partition stands where the broker says that it ends, and there are as many records as were produced.
fn nothing_is_skipped(kafka: &mut Kafka, feed: &Value, produced: usize) {
    let ends = kafka.ends("payments");
    let partitions = feed["partitions"].as_array().unwrap().iter();
    let positions: Vec<i64> = partitions
        .map(|partition| partition["position"].as_i64().unwrap())
        .collect();
    assert_eq!(positions, ends, "positions against the ends of the log");
    assert_eq!(ends.iter().sum::<i64>(), i64::try_from(produced).unwrap());
}

/// How many records are in the dead-letter topic, however often.
fn put_aside(kafka: &mut Kafka) -> usize {
    let dead = kafka.read("dead");
    let places = dead.iter().map(|dead| {
        let said = |name: &str| dead.headers[name].clone();
        (said("dead-letter-partition"), said("dead-letter-offset"))
    });
    places.collect::<BTreeSet<_>>().len()
}

fn wait_for_records(server: &Served, least: u64) {
    eventually_or("records are read", Duration::from_mins(1), || {
        let feed = shown(server.address);
        let read = feed.as_ref().and_then(|feed| feed["records"].as_u64());
        match read {
            Some(read) if read >= least => Ok(()),
            _ => Err(format!("{feed:?}")),
        }
    });
}
