//! `Requests`: what was accepted waits in the store until its admission ends it, however often that fails.

use futures::future::join_all;
use tollgate_core::Timestamp;
use tollgate_core::details::one;
use tollgate_core::id::{FlowId, ItemId};
use tollgate_core::ports::{
    Acceptance, ActionResult, Admission, ChunkId, LOOK_AFTER, NewItem, NewRequest, RETRIES,
    Refusal, RequestState, RequestView, RequestsWanted, Total,
};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, is_new, new_item, ops, payment, payments, plan, signed, usd,
};

/// The request for [`new_item`].
fn request(id: &str) -> NewRequest {
    NewRequest {
        item: payment(id),
        content_hash: format!("hash of {id}"),
        money: usd(100),
        document: format!("{{\"request\":\"{id}\"}}"),
        again: false,
    }
}
fn with_content(id: &str, content_hash: &str) -> NewRequest {
    NewRequest {
        content_hash: content_hash.into(),
        ..request(id)
    }
}
fn item_with_content(id: &str, content_hash: &str) -> NewItem {
    let mut item = new_item(id);
    item.record.content_hash = content_hash.into();
    item
}
fn refusal(id: &str) -> Refusal {
    Refusal {
        content_hash: format!("hash of {id}"),
        init_flow: FlowId::new(format!("init-{id}")),
        details: one("rule", "is against it"),
        invalid: false,
    }
}

impl dyn Fixture + '_ {
    async fn accept(&self, request: NewRequest) -> Acceptance {
        self.store().accept(request).await.unwrap()
    }
    async fn accepted(&self, id: &str) -> RequestView {
        match self.accept(request(id)).await {
            Acceptance::New(view) => view,
            other => panic!("{other:?}"),
        }
    }
    async fn asked(&self, id: &str) -> Option<RequestView> {
        self.store().request(&payment(id)).await.unwrap()
    }
    async fn due(&self) -> Vec<String> {
        let due = self.store().requests_due(&payments(), 100).await.unwrap();
        due.into_iter().map(|it| it.id.to_string()).collect()
    }
    async fn fail(&self, id: &str, why: &str) -> Option<u32> {
        let (item, hash) = (payment(id), format!("hash of {id}"));
        self.store().try_failed(&item, &hash, why).await.unwrap()
    }
    async fn all_totals(&self) -> Vec<Total> {
        let to = self.now().await + signed(HOUR);
        let totals = self
            .store()
            .totals(&payments(), Timestamp::UNIX_EPOCH, to)
            .await;
        totals.unwrap()
    }
}

fn total(status: &str, currency: &str, count: u64, amount_minor: i64) -> Total {
    Total {
        status: status.into(),
        currency: currency.into(),
        count,
        amount_minor,
    }
}

pub async fn what_was_accepted_comes_back_whole_after_a_restart(f: &dyn Fixture) {
    let before = f.now().await;
    let view = f.accepted("a").await;
    assert_eq!(
        (view.state, view.correction, view.tries),
        (RequestState::Waiting, 1, 1)
    );
    assert!(view.accepted_at >= before && !view.has_failed());
    f.restart().await;
    assert_eq!(f.asked("a").await, Some(view.clone()));
    assert_eq!(view.document, request("a").document);
    assert_eq!(f.asked("b").await, None);
}

pub async fn the_same_again_and_other_content_change_nothing(f: &dyn Fixture) {
    let first = f.accepted("a").await;
    assert_eq!(
        f.accept(request("a")).await,
        Acceptance::Known(first.clone())
    );
    let other = f.accept(with_content("a", "other")).await;
    assert_eq!(other, Acceptance::Known(first), "its content is told");
}

pub async fn of_many_that_accept_an_id_at_once_one_is_new(f: &dyn Fixture) {
    let stores: Vec<_> = (0..20).map(|_| f.store()).collect();
    let all = stores.iter().map(|store| store.accept(request("a")));
    let all = join_all(all).await;
    let new = all
        .into_iter()
        .filter(|it| matches!(it, Ok(Acceptance::New(_))));
    assert_eq!(new.count(), 1);
}

