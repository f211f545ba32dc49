//! Each fault: what is on the wire, what the ledger says took effect, and what a probe and a
//! repeat under the same key find afterwards.

use serde_json::Value;
use tollgate_sandbox::{Bank, Effect, Faults};

use crate::{
    client::{
        BOUND, Client, End, SILENCE, Wire, effects, eventually, has_read_its_latest, payment,
        send_until_silent,
    },
    struck_by,
};

/// What a client sees, and what was done.
struct Seen {
    status: u16,
    end: End,
    effect: Effect,
    answered: bool,
}

fn answered(status: u16, effect: Effect) -> Seen {
    let (end, answered) = (End::Closed, true);
    Seen {
        status,
        end,
        effect,
        answered,
    }
}

fn unanswered(end: End, effect: Effect) -> Seen {
    Seen {
        status: 0,
        end,
        effect,
        answered: false,
    }
}

/// Strikes one send, checks it, and then that the books are right about what follows.
async fn strike(fault: &str, expected: Seen) -> anyhow::Result<Wire> {
    let bank = Bank::start(struck_by(&format!("sends: {fault}")))?;
    let order = payment("p1", "1.00", "EUR");
    let silence = if expected.end == End::Silent {
        SILENCE
    } else {
        BOUND
    };
    let wire = send_until_silent(&bank, "k1", &order, silence).await?;
    has_read_its_latest(&bank).await;
    assert_eq!(
        (wire.status(), wire.end),
        (expected.status, expected.end),
        "{fault}"
    );
    let entry = bank.ledger().entries().remove(0);
    assert_eq!(
        (entry.effect, entry.answered),
        (expected.effect, expected.answered),
        "{fault}"
    );
    assert!(
        entry.fault.is_some_and(|said| said.starts_with(fault)),
        "{fault}"
    );

    bank.set_faults(Faults::default());
    let done = expected.effect == Effect::Took;
    assert_eq!(
        bank.ledger().effective().len(),
        usize::from(done),
        "{fault}"
    );
    let mut client = Client::connect(&bank).await?;
    let probe = client.get("/payments/p1").await?;
    assert_eq!(probe.status, if done { 200 } else { 404 }, "{fault}");
    let again = client.send("k1", &order).await?;
    assert_eq!(
        (again.status.as_u16(), &again.body["paymentId"]),
        (200, &Value::from("p1")),
        "{fault}"
    );
    let (found, repeat) = if done {
        (Effect::Found, Effect::Repeated)
    } else {
        (Effect::NotFound, Effect::Took)
    };
    assert_eq!(effects(&bank), [expected.effect, found, repeat], "{fault}");
    assert_eq!(bank.ledger().effective()["p1"], 1, "{fault}");
    assert_eq!(
        bank.ledger().total_by_currency()["EUR"],
        (1, "1.00".to_owned()),
        "{fault}"
    );
    Ok(wire)
}

#[tokio::test]
async fn a_5xx_says_nothing_about_what_was_done() -> anyhow::Result<()> {
    strike("500 before", answered(500, Effect::LostBefore)).await?;
    strike("500 after", answered(500, Effect::Took)).await?;
    let wire = strike(
        "503 before retry-after 7",
        answered(503, Effect::LostBefore),
    )
    .await?;
    assert_eq!(wire.header("retry-after"), Some("7"));
    Ok(())
}

#[tokio::test]
async fn a_reset_is_a_tcp_reset_without_a_byte() -> anyhow::Result<()> {
    for (fault, effect) in [
        ("reset before", Effect::LostBefore),
        ("reset after", Effect::Took),
    ] {
        let wire = strike(fault, unanswered(End::Reset, effect)).await?;
        assert_eq!(wire.head, "");
    }
    Ok(())
}

#[tokio::test]
async fn a_stall_holds_the_connection_and_never_answers() -> anyhow::Result<()> {
    for (fault, effect) in [
        ("stall before", Effect::LostBefore),
        ("stall", Effect::Took),
    ] {
        let wire = strike(fault, unanswered(End::Silent, effect)).await?;
        assert_eq!(wire.head, "");
    }
    Ok(())
}

#[tokio::test]
async fn half_an_answer_is_a_whole_head_and_half_of_what_it_promises() -> anyhow::Result<()> {
    for (fault, effect) in [
        ("half before", Effect::LostBefore),
        ("half after", Effect::Took),
    ] {
        let seen = Seen {
            answered: false,
            ..answered(200, effect)
        };
        let wire = strike(fault, seen).await?;
        let promised: usize = wire.header("content-length").unwrap().parse()?;
        assert_eq!(wire.body.len(), promised / 2, "{fault}");
        assert!(wire.body.starts_with(b"{"), "{fault}");
    }
    Ok(())
}

