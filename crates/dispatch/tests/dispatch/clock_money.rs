//! However the shared clock is set, while a node looks on or while none runs: no key is used after
//! the bank has forgotten it, and nothing counts as evidence too early. Judged by the bank's ledger;
//! the bank lives in real time, and only the store's clock is set.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::ports::Profile;
use tollgate_dispatch::Sent;

use crate::money::{Street, job, promises};
use crate::town::Town;

/// By how many ms the clock is set. The small steps are within the age of the first send: by such a
/// clock it is young.
const STEPS_MS: [i64; 14] = [
    -86_400_000,
    -3_600_000,
    -60_000,
    -1_900,
    -1_200,
    -800,
    -500,
    -300,
    300,
    1_000,
    2_000,
    60_000,
    3_600_000,
    86_400_000,
];

/// Whether the node that has sent goes on, or another starts after the step.
const LOOKS_ON: [bool; 2] = [true, false];

fn set(town: &Town, ms: i64) {
    let step = Duration::from_millis(ms.unsigned_abs());
    if ms > 0 {
        town.time.advance(step);
    } else {
        town.time.turn_back(step);
    }
}

/// A payment whose first answer is lost; the clock is set after so long, and it goes on.
async fn pays_once(faults: &str, profile: Profile, after: Duration, step: i64, looks_on: bool) {
    let case = format!("{step} ms, looks on: {looks_on}, {faults}");
    let street = Street::of(Town::new(2000).await, faults, profile);
    street.town.admit("a", "default", 1).await;
    let mut sender = street.sender();
    // A busy machine may miss its turn before that.
    while street.sends("a0").is_empty() {
        let run = street.claimed("a0").await.run;
        let lost = sender.send(&job("a0", run)).await.unwrap();
        assert!(matches!(lost, Sent::Requeued(_)), "{case}: {lost:?}");
    }
    tokio::time::sleep(after).await;
    set(&street.town, step);
    if !looks_on {
        sender = street.sender();
    }
    for _ in 0..8 {
        let run = street.claimed("a0").await.run;
        let sent = sender.send(&job("a0", run)).await.unwrap();
        if matches!(sent, Sent::Done(_)) {
            break;
        }
    }
    assert_eq!(street.check("a0").await, Vec::<String>::new(), "{case}");
    assert_eq!(street.town.item("a0").await.status, "ACCEPTED", "{case}");
    assert_eq!(street.sends("a0").len(), 1, "{case}: asked, not sent");
}

async fn at_any_offset(faults: &'static str, profile: Profile, after: Duration) {
    let mut cases = JoinSet::new();
    for step in STEPS_MS {
        for looks_on in LOOKS_ON {
            cases.spawn(pays_once(faults, profile.clone(), after, step, looks_on));
        }
    }
    cases.join_all().await;
}

/// The bank forgets its keys two seconds after the work, as it promised: then any second send is a
/// second payment.
#[tokio::test(flavor = "multi_thread")]
async fn no_resend_after_the_retention_less_the_timeout_at_any_clock_offset() {
    let faults = "send 1 of each payment: reset after; sends: forget-key 2000ms";
    let profile = Profile {
        key_retention: Duration::from_secs(2),
        ..promises(true)
    };
    at_any_offset(faults, profile, Duration::from_millis(2_050)).await;
}

/// The bank takes a second and a half for the work and knows nothing of it until then; it promises
/// to have settled after two.
#[tokio::test(flavor = "multi_thread")]
async fn a_404_before_the_settle_time_is_no_evidence_at_any_clock_offset() {
    let profile = Profile {
        settle: Duration::from_secs(2),
        ..promises(false)
    };
    at_any_offset("sends: work 1500ms", profile, Duration::ZERO).await;
}

/// A node that starts again on the same machine can vouch for the clock: nothing is lost by it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_an_even_clock_still_sends_again_under_the_same_key() {
    let street = Street::new("send 1 of each payment: reset before", true).await;
    street.town.admit("a", "default", 1).await;
    for _ in 0..2 {
        let run = street.claimed("a0").await.run;
        street.sender().send(&job("a0", run)).await.unwrap();
    }
    let probes = street.bank.ledger().arrivals() - street.sends("a0").len();
    assert_eq!((street.sends("a0").len(), probes), (2, 0));
    assert_eq!(street.check("a0").await, Vec::<String>::new());
}