pub async fn what_is_planned_is_not_accepted_again(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("a")]).await;
    assert_eq!(f.accept(request("a")).await, Acceptance::Planned);
    let other = f.accept(with_content("a", "other")).await;
    assert_eq!(other, Acceptance::Planned);
    assert_eq!(f.asked("a").await, None);
}

pub async fn admission_ends_the_request_in_its_own_transaction(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.accepted("a").await;
    f.accepted("b").await;
    assert!(is_new(&f.admit_one(new_item("a")).await));
    assert_eq!(f.asked("a").await, None);
    assert!(f.asked("b").await.is_some(), "another's stays");
    assert!(matches!(
        f.admit_one(new_item("a")).await,
        Admission::Repeat(_)
    ));
}

pub async fn a_refusal_at_admission_is_kept_and_told_to_its_flow_again(f: &dyn Fixture) {
    f.accepted("a").await;
    let said = f.admit_one(new_item("a")).await;
    assert!(matches!(said, Admission::Refused(_)), "there is no lane");
    let view = f.asked("a").await.unwrap();
    assert_eq!(
        (view.state, view.document.as_str()),
        (RequestState::Refused, "")
    );
    assert!(view.details.contains_key(Admission::LANE));
    // The flow that died before it could keep the answer gets the same one, though the lane is there now.
    f.lane(plan(100, 4)).await;
    assert_eq!(f.admit_one(new_item("a")).await, said);
    // Another way in, a file's, is judged for itself.
    let bulk = tollgate_core::id::BulkId::new("b");
    let chunk = ChunkId { bulk, number: 1 };
    let line = NewItem {
        init_flow: chunk.flow(),
        ..new_item("a")
    };
    assert!(is_new(&f.admit_one(line).await));
}

pub async fn a_refused_request_gives_way_to_other_content(f: &dyn Fixture) {
    f.accepted("a").await;
    f.store().refuse(&payment("a"), refusal("a")).await.unwrap();
    let refused = f.asked("a").await.unwrap();
    assert_eq!(
        (refused.state, &refused.details),
        (RequestState::Refused, &refusal("a").details)
    );
    assert_eq!(f.accept(request("a")).await, Acceptance::Known(refused));
    let again = NewRequest {
        again: true,
        ..request("a")
    };
    let Acceptance::New(again) = f.accept(again).await else {
        panic!("judged once more");
    };
    assert_eq!((again.state, again.correction), (RequestState::Waiting, 2));
    f.store().refuse(&payment("a"), refusal("a")).await.unwrap();
    let Acceptance::New(corrected) = f.accept(with_content("a", "other")).await else {
        panic!("it is a correction");
    };
    assert_eq!((corrected.correction, corrected.tries), (3, 1));
    // A late verdict about the first content says nothing about the second.
    f.store().refuse(&payment("a"), refusal("a")).await.unwrap();
    assert_eq!(f.asked("a").await, Some(corrected));
}

pub async fn a_request_that_was_refused_or_cancelled_has_the_time_of_its_end(f: &dyn Fixture) {
    let (refused, cancelled) = (f.accepted("r").await, f.accepted("c").await);
    assert_eq!((refused.ended_at, cancelled.ended_at), (None, None));
    f.advance(MINUTE).await;
    let before = f.now().await;
    f.store().refuse(&payment("r"), refusal("r")).await.unwrap();
    f.store().withdraw(&payment("c"), ops()).await.unwrap();
    for id in ["r", "c"] {
        let ended = f.asked(id).await.unwrap().ended_at.unwrap();
        assert!((before..=f.now().await).contains(&ended), "{id}: {ended}");
    }
    f.accept(with_content("r", "other")).await;
    assert_eq!(f.asked("r").await.unwrap().ended_at, None, "it waits again");
}

