//! What comes before an item and what stops it: requests, rules, corrections and refusal storms.

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, FlowId, Item, ItemId, WatchId};
use tollgate_core::lane::LaneChange;
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{
    Acceptance, ActionResult, Amendment, Amendments, Attempts, NewRequest, NewTurn, NewWatch,
    Queue, Refusal, RequestState, Requests, RequestsWanted, RuleStop, RuleStops, Settlement,
    StatusMove, Storms, Then, Turn, TurnsWanted,
};
use tollgate_core::storm::Limits;
use tollgate_store::postgres::PostgresStore;

use super::operations::{author, bank, change, filled};
use crate::trouble::{item, payments};

const LEAD: Duration = Duration::from_millis(8);

pub(super) async fn run_all(store: &PostgresStore, dispatched: &[Item]) {
    requests(store).await;
    rules(store).await;
    amendments(store).await;
    storms(store, dispatched).await;
}

fn request(id: &str, hash: &str) -> NewRequest {
    let new = item(id);
    NewRequest {
        item: Item::new(&payments(), &new.id),
        content_hash: hash.into(),
        money: new.record.money,
        document: "{}".into(),
        again: false,
    }
}

async fn accept(store: &PostgresStore, id: &str, hash: &str) -> Acceptance {
    store.accept(request(id, hash)).await.unwrap()
}

