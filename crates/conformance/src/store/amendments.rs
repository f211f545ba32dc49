//! `Amendments`: what a person puts right, in whatever state the item is.

use tollgate_core::id::{Item, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ActionResult, Amendment, Turn, TurnsWanted};

use super::fixture::{Fixture, many, ops, payment, plan, send, usd, wanted};
use super::operator_actions::{STATES, State as S, bring};

fn correction(was: &str, minor: i64) -> Amendment {
    Amendment {
        action: "CORRECTED",
        was: was.to_owned(),
        body: format!("{{\"corrected\":{minor}}}"),
        amount_minor: Some(minor),
        from: vec!["SCHEDULED".into(), "FAILED".into()],
        ends_as: None,
    }
}

async fn correct(f: &dyn Fixture, item: &Item, minor: i64) -> ActionResult {
    let was = f.view(item).await.body.unwrap();
    let amended = f.store().amend(item, correction(&was, minor), ops()).await;
    amended.unwrap()
}

pub async fn only_what_was_surely_not_done_is_amended(f: &dyn Fixture) {
    let nobody = payment("nobody");
    let amended = f.store().amend(&nobody, correction("", 7), ops()).await;
    assert_eq!(amended.unwrap(), ActionResult::NoSuchItem);
    for (n, state) in STATES.into_iter().enumerate() {
        if state == S::Nobody {
            continue;
        }
        let item = bring(f, state, &format!("p{n}")).await;
        let before = f.view(&item).await;
        let said = correct(f, &item, 7).await;
        let after = f.view(&item).await;
        let refusal = match state {
            S::InDoubt | S::HeldInDoubt => Some("may have been executed"),
            S::Finished | S::Cancelled => Some("it is CANCELLED, not SCHEDULED or FAILED"),
            _ => None,
        };
        match (refusal, said) {
            (Some(why), ActionResult::Refused(said)) => {
                assert!(said.contains(why), "{state:?}: {said}");
                assert_eq!((after.money, after.run), (before.money, before.run));
            }
            (None, ActionResult::Yes) => {
                assert_eq!(
                    (after.money, after.run),
                    (usd(7), before.run + 1),
                    "{state:?}"
                );
                assert_eq!(after.body.as_deref(), Some("{\"corrected\":7}"));
                assert_eq!((after.slot, after.due), (before.slot, before.due));
                assert_eq!(after.content_hash, before.content_hash, "sameness stays");
                assert_eq!(f.trail(&item).await[0], "CORRECTED");
            }
            (expected, said) => panic!("{state:?}: {said:?} instead of {expected:?}"),
        }
    }
}

pub async fn an_amended_item_is_lost_to_the_run_that_was_about_to_send_it(f: &dyn Fixture) {
    let item = bring(f, S::Dispatched, "p").await;
    assert_eq!(correct(f, &item, 7).await, ActionResult::Yes);
    let wanted = TurnsWanted {
        lane: LaneName::new("p"),
        ..wanted(vec![send(&item)])
    };
    let turn = f.store().take_turns(wanted).await.unwrap().turns.remove(0);
    assert!(matches!(turn, Turn::NotYours(_)), "{turn:?}");
    assert_eq!(f.view(&item).await.queue_status, QueueStatus::Ready);
}

pub async fn an_item_that_is_settled_has_ended_and_gives_its_room_back(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    f.place(many("p", 3, hour)).await;
    let item = payment("p00001");
    let was = f.view(&item).await.body.unwrap();
    let settled = Amendment {
        action: "SETTLED",
        amount_minor: None,
        ends_as: Some("PAID".into()),
        ..correction(&was, 7)
    };
    let said = f
        .store()
        .amend(&item, settled.clone(), ops())
        .await
        .unwrap();
    assert_eq!(said, ActionResult::Yes);
    let view = f.view(&item).await;
    assert_eq!((view.status.as_str(), view.money), ("PAID", usd(100)));
    assert_eq!(view.queue_status, QueueStatus::Cancelled);
    assert!(view.finished_at.is_some());
    assert_eq!(f.windows().await[0].used, 2);
    let again = f.store().amend(&item, settled, ops()).await.unwrap();
    assert!(matches!(again, ActionResult::Refused(_)), "{again:?}");
}

pub async fn of_two_amendments_of_one_document_the_second_is_refused(f: &dyn Fixture) {
    let item = bring(f, S::Ready, "p").await;
    let was = f.view(&item).await.body.unwrap();
    let amend = async |minor| {
        let amended = f.store().amend(&item, correction(&was, minor), ops()).await;
        amended.unwrap()
    };
    assert_eq!(amend(7).await, ActionResult::Yes);
    let second = amend(8).await;
    assert!(matches!(&second, ActionResult::Refused(why) if why.contains("in the meantime")));
    assert_eq!(f.view(&item).await.money, usd(7));
}
