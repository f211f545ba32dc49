//! Every operation of every store port, once or twice, in the sizes that the services use.

use std::time::Duration;

use futures::FutureExt;
use tollgate_core::Timestamp;
use tollgate_core::guard::{Guard, Limit};
use tollgate_core::id::{AttemptId, BatchId, Epoch, FlowId, Item, ItemId, LaneName};
use tollgate_core::lane::{LaneChange, Pause};
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{
    Admission, Attempts, Author, Call, Claim, Claimed, FlowEnd, Flows, JournalEntry, Lanes,
    Leadership, NewFlow, NewItem, NewSession, NewTurn, Queue, Records, Sessions, SettingKind,
    Settings, Settlement, SharedClock, Showing, StartRecord, Started, StatusMove, Then, Turn,
    TurnsWanted,
};
use tollgate_store::postgres::PostgresStore;

use super::fill::{self, RUNNING};
use super::{
    accounts, archive, bulks, erasures, feeds, jobs, lane_plans, outbox, people, status_checks,
};
use crate::trouble::{claim, item, payments};

pub(super) const HOUR: Duration = Duration::from_hours(1);
const TOLERANCE: Duration = Duration::from_millis(8);
/// The largest batch that intake takes and the dispatcher claims.
const BATCH: u32 = 1000;
/// What the engine loads at once.
const FLOWS_AT_ONCE: u32 = 256;

pub(super) async fn run_all(store: &PostgresStore) {
    lanes(store).await;
    settings(store).await;
    admissions(store).await;
    let dispatched = claims(store).await;
    ends(store).await;
    attempts(store, &dispatched).await;
    people::run_all(store, &dispatched[100..]).await;
    flows(store).await;
    accounts::run_all(store).await;
    sessions(store).await;
    lane_plans::run_all(store).await;
    bulks::run_all(store).await;
    feeds::run_all(store).await;
    status_checks::run_all(store).await;
    jobs::run_all(store).await;
    erasures::run_all(store).await;
    outbox::run_all(store).await;
    archive::run_all(store).await;
    let wider = LaneChange {
        window_size_secs: Some(5),
        ..LaneChange::default()
    };
    change(store, wider).await;
    store.take_node().await.unwrap();
    leadership(store).await;
}

/// The last one: what came before is fenced by it.
async fn leadership(store: &PostgresStore) {
    let showing = Showing {
        name: "host/1".into(),
        address: "127.0.0.1:1".into(),
        version: "1".into(),
        cannot_lead: String::new(),
    };
    store.show(&showing).await.unwrap();
    let seen = store.look().await.unwrap().seen;
    let term = store.lead(Some(seen), "").await.unwrap().unwrap();
    store.beat(term.epoch).await.unwrap();
    store.call(Call::Flows).await.unwrap();
    let waited_for = (0..FLOWS_AT_ONCE).map(|n| FlowId::new(format!("waited-for-{n}")));
    store.ended_flows(waited_for.collect()).await.unwrap();
    store.forget(vec![(store.process(), 0)]).await.unwrap();
    store.resign(term.epoch).await.unwrap();
    store.leave().await.unwrap();
}

pub(super) fn bank() -> LaneName {
    LaneName::new("bank")
}
pub(super) fn author() -> Author {
    Author::new("ops", "because")
}
/// The n-th item of the fill.
pub(super) fn filled(n: u32) -> Item {
    Item::new(&payments(), &ItemId::new(fill::id(n)))
}

pub(super) async fn change(store: &PostgresStore, change: LaneChange) {
    let changed = store.change_lane(&bank(), change, author()).await;
    changed.unwrap();
}

