//! The table of moves in core is what a store does: every event, in every state.

use std::time::Duration;

use tollgate_core::id::{BatchId, Fence, Item, LaneName};
use tollgate_core::item::{Event, QueueStatus};
use tollgate_core::ports::{
    ActionResult, Claim, IN_DOUBT, NewItem, NewRecord, Resolution, Resolved, StartRecord, Started,
    StatusMove,
};

use super::fixture::{Fixture, SECOND, claim_all, new_item, ops, payment, payments, plan};
use super::planning::{or_hold, secs, withdrawn};

pub async fn every_event_moves_an_item_as_the_table_says(f: &dyn Fixture) {
    for before in QueueStatus::ALL {
        for event in Event::ALL {
            let id = format!("{before}-{event:?}");
            let fence = bring(f, &id, before, event).await;
            cause(f, &payment(&id), fence, event).await;
            let after = f.view(&payment(&id)).await.queue_status;
            assert_eq!(after, before.after(event).unwrap_or(before), "{id}");
        }
    }
}

/// A new item, on a lane of its own, brought into a state: one that the event's own conditions
/// do not forbid.
pub(super) async fn bring(f: &dyn Fixture, id: &str, state: QueueStatus, event: Event) -> Fence {
    let (item, lane, store) = (payment(id), LaneName::new(id), f.store());
    store.change_lane(&lane, plan(10, 4), ops()).await.unwrap();
    let in_doubt = NewRecord {
        status: IN_DOUBT.into(),
        ..new_item(id).record
    };
    let new = NewItem {
        lane,
        record: in_doubt,
        ..new_item(id)
    };
    let passed = f.now().await - secs(60);
    let is_late = event == Event::Hold;
    f.place(vec![if is_late { or_hold(new, passed) } else { new }])
        .await;
    let fence = match state {
        QueueStatus::Ready | QueueStatus::Cancelled => Fence(0),
        QueueStatus::Claimed | QueueStatus::Dispatched | QueueStatus::Dead | QueueStatus::Held => {
            claim(f, id).await.expect("it is due")
        }
    };
    match state {
        QueueStatus::Ready | QueueStatus::Claimed => {}
        QueueStatus::Dispatched => start(f, &item, fence, Started::New).await,
        QueueStatus::Dead => start(f, &item, fence, Started::Failed("no".into())).await,
        QueueStatus::Cancelled => assert_eq!(f.cancel(id).await, ActionResult::Yes),
        QueueStatus::Held => assert!(store.hold(&item, 1).await.unwrap()),
    }
    if (state, event) == (QueueStatus::Dispatched, Event::Reopen) {
        assert!(store.finish(&item, 1, withdrawn()).await.unwrap());
    }
    assert_eq!(f.view(&item).await.queue_status, state, "{id}");
    fence
}

/// Lets it happen, if it can, for the run and the claim that the item has.
pub(super) async fn cause(f: &dyn Fixture, item: &Item, fence: Fence, event: Event) {
    let (store, kind, id) = (f.store(), payments(), item.id.as_str());
    let run = f.view(item).await.run;
    let soon = f.now().await;
    match event {
        Event::Claim => {
            claim(f, id).await;
        }
        Event::LetGo => {
            let batch = claim_all().batch;
            let released = store.release(&kind, &LaneName::new(id), &batch).await;
            released.unwrap();
        }
        Event::Started => start(f, item, fence, Started::New).await,
        Event::Finish => store
            .finish(item, run, withdrawn())
            .await
            .map(drop)
            .unwrap(),
        Event::Requeue => store
            .put_back(item, run, SECOND, "busy")
            .await
            .map(drop)
            .unwrap(),
        Event::GiveUp => {
            f.lose_body(item).await;
            claim(f, id).await;
            let lost = store.restart_orphaned(item, run, "lost", SECOND, 1).await;
            lost.unwrap();
        }
        Event::Hold => {
            store.hold(item, run).await.unwrap();
            store.hold_late(&kind, 1000).await.unwrap();
        }
        Event::Cancel => store
            .cancel(item, withdrawn(), ops())
            .await
            .map(drop)
            .unwrap(),
        Event::Reschedule => store.reschedule(item, soon, ops()).await.map(drop).unwrap(),
        Event::Release => store.release_held(item, ops()).await.map(drop).unwrap(),
        Event::Replay => store.replay(item, ops()).await.map(drop).unwrap(),
        Event::Reopen => {
            let back = StatusMove::new(&[IN_DOUBT], "SCHEDULED");
            store.reopen(item, back, soon, ops()).await.unwrap();
        }
        Event::ResolveEnded => resolve(f, item, Resolved::Done).await,
        Event::ResolveAgain => resolve(f, item, Resolved::NotDone).await,
    }
}

/// The fence of the item's claim, where it could be taken; every older claim is stale.
async fn claim(f: &dyn Fixture, id: &str) -> Option<Fence> {
    let claim = Claim {
        lane: LaneName::new(id),
        stale_after: Duration::ZERO,
        ..claim_all()
    };
    f.claim(claim).await.first().map(|claimed| claimed.fence)
}

/// A start that fails is the last.
async fn start(f: &dyn Fixture, item: &Item, fence: Fence, started: Started) {
    let start = StartRecord {
        id: item.id.clone(),
        fence,
        flow: item.exec_flow(1),
        started,
    };
    let (kind, batch) = (payments(), BatchId::new("BATCH-1"));
    let recorded = f.store().record_starts(&kind, &batch, vec![start], 1).await;
    recorded.unwrap();
}

async fn resolve(f: &dyn Fixture, item: &Item, resolved: Resolved) {
    let resolution = Resolution {
        resolved,
        sends: 0,
        record: StatusMove::new(&[IN_DOUBT], "SCHEDULED"),
    };
    f.store().resolve(item, resolution, ops()).await.unwrap();
}
