//! `Jobs` that ask banks: what came of each question is written once, with its evidence, however often it was asked.

use tollgate_core::id::{Item, ItemId};
use tollgate_core::job::{Candidate, JobAct, JobPlace, JobState};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    AskedItem, BankSaid, CandidatesBy, IN_DOUBT, Settlement, StatusMove, Then, Worked,
};

use super::fixture::{Fixture, HOUR, SECOND, plan, settlement};
use super::jobs::{audited, candidates, results, seen, started, wish};

/// Sent, and their answers lost: they wait for an hour.
async fn in_doubt(f: &dyn Fixture, ids: &[&str]) -> (Vec<Item>, Vec<Candidate>) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(ids).await;
    for item in &items {
        let (attempt, _) = f.sent(item).await;
        let lost = Settlement {
            record: Some(StatusMove::new(&["SCHEDULED"], IN_DOUBT)),
            then: Then::Requeue {
                after: HOUR,
                why: "ask later".into(),
            },
            ..settlement(item, attempt, Outcome::Unknown("reset".into()))
        };
        assert!(f.settle(lost).await);
    }
    let found = candidates(f, CandidatesBy::Status(IN_DOUBT.into())).await;
    (items, found)
}

fn asked(number: u64, id: &ItemId, said: Result<BankSaid, &str>) -> AskedItem {
    AskedItem {
        number,
        id: id.clone(),
        said: said.map_err(str::to_owned),
    }
}

fn said(answer: &str, evidence: Option<&str>) -> BankSaid {
    BankSaid {
        answer: answer.into(),
        evidence: evidence.map(str::to_owned),
    }
}

pub async fn what_a_bank_said_is_written_once_with_its_evidence(f: &dyn Fixture) {
    let (items, found) = in_doubt(f, &["a", "b", "c"]).await;
    let job = started(f, wish("job-1", JobAct::Ask), &found).await;
    let next = f.store().next_to_ask(&job, 2).await.unwrap();
    let ids = ["a", "b", "c"].map(ItemId::new);
    assert_eq!(next, [(1, ids[0].clone()), (2, ids[1].clone())]);
    let done = || asked(1, &ids[0], Ok(said("it has it", Some("{\"id\":7}"))));
    let note = async |asked| f.store().note_asked(&job, asked).await.unwrap();
    assert_eq!(note(done()).await, Worked::Some(1));
    assert_eq!(note(done()).await, Worked::Some(0), "two have asked");
    assert_eq!(audited(f, &items[0], "EVIDENCE").await, 1);
    let closed = asked(2, &ids[1], Err("the lane is paused"));
    assert_eq!(note(closed).await, Worked::Some(1));
    f.restart().await;
    let next = f.store().next_to_ask(&job, 10).await.unwrap();
    assert_eq!(next, [(3, ids[2].clone())], "it goes on where it was");
    let unknown = asked(3, &ids[2], Ok(said("it does not know it", None)));
    assert_eq!(note(unknown.clone()).await, Worked::Ended(1));
    assert_eq!(note(unknown).await, Worked::NotRunning);
    let view = seen(f, &job).await;
    assert_eq!(
        (view.state, view.done, view.left_out),
        (JobState::Done, 2, 1)
    );
    let told: Vec<_> = results(f, &job, false)
        .await
        .into_iter()
        .map(|it| (it.number, it.answer, it.left_out))
        .collect();
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        (1, text("it has it; no longer in doubt"), None),
        (2, None, text("the lane is paused")),
        (3, text("it does not know it"), None),
    ];
    assert_eq!(told, expected);
    assert_eq!(audited(f, &items[2], "EVIDENCE").await, 0);
    assert!(f.store().next_to_ask(&job, 10).await.unwrap().is_empty());
}

pub async fn a_job_that_waits_for_banks_keeps_no_other_waiting(f: &dyn Fixture) {
    let (_, found) = in_doubt(f, &["a", "b"]).await;
    let asks = started(f, wish("job-1", JobAct::Ask), &found).await;
    f.advance(SECOND).await;
    let cancels = started(f, wish("job-2", JobAct::Cancel), &found).await;
    let to_do = async |place| f.store().job_to_do(place).await.unwrap().map(|job| job.id);
    assert_eq!(to_do(JobPlace::Banks).await, Some(asks));
    assert_eq!(to_do(JobPlace::Store).await, Some(cancels));
}
