//! The bank without faults, or with the simplest ones, and what its ledger says.

use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::Full;
use serde_json::json;
use tokio::time::Instant;
use tollgate_sandbox::{Bank, BankOptions, Effect, Entry, Faults, Kind};

use crate::{
    client::{Client, effects, payment},
    struck_by,
    window::brute_force,
};

#[tokio::test]
async fn a_payment_is_accepted_and_written_down() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    let body = r#"{"paymentId":"p1","amount":"125.50","currency":"USD","debtor":{},"creditor":{}}"#;
    let reply = client.send("payment-p1", body).await?;

    assert_eq!(reply.status, StatusCode::OK);
    let expected = json!({
        "paymentId": "p1", "status": "accepted", "bankReference": "bank-1",
        "amount": "125.50", "currency": "USD",
    });
    assert_eq!(reply.body, expected);
    let [entry]: [Entry; 1] = bank.ledger().entries().try_into().expect("one arrival");
    assert_eq!(entry.kind, Kind::Send);
    assert_eq!(entry.key.as_deref(), Some("payment-p1"));
    assert_eq!(entry.payment_id.as_deref(), Some("p1"));
    assert_eq!(entry.amount.as_deref(), Some("125.50"));
    assert_eq!(entry.currency.as_deref(), Some("USD"));
    // sha256sum of the body's bytes, computed outside this crate.
    let sha256 = "50a8f45b4d7871d44431a18bfd5034447788a63a2a27f2f4aa7da592ed861cf7";
    assert_eq!(entry.body_sha256.as_deref(), Some(sha256));
    assert_eq!((entry.effect, entry.answered), (Effect::Took, true));
    Ok(())
}

#[tokio::test]
async fn a_repeated_key_gets_the_first_answer_and_takes_effect_once() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    let first = client.send("k1", &payment("p1", "1.00", "EUR")).await?;
    client.send("k2", &payment("p2", "1.00", "EUR")).await?;
    let again = client.send("k1", &payment("p1", "1.00", "EUR")).await?;

    assert_eq!(again.status, StatusCode::OK);
    assert_eq!(again.body, first.body);
    assert_eq!(
        effects(&bank),
        [Effect::Took, Effect::Took, Effect::Repeated]
    );
    assert_eq!(bank.ledger().effective()["p1"], 1);
    assert!(bank.ledger().doubles().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_known_key_with_another_body_is_refused() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    client.send("k1", &payment("p1", "1.00", "EUR")).await?;
    let other = client.send("k1", &payment("p1", "2.00", "EUR")).await?;

    assert_eq!(other.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(other.body["error"]["field"], "Idempotency-Key");
    assert_eq!(effects(&bank), [Effect::Took, Effect::RefusedOther]);
    let totals = bank.ledger().total_by_currency();
    assert_eq!(totals["EUR"], (1, "1.00".to_owned()));
    Ok(())
}

#[tokio::test]
async fn without_keys_honoured_a_repeat_is_a_double_in_the_ledger() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions {
        honours_keys: false,
        ..BankOptions::default()
    })?;
    let mut client = Client::connect(&bank).await?;
    for id in ["p1", "p2", "p1"] {
        client
            .send(&format!("payment-{id}"), &payment(id, "1.00", "EUR"))
            .await?;
    }
    assert_eq!(bank.ledger().doubles(), ["p1"]);
    assert_eq!(bank.ledger().effective()["p1"], 2);
    assert_eq!(bank.ledger().total_by_currency()["EUR"].0, 3);
    Ok(())
}

#[tokio::test]
async fn the_same_payment_under_two_keys_is_a_double() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    client.send("k1", &payment("p1", "1.00", "EUR")).await?;
    client.send("k2", &payment("p1", "1.00", "EUR")).await?;
    assert_eq!(bank.ledger().doubles(), ["p1"]);
    Ok(())
}