async fn lanes(store: &PostgresStore) {
    let pause = Pause::now("ops", "because");
    for pause in [Some(pause), None] {
        let faster = LaneChange {
            max_per_second: Some(10_000.into()),
            pause: Some(pause),
            ..LaneChange::default()
        };
        change(store, faster).await;
    }
    assert!(store.lane(&bank()).await.unwrap().is_some());
    assert_eq!(store.lanes().await.unwrap().len(), 101);
    let now = store.now().await.unwrap();
    let windows = store.windows(&bank(), now, 100).await.unwrap();
    assert_eq!(windows.len(), 100);
    let (from, to) = (now - 10 * HOUR, now - 9 * HOUR);
    let proof = store.certificate(&bank(), from, to).await.unwrap();
    assert_eq!(proof.sends, 1800);
}

async fn settings(store: &PostgresStore) {
    let kind = SettingKind::ItemType;
    for _ in 0..2 {
        let body = "{}".to_owned();
        let put = store.put_setting(kind, "PAYMENT", body, author()).await;
        put.unwrap();
    }
    let current = store.setting(kind, "PAYMENT").await.unwrap().unwrap();
    let replaced = store.replace_setting(kind, "PAYMENT", current.version, "{}".into(), author());
    assert!(replaced.await.unwrap().is_some());
    let page = store.settings(SettingKind::Customer, Some("c1025000"), 1000);
    let page = page.await.unwrap();
    assert_eq!(page.items.len(), 1000);
    assert_eq!(page.items[0].setting.version, 2);
    let versions = store.setting_history(SettingKind::Lane, "bank", 100).await;
    assert_eq!(versions.unwrap().len(), 100);
}

async fn admissions(store: &PostgresStore) {
    let now = store.now().await.unwrap();
    let at_once: Vec<NewItem> = (0..BATCH).map(|n| item(&format!("now-{n}"))).collect();
    let later = (0..BATCH).map(|n| NewItem {
        requested: Some(now + n * HOUR / 100),
        ..item(&format!("later-{n}"))
    });
    let known = (0..BATCH).map(|n| item(fill::id(1 + n * 999).as_str()));
    for (items, is_new) in [
        (at_once, true),
        (later.collect(), true),
        (known.collect(), false),
        (vec![item("alone")], true),
        (vec![item("alone")], false),
    ] {
        for answer in store.admit(&payments(), items).await.unwrap() {
            match answer {
                Admission::New(_) => assert!(is_new),
                Admission::Repeat(_) => assert!(!is_new),
                Admission::Conflict
                | Admission::Refused(_)
                | Admission::RefusedBy { .. }
                | Admission::Cancelled
                | Admission::Archived
                | Admission::Erased => {
                    panic!("{answer:?}")
                }
            }
        }
    }
    assert!(store.item(&filled(1)).await.unwrap().is_some());
    guarded(store).await;
}

/// Where it is between noon and midnight, so that the day has many quarters already.
fn zone_late_in_its_day(now: Timestamp) -> String {
    let is_morning = now.as_second() % 86_400 < 43_200;
    if is_morning { "Etc/GMT-12" } else { "UTC" }.to_owned()
}

/// Each debtor and each pair is known already; a batch has many of them.
async fn guarded(store: &PostgresStore) {
    let guard = |rule: &str, limit| Guard {
        rule: rule.to_owned(),
        message: "no".to_owned(),
        limit,
        uncounted: vec!["CANCELLED".to_owned(), "REJECTED".to_owned()],
    };
    let now = store.now().await.unwrap();
    let items = (0..BATCH).map(|n| {
        let mut new = item(&format!("guarded-{n}"));
        new.record.owner = fill::debtor(n);
        let duplicate = Limit::NoDuplicate {
            key: fill::duplicate(n),
            within_secs: 1,
        };
        let total = Limit::DailyTotal {
            zone: zone_late_in_its_day(now),
            most_minor: i64::MAX,
        };
        new.guards = vec![guard("twin", duplicate), guard("total", total)];
        new
    });
    let answers = store.admit(&payments(), items.collect()).await.unwrap();
    let is_new = |a: &Admission| matches!(a, Admission::New(_));
    assert!(answers.iter().all(is_new), "{:?}", answers[0]);
}

