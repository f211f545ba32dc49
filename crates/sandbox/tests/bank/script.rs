//! When faults strike: exactly where the script says, or by the seed and nothing else.

use tollgate_sandbox::{Bank, BankOptions, Effect, Faults};

use crate::{
    client::{BOUND, Client, End, SILENCE, payment, send_raw, send_until_silent},
    struck_by,
};

/// Sends so many payments one after the other; the statuses, 0 for none.
async fn statuses(bank: &Bank, ids: impl IntoIterator<Item = String>) -> anyhow::Result<Vec<u16>> {
    let mut statuses = vec![];
    for id in ids {
        let wire = send_raw(bank, &format!("k-{id}"), &payment(&id, "1", "EUR")).await?;
        statuses.push(wire.status());
    }
    Ok(statuses)
}

fn ids(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|n| format!("p{n}"))
}

#[tokio::test]
async fn a_script_strikes_exactly() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "send 3: reset after        # one\nsends 10-20: 429 retry-after 2\n\
         sends of payment p5: 401; sends 23-: 503 before",
    ))?;
    // A probe between does not count as a send.
    Client::connect(&bank).await?.get("/payments/p1").await?;
    let found = statuses(&bank, ids(25)).await?;
    let expected: Vec<u16> = (1..=25)
        .map(|n| match n {
            3 => 0,
            5 => 401,
            10..=20 => 429,
            23.. => 503,
            _ => 200,
        })
        .collect();
    assert_eq!(found, expected);
    let struck: Vec<_> = bank
        .ledger()
        .entries()
        .into_iter()
        .filter_map(|e| e.fault)
        .collect();
    assert_eq!(struck.len(), 1 + 1 + 11 + 3);
    assert_eq!(struck[0], "reset after");
    assert_eq!(struck[2], "429 before retry-after 2");
    assert_eq!(bank.ledger().effective().len(), 25 - 1 - 11 - 3);
    Ok(())
}

#[tokio::test]
async fn every_send_of_one_payment_stalls_and_no_other() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("sends of payment a:b: stall before"))?;
    for id in ["x", "a:b", "y", "a:b"] {
        let silence = if id == "a:b" { SILENCE } else { BOUND };
        let wire = send_until_silent(&bank, id, &payment(id, "1", "EUR"), silence).await?;
        assert_eq!(wire.end == End::Silent, id == "a:b", "{id}");
    }
    assert_eq!(bank.ledger().effective().len(), 2);
    Ok(())
}

#[tokio::test]
async fn each_payment_is_numbered_by_itself() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by(
        "send 1 of each payment: 500 after; send 3 of payment p2: 500 before",
    ))?;
    let order = ["p1", "p2", "p1", "p2", "p2", "p1", "p2"].map(str::to_owned);
    assert_eq!(
        statuses(&bank, order).await?,
        [500, 500, 200, 200, 500, 200, 200]
    );
    assert!(bank.ledger().doubles().is_empty());
    Ok(())
}

#[tokio::test]
async fn numbers_count_from_when_the_faults_were_set() -> anyhow::Result<()> {
    let bank = Bank::start(struck_by("send 2: 500 before"))?;
    assert_eq!(statuses(&bank, ids(3)).await?, [200, 500, 200]);
    bank.set_faults("send 2: 500 before; send 1 of payment p3: 401".parse()?);
    assert_eq!(statuses(&bank, ids(3)).await?, [200, 500, 401]);
    Ok(())
}

#[tokio::test]
async fn the_first_rule_that_matches_strikes() -> anyhow::Result<()> {
    let first: Faults = "send 1: 401".parse()?;
    let bank = Bank::start(BankOptions {
        faults: first.and_then("sends: 500 before".parse()?),
        ..BankOptions::default()
    })?;
    assert_eq!(statuses(&bank, ids(2)).await?, [401, 500]);
    Ok(())
}