pub async fn while_a_request_waits_its_id_is_taken(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.accepted("a").await;
    let said = f
        .admit(vec![item_with_content("a", "other"), new_item("a")])
        .await;
    assert_eq!(said[0], Admission::Conflict);
    assert!(is_new(&said[1]), "{said:?}");
    assert_eq!(f.asked("a").await, None);
}

pub async fn a_failed_try_is_told_and_followed_after_growing_pauses(f: &dyn Fixture) {
    f.accepted("a").await;
    assert_eq!(f.due().await, [""; 0]);
    assert_eq!(f.fail("a", "no \u{0} rights").await, Some(1));
    let mut tries = 1;
    while tries < 12 {
        let view = f.asked("a").await.unwrap();
        assert!(view.has_failed() && view.last_error.unwrap().contains("rights"));
        let pause = RETRIES.pause_after(tries);
        assert_eq!(f.due().await, [""; 0], "not before {pause:?}");
        f.advance(pause + SECOND).await;
        assert_eq!(f.due().await, ["a"]);
        assert!(f.store().begin_try(&payment("a"), tries).await.unwrap());
        assert!(!f.store().begin_try(&payment("a"), tries).await.unwrap());
        assert_eq!(f.due().await, [""; 0], "it is under way");
        tries += 1;
        assert!(!f.asked("a").await.unwrap().has_failed());
        assert_eq!(f.fail("a", "no rights").await, Some(tries));
    }
    let item = payment("a");
    let other = f.store().try_failed(&item, "other content", "x").await;
    assert_eq!(other.unwrap(), None);
    assert_eq!(f.fail("b", "x").await, None);
}

pub async fn a_try_that_tells_nothing_is_looked_at(f: &dyn Fixture) {
    f.accepted("a").await;
    f.advance(LOOK_AFTER + SECOND).await;
    assert_eq!(f.due().await, ["a"]);
    f.store().look_later(&payment("a"), 1).await.unwrap();
    assert_eq!(f.due().await, [""; 0]);
    f.advance(LOOK_AFTER + SECOND).await;
    assert_eq!(f.due().await, ["a"]);
}

pub async fn a_request_can_be_withdrawn_until_it_is_planned(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.accepted("a").await;
    let store = f.store();
    let withdraw = |id: &'static str| {
        let store = f.store();
        async move { store.withdraw(&payment(id), ops()).await.unwrap() }
    };
    assert_eq!(withdraw("a").await, ActionResult::Yes);
    assert!(matches!(withdraw("a").await, ActionResult::Refused(_)));
    assert_eq!(withdraw("b").await, ActionResult::NoSuchItem);
    assert_eq!(f.trail(&payment("a")).await, ["CANCELLED"]);
    assert_eq!(f.admit_one(new_item("a")).await, Admission::Cancelled);
    let other = f.admit_one(item_with_content("a", "other")).await;
    assert_eq!(other, Admission::Conflict);
    assert!(store.item(&payment("a")).await.unwrap().is_none());
    assert_eq!(f.fail("a", "late").await, None);
    assert!(matches!(
        f.accept(request("a")).await,
        Acceptance::Known(view) if view.state == RequestState::Cancelled
    ));
    f.accepted("c").await;
    f.admit_one(new_item("c")).await;
    assert_eq!(withdraw("c").await, ActionResult::NoSuchItem);
}

