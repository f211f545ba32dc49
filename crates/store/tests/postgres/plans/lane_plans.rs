//! The operations about a lane's plan as a whole, in the sizes that the planner uses: a replan of
//! half a million items, some at a time.

use std::time::Duration;

use tollgate_core::calendar::{Blackout, CalendarText};
use tollgate_core::id::{BulkId, CalendarName, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{
    ActionResult, Admission, ByTime, DoubtOrder, Doubts, IN_DOUBT, Lanes, NewItem, OperatorActions,
    PageFrom, PageToken, Plans, Queue, QueuePosition, Resolution, Resolved, SharedClock,
    StatusMove, Timetables, Waiting,
};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_store::postgres::PostgresStore;

use super::fill::{HELD, RUNNING, bulk};
use super::operations::{author, bank, change, filled};
use crate::trouble::{item, payments};

const HOUR: Duration = Duration::from_hours(1);
/// What the planner reads or places in one step.
const CHUNK: u32 = 1000;
const STEPS: u32 = 5;

pub(super) async fn run_all(store: &PostgresStore) {
    calendars(store).await;
    never(store).await;
    operator_actions(store).await;
    waiting(store).await;
    late(store).await;
    replan(store).await;
    assert_eq!(store.recount(&bank()).await.unwrap().windows, 0);
    // The fill counted windows without regard to slots.
    let wrong = store.recount(&LaneName::new("lane-60")).await.unwrap();
    assert!(wrong.windows > 1000, "{wrong}");
    doubts(store).await;
}

async fn doubts(store: &PostgresStore) {
    let nowhere = LaneName::new("nowhere");
    store.close_lane(&nowhere, HOUR, author()).await.unwrap();
    for (n, resolved) in [(601_950, Resolved::Done), (601_951, Resolved::NotDone)] {
        let item = filled(n);
        let lost = StatusMove::new(&["SCHEDULED"], IN_DOUBT);
        assert!(store.finish(&item, 1, lost).await.unwrap());
        assert_eq!(store.in_doubt(&payments(), None, 9).await.unwrap().len(), 1);
        assert_eq!(store.at_risk(&payments()).await.unwrap().len(), 1);
        let currency = "USD".to_owned();
        let orders = [
            DoubtOrder::ByTime(ByTime::Oldest),
            DoubtOrder::ByTime(ByTime::Newest),
            DoubtOrder::Largest { currency },
        ];
        for order in orders {
            let from = PageFrom::Start;
            let kind = payments();
            let page = store.in_doubt_by(&kind, order.clone(), from, 100);
            assert_eq!(page.await.unwrap().items.len(), 1);
            let back = PageFrom::Before(PageToken::BELOW_ALL);
            let page = store.in_doubt_by(&kind, order, back, 100);
            page.await.unwrap();
        }
        let record = StatusMove::new(&[IN_DOUBT], "SCHEDULED");
        let resolution = Resolution {
            resolved,
            sends: 0,
            record,
        };
        let done = store.resolve(&item, resolution, author()).await.unwrap();
        assert_eq!(done, ActionResult::Yes);
    }
    let item = filled(601_953);
    let lost = StatusMove::new(&["SCHEDULED"], IN_DOUBT);
    assert!(store.finish(&item, 1, lost).await.unwrap());
    let noted = store.note_done(&item, author()).await.unwrap();
    assert_eq!(noted, ActionResult::Yes);
}

async fn calendars(store: &PostgresStore) {
    let name = CalendarName::new("hours");
    let soon = store.now().await.unwrap() + HOUR;
    let closed = Blackout {
        from: soon,
        to: soon + HOUR,
        reason: "maintenance".into(),
    };
    let text = |blackouts| CalendarText {
        zone: "UTC".into(),
        blackouts,
        ..CalendarText::default()
    };
    store
        .put_calendar(&name, text(vec![]), author())
        .await
        .unwrap();
    let by_calendar = LaneChange {
        calendar: Some(Some(name.clone())),
        ..LaneChange::default()
    };
    change(store, by_calendar).await;
    // Now with a lane that it binds.
    let put = store.put_calendar(&name, text(vec![closed]), author());
    assert_eq!(put.await.unwrap().version, 2);
    assert_eq!(store.calendars().await.unwrap().len(), 1);
}

/// Refused, since nothing lies after the end of time.
async fn never(store: &PostgresStore) {
    let never = (0..CHUNK).map(|n| NewItem {
        requested: Some(Timestamp::MAX),
        ..item(&format!("never-{n}"))
    });
    let answers = store.admit(&payments(), never.collect()).await.unwrap();
    let refused = |a: &Admission| matches!(a, Admission::Refused(_));
    assert!(answers.iter().all(refused));
}

async fn operator_actions(store: &PostgresStore) {
    assert!(store.hold_late(&payments(), CHUNK).await.unwrap() > 200);
    assert!(store.hold(&filled(*RUNNING.end()), 1).await.unwrap());
    let held = filled(*HELD.start());
    let released = store.release_held(&held, author()).await.unwrap();
    assert_eq!(released, ActionResult::Yes);
    let now = store.now().await.unwrap();
    for n in 0..10 {
        let (one, other) = (filled(700_000 + 4 * n), filled(700_002 + 4 * n));
        let status = StatusMove::new(&["SCHEDULED"], "CANCELLED");
        let cancelled = store.cancel(&one, status, author()).await.unwrap();
        assert_eq!(cancelled, ActionResult::Yes);
        let moved = store.reschedule(&other, now + HOUR, author()).await;
        assert_eq!(moved.unwrap(), ActionResult::Yes);
    }
    let (ended, item) = (
        StatusMove::new(&["CANCELLED"], "SCHEDULED"),
        filled(700_000),
    );
    let reopened = store.reopen(&item, ended, now + HOUR, author());
    assert_eq!(reopened.await.unwrap(), ActionResult::Yes);
}

async fn waiting(store: &PostgresStore) {
    let now = store.now().await.unwrap();
    let deep = QueuePosition {
        due: now + 48 * HOUR,
        id: filled(1).id,
    };
    for after in [None, Some(deep)] {
        let page = store.waiting(&bank(), &payments(), after, CHUNK).await;
        assert_eq!(page.unwrap().len(), CHUNK as usize);
    }
    assert!(store.backlog(&bank(), now, 5_000).await.unwrap() > 1000);
    assert_eq!(
        store
            .backlog(&LaneName::new("nowhere"), now, 100_000)
            .await
            .unwrap(),
        0
    );
}

async fn late(store: &PostgresStore) {
    let tight = store.tight(&bank(), SignedDuration::ZERO).await.unwrap();
    assert!(tight.len() > 500, "{}", tight.len());
    let file = BulkId::new(bulk(900_000));
    let slack = SignedDuration::from_hours(10_000);
    let (lane, kind) = (bank(), payments());
    let of_file = store.tight_in_bulk(&lane, &kind, &file, slack);
    let of_file = of_file.await.unwrap().len();
    assert!((1..5000).contains(&of_file), "{of_file}");
    assert!(store.with_deadline(&bank()).await.unwrap() > 10_000);
    let nowhere = LaneName::new("nowhere");
    assert_eq!(store.with_deadline(&nowhere).await.unwrap(), 0);
    let unsent = store.unsent(&bank(), &[payments()], 1000).await.unwrap();
    let unsent = unsent.unwrap();
    assert!(unsent.near.len() >= 1000 && unsent.far.is_some());
    assert_eq!(
        store.sent_on_slots(&bank(), 1000).await.unwrap().len(),
        1000
    );
}

async fn replan(store: &PostgresStore) {
    let (bank, payments) = (bank(), payments());
    let lane = store.lane(&bank).await.unwrap().unwrap();
    let same = LaneChange {
        max_per_window: Some(lane.lane.max_per_window),
        ..LaneChange::default()
    };
    let adjusted = store.adjust_lane(&bank, lane.version, same, author()).await;
    assert!(adjusted.unwrap().is_some());
    let generation = store.begin_replan(&bank, author()).await.unwrap();
    assert_eq!(store.open_replan(&bank).await.unwrap(), Some(generation));
    let mut after: Option<QueuePosition> = None;
    for step in 0..STEPS {
        // The last begins anew, as after a cut: it passes what is placed already.
        let after_cut = after.take().filter(|_| step + 1 < STEPS);
        let placed = store.replan_some(&bank, &payments, generation, after_cut, CHUNK);
        let placed = placed.await.unwrap();
        assert_eq!(placed.len(), CHUNK as usize);
        after = placed.last().map(|last| Waiting::spot(&last.item));
    }
    let end = store.end_replan(&bank, generation, "done".into(), author());
    end.await.unwrap();
}
