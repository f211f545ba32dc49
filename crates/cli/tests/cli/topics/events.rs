//! Events from outside: a topic of a Kafka cluster that is not ours, read by a consumer that is not ours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate_conformance::postgres::{connect, sql};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_sandbox::WEBHOOK_SECRET;

use crate::fixture::http::{get, post};
use crate::fixture::kafka::{Found, Kafka};
use crate::fixture::pair::{Pair, pair, paired, payment};
use crate::fixture::served::{BINARY, Setting, eventually_or};
use crate::nodes::standby::Group;

const LONG: Duration = Duration::from_mins(1);

/// Where events go, as configuration.
pub(crate) fn events(kafka: &Kafka) -> String {
    let broker = &kafka.broker;
    format!("[events]\nkind = \"kafka\"\nbrokers = [\"{broker}\"]\ntopic = \"events\"\n")
}

fn shown(address: SocketAddr) -> Value {
    let answer = get(address, "/admin/events").unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// Waits until nothing is left to be published.
pub(crate) fn is_published(address: SocketAddr) -> Value {
    eventually_or("all is published", LONG, || match shown(address) {
        events if events["backlog"] == 0 => Ok(events),
        events => Err(events.to_string()),
    })
}

/// The events of each item as a consumer gets to know them: each once, by its id, in the order of their first coming.
fn read(kafka: &mut Kafka) -> BTreeMap<String, Vec<Value>> {
    let mut items: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut known = BTreeSet::new();
    for Found {
        key,
        value,
        headers,
    } in kafka.read("events")
    {
        let kind = &headers["content-type"];
        assert_eq!(kind, "application/cloudevents+json; charset=UTF-8");
        let event: Value = serde_json::from_slice(&value.unwrap()).unwrap();
        let key = String::from_utf8(key.unwrap()).unwrap();
        assert_eq!(event["subject"], key.as_str());
        if known.insert(event["id"].as_str().unwrap().to_owned()) {
            items.entry(key).or_default().push(event);
        }
    }
    items
}

fn words(events: &[Value]) -> Vec<&str> {
    let word = |event: &Value| event["type"].as_str().map(str::to_owned);
    assert!(events.iter().all(|event| word(event).is_some()));
    let types = events.iter().filter_map(|event| event["type"].as_str());
    types
        .filter_map(|name| name.strip_prefix("payment."))
        .collect()
}

/// Has the database keep every move of a status by itself.
pub(crate) fn keep_moves(runtime: &Runtime, database: &str) {
    const KEEP: &str = "
        CREATE TABLE judge (n bigint GENERATED ALWAYS AS IDENTITY, id text, status text);
        CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            INSERT INTO judge (id, status) VALUES (NEW.item_id, NEW.status);
            RETURN NULL;
        END $$;
        CREATE TRIGGER judge_insert AFTER INSERT ON item_queue FOR EACH ROW
            WHEN (NEW.item_type = 'PAYMENT') EXECUTE FUNCTION judge();
        CREATE TRIGGER judge_update AFTER UPDATE ON item_queue FOR EACH ROW
            WHEN (NEW.item_type = 'PAYMENT' AND NEW.status <> OLD.status)
            EXECUTE FUNCTION judge();";
    runtime.block_on(sql(database, KEEP));
}

/// Every move that was committed, in its order, and no other.
pub(crate) fn judge_events(runtime: &Runtime, database: &str, kafka: &mut Kafka) {
    let moves = "SELECT id, string_agg(lower(status), ' ' ORDER BY n) FROM judge GROUP BY id";
    let rows = runtime.block_on(async {
        let client = connect(database).await;
        client.query(moves, &[]).await.unwrap()
    });
    let committed = rows.iter().map(|row| (row.get(0), in_full(row.get(1))));
    let committed: BTreeMap<String, String> = committed.collect();
    let published: BTreeMap<String, String> = read(kafka)
        .into_iter()
        .map(|(id, events)| (id, words(&events).join(" ")))
        .collect();
    assert!(!committed.is_empty());
    let differ = |id: &&String| committed.get(*id) != published.get(*id);
    let ids: BTreeSet<&String> = committed.keys().chain(published.keys()).collect();
    let differing: Vec<_> = ids.into_iter().filter(differ).take(5).collect();
    let shown = differing
        .iter()
        .map(|id| (id, committed.get(*id), published.get(*id)));
    assert!(differing.is_empty(), "{:?}", shown.collect::<Vec<_>>());
}

/// A payment whose answer leaves nothing to do is accepted and processing in one move: that is two events.
fn in_full(moves: &str) -> String {
    let mut words: Vec<&str> = vec![];
    for word in moves.split(' ') {
        if word == "processing" && words.last() != Some(&"accepted") {
            words.push("accepted");
        }
        words.push(word);
    }
    words.join(" ")
}

fn accepted(pair: &Pair, new: &Value) -> Value {
    let answer = post(pair.server.address, "/payments", new).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.body
}

#[test]
fn moves_are_published_and_kept_while_the_topic_is_missing() {
    let mut kafka = Kafka::start();
    let pair = pair(&events(&kafka));
    let address = pair.server.address;
    let now = accepted(&pair, &payment("p1"))["scheduledTime"].clone();
    let now: Timestamp = now.as_str().unwrap().parse().unwrap();
    let mut later = payment("p2");
    later["executeAt"] = json!(now + SignedDuration::from_hours(24));
    accepted(&pair, &later);
    let because = json!({"reason": "a test"});
    let answer = post(address, "/payments/p2/cancel", &because).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    let stuck = eventually_or("it says so", LONG, || match shown(address) {
        events if events["trouble"].is_string() => Ok(events),
        events => Err(events.to_string()),
    });
    let trouble = stuck["trouble"].as_str().unwrap();
    assert!(
        trouble.starts_with("topic events does not exist"),
        "{trouble}"
    );
    eventually_or("it is paid without events", LONG, || {
        let view = get(address, "/payments/p1").unwrap().body;
        let is_paid = view["status"] == "PROCESSING";
        is_paid.then_some(()).ok_or(view.to_string())
    });
    assert_eq!(shown(address)["backlog"], 5);
    let refused = post(address, "/admin/events/off", &because).unwrap();
    assert_eq!(refused.status, 409, "{}", refused.text);

    kafka.create(&["events"]);
    let published = is_published(address);
    assert_eq!(published["published"], 5);
    let items = read(&mut kafka);
    assert_eq!(words(&items["p1"]), ["scheduled", "accepted", "processing"]);
    assert_eq!(words(&items["p2"]), ["scheduled", "cancelled"]);
    let event = &items["p1"][1];
    assert_eq!(event["source"], "/tollgate");
    let data = json!({"paymentId": "p1", "status": "ACCEPTED", "amount": "125.50",
        "currency": "USD", "lane": "default", "scheduledTime": event["data"]["scheduledTime"]});
    assert_eq!(event["data"], data);
    let text = event.to_string();
    assert!(!text.contains("A-1") && !text.contains("Ann"), "{text}");
    turned_off(pair);
}

/// Without `[events]` nothing is published, but moves still write events until a person turns them off.
fn turned_off(pair: Pair) {
    let Pair {
        runtime,
        bank,
        setting,
        server,
    } = pair;
    assert_eq!(server.stop(), Some(0));
    let config = setting.config("127.0.0.1:0");
    let text = std::fs::read_to_string(&config).unwrap();
    let (without, _) = text.split_once("[events]").unwrap();
    std::fs::write(&config, without).unwrap();
    let server = crate::fixture::served::Served::start_with(&[], &config);
    let pair = Pair {
        runtime,
        bank,
        setting,
        server,
    };
    accepted(&pair, &payment("p3"));
    let events = shown(pair.server.address);
    assert_eq!(
        (&events["on"], &events["owner"]),
        (&json!(true), &Value::Null)
    );
    let server = format!("http://{}", pair.server.address);
    let tollgate = |words: &[&str]| {
        let mut run = Command::new(BINARY);
        let output = run.args(words).args(["--server", &server]).output();
        let output = output.unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let said = tollgate(&["events", "show"]);
    assert!(said.contains("no process publishes them"), "{said}");
    let said = tollgate(&["events", "off", "--reason", "not needed"]);
    assert!(said.starts_with("events are off; "), "{said}");
    assert_eq!(tollgate(&["events", "show"]).trim(), "events are off");
    accepted(&pair, &payment("p4"));
    assert_eq!(shown(pair.server.address)["backlog"], 0);
}

#[test]
fn receivers_of_webhooks_get_the_further_events_that_they_ask_for() {
    let pair = paired(|bank| {
        let url = bank.url();
        let receiver = format!(
            "[downstream.notifications]\nurls = [\"{url}/webhooks\"]\nsecret = \"{WEBHOOK_SECRET}\"\n\
             events = [\"payment.scheduled\", \"payment.cancelled\"]\n"
        );
        Setting::new(bank, &receiver)
    });
    let scheduled = accepted(&pair, &payment("p1"))["scheduledTime"].clone();
    let now: Timestamp = scheduled.as_str().unwrap().parse().unwrap();
    let mut later = payment("p2");
    later["executeAt"] = json!(now + SignedDuration::from_hours(24));
    accepted(&pair, &later);
    let because = json!({"reason": "a test"});
    let answer = post(pair.server.address, "/payments/p2/cancel", &because).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
    let expected = BTreeSet::from([
        "p1 payment.scheduled".to_owned(),
        "p1 payment.processing".to_owned(),
        "p2 payment.scheduled".to_owned(),
        "p2 payment.cancelled".to_owned(),
    ]);
    eventually_or("all is told", LONG, || {
        let deliveries = pair.bank.ledger().deliveries();
        let told = deliveries.iter().filter_map(|it| {
            let (id, event) = (it.payment_id.as_ref()?, it.event.as_ref()?);
            Some(format!("{id} {event}"))
        });
        let told: BTreeSet<String> = told.collect();
        (told == expected).then_some(()).ok_or(format!("{told:?}"))
    });
    is_published(pair.server.address);
}

/// The process that publishes has one topic, the one that waits another.
#[test]
fn a_process_that_would_publish_elsewhere_says_so_in_one_sentence() {
    let mut kafka = Kafka::start();
    kafka.create(&["events"]);
    let group = Group::new(&events(&kafka));
    let first = group.start();
    eventually_or("it publishes", LONG, || match shown(first.address) {
        events if events["owner"].is_string() => Ok(()),
        events => Err(events.to_string()),
    });
    let same = group.start();
    let other = events(&kafka).replace("\"events\"", "\"elsewhere\"");
    let other = group.also(&other).start("127.0.0.1:0");
    let said = "events.topic is events in the process that publishes and elsewhere in another; \
                give all processes the same settings";
    eventually_or("it says so", LONG, || match shown(first.address) {
        events if events["difference"] == said => Ok(()),
        events => Err(events.to_string()),
    });
    eventually_or("a third one shows it", LONG, || {
        let needs = get(same.address, "/admin/needs-you").unwrap().text;
        let is_shown = needs.contains("events-differ") && needs.contains(said);
        is_shown.then_some(()).ok_or(needs)
    });
    assert_eq!(other.stop(), Some(0));
    eventually_or("it is over", LONG, || match shown(first.address) {
        events if events["difference"].is_null() => Ok(()),
        events => Err(events.to_string()),
    });
    for node in [same, first] {
        assert_eq!(node.stop(), Some(0));
    }
}
