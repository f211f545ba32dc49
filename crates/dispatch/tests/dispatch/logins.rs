//! A login that ends, or cannot be had: no payment pays for it.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::ItemView;
use tollgate_dispatch::{Sender, Sent};
use tollgate_sandbox::Dialect;

use crate::log::Log;
use crate::money::{Street, claim, job, promises};
use crate::town::Town;

const PAYMENTS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(30);

async fn street() -> Street {
    // A second for all of them: what happens in the middle finds some still unsent.
    let town = Town::new(60).await;
    Street::speaking(Dialect::Paypal, true, town, "", promises(true))
}

/// As the dispatcher would; nobody resumes a lane here.
async fn claimed(street: &Street, id: &str) -> ItemView {
    loop {
        let view = street.town.item(id).await;
        if view.queue_status != QueueStatus::Ready {
            return view;
        }
        let claimed = street
            .town
            .store
            .claim(claim(Duration::from_hours(1)))
            .await;
        claimed.unwrap();
        tokio::task::yield_now().await;
    }
}

/// Sends until it is paid. What came of each try.
async fn pay(street: Arc<Street>, sender: Arc<Sender>, id: String) -> Vec<Sent> {
    let mut tries = vec![];
    loop {
        let run = claimed(&street, &id).await.run;
        let sent = sender.send(&job(&id, run)).await.unwrap();
        let is_paid = matches!(sent, Sent::Done(_));
        tries.push(sent);
        if is_paid {
            return tries;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_that_ends_in_a_storm_costs_no_payment_and_pauses_nothing() {
    let street = Arc::new(street().await);
    let sender = Arc::new(street.sender());
    street.town.admit("a", "default", PAYMENTS).await;
    let mut storm = JoinSet::new();
    for n in 0..PAYMENTS {
        let (street, sender) = (Arc::clone(&street), Arc::clone(&sender));
        storm.spawn(pay(street, sender, format!("a{n}")));
    }
    street.bank.ledger().wait_for_arrivals(PAYMENTS / 4).await;
    street.bank.revoke_tokens();
    let storm = tokio::time::timeout(PATIENCE, storm.join_all())
        .await
        .unwrap();
    let refused = |sent: &Sent| matches!(sent, Sent::Refused(_) | Sent::Declined(_) | Sent::Held);
    assert!(!storm.iter().flatten().any(refused), "{storm:?}");
    assert_eq!(street.lane().await.lane.pause, None);
    let ledger = street.bank.ledger();
    assert_eq!(ledger.effective().len(), PAYMENTS);
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
    assert_eq!(
        street.bank.tokens_issued(),
        2,
        "one token for all, and one more"
    );
    println!("longest time between arrivals: {:?}", longest_gap(&street));
}

/// What the bank's clock says, for whoever reads the output.
fn longest_gap(street: &Street) -> Duration {
    let entries = street.bank.ledger().entries();
    let mut arrivals: Vec<_> = entries.iter().map(|entry| entry.arrival).collect();
    arrivals.sort();
    let gaps = arrivals.windows(2).map(|two| two[1].saturating_sub(two[0]));
    gaps.max().unwrap_or_default()
}

/// Three seconds of payments, and tokens that live for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tokens_that_end_all_the_time_are_renewed_before_and_none_is_ever_refused() {
    let town = Town::new(60).await;
    let street = Street::with_tokens_for(Duration::from_secs(1), town);
    let (street, payments) = (Arc::new(street), 3 * PAYMENTS);
    let sender = Arc::new(street.sender());
    street.town.admit("a", "default", payments).await;
    let mut storm = JoinSet::new();
    for n in 0..payments {
        let (street, sender) = (Arc::clone(&street), Arc::clone(&sender));
        storm.spawn(pay(street, sender, format!("a{n}")));
    }
    let storm = tokio::time::timeout(PATIENCE, storm.join_all()).await;
    let refused = |sent: &&Sent| match sent {
        Sent::Done(_) => false,
        Sent::Requeued(why) => why.contains("401"),
        _ => true,
    };
    let tries: Vec<_> = storm.unwrap().into_iter().flatten().collect();
    let refused: Vec<_> = tries.iter().filter(refused).collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert_eq!(street.lane().await.lane.pause, None);
    let ledger = street.bank.ledger();
    assert_eq!(ledger.effective().len(), payments);
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
    assert!(street.bank.tokens_issued() >= 3);
    println!("longest time between arrivals: {:?}", longest_gap(&street));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn without_a_token_endpoint_nothing_is_sent_and_no_payment_has_failed() {
    let log = Log::start();
    let street = street().await;
    street.bank.set_token_endpoint_away(true);
    let sender = street.sender();
    street.town.admit("a", "default", 1).await;
    for _ in 0..3 {
        let run = claimed(&street, "a0").await.run;
        let sent = sender.send(&job("a0", run)).await.unwrap();
        let Sent::Requeued(why) = sent else {
            panic!("{sent:?}");
        };
        assert!(why.contains("the token endpoint is unavailable"), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    let view = street.town.item("a0").await;
    assert!(view.attempts.is_empty(), "{:?}", view.attempts);
    assert_eq!(street.bank.ledger().arrivals(), 0);
    let lines = log.lines_with("the login failed");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let lane = street.lane().await;
    assert!(lane.lane.pause.is_none() && lane.closed_until.is_some());
    street.bank.set_token_endpoint_away(false);
    let paid = pay(Arc::new(street), Arc::new(sender), "a0".to_owned());
    let tries = tokio::time::timeout(PATIENCE, paid).await.unwrap();
    assert!(matches!(tries.last(), Some(Sent::Done(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_fresh_token_that_is_refused_too_pauses_the_lane() {
    let town = Town::new(500).await;
    let faults = "sends: 401";
    let street = Street::speaking(Dialect::Paypal, true, town, faults, promises(true));
    let sender = street.sender();
    street.town.admit("a", "default", 1).await;
    let mut tries = 0;
    while street.lane().await.lane.pause.is_none() {
        let run = claimed(&street, "a0").await.run;
        sender.send(&job("a0", run)).await.unwrap();
        tries += 1;
        assert!(tries < 20);
    }
    assert_eq!(
        street.bank.ledger().arrivals(),
        2,
        "once more with a fresh token"
    );
}