#[tokio::test]
async fn over_the_limit_is_a_429_that_still_counts_as_an_arrival() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions {
        limit_per_second: Some(2),
        ..BankOptions::default()
    })?;
    let mut client = Client::connect(&bank).await?;
    let mut refused = 0;
    for n in 0..30 {
        let reply = client
            .send(&format!("k{n}"), &payment(&format!("p{n}"), "1", "EUR"))
            .await?;
        if reply.status == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(reply.retry_after.as_deref(), Some("1"));
            refused += 1;
        }
    }
    let entries = bank.ledger().entries();
    let is_refused = |entry: &&Entry| entry.effect == Effect::Refused429;
    assert!(refused > 0, "30 requests took longer than 14 seconds?");
    assert_eq!(entries.iter().filter(is_refused).count(), refused);
    assert_eq!(bank.ledger().effective().len(), 30 - refused);

    let times = |wanted: &dyn Fn(&&Entry) -> bool| -> Vec<Duration> {
        entries
            .iter()
            .filter(wanted)
            .map(|entry| entry.arrival)
            .collect()
    };
    let admitted = brute_force(&times(&|entry| !is_refused(entry)));
    assert_eq!(admitted.count, 2, "admitted arrivals");
    let all = bank.ledger().worst_second();
    assert_eq!(all, brute_force(&times(&|_| true)));
    assert!(all.count > 2, "refused arrivals count: {all:?}");
    Ok(())
}

#[tokio::test]
async fn a_probe_uses_up_the_limit_too() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions {
        limit_per_second: Some(0),
        ..BankOptions::default()
    })?;
    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.get("/payments/p1").await?.status,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(client.get("/sandbox/ledger").await?.status, StatusCode::OK);
    assert_eq!(effects(&bank), [Effect::Refused429]);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_took_effect_and_the_probe_says_so() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("all: reset after"))?;
    let mut client = Client::connect(&bank).await?;
    assert!(
        client
            .send("k1", &payment("p1", "1.00", "EUR"))
            .await
            .is_err()
    );
    let entry = &bank.ledger().entries()[0];
    assert_eq!((entry.effect, entry.answered), (Effect::Took, false));

    bank.set_faults(Faults::default());
    let mut client = Client::connect(&bank).await?;
    let probe = client.get("/payments/p1").await?;
    assert_eq!(probe.status, StatusCode::OK);
    assert_eq!(probe.body["paymentId"], "p1");
    assert_eq!(effects(&bank), [Effect::Took, Effect::Found]);
    Ok(())
}

#[tokio::test]
async fn a_reset_before_the_work_did_nothing_and_the_probe_says_so() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("all: reset before"))?;
    let mut client = Client::connect(&bank).await?;
    assert!(
        client
            .send("k1", &payment("p1", "1.00", "EUR"))
            .await
            .is_err()
    );
    let entry = &bank.ledger().entries()[0];
    assert_eq!((entry.effect, entry.answered), (Effect::LostBefore, false));
    assert_eq!(entry.payment_id.as_deref(), Some("p1"));

    bank.set_faults(Faults::default());
    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.get("/payments/p1").await?.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(effects(&bank), [Effect::LostBefore, Effect::NotFound]);
    assert!(bank.ledger().effective().is_empty());
    Ok(())
}

#[tokio::test]
async fn latency_holds_the_answer_back() -> anyhow::Result<()> {
    let latency = Duration::from_millis(40);
    let bank = Bank::start(struck_by("all: latency 40ms"))?;
    let mut client = Client::connect(&bank).await?;
    let before = Instant::now();
    client.send("k1", &payment("p1", "1.00", "EUR")).await?;
    assert!(before.elapsed() >= latency);
    Ok(())
}

