//! `Doubts::note_done`: evidence from elsewhere ends a doubt by the item's own flow.

use tollgate_core::item::QueueStatus;
use tollgate_core::outcome::{AttemptKind, AttemptState, Outcome};
use tollgate_core::ports::{
    ActionResult, Author, IN_DOUBT, Resolved, Settlement, StatusMove, Then,
};

use super::doubts::decision;
use super::fixture::{Fixture, HOUR, TOLERANCE, claim_all, lost, payment, plan, settlement};

fn evidence() -> Author {
    Author::new("status-check", "{\"status\":\"completed\"}")
}

/// Sent, and its answer lost: it waits for an hour.
async fn lose_answer(f: &dyn Fixture) -> tollgate_core::id::Item {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let (attempt, _) = f.sent(&item).await;
    let lost = Settlement {
        record: Some(StatusMove::new(&["SCHEDULED"], IN_DOUBT)),
        then: Then::Requeue {
            after: HOUR,
            why: "ask later".into(),
        },
        ..settlement(&item, attempt, Outcome::Unknown("reset".into()))
    };
    assert!(f.settle(lost).await);
    item
}

pub async fn evidence_is_an_answered_question_and_makes_the_item_due(f: &dyn Fixture) {
    let item = lose_answer(f).await;
    let (sends, before) = (f.logged().await, f.view(&item).await);
    let noted = f.store().note_done(&item, evidence()).await.unwrap();
    assert_eq!(noted, ActionResult::Yes);
    let view = f.view(&item).await;
    assert_eq!((view.status.as_str(), view.run), (IN_DOUBT, before.run));
    assert_eq!(view.queue_status, QueueStatus::Ready);
    let last = view.attempts.last().unwrap();
    assert_eq!(
        (last.kind, last.state),
        (AttemptKind::Probe, AttemptState::Done)
    );
    assert_eq!(last.detail, evidence().reason);
    assert_eq!(
        f.logged().await,
        sends,
        "nothing was sent in this lane for it"
    );
    assert_eq!(f.trail(&item).await[0], "EVIDENCE");
    let now = tollgate_core::ports::Claim {
        ahead: std::time::Duration::ZERO,
        ..claim_all()
    };
    assert_eq!(f.claim(now).await.len(), 1, "due at once");
    let history = f
        .store()
        .take_over(&item, before.run, TOLERANCE, &lost())
        .await;
    let done = |state| state == AttemptState::Done;
    assert!(history.unwrap().past.iter().any(|past| done(past.state)));
    let again = f.store().note_done(&item, evidence()).await.unwrap();
    assert!(matches!(again, ActionResult::Refused(_)), "once is enough");
}

pub async fn a_person_may_agree_with_evidence_and_not_decide_against_it(f: &dyn Fixture) {
    let (item, store) = (lose_answer(f).await, f.store());
    let noted = store.note_done(&item, evidence()).await.unwrap();
    assert_eq!(noted, ActionResult::Yes);
    let person = || Author::new("operator", "the lane is paused");
    for resolved in [Resolved::NotDone, Resolved::Failed] {
        let against = store.resolve(&item, decision(resolved), person());
        let against = against.await.unwrap();
        assert!(matches!(against, ActionResult::Refused(_)), "{against:?}");
    }
    let agreed = store.resolve(&item, decision(Resolved::Done), person());
    assert_eq!(agreed.await.unwrap(), ActionResult::Yes);
    assert!(f.view(&item).await.finished_at.is_some());
    assert_eq!(f.claim(claim_all()).await.len(), 0, "nobody pays it again");
}

pub async fn evidence_is_refused_for_what_is_not_in_doubt_or_being_asked_about(f: &dyn Fixture) {
    let noted = f.store().note_done(&payment("none"), evidence()).await;
    assert_eq!(noted.unwrap(), ActionResult::NoSuchItem);
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let noted = f.store().note_done(&item, evidence()).await.unwrap();
    assert!(matches!(noted, ActionResult::Refused(_)), "{noted:?}");
    f.sent(&item).await;
    let noted = f.store().note_done(&item, evidence()).await.unwrap();
    assert!(matches!(noted, ActionResult::Refused(_)), "{noted:?}");
    assert_eq!(f.view(&item).await.attempts.len(), 1);
}