async fn requests(store: &PostgresStore) {
    let is_new = |accepted| matches!(accepted, Acceptance::New(_));
    for n in 0..100 {
        assert!(is_new(accept(store, &format!("asked-{n}"), "hash").await));
    }
    let known = accept(store, "asked-1", "hash").await;
    assert!(matches!(known, Acceptance::Known(_)));
    let planned = accept(store, filled(1).id.as_str(), "hash").await;
    assert_eq!(planned, Acceptance::Planned);
    let asked = |n: u32| Item::new(&payments(), &ItemId::new(format!("asked-{n}")));
    assert!(store.request(&asked(1)).await.unwrap().is_some());
    assert!(
        store
            .requests_due(&payments(), 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.begin_try(&asked(1), 1).await.unwrap());
    store.look_later(&asked(1), 2).await.unwrap();
    let failed = store.try_failed(&asked(1), "hash", "no").await;
    assert_eq!(failed.unwrap(), Some(2));
    let refusal = Refusal {
        content_hash: "hash".into(),
        init_flow: FlowId::new("init"),
        details: BTreeMap::new(),
        invalid: false,
    };
    store.refuse(&asked(2), refusal).await.unwrap();
    assert!(is_new(accept(store, "asked-2", "other").await));
    let later = Timestamp::from_second(4_000_000_000).unwrap();
    let moved = store
        .move_request(&asked(5), later, author())
        .await
        .unwrap();
    assert_eq!(moved, ActionResult::Yes);
    let withdrawn = store.withdraw(&asked(3), author()).await.unwrap();
    assert_eq!(withdrawn, ActionResult::Yes);
    let wanted = RequestsWanted {
        item_type: payments(),
        state: Some(RequestState::Waiting),
        after: Some(asked(4).id),
        limit: 10,
    };
    assert_eq!(store.requests(wanted).await.unwrap().len(), 10);
    let unplanned = store.unplanned(&payments()).await.unwrap();
    assert_eq!(unplanned.requests, 99);
    let planned: Vec<_> = (10..20).map(|n| item(asked(n).id.as_str())).collect();
    store.admit(&payments(), planned).await.unwrap();
    assert!(store.request(&asked(10)).await.unwrap().is_none());
}

/// Of what is under way, these have had no turn yet.
async fn rules(store: &PostgresStore) {
    let stop = |rejected| RuleStop {
        actor: tollgate_core::actor::RULES,
        rules: vec!["limit".into()],
        why: "no".into(),
        rejected,
    };
    let rejected = Some(StatusMove::new(&["SCHEDULED"], "REJECTED"));
    for (n, rejected) in [(601_002, None), (601_006, rejected)] {
        let stopped = store.stop_by_rules(&filled(n), 1, stop(rejected)).await;
        assert!(stopped.unwrap());
    }
    let (kind, after) = (payments(), filled(700_000).id);
    let judged = store.with_status(&kind, "SCHEDULED", Some(&after), 100);
    assert_eq!(judged.await.unwrap().len(), 100);
    let after = filled(300_000).id;
    let ended = store.with_status(&kind, "PROCESSING", Some(&after), 100);
    assert_eq!(ended.await.unwrap().len(), 100);
}

async fn amendments(store: &PostgresStore) {
    for (n, ends_as) in [(992_001, None), (992_002, Some("CANCELLED".to_owned()))] {
        let amendment = Amendment {
            action: "CORRECTED",
            was: "{}".into(),
            body: "{\"other\": true}".into(),
            amount_minor: Some(2),
            from: vec!["SCHEDULED".into()],
            ends_as,
        };
        let amended = store.amend(&filled(n), amendment, author()).await.unwrap();
        assert_eq!(amended, ActionResult::Yes);
    }
}

async fn storms(store: &PostgresStore, dispatched: &[Item]) {
    let watch = async |digest: &str, canary, streak| {
        let watch = NewWatch {
            lane: bank(),
            connector: "bank".into(),
            digest: digest.into(),
            limits: Limits { canary, streak },
        };
        store.watch(watch).await.unwrap()
    };
    // An answer that ends a canary, a canary that is refused, and a streak.
    let passing = watch("1", 1, 2).await;
    assert_eq!(watch("1", 1, 2).await, passing);
    let done = Outcome::Done("yes".into());
    sent(store, passing, &dispatched[..1], &[done]).await;
    let refused = Outcome::Refused("no".into());
    let refusing = watch("2", 1, 2).await;
    sent(
        store,
        refusing,
        &dispatched[1..2],
        std::slice::from_ref(&refused),
    )
    .await;
    resume(store).await;
    let streaking = watch("3", 0, 2).await;
    sent(
        store,
        streaking,
        &dispatched[2..5],
        &[(); 3].map(|()| refused.clone()),
    )
    .await;
    let storms = store.storms(10).await.unwrap();
    assert_eq!(storms.len(), 3, "the planted one and two");
    assert!(store.storm(storms[0].id).await.unwrap().is_some());
    let page = store.refused_in(storms[0].id, &payments(), None, 10).await;
    assert_eq!(page.unwrap().items.len(), 3);
    resume(store).await;
    store.suspicion(&dispatched[2]).await.unwrap();
}

async fn resume(store: &PostgresStore) {
    let resumed = LaneChange {
        pause: Some(None),
        ..LaneChange::default()
    };
    change(store, resumed).await;
}

/// All have their turns before the first answer comes.
async fn sent(store: &PostgresStore, watch: WatchId, items: &[Item], outcomes: &[Outcome]) {
    let attempts = turns(store, watch, items).await;
    for ((item, attempt), outcome) in items.iter().zip(attempts).zip(outcomes) {
        let settlement = Settlement {
            attempt,
            item: item.clone(),
            run: 1,
            outcome: outcome.clone(),
            record: None,
            then: Then::Finish,
            disproves: false,
            close_lane: None,
            accounts: vec![],
        };
        assert!(store.settle(settlement).await.unwrap());
    }
}

async fn turns(store: &PostgresStore, watch: WatchId, items: &[Item]) -> Vec<AttemptId> {
    let attempts = items.iter().map(|item| NewTurn {
        item: item.clone(),
        run: 1,
        kind: AttemptKind::Send,
        key: "key".into(),
        planned: Timestamp::UNIX_EPOCH,
        seen: None,
        missed: None,
        may_be_late: false,
    });
    let wanted = TurnsWanted {
        watch: Some(watch),
        lane: bank(),
        lead: LEAD,
        attempts: attempts.collect(),
    };
    let block = store.take_turns(wanted).await.unwrap();
    let given = block.turns.into_iter().map(|turn| match turn {
        Turn::At { attempt, .. } => attempt,
        other => panic!("{other:?}"),
    });
    given.collect()
}
