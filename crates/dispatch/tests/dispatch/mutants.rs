//! Tests of the tests: senders that are wrong on purpose, each found out by the same checker that
//! the real one passes; and the zombie, which the real one is.

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{Connector, NewTurn, Permit, Settlement, Then, Turn, TurnsWanted};
use tollgate_dispatch::{Job, Sent};

use crate::cutting::Edge;
use crate::money::{Street, TIMEOUT, job};

const LOST: &str = "send 1 of each payment: reset after";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    /// Sends what is Unknown again without asking.
    Resends,
    /// Takes its turn as whichever run owns the item now.
    IgnoresItsRun,
    /// Takes its turn when it has sent, if it still lives.
    LogsAfterwards,
    /// Takes its turn as if it had seen whatever was attempted while it waited.
    IgnoresWhatItHasNotSeen,
}

/// A small sender with one thing wrong. It ends when the answer is settled.
pub(crate) async fn send_wrongly(street: &Street, mutant: Mutant, job: &Job) {
    let connection = street.connector().connection().await.unwrap();
    if mutant == Mutant::LogsAfterwards {
        let permit = Permit::granted_by_the_gate(AttemptId(0), Timestamp::UNIX_EPOCH, 0, soon());
        // It dies here: the answer came, and the turn was never taken.
        connection.send(permit, &job.request).await.unwrap();
        return;
    }
    let run = match mutant {
        Mutant::IgnoresItsRun => street.town.item(job.item.id.as_str()).await.run,
        Mutant::Resends | Mutant::LogsAfterwards | Mutant::IgnoresWhatItHasNotSeen => job.run,
    };
    let Some((attempt, at)) = turn(street, job, run).await else {
        return;
    };
    let permit = Permit::granted_by_the_gate(attempt, at, 0, soon());
    let outcome = connection.send(permit, &job.request).await.unwrap().outcome;
    let (record, then) = match &outcome {
        Outcome::Done(_) => (job.moves.done.clone(), Then::Stay),
        other => {
            let (after, why) = (Duration::ZERO, other.detail().to_owned());
            (job.moves.in_doubt.clone(), Then::Requeue { after, why })
        }
    };
    let settlement = Settlement {
        attempt,
        item: job.item.clone(),
        run,
        outcome,
        record: Some(record),
        then,
        disproves: false,
        close_lane: None,
        accounts: vec![],
    };
    street.town.store.settle(settlement).await.unwrap();
}

fn soon() -> std::time::Instant {
    (tokio::time::Instant::now() + Duration::from_secs(1)).into_std()
}

/// Of a sender that takes the latest attempt for seen, whatever it was.
async fn wanted(street: &Street, job: &Job, run: u32, missed: Option<AttemptId>) -> TurnsWanted {
    let (store, in_doubt) = (&street.town.store, &job.moves.in_doubt);
    let history = store.take_over(&job.item, 0, TIMEOUT, in_doubt).await;
    let new = NewTurn {
        item: job.item.clone(),
        run,
        kind: AttemptKind::Send,
        key: job.request.idempotency_key.clone(),
        planned: Timestamp::UNIX_EPOCH,
        seen: history.unwrap().latest(),
        missed,
        may_be_late: false,
    };
    TurnsWanted {
        watch: None,
        lane: LaneName::new("default"),
        lead: Duration::ZERO,
        attempts: vec![new],
    }
}

async fn turn(street: &Street, job: &Job, run: u32) -> Option<(AttemptId, Timestamp)> {
    let wanted = wanted(street, job, run, None).await;
    let block = street.town.store.take_turns(wanted).await.unwrap();
    match block.turns[0] {
        Turn::At { attempt, at } => Some((attempt, at)),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_resends_without_asking_is_found_out_by_a_double() {
    let street = Street::new(LOST, false).await;
    street.town.admit("a", "default", 1).await;
    for _ in 0..2 {
        let run = street.claimed("a0").await.run;
        send_wrongly(&street, Mutant::Resends, &job("a0", run)).await;
    }
    let wrong = street.check("a0").await;
    assert!(wrong.iter().any(|w| w.contains("paid twice")), "{wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_logs_its_turn_afterwards_is_found_out_by_the_log() {
    let street = Street::new("", true).await;
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    send_wrongly(&street, Mutant::LogsAfterwards, &job("a0", run)).await;
    street.pay("a0", Edge::Never).await;
    let wrong = street.check("a0").await;
    assert!(wrong.iter().any(|w| w.contains("unlogged")), "{wrong:?}");
}

/// A run that lost its item wakes when its successor owns it. How many sends it makes.
async fn wake_zombie(street: &Street, wake: impl AsyncFnOnce(&Job)) -> usize {
    street.town.admit("a", "default", 1).await;
    let first = street.claimed("a0").await.run;
    street.sender().send(&job("a0", first)).await.unwrap();
    let second = street.claimed("a0").await.run;
    assert_ne!(first, second, "its answer was lost and it was put back");
    let before = street.sends("a0").len();
    wake(&job("a0", first)).await;
    street.sends("a0").len() - before
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_ignores_its_run_is_found_out_by_a_send_it_did_not_own() {
    let street = Street::new(LOST, true).await;
    let wrongly = async |job: &Job| send_wrongly(&street, Mutant::IgnoresItsRun, job).await;
    assert_eq!(wake_zombie(&street, wrongly).await, 1, "a send unowned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_lost_its_item_sends_nothing() {
    let street = Street::new(LOST, true).await;
    let rightly = async |job: &Job| {
        let sent = street.sender().send(job).await.unwrap();
        assert!(matches!(sent, Sent::Superseded(_)), "{sent:?}");
    };
    assert_eq!(wake_zombie(&street, rightly).await, 0);
    street.pay("a0", Edge::Never).await;
    assert_eq!(street.check("a0").await, Vec::<String>::new());
}

/// It had its turn and slept; its successor took the attempt over and sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_zombie_that_wakes_after_its_successor_sent_finds_its_attempt_taken() {
    let street = Street::new("", true).await;
    // A node has vouched for the clock before.
    street.town.admit("before", "default", 1).await;
    street.pay("before0", Edge::Never).await;
    street.town.admit("a", "default", 1).await;
    let run = street.claimed("a0").await.run;
    let zombie = job("a0", run);
    let (attempt, _) = turn(&street, &zombie, run).await.unwrap();
    let sent = street.sender().send(&zombie).await.unwrap();
    assert!(matches!(sent, Sent::Done(_)), "{sent:?}");
    // The gate drops a turn that was missed, and asks for another in its place.
    let wanted = wanted(&street, &zombie, run, Some(attempt)).await;
    let block = street.town.store.take_turns(wanted).await.unwrap();
    assert!(matches!(&block.turns[0], Turn::LookAgain(why) if why.contains("has executed it")));
    assert_eq!(street.sends("a0").len(), 1);
    assert_eq!(street.check("a0").await, Vec::<String>::new());
}