/// Items of lane "bank" that are DISPATCHED after this.
async fn claims(store: &PostgresStore) -> Vec<Item> {
    let due = store.lanes_due(&payments(), HOUR, HOUR).await.unwrap();
    assert!(due.lanes.contains(&bank()), "{due:?}");
    let wish = Claim {
        limit: BATCH,
        ..claim()
    };
    let claimed = store.claim(wish.clone()).await.unwrap();
    assert_eq!(claimed.len(), BATCH as usize);
    let lost = Claim {
        batch: BatchId::new("BATCH-2"),
        ..wish.clone()
    };
    store.claim(lost.clone()).await.unwrap();
    let released = store.release(&payments(), &bank(), &lost.batch).await;
    assert_eq!(released.unwrap(), u64::from(BATCH));
    // Without credit: only then is what is under way counted.
    let no_more = Claim {
        credit_horizon: Duration::ZERO,
        ..lost
    };
    assert_eq!(store.claim(no_more).await.unwrap(), []);
    let starts = claimed.iter().enumerate().map(|(n, c)| start(n, c));
    let (kind, batch) = (payments(), BatchId::new("BATCH-1"));
    let moved = store
        .record_starts(&kind, &batch, starts.collect(), 5)
        .await;
    assert_eq!(moved.unwrap(), u64::from(BATCH));
    let started = claimed.iter().skip(FAILED);
    started.map(|c| Item::new(&payments(), &c.id)).collect()
}

/// So many of a batch are not started.
const FAILED: usize = 200;

fn start(n: usize, claimed: &Claimed) -> StartRecord {
    StartRecord {
        id: claimed.id.clone(),
        fence: claimed.fence,
        flow: FlowId::new(format!("exec-{}", claimed.id)),
        started: if n < FAILED {
            Started::Failed("no".into())
        } else {
            Started::New
        },
    }
}

async fn ends(store: &PostgresStore) {
    let mut running = RUNNING.map(filled);
    let (one, other) = (running.next().unwrap(), running.next().unwrap());
    assert!(store.put_back(&one, 1, HOUR, "closed").await.unwrap());
    for _ in 0..2 {
        let status = StatusMove::new(&["SCHEDULED"], "PROCESSING");
        assert!(store.finish(&other, 1, status).await.unwrap());
    }
    let orphaned = store.orphaned(&payments(), HOUR, BATCH).await.unwrap();
    assert_eq!(orphaned.len(), BATCH as usize);
    let runs = orphaned.iter().map(|it| (it.id.clone(), it.run)).collect();
    let todo = store.to_execute(&payments(), runs).await.unwrap();
    assert_eq!(todo.len(), BATCH as usize);
    let (lost, run) = (Item::new(&payments(), &orphaned[0].id), orphaned[0].run);
    let restarted = store.restart_orphaned(&lost, run, "lost", HOUR, 5).await;
    assert!(restarted.unwrap());
}

async fn attempts(store: &PostgresStore, dispatched: &[Item]) {
    let finished = store
        .take_over(
            &filled(1),
            1,
            TOLERANCE,
            &StatusMove::new(&["NONE"], "IN_DOUBT"),
        )
        .await
        .unwrap();
    assert_eq!(finished.past.len(), 2);
    let left_open = filled(*RUNNING.start() + 3);
    assert_eq!(
        store
            .take_over(
                &left_open,
                1,
                TOLERANCE,
                &StatusMove::new(&["NONE"], "IN_DOUBT")
            )
            .await
            .unwrap()
            .past
            .len(),
        1
    );
    let asking = &dispatched[..100];
    let opened = turns(store, asking.iter().map(|item| (item, None)).collect()).await;
    let missed = asking.iter().zip(opened.into_iter().map(Some));
    let opened = turns(store, missed.collect()).await;
    let quiet = Some((LaneName::new("lane-1"), HOUR));
    let requeue = Then::Requeue {
        after: HOUR,
        why: "no".into(),
    };
    let ways = [
        (Outcome::Done("yes".into()), Then::Finish, None),
        (Outcome::retry("no"), requeue, quiet),
        (Outcome::Refused("no".into()), Then::Stay, None),
    ];
    for ((item, attempt), (outcome, then, close_lane)) in asking.iter().zip(opened).zip(ways) {
        let settlement = Settlement {
            attempt,
            item: item.clone(),
            run: 1,
            outcome,
            record: Some(StatusMove::new(&["SCHEDULED"], "PROCESSING")),
            then,
            disproves: false,
            close_lane,
            accounts: vec![],
        };
        // The second time as if its answer had been lost.
        assert!(store.settle(settlement.clone()).await.unwrap());
        assert!(store.settle(settlement).await.unwrap());
    }
}

