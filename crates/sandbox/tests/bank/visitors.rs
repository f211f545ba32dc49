//! `/sandbox/…`: the ledger and the faults over HTTP, as drills use them.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use tokio::time::timeout;
use tollgate_sandbox::{Bank, BankOptions, Effect};

use crate::{
    client::{Client, effects, has_read_its_latest, payment},
    struck_by,
};

fn request(method: Method, path: &str, body: &str) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path);
    request.body(Full::from(body.to_owned())).unwrap()
}

#[tokio::test]
async fn the_ledger_is_shown_in_short() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 2: 429; sends: forget-key 0ms"))?;
    let mut client = Client::connect(&bank).await?;
    for id in ["p1", "p2", "p1"] {
        client.send(id, &payment(id, "2.50", "EUR")).await?;
    }
    let mut shown = client.get("/sandbox/ledger").await?.body;
    for clock in ["startedUnixSecs", "worstSecondAtSecs"] {
        assert!(
            shown[clock].take().as_f64().is_some_and(|secs| secs > 0.0),
            "{clock}"
        );
    }
    let expected = json!({
        "startedUnixSecs": null, "arrivals": 3, "effective": 1, "doubles": 1,
        "doubledPayments": ["p1"], "refused": 1, "worstSecondCount": 3,
        "worstSecondAtSecs": null, "byCurrency": {"EUR": {"count": 2, "sum": "5.00"}},
    });
    assert_eq!(shown, expected);
    Ok(())
}

#[tokio::test]
async fn entries_come_in_pages_of_lines() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 3: 500 after"))?;
    let mut client = Client::connect(&bank).await?;
    for n in 1..=5 {
        client
            .send(&format!("k{n}"), &payment(&format!("p{n}"), "1", "EUR"))
            .await?;
    }
    let mut ids = vec![];
    for after in [0, 2, 4, 6] {
        let path = format!("/sandbox/ledger?entries=true&after={after}&limit=2");
        let page = client.text(request(Method::GET, &path, "")).await?;
        for line in page.lines() {
            let line: Value = serde_json::from_str(line)?;
            ids.push(line["paymentId"].as_str().unwrap().to_owned());
            assert_eq!(line["number"], ids.len());
        }
    }
    assert_eq!(ids, ["p1", "p2", "p3", "p4", "p5"]);

    let third = "/sandbox/ledger?entries=true&after=2&limit=1";
    let line = client.text(request(Method::GET, third, "")).await?;
    let mut line: Value = serde_json::from_str(&line)?;
    assert!(
        line["arrivalSecs"]
            .take()
            .as_f64()
            .is_some_and(|secs| secs > 0.0)
    );
    assert_eq!(line["bodySha256"].take().as_str().map(str::len), Some(64));
    let expected = json!({
        "number": 3, "arrivalSecs": null, "kind": "send", "key": "k3", "paymentId": "p3",
        "bodySha256": null, "amount": "1", "currency": "EUR", "effect": "took",
        "fault": "500 after", "answered": true,
    });
    assert_eq!(line, expected);
    for (query, field) in [
        ("entries=maybe", "entries"),
        ("entries=true&after=x", "after"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("colour=red", "query"),
    ] {
        let reply = client.get(&format!("/sandbox/ledger?{query}")).await?;
        assert_eq!(
            (reply.status.as_u16(), &reply.body["error"]["field"]),
            (400, &json!(field))
        );
    }
    Ok(())
}

#[tokio::test]
async fn faults_are_changed_while_the_bank_runs() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("sends: 401"))?;
    let mut client = Client::connect(&bank).await?;
    let put = |spec: &str| request(Method::PUT, "/sandbox/faults", spec);
    let set = client
        .text(put("send 2: 500 before\nprobes: latency 1s"))
        .await?;
    assert_eq!(set, "sends 2: 500 before\nprobes: latency 1000ms\n");

    let refused = client.exchange(put("send 1: 401\nsend 2: explode")).await?;
    assert_eq!(
        (refused.status.as_u16(), &refused.body["error"]["field"]),
        (400, &json!("faults"))
    );
    let reason = refused.body["error"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("line 2, \"send 2: explode\": fault:"),
        "{reason}"
    );
    let shown = client
        .text(request(Method::GET, "/sandbox/faults", ""))
        .await?;
    assert_eq!(shown, set, "what was refused changed nothing");

    for (n, status) in [(1, 200), (2, 500), (3, 200)] {
        let reply = client
            .send(&format!("k{n}"), &payment(&format!("p{n}"), "1", "EUR"))
            .await?;
        assert_eq!(reply.status, status, "send {n}");
    }
    assert_eq!(client.text(put("")).await?, "");
    assert_eq!(bank.ledger().arrivals(), 3, "visitors are no arrivals");
    Ok(())
}

#[tokio::test]
async fn cleared_books_know_neither_payments_nor_keys() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    let order = payment("p1", "1", "EUR");
    client.send("k1", &order).await?;
    let cleared = client
        .text(request(Method::DELETE, "/sandbox/ledger", ""))
        .await?;
    assert_eq!((cleared.as_str(), bank.ledger().arrivals()), ("", 0));
    assert!(bank.ledger().effective().is_empty() && bank.ledger().total_by_currency().is_empty());
    let an_arrival = timeout(Duration::ZERO, bank.ledger().wait_for_arrivals(1)).await;
    assert!(an_arrival.is_err(), "who waits now waits for a new one");
    client.send("k1", &order).await?;
    assert_eq!(effects(&bank), [Effect::Took]);
    assert!(bank.ledger().doubles().is_empty());
    bank.ledger().wait_for_arrivals(1).await;
    Ok(())
}

#[tokio::test]
async fn what_was_under_way_when_the_books_were_cleared_takes_no_effect() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 1: work 1s; send 2: work 60m"))?;
    let mut client = Client::connect(&bank).await?;
    let sent =
        tokio::spawn(async move { client.send("k1", &payment("p1", "1", "EUR")).await.is_ok() });
    has_read_its_latest(&bank).await;
    bank.ledger().reset();
    // The same key, now held by another request, which the end of the first must not let go.
    let mut client = Client::connect(&bank).await?;
    tokio::spawn(async move { client.send("k1", &payment("p1", "1", "EUR")).await.is_ok() });
    assert!(!sent.await?, "hung up on");
    has_read_its_latest(&bank).await;
    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.send("k1", &payment("p1", "1", "EUR")).await?.status,
        409
    );
    assert_eq!(effects(&bank), [Effect::LostBefore, Effect::RefusedOther]);
    assert!(bank.ledger().effective().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_wrong_path_or_method_says_what_would_be_right() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    for (method, path, status) in [
        (Method::POST, "/sandbox/ledger", 405),
        (Method::DELETE, "/sandbox/faults", 405),
        (Method::DELETE, "/payments/p1", 405),
        (Method::GET, "/sandbox", 404),
    ] {
        let reply = client.exchange(request(method, path, "")).await?;
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.body["error"]["reason"].is_string());
    }
    assert_eq!(bank.ledger().arrivals(), 0);
    Ok(())
}
