//! Invoices as records of a topic, as CloudEvents of both kinds, from the broker to the provider.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::billing::invoices::{invoice, with_customer};
use crate::fixture::footing::{Footing, on_both_footings};
use crate::fixture::http::get;
use crate::fixture::kafka::{Kafka, Record};
use crate::fixture::pair::Pair;
use crate::fixture::served::eventually_or;
use crate::topics::feeds::{cluster, feed, wait_until};

const LONG: Duration = Duration::from_mins(1);

on_both_footings!(invoices_of_a_topic_are_charged_once_put_aside_or_answered);

/// Due at once.
fn due(id: &str) -> Value {
    let mut due = invoice(id);
    due["schedule"] = json!({"cron": "* * * * * *"});
    due
}

fn produce_all_kinds(kafka: &mut Kafka) {
    let mut other = due("i1");
    other["amount"]["value"] = json!("7");
    let mut stranger = due("i3");
    stranger["customerId"] = json!("c_9");
    let whole = json!({"specversion": "1.0", "id": "1", "type": "invoice.created", "source": "/billing",
        "data": due("i1")});
    let structured = Record {
        partition: Some(0),
        headers: vec![("content-type", "application/cloudevents+json")],
        ..Record::of(whole.to_string())
    };
    let at = |partition, value: String| Record {
        partition: Some(partition),
        headers: vec![("ce_specversion", "1.0"), ("ce_type", "invoice.created")],
        ..Record::of(value)
    };
    kafka.produce(
        "payments",
        &[
            structured,
            at(0, due("i1").to_string()),
            at(0, other.to_string()),
            at(0, "{not json".to_owned()),
            at(1, stranger.to_string()),
            at(1, due("i2").to_string()),
        ],
    );
}

fn invoices_of_a_topic_are_charged_once_put_aside_or_answered(footing: &Footing) {
    let mut kafka = cluster();
    let kind = "item_type = \"invoices\"\nformat = \"cloudevents\"\n";
    let text = format!("{}{kind}", feed(&kafka));
    let pair = with_customer(footing.pair(&text));
    produce_all_kinds(&mut kafka);
    let feed = wait_until(&pair, "all is read", |feed| feed["records"] == 6);
    assert_eq!((&feed["lag"], &feed["deadLetters"]), (&json!(0), &json!(1)));
    eventually_or("both are charged", LONG, || {
        let charged = pair.bank.ledger().effective();
        let ids: BTreeSet<&str> = charged.keys().map(String::as_str).collect();
        let both = BTreeSet::from(["invoice/i1", "invoice/i2"]);
        (ids == both).then_some(()).ok_or(format!("{charged:?}"))
    });
    assert_eq!(
        pair.bank.ledger().doubles(),
        Vec::<String>::new(),
        "MONEY: paid twice"
    );
    let dead = kafka.read("dead");
    let reason = &dead[0].headers["dead-letter-reason"];
    assert!(
        dead.len() == 1 && reason.starts_with("is not JSON"),
        "{dead:?}"
    );
    let answers = eventually_or("both are answered", LONG, || {
        let answers = kafka.read("results");
        let bodies = answers.iter().map(|answer| {
            let body: Value = serde_json::from_slice(answer.value.as_ref().unwrap()).unwrap();
            format!("{} {} {}", body["id"], body["offset"], body["details"])
        });
        let bodies: BTreeSet<String> = bodies.collect();
        (bodies.len() >= 2)
            .then_some(bodies.clone())
            .ok_or(format!("{bodies:?}"))
    });
    let mut answers = answers.iter();
    let says = r#""i1" 2 {"invoiceId":"#;
    assert!(answers.next().unwrap().starts_with(says));
    let says = r#""i3" 0 {"customerId":"there is no customer c_9"#;
    assert!(answers.next().unwrap().starts_with(says));
    let errors = "/payments/bulk/feed.in.payments.0/errors";
    let errors = get(pair.server.address, errors).unwrap();
    assert_eq!(errors.body["errors"][0]["line"], 3, "{}", errors.text);
    are_called_invoices(&pair);
    assert_eq!(pair.server.stop(), Some(0));
}

fn are_called_invoices(pair: &Pair) {
    let feed = wait_until(pair, "it says what it reads", |feed| {
        feed["itemType"] == "INVOICE"
    });
    let shown = |path: &str| get(pair.server.address, path).unwrap().text;
    let feeds = shown("/console/feeds");
    assert!(feeds.contains(">invoices</a>"), "{feeds}");
    assert!(!feeds.contains(">payments</a>"), "{feeds}");
    let import = feed["partitions"][0]["batchId"].as_str().unwrap();
    let import = shown(&format!("/console/imports/{import}"));
    assert!(import.contains("1 invoice, "), "{import}");
    assert!(
        import.contains("<h2>Current status of its invoices</h2>"),
        "{import}"
    );
}