#[tokio::test]
async fn garbage_is_a_200_that_is_no_json() -> anyhow::Result<()> {
    for (fault, effect) in [
        ("garbage before", Effect::LostBefore),
        ("garbage", Effect::Took),
    ] {
        let wire = strike(fault, answered(200, effect)).await?;
        assert!(
            serde_json::from_slice::<Value>(&wire.body).is_err(),
            "{fault}"
        );
        assert!(!wire.body.is_empty(), "{fault}");
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_id_is_a_200_about_somebody_elses_payment() -> anyhow::Result<()> {
    for (fault, effect) in [
        ("wrong-id before", Effect::LostBefore),
        ("wrong-id", Effect::Took),
    ] {
        let wire = strike(fault, answered(200, effect)).await?;
        let body: Value = serde_json::from_slice(&wire.body)?;
        assert_eq!(
            (&body["paymentId"], &body["status"]),
            (&"not-p1".into(), &"accepted".into())
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_amount_is_a_200_about_other_money() -> anyhow::Result<()> {
    let wire = strike("wrong-amount", answered(200, Effect::Took)).await?;
    let body: Value = serde_json::from_slice(&wire.body)?;
    assert_eq!(
        (&body["paymentId"], &body["amount"]),
        (&"p1".into(), &"11.00".into())
    );
    Ok(())
}

#[tokio::test]
async fn a_huge_answer_is_megabytes_of_json_without_an_announced_length() -> anyhow::Result<()> {
    let wire = strike("huge 3", answered(200, Effect::Took)).await?;
    assert!(wire.body.len() > 3 << 20, "{}", wire.body.len());
    assert_eq!(wire.header("content-length"), None);

    let bank = Bank::start(struck_by("all: huge 2"))?;
    let mut client = Client::connect(&bank).await?;
    let reply = client.send("k1", &payment("p1", "1", "EUR")).await?;
    assert_eq!(reply.body["paymentId"], "p1");
    assert_eq!(reply.body["padding"].as_str().map(str::len), Some(2 << 20));
    Ok(())
}

#[tokio::test]
async fn a_429_comes_with_and_without_its_header() -> anyhow::Result<()> {
    let wire = strike("429", answered(429, Effect::Refused429)).await?;
    assert_eq!(wire.header("retry-after"), None);
    let wire = strike(
        "429 before retry-after 2",
        answered(429, Effect::Refused429),
    )
    .await?;
    assert_eq!(wire.header("retry-after"), Some("2"));
    Ok(())
}

#[tokio::test]
async fn other_4xx_did_nothing_and_name_the_payment() -> anyhow::Result<()> {
    for status in [401, 403, 404, 408, 409, 422] {
        let wire = strike(&status.to_string(), answered(status, Effect::RefusedOther)).await?;
        let said: Value = serde_json::from_slice(&wire.body)?;
        assert_eq!(said["paymentId"], "p1", "{status}");
    }
    Ok(())
}

#[tokio::test]
async fn a_stranger_answers_in_plain_text_whether_it_passed_the_send_on_or_not()
-> anyhow::Result<()> {
    for (fault, effect) in [
        ("stranger 404 before", Effect::LostBefore),
        ("stranger 404 after", Effect::Took),
    ] {
        let wire = strike(fault, answered(404, effect)).await?;
        assert_eq!(wire.header("content-type"), Some("text/plain"));
        assert_eq!(wire.body, b"default backend - 404");
    }
    Ok(())
}

/// Unlike whoever answers on the way: so a sender can tell them apart.
#[tokio::test]
async fn what_the_bank_does_not_know_it_calls_by_its_name() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("probe 2: 404"))?;
    let mut client = Client::connect(&bank).await?;
    for _ in 0..2 {
        let probe = client.get("/payments/p%201").await?;
        assert_eq!(
            (probe.status.as_u16(), &probe.body["paymentId"]),
            (404, &Value::from("p 1"))
        );
    }
    let charge = client.get("/charge/k1").await?;
    let named = (charge.status.as_u16(), &charge.body["key"]);
    assert_eq!(named, (404, &Value::from("k1")));
    let nowhere = client.get("/v2/payments/p1").await?;
    assert_eq!(nowhere.body["paymentId"], Value::Null, "a wrong path");
    Ok(())
}

#[tokio::test]
async fn a_bank_that_stalls_serves_others_and_stops_when_told() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("sends 1-3: stall"))?;
    let mut stalled = tokio::task::JoinSet::new();
    for n in 1..=3 {
        let mut client = Client::connect(&bank).await?;
        stalled.spawn(async move {
            let order = payment(&format!("p{n}"), "1", "EUR");
            client.send(&format!("k{n}"), &order).await.is_ok()
        });
    }
    bank.ledger().wait_for_arrivals(3).await;
    let mut client = Client::connect(&bank).await?;
    assert_eq!(
        client.send("k4", &payment("p4", "1", "EUR")).await?.status,
        200
    );
    let ledger = bank.ledger().clone();
    eventually("the stalled work is done", async || {
        ledger.effective().len() == 4
    })
    .await;
    bank.stop().await;
    assert_eq!(
        stalled.join_all().await,
        [false; 3],
        "hung up on, not answered"
    );
    assert_eq!(ledger.effective().len(), 4);
    let answered = ledger
        .entries()
        .iter()
        .filter(|entry| entry.answered)
        .count();
    assert_eq!(answered, 1);
    Ok(())
}

#[tokio::test]
async fn a_fault_strikes_probes_and_leaves_the_books_alone() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "probe 1: 404; probe 2: 401; probe 3: 429 retry-after 9; probe 4: 500 before; \
         probe 5: wrong-id",
    ))?;
    let mut client = Client::connect(&bank).await?;
    client.send("k1", &payment("p1", "1", "EUR")).await?;
    let mut statuses = vec![];
    for _ in 0..4 {
        statuses.push(client.get("/payments/p1").await?.status.as_u16());
    }
    assert_eq!(statuses, [404, 401, 429, 500]);
    assert_eq!(
        client.get("/payments/p1").await?.body["paymentId"],
        "not-p1"
    );
    assert_eq!(client.get("/payments/p1").await?.body["paymentId"], "p1");
    let expected = [
        Effect::Took,
        Effect::Hidden,
        Effect::RefusedOther,
        Effect::Refused429,
        Effect::LostBefore,
        Effect::Found,
        Effect::Found,
    ];
    assert_eq!(effects(&bank), expected);
    assert_eq!(bank.ledger().effective()["p1"], 1);
    Ok(())
}