async fn turns(store: &PostgresStore, asking: Vec<(&Item, Option<AttemptId>)>) -> Vec<AttemptId> {
    let attempts = asking.into_iter().map(|(item, missed)| NewTurn {
        item: item.clone(),
        run: 1,
        kind: AttemptKind::Send,
        key: "key".into(),
        planned: Timestamp::UNIX_EPOCH,
        seen: None,
        missed,
        may_be_late: false,
    });
    let wanted = TurnsWanted {
        watch: None,
        lane: bank(),
        lead: TOLERANCE,
        attempts: attempts.collect(),
    };
    let block = store.take_turns(wanted).await.unwrap();
    let given = block.turns.into_iter().map(|turn| match turn {
        Turn::At { attempt, .. } => attempt,
        other => panic!("{other:?}"),
    });
    given.collect()
}

async fn flows(store: &PostgresStore) {
    let flow = |id: String, is_child| NewFlow {
        id: FlowId::new(id),
        name: "sample".into(),
        input_json: "{}".into(),
        delay: Duration::ZERO,
        is_child,
    };
    let new = (0..BATCH).map(|n| flow(format!("new-{n}"), n % 2 == 0));
    let known = (1..BATCH).map(|n| flow(fill::flow(n), false));
    let started = store.start_flows(new.chain(known).collect()).await.unwrap();
    assert_eq!(started.iter().filter(|new| **new).count(), BATCH as usize);
    let epoch = Epoch(0);
    // A caller that hangs up: its answer counts as lost.
    assert!(
        store
            .due_flows(epoch, FLOWS_AT_ONCE)
            .now_or_never()
            .is_none()
    );
    let due = store.due_flows(epoch, FLOWS_AT_ONCE).await.unwrap().flows;
    assert!(due.len() >= FLOWS_AT_ONCE as usize, "{}", due.len());
    let again = FlowEnd::Again {
        input_json: "{}".into(),
    };
    let ends = [
        FlowEnd::Done("{}".into()),
        FlowEnd::Failed("no".into()),
        again,
    ];
    for (flow, end) in due.iter().zip(ends) {
        let entry = JournalEntry {
            key: "step".into(),
            result_json: "{}".into(),
        };
        store.journal(epoch, &flow.id, entry).await.unwrap();
        let progress = store.flow_progress(epoch, &flow.id, "{}".into());
        progress.await.unwrap();
        store.end_flow(epoch, &flow.id, end).await.unwrap();
        store.flow(&flow.id).await.unwrap();
    }
}

async fn sessions(store: &PostgresStore) {
    let session = NewSession {
        secret_sha256: "secret".into(),
        token_sha256: "token".into(),
        lasts: HOUR.try_into().unwrap(),
    };
    store.begin_session(session).await.unwrap();
    assert!(store.session("secret").await.unwrap().is_some());
    store.end_session("secret").await.unwrap();
    let some: Vec<Item> = (1..=BATCH).map(filled).collect();
    let documents = store.bodies(&some).await.unwrap();
    assert!(documents.iter().all(Option::is_some));
}