pub async fn a_request_that_was_given_another_time_is_planned_from_it(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.accepted("p").await;
    f.accepted("q").await;
    let later = f.now().await + signed(HOUR);
    let store = f.store();
    let moved = async |id: &str| store.move_request(&payment(id), later, ops()).await;
    assert_eq!(moved("p").await, Ok(ActionResult::Yes));
    assert_eq!(moved("p").await, Ok(ActionResult::Yes), "twice");
    assert_eq!(moved("nobody").await, Ok(ActionResult::NoSuchItem));
    assert_eq!(f.asked("p").await.unwrap().moved_to, Some(later));
    assert_eq!(f.trail(&payment("p")).await.len(), 2);
    f.place(vec![new_item("p"), new_item("q")]).await;
    let view = f.view(&payment("p")).await;
    assert_eq!(view.requested, later);
    assert!(view.slot >= later && view.due == view.slot, "{view:?}");
    assert!(
        f.view(&payment("q")).await.slot < later,
        "the other was not moved"
    );
    assert_eq!(
        moved("p").await,
        Ok(ActionResult::NoSuchItem),
        "it is planned"
    );
    f.accepted("r").await;
    store.withdraw(&payment("r"), ops()).await.unwrap();
    assert!(matches!(moved("r").await, Ok(ActionResult::Refused(_))));
}

pub async fn of_withdrawing_and_planning_at_once_one_happens(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for n in 0..20 {
        let id = format!("p{n}");
        f.accepted(&id).await;
        let (store, item) = (f.store(), payment(&id));
        let kind = payments();
        let (withdrawn, admitted) = tokio::join!(
            store.withdraw(&item, ops()),
            store.admit(&kind, vec![new_item(&id)])
        );
        let (withdrawn, admitted) = (withdrawn.unwrap(), admitted.unwrap().remove(0));
        match withdrawn {
            ActionResult::Yes => assert_eq!(admitted, Admission::Cancelled),
            ActionResult::NoSuchItem => assert!(is_new(&admitted), "{admitted:?}"),
            ActionResult::Refused(why) => panic!("{why}"),
        }
    }
}

pub async fn totals_count_a_request_from_its_acceptance_on_and_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for id in ["a", "b", "c"] {
        f.accepted(id).await;
    }
    assert_eq!(f.all_totals().await, [total("INITIALIZING", "USD", 3, 300)]);
    f.admit_one(new_item("a")).await;
    f.store().withdraw(&payment("b"), ops()).await.unwrap();
    assert_eq!(
        f.all_totals().await,
        [
            total("CANCELLED", "USD", 1, 100),
            total("INITIALIZING", "USD", 1, 100),
            total("SCHEDULED", "USD", 1, 100)
        ]
    );
    f.store().refuse(&payment("c"), refusal("c")).await.unwrap();
    let unplanned = f.store().unplanned(&payments()).await.unwrap();
    assert_eq!((unplanned.requests, unplanned.failing), (0, 0));
    assert_eq!(
        f.all_totals().await.len(),
        2,
        "what is refused was never taken in"
    );
}

pub async fn requests_are_told_page_by_page_and_by_state(f: &dyn Fixture) {
    for id in ["a", "b", "c", "d"] {
        f.accepted(id).await;
    }
    f.store().withdraw(&payment("b"), ops()).await.unwrap();
    f.store().refuse(&payment("c"), refusal("c")).await.unwrap();
    assert_eq!(f.fail("d", "no").await, Some(1));
    let page = |state: Option<RequestState>, after: Option<&str>, limit: u32| {
        let wanted = RequestsWanted {
            item_type: payments(),
            state,
            after: after.map(ItemId::new),
            limit,
        };
        let store = f.store();
        async move {
            let page = store.requests(wanted).await.unwrap();
            let ids: Vec<_> = page.iter().map(|it| it.id.to_string()).collect();
            ids.concat()
        }
    };
    assert_eq!(page(None, None, 10).await, "abd");
    assert_eq!(page(None, None, 2).await, "ab");
    assert_eq!(page(None, Some("b"), 2).await, "d");
    assert_eq!(page(Some(RequestState::Waiting), None, 10).await, "ad");
    assert_eq!(page(Some(RequestState::Cancelled), None, 10).await, "b");
    let unplanned = f.store().unplanned(&payments()).await.unwrap();
    assert_eq!((unplanned.requests, unplanned.failing), (2, 1));
    let first = f.asked("a").await.unwrap().accepted_at;
    assert_eq!(unplanned.since, Some(first));
}