#[tokio::test]
async fn a_rule_for_sends_spares_probes_and_the_other_way_round() -> anyhow::Result<()> {
    for (rule, send, probe) in [("sends: 401", 401, 404), ("probes: 401", 200, 401)] {
        let bank = Bank::start(struck_by(rule))?;
        let mut client = Client::connect(&bank).await?;
        let sent = client.send("k1", &payment("p1", "1", "EUR")).await?;
        let probed = client.get("/payments/p1").await?;
        assert_eq!(
            (sent.status.as_u16(), probed.status.as_u16()),
            (send, probe),
            "{rule}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_the_limit_refuses_is_counted_and_not_struck() -> anyhow::Result<()> {
    let bank = Bank::start(BankOptions {
        limit_per_second: Some(0),
        ..struck_by("sends: reset after")
    })?;
    assert_eq!(statuses(&bank, ids(1)).await?, [429]);
    let entry = bank.ledger().entries().remove(0);
    assert_eq!((entry.effect, entry.fault), (Effect::Refused429, None));
    Ok(())
}

/// Which of 200 sends a bank with this seed strikes with a 500.
async fn struck(faults: &str, seed: u64, probe_between: bool) -> anyhow::Result<Vec<bool>> {
    let bank = Bank::start(BankOptions {
        seed,
        ..struck_by(faults)
    })?;
    let mut client = Client::connect(&bank).await?;
    let mut struck = vec![];
    for id in ids(200) {
        struck.push(client.send(&id, &payment(&id, "1", "EUR")).await?.status == 500);
        if probe_between {
            client.get("/payments/none").await?;
        }
    }
    Ok(struck)
}

#[tokio::test]
async fn one_in_n_depends_on_the_seed_and_on_nothing_else() -> anyhow::Result<()> {
    let alone = struck("1 in 4 sends: 500 before", 7, false).await?;
    let times = alone.iter().filter(|struck| **struck).count();
    assert!((30..=70).contains(&times), "{times} of 200");
    assert_eq!(
        alone,
        struck("1 in 4 sends: 500 before", 7, false).await?,
        "the same seed"
    );
    assert_ne!(
        alone,
        struck("1 in 4 sends: 500 before", 8, false).await?,
        "another seed"
    );
    assert_eq!(
        alone,
        struck("1 in 4: 500 before", 7, true).await?,
        "probes between"
    );
    let beside = "1 in 4 sends: 500 before; 1 in 3: 429; send 9: 401; 1 in 2: latency 1ms";
    assert_eq!(
        alone,
        struck(beside, 7, true).await?,
        "other faults beside it"
    );
    let within: Vec<bool> = (1..)
        .zip(&alone)
        .map(|(n, hit)| *hit && (50..=99).contains(&n))
        .collect();
    assert_eq!(
        within,
        struck("1 in 4 sends 50-99: 500 before", 7, false).await?
    );
    Ok(())
}

#[tokio::test]
async fn whatever_strikes_the_ledger_adds_up() -> anyhow::Result<()> {
    let faults = "1 in 5: reset after; 1 in 5: reset before; 1 in 6: 500 after; 1 in 6: half; \
                  1 in 7: garbage; 1 in 7: wrong-id before; 1 in 8: 429; 1 in 9: 409; \
                  1 in 4 sends: forget-key 0ms; 1 in 4 sends: work 2ms; 1 in 4 sends: settle 3ms";
    for seed in 1..=3 {
        let bank = Bank::start(BankOptions {
            seed,
            ..struck_by(faults)
        })?;
        let mut senders = tokio::task::JoinSet::new();
        for n in 0..240_u32 {
            let id = format!("p{}", n % 40);
            let mut client = Client::connect(&bank).await?;
            senders.spawn(async move {
                // Whatever the client sees: it is the ledger that is checked.
                let _ = client.send(&id, &payment(&id, "0.10", "EUR")).await;
            });
        }
        senders.join_all().await;
        let ledger = bank.ledger().clone();
        bank.stop().await;
        let entries = ledger.entries();
        let took = entries
            .iter()
            .filter(|entry| entry.effect == Effect::Took)
            .count();
        let effective = ledger.effective();
        let times: u32 = effective.values().sum();
        let doubled = effective.values().filter(|times| **times > 1).count();
        let (count, sum) = ledger.total_by_currency()["EUR"].clone();
        assert_eq!(entries.len(), 240, "seed {seed}");
        assert_eq!(
            (took, u64::from(times)),
            (times as usize, count),
            "seed {seed}"
        );
        assert_eq!(
            sum,
            format!("{}.{}0", count / 10, count % 10),
            "seed {seed}"
        );
        assert_eq!(ledger.doubles().len(), doubled, "seed {seed}");
        assert!(
            doubled > 0,
            "seed {seed}: a key was forgotten, so some are doubled"
        );
    }
    Ok(())
}
