//! `RuleStops`: rules stop an item before it is sent, and a person lets it pass.

use tollgate_core::actor;
use tollgate_core::id::{Item, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ActionResult, NewItem, RuleStop, StatusMove};

use super::fixture::{Fixture, SECOND, claim_all, new_item, ops, payment, payments, plan};
use super::operator_actions::{STATES, State as S, bring, claim};
use super::planning::secs;

fn hold(rule: &str) -> RuleStop {
    RuleStop {
        actor: actor::RULES,
        rules: vec![rule.to_owned()],
        why: format!("{rule} is against it"),
        rejected: None,
    }
}

fn reject() -> RuleStop {
    RuleStop {
        actor: actor::SENDER,
        rejected: Some(StatusMove::new(&["SCHEDULED"], "REJECTED")),
        ..hold("r#1")
    }
}

async fn held(f: &dyn Fixture, item: &Item, rule: &str) {
    let run = f.view(item).await.run;
    let stopped = f.store().stop_by_rules(item, run, hold(rule)).await;
    assert!(stopped.unwrap(), "{item}");
}

pub async fn rules_hold_only_what_its_run_is_about_to_send_and_was_surely_not_done(
    f: &dyn Fixture,
) {
    for (n, state) in STATES.into_iter().enumerate() {
        let item = bring(f, state, &format!("p{n}")).await;
        let stop = async |run| f.store().stop_by_rules(&item, run, hold("r#1")).await;
        assert!(!stop(7).await.unwrap(), "{state:?}: another run");
        let stopped = stop(1).await.unwrap();
        let is_under_way = matches!(state, S::Claimed | S::Dispatched);
        assert_eq!(stopped, is_under_way, "{state:?}");
        if !stopped {
            continue;
        }
        let view = f.view(&item).await;
        assert_eq!((view.queue_status, view.run), (QueueStatus::Held, 2));
        assert_eq!(view.last_error.as_deref(), Some("r#1 is against it"));
        let entry = f.store().audit(Some(&item), 1).await.unwrap().remove(0);
        assert_eq!(
            (entry.action.as_str(), entry.actor.as_str()),
            ("HELD", "rules")
        );
        assert!(!stop(1).await.unwrap(), "it is another run's now");
    }
    for (state, stopped) in [(S::InDoubt, false), (S::Retried, true)] {
        let id = format!("again-{state:?}");
        let item = bring(f, state, &id).await;
        f.advance(std::time::Duration::from_secs(5)).await;
        claim(f, &LaneName::new(&*id), S::Dispatched).await;
        let stop = f.store().stop_by_rules(&item, 2, hold("r#1")).await;
        assert_eq!(stop.unwrap(), stopped, "{state:?}");
    }
}

pub async fn rules_reject_an_item_with_its_record_and_its_run_ends_it(f: &dyn Fixture) {
    let item = bring(f, S::Dispatched, "p").await;
    assert!(f.store().stop_by_rules(&item, 1, reject()).await.unwrap());
    let view = f.view(&item).await;
    assert_eq!((view.status.as_str(), view.run), ("REJECTED", 1));
    assert_eq!(view.finished_at, None, "its news are not queued yet");
    assert_eq!(view.last_error.as_deref(), Some("r#1 is against it"));
    // Whoever sends it next is told, also after a restart as another run.
    let doubt = StatusMove::new(&["SCHEDULED"], "IN_DOUBT");
    let seen = f.store().take_over(&item, 1, SECOND, &doubt).await.unwrap();
    let told = (seen.status.as_str(), seen.last_error.as_deref());
    assert_eq!(told, ("REJECTED", Some("r#1 is against it")));
    let trail = f.store().audit(Some(&item), 9).await.unwrap().len();
    assert!(f.store().stop_by_rules(&item, 1, reject()).await.unwrap());
    assert_eq!(f.store().audit(Some(&item), 9).await.unwrap().len(), trail);
    let rejected = StatusMove::new(&["SCHEDULED"], "REJECTED");
    assert!(f.store().finish(&item, 1, rejected).await.unwrap());
    assert!(f.view(&item).await.finished_at.is_some());
    assert!(!f.store().stop_by_rules(&item, 1, reject()).await.unwrap());
}

pub async fn a_release_passes_the_rules_that_held_an_item_and_keeps_its_deadline(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let deadline = f.now().await + secs(3600);
    let new = NewItem {
        deadline: Some(deadline),
        hold_if_late: true,
        ..new_item("p")
    };
    f.place(vec![new]).await;
    let item = payment("p");
    for (n, rule) in ["r#1", "s#2"].into_iter().enumerate() {
        assert_eq!(f.claim(claim_all()).await.len(), 1);
        held(f, &item, rule).await;
        let released = f.store().release_held(&item, ops()).await.unwrap();
        assert_eq!(released, ActionResult::Yes);
        let view = f.view(&item).await;
        assert_eq!(view.passed_rules, ["r#1", "s#2"][..=n]);
        assert_eq!(
            (view.queue_status, view.last_error),
            (QueueStatus::Ready, None)
        );
        assert!(view.hold_if_late, "its deadline has not passed");
    }
    f.claim(claim_all()).await;
    held(f, &item, "t#3").await;
    f.advance_to(deadline + secs(1)).await;
    f.store().release_held(&item, ops()).await.unwrap();
    assert!(!f.view(&item).await.hold_if_late, "it runs late");
}

pub async fn an_item_that_rules_hold_is_judged_again_at_its_new_time(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    let hour = f.next_hour().await;
    let new = NewItem {
        deadline: Some(hour + secs(7200)),
        hold_if_late: true,
        ..new_item("p")
    };
    f.place(vec![new]).await;
    f.claim(claim_all()).await;
    let item = payment("p");
    held(f, &item, "r#1").await;
    assert_eq!(f.reschedule("p", hour).await, ActionResult::Yes);
    let view = f.view(&item).await;
    assert_eq!(view.passed_rules, [""; 0]);
    assert!(view.hold_if_late, "nobody has said that it may be late");
    f.advance_to(hour).await;
    f.claim(claim_all()).await;
    held(f, &item, "r#1").await;
}

pub async fn items_with_a_status_come_page_by_page_as_rules_see_them(f: &dyn Fixture) {
    f.lane(plan(10, 4)).await;
    f.place(["a", "b", "c"].map(new_item).to_vec()).await;
    f.cancel("b").await;
    let (kind, store) = (payments(), f.store());
    let first = store
        .with_status(&kind, "SCHEDULED", None, 1)
        .await
        .unwrap();
    assert_eq!(first[0].id.as_str(), "a");
    assert_eq!(first[0].body, Some(new_item("a").body));
    let view = f.view(&payment("a")).await;
    assert_eq!(
        (first[0].requested, first[0].due),
        (view.requested, view.due)
    );
    let rest = store
        .with_status(&kind, "SCHEDULED", Some(&first[0].id), 10)
        .await;
    let rest: Vec<String> = rest.unwrap().iter().map(|one| one.id.to_string()).collect();
    assert_eq!(rest, ["c"]);
}
