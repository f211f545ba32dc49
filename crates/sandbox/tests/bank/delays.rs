//! Faults of time: slow answers, slow work with its key in use, payments that settle late, and
//! keys that are forgotten.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use tollgate_sandbox::{Bank, Effect, Faults};

use crate::{
    client::{BOUND, Client, effects, eventually, has_read_its_latest, payment},
    struck_by,
};

#[tokio::test]
async fn a_slow_probe_does_not_slow_the_sends() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "probes: latency 50ms; sends: latency 0ms; all: latency 60m",
    ))?;
    let mut client = Client::connect(&bank).await?;
    let order = payment("p1", "1", "EUR");
    timeout(BOUND, client.send("k1", &order)).await??;
    let before = Instant::now();
    let probe = timeout(BOUND, client.get("/payments/p1")).await??;
    assert_eq!(probe.status, 200);
    assert!(before.elapsed() >= Duration::from_millis(50));
    Ok(())
}

/// Sends, and returns when the bank is at work on it; the answer will not come.
async fn begin_endless_work(bank: &Bank) -> anyhow::Result<tokio::task::JoinHandle<bool>> {
    let mut client = Client::connect(bank).await?;
    let sent =
        tokio::spawn(async move { client.send("k1", &payment("p1", "1", "EUR")).await.is_ok() });
    has_read_its_latest(bank).await;
    Ok(sent)
}

#[tokio::test]
async fn a_key_in_use_is_a_409_until_the_work_is_done() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 1: work 60m"))?;
    let sent = begin_endless_work(&bank).await?;
    let mut client = Client::connect(&bank).await?;
    let concurrent = client.send("k1", &payment("p1", "1", "EUR")).await?;
    assert_eq!(concurrent.status, 409);
    assert_eq!(concurrent.body["error"]["field"], "Idempotency-Key");
    assert_eq!(
        client.send("k2", &payment("p2", "1", "EUR")).await?.status,
        200
    );
    assert_eq!(client.get("/payments/p1").await?.status, 404);
    let so_far = [
        Effect::LostBefore,
        Effect::RefusedOther,
        Effect::Took,
        Effect::NotFound,
    ];
    assert_eq!(effects(&bank), so_far);

    // The plug is pulled: the work is lost, and its key is free in the next life.
    let ledger = bank.ledger().clone();
    bank.stop().await;
    assert!(!sent.await?, "answered");
    let bank = Bank::start_with_ledger(struck_by(""), ledger)?;
    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.send("k1", &payment("p1", "1", "EUR")).await?.status,
        200
    );
    assert_eq!(bank.ledger().effective()["p1"], 1);
    Ok(())
}

#[tokio::test]
async fn of_two_slow_requests_with_one_key_the_second_is_a_409() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("sends: work 60m"))?;
    begin_endless_work(&bank).await?;
    let mut client = Client::connect(&bank).await?;
    let order = payment("p1", "1", "EUR");
    let second = timeout(BOUND, client.send("k1", &order)).await??;
    assert_eq!(second.status, 409);
    assert_eq!(effects(&bank), [Effect::LostBefore, Effect::RefusedOther]);
    Ok(())
}

#[tokio::test]
async fn slow_work_is_done_although_its_client_has_left() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 1: work 1s"))?;
    let sent = begin_endless_work(&bank).await?;
    sent.abort();
    assert!(sent.await.is_err(), "the client has left");
    assert!(bank.ledger().effective().is_empty());
    let ledger = bank.ledger();
    eventually("it takes effect", async || {
        ledger.effective().contains_key("p1")
    })
    .await;

    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.send("k1", &payment("p1", "1", "EUR")).await?.status,
        200
    );
    assert_eq!(effects(&bank), [Effect::Took, Effect::Repeated]);
    assert!(!bank.ledger().entries()[0].answered);
    Ok(())
}

#[tokio::test]
async fn slow_work_is_answered_when_it_is_done() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("sends: work 40ms"))?;
    let mut client = Client::connect(&bank).await?;
    let before = Instant::now();
    let order = payment("p1", "1", "EUR");
    let first = client.send("k1", &order).await?;
    assert!(before.elapsed() >= Duration::from_millis(40));
    let again = client.send("k1", &order).await?;
    assert_eq!((first.status.as_u16(), first.body), (200, again.body));
    assert_eq!(effects(&bank), [Effect::Took, Effect::Repeated]);
    Ok(())
}

#[tokio::test]
async fn what_has_not_settled_is_done_and_not_to_be_found() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "sends of payment late: settle 60m; sends: settle 1s",
    ))?;
    let mut client = Client::connect(&bank).await?;
    for id in ["late", "soon"] {
        let reply = client.send(id, &payment(id, "1", "EUR")).await?;
        assert_eq!(reply.status, 200);
    }
    assert_eq!(client.get("/payments/soon").await?.status, 404);
    let found = async {
        while client.get("/payments/soon").await?.status != 200 {}
        anyhow::Ok(())
    };
    timeout(BOUND, found).await??;
    assert_eq!(client.get("/payments/late").await?.status, 404);
    let effects = effects(&bank);
    assert_eq!(effects[..3], [Effect::Took, Effect::Took, Effect::Hidden]);
    assert_eq!(
        effects[effects.len() - 2..],
        [Effect::Found, Effect::Hidden]
    );
    assert_eq!(
        bank.ledger().effective().len(),
        2,
        "whatever the probe says"
    );
    Ok(())
}

#[tokio::test]
async fn a_repeat_after_its_key_was_forgotten_is_a_double_in_the_ledger() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "sends of payment p1: forget-key 0ms; sends: forget-key 60m",
    ))?;
    let mut client = Client::connect(&bank).await?;
    for id in ["p1", "p2", "p1", "p2"] {
        assert_eq!(
            client.send(id, &payment(id, "1.50", "EUR")).await?.status,
            200
        );
    }
    let expected = [Effect::Took, Effect::Took, Effect::Took, Effect::Repeated];
    assert_eq!(effects(&bank), expected);
    assert_eq!(bank.ledger().doubles(), ["p1"]);
    assert_eq!(
        bank.ledger().total_by_currency()["EUR"],
        (3, "4.50".to_owned())
    );
    Ok(())
}

#[tokio::test]
async fn delays_go_together_with_another_fault() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "send 1: 500 after; sends: latency 40ms; sends: settle 60m",
    ))?;
    let mut client = Client::connect(&bank).await?;
    let before = Instant::now();
    assert_eq!(
        client.send("k1", &payment("p1", "1", "EUR")).await?.status,
        500
    );
    assert!(before.elapsed() >= Duration::from_millis(40));
    bank.set_faults(Faults::default());
    assert_eq!(client.get("/payments/p1").await?.status, 404);
    assert_eq!(effects(&bank), [Effect::Took, Effect::Hidden]);
    Ok(())
}