#[tokio::test]
async fn a_body_the_bank_cannot_read_is_a_400_that_names_the_field() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    let cases = [("{not json", "body"), (r#"{"amount":"1"}"#, "paymentId")];
    for (body, field) in cases {
        let reply = client.send("k1", body).await?;
        assert_eq!(reply.status, StatusCode::BAD_REQUEST, "{body}");
        assert_eq!(reply.body["error"]["field"], field, "{body}");
    }
    // Whether the 413 or the closed connection reaches the client first is a race; the ledger is not.
    let _ = client.send("k1", &"x".repeat(100_000)).await;
    assert_eq!(effects(&bank), [Effect::RefusedOther; 3]);
    assert!(bank.ledger().effective().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_send_without_a_key_is_refused() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    let keyless = Request::post("/payments").body(Full::from(payment("p1", "1", "EUR")))?;
    let reply = client.exchange(keyless).await?;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.body["error"]["field"], "Idempotency-Key");
    assert_eq!(effects(&bank), [Effect::RefusedOther]);
    Ok(())
}

#[tokio::test]
async fn a_probe_finds_an_id_however_it_was_escaped() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    client.send("k1", &payment("a:b", "1", "EUR")).await?;
    for (path, status) in [
        ("/payments/a:b", StatusCode::OK),
        ("/payments/a%3Ab", StatusCode::OK),
        ("/payments/a%3", StatusCode::NOT_FOUND),
        ("/payments/", StatusCode::NOT_FOUND),
        ("/payments/other", StatusCode::NOT_FOUND),
    ] {
        assert_eq!(client.get(path).await?.status, status, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn totals_are_exact_in_each_currency() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let mut client = Client::connect(&bank).await?;
    let amounts = [
        ("0.10", "EUR"),
        ("0.20", "EUR"),
        ("1000", "JPY"),
        ("99999999999.99", "EUR"),
    ];
    for (n, (amount, currency)) in amounts.iter().enumerate() {
        client
            .send(
                &format!("k{n}"),
                &payment(&format!("p{n}"), amount, currency),
            )
            .await?;
    }
    let totals = bank.ledger().total_by_currency();
    assert_eq!(totals["EUR"], (3, "100000000000.29".to_owned()));
    assert_eq!(totals["JPY"], (1, "1000".to_owned()));

    let summary = client.get("/sandbox/ledger").await?.body;
    assert_eq!(summary["arrivals"], 4);
    assert_eq!(summary["effective"], 4);
    assert_eq!(summary["doubles"], 0);
    assert_eq!(summary["refused"], 0);
    assert_eq!(
        summary["byCurrency"]["EUR"],
        json!({"count": 3, "sum": "100000000000.29"})
    );
    assert_eq!(
        bank.ledger().arrivals(),
        4,
        "reading the ledger is no arrival"
    );
    Ok(())
}

#[tokio::test]
async fn a_waiter_wakes_at_its_arrival_while_the_answer_is_still_held() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("all: latency 60m"))?;
    let mut senders = tokio::task::JoinSet::new();
    for n in 0..50 {
        let mut client = Client::connect(&bank).await?;
        senders.spawn(async move {
            client
                .send(&format!("k{n}"), &payment(&format!("p{n}"), "1", "EUR"))
                .await
        });
    }
    let enough = bank.ledger().wait_for_arrivals(50);
    tokio::time::timeout(Duration::from_mins(1), enough).await?;
    bank.ledger().wait_for_arrivals(7).await;

    let ledger = bank.ledger().clone();
    bank.stop().await;
    while let Some(reply) = senders.join_next().await {
        assert!(reply?.is_err(), "a stopped bank answers nobody");
    }
    assert_eq!(ledger.arrivals(), 50);
    assert!(ledger.entries().iter().all(|entry| !entry.answered));
    Ok(())
}

#[tokio::test]
async fn a_restarted_bank_remembers_its_keys() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions::default())?;
    let options = BankOptions {
        listen: bank.address(),
        ..BankOptions::default()
    };
    let ledger = bank.ledger().clone();
    let mut client = Client::connect(&bank).await?;
    let first = client.send("k1", &payment("p1", "1.00", "EUR")).await?;
    bank.stop().await;
    assert!(
        client.get("/sandbox/ledger").await.is_err(),
        "the old connection is closed"
    );

    let bank = Bank::start_with_ledger(options, ledger)?;
    let mut client = Client::connect(&bank).await?;
    let again = client.send("k1", &payment("p1", "1.00", "EUR")).await?;
    assert_eq!(again.body, first.body);
    assert_eq!(effects(&bank), [Effect::Took, Effect::Repeated]);
    Ok(())
}
