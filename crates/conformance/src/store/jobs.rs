//! `Jobs`: acts on many items. Each item of a job is acted on once, as if a person had done it alone.

use std::collections::BTreeSet;

use futures::future::join_all;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId, JobId};
use tollgate_core::item::QueueStatus;
use tollgate_core::job::{Candidate, JobAct, JobItem, JobMoves, JobPlace, JobState, JobSummary};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    ActionResult, Author, CandidatesBy, CandidatesWanted, Counted, ITEMS_PER_CHUNK, JobResult,
    JobView, NewJob, PageFrom, PageToken, ResultsWanted, Settlement, StatusMove, Then, Worked,
};

use super::fixture::{
    Fixture, HOUR, MINUTE, SECOND, bank, many, ops, payment, payments, plan, settlement,
    there_and_back,
};
use super::operator_actions::{State, bring};

fn moves() -> JobMoves {
    JobMoves {
        cancelled: StatusMove::new(&["SCHEDULED"], "CANCELLED"),
        reopened: StatusMove::new(&["REJECTED"], "SCHEDULED"),
    }
}

/// So many items on the bank's lane that are held, as they were before.
async fn held(f: &dyn Fixture, count: usize) -> Vec<Item> {
    let items = f.dispatched_many(count).await;
    for item in &items {
        assert!(f.store().hold(item, 1).await.unwrap());
    }
    items
}

pub(super) async fn candidates(f: &dyn Fixture, by: CandidatesBy) -> Vec<Candidate> {
    let wanted = CandidatesWanted {
        item_type: payments(),
        by,
        after: None,
        limit: 10_000,
    };
    f.store().candidates(wanted).await.unwrap()
}

pub(super) struct Wish<'a> {
    name: &'a str,
    act: JobAct,
    requested: Option<Timestamp>,
}

pub(super) fn wish(name: &str, act: JobAct) -> Wish<'_> {
    Wish {
        name,
        act,
        requested: None,
    }
}

/// A complete preview of these.
async fn preview(f: &dyn Fixture, wish: Wish<'_>, found: &[Candidate]) -> JobId {
    let (store, id) = (f.store(), JobId::new(wish.name));
    let new = NewJob {
        id: id.clone(),
        item_type: payments(),
        act: wish.act,
        requested: wish.requested,
        filter_json: "{\"held\":true}".into(),
        actor: "ann".into(),
    };
    assert!(store.open_job(new.clone()).await.unwrap());
    assert!(!store.open_job(new).await.unwrap(), "the id is taken");
    let mut summary = JobSummary::default();
    for item in found {
        summary.take(item);
    }
    let items: Vec<JobItem> = found.iter().map(JobItem::from).collect();
    let chunks = items.chunks(ITEMS_PER_CHUNK).map(<[JobItem]>::to_vec);
    store.add_job_items(&id, 0, chunks.collect()).await.unwrap();
    let digest = format!("digest of {id}");
    store.close_preview(&id, &digest, summary).await.unwrap();
    id
}

pub(super) async fn started(f: &dyn Fixture, wish: Wish<'_>, found: &[Candidate]) -> JobId {
    let id = preview(f, wish, found).await;
    let author = Author::new("bob", "the customer called");
    assert!(f.store().start_job(&id, author).await.unwrap());
    id
}

async fn work(f: &dyn Fixture, id: &JobId, limit: u32) -> Worked {
    f.store().work_job(id, limit, moves()).await.unwrap()
}

async fn work_off(f: &dyn Fixture, id: &JobId) -> JobView {
    for _ in 0..1000 {
        match work(f, id, 50).await {
            Worked::Some(_) => {}
            Worked::Ended(_) => return seen(f, id).await,
            Worked::NotRunning => panic!("{id} does not run"),
        }
    }
    panic!("{id} does not end");
}

pub(super) async fn seen(f: &dyn Fixture, id: &JobId) -> JobView {
    f.store().job(id).await.unwrap().unwrap()
}

pub(super) async fn results(f: &dyn Fixture, id: &JobId, only_left_out: bool) -> Vec<JobResult> {
    let (mut all, mut after) = (vec![], None);
    loop {
        let wanted = ResultsWanted {
            job: id.clone(),
            only_left_out,
            after,
            limit: 100,
        };
        let page = f.store().job_results(wanted).await.unwrap();
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

pub(super) async fn audited(f: &dyn Fixture, item: &Item, action: &str) -> usize {
    let entries = f.store().audit(Some(item), 100).await.unwrap();
    entries.iter().filter(|it| it.action == action).count()
}

pub async fn a_job_acts_on_each_of_its_items_once_and_says_what_became_of_each(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let count = ITEMS_PER_CHUNK + 3;
    let items = held(f, count).await;
    let found = candidates(f, CandidatesBy::Held).await;
    assert_eq!(found.len(), count);
    let job = started(f, wish("job-1", JobAct::Cancel), &found).await;
    let mut looked_at = vec![];
    let ended = loop {
        match work(f, &job, 90).await {
            Worked::Some(count) => looked_at.push(count),
            Worked::Ended(count) => break count,
            Worked::NotRunning => panic!("it does not run"),
        }
    };
    assert_eq!((looked_at, ended), (vec![90, 90, 20], 3));
    assert_eq!(work(f, &job, 90).await, Worked::NotRunning);
    let view = seen(f, &job).await;
    assert_eq!(
        (view.state, view.done, view.left_out),
        (JobState::Done, 203, 0)
    );
    assert_eq!(
        (view.actor.as_str(), view.summary.amounts["USD"]),
        ("bob", 20_300)
    );
    assert!(view.ended_at >= view.started_at);
    let results = results(f, &job, false).await;
    let numbers: Vec<u64> = results.iter().map(|it| it.number).collect();
    assert_eq!(numbers, (1..=203).collect::<Vec<u64>>());
    assert!(results.iter().all(|it| it.left_out.is_none()));
    for item in &items {
        let view = f.view(item).await;
        assert_eq!(view.queue_status, QueueStatus::Cancelled, "{item}");
        assert_eq!(view.status, "CANCELLED");
    }
    let entries = f.store().audit(Some(&items[0]), 1).await.unwrap();
    let told = (entries[0].actor.as_str(), entries[0].detail.as_str());
    assert_eq!(told, ("bob", "job-1: the customer called"));
    let entries = f.store().audit(None, 300).await.unwrap();
    let of_job = entries.iter().filter(|it| it.action.starts_with("JOB_"));
    let of_job: Vec<_> = of_job.map(|it| it.detail.as_str()).collect();
    let begun = "job-1: cancel, 203 of type PAYMENT: the customer called";
    assert_eq!(of_job, ["job-1: 203 cancelled, 0 left out", begun]);
}

pub async fn items_that_moved_since_the_preview_are_left_out(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = held(f, 4).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let job = started(f, wish("job-1", JobAct::Cancel), &found).await;
    let store = f.store();
    assert_eq!(
        store.release_held(&items[1], ops()).await.unwrap(),
        ActionResult::Yes
    );
    // Held again: it is where it was, but not the same any more.
    assert_eq!(
        store.release_held(&items[2], ops()).await.unwrap(),
        ActionResult::Yes
    );
    f.damage("UPDATE item_queue SET queue_status = 'HELD' WHERE item_id = 'p00002'")
        .await;
    f.damage("DELETE FROM item_queue WHERE item_id = 'p00003'")
        .await;
    let view = work_off(f, &job).await;
    assert_eq!((view.done, view.left_out), (1, 3));
    let left_out = results(f, &job, true).await;
    let told: Vec<_> = left_out
        .iter()
        .filter_map(|it| it.left_out.as_deref())
        .collect();
    let expected = [
        "changed since the preview: it was HELD and is now READY",
        "changed since the preview: it was in run 2 and is now in run 3",
        "it no longer exists",
    ];
    assert_eq!(told, expected);
    assert_eq!(f.view(&items[1]).await.queue_status, QueueStatus::Ready);
}

pub async fn of_two_jobs_on_the_same_items_the_first_acts(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = held(f, 3).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let first = started(f, wish("job-1", JobAct::Release), &found).await;
    let second = started(f, wish("job-2", JobAct::Cancel), &found).await;
    let (first, second) = (work_off(f, &first).await, work_off(f, &second).await);
    assert_eq!((first.done, first.left_out), (3, 0));
    assert_eq!((second.done, second.left_out), (0, 3));
    for item in &items {
        assert_eq!(f.view(item).await.queue_status, QueueStatus::Ready);
    }
}

pub async fn released_items_wait_for_slots_that_are_free_and_move_nobody_else(f: &dyn Fixture) {
    f.lane(plan(2, 4)).await;
    let items = held(f, 6).await;
    f.advance(MINUTE).await;
    let now = f.now().await;
    let others = f.place(many("later", 5, now)).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let job = started(f, wish("job-1", JobAct::Release), &found).await;
    assert_eq!(work_off(f, &job).await.done, 6);
    let mut slots: Vec<Timestamp> = vec![];
    for item in &items {
        let view = f.view(item).await;
        assert_eq!(
            (view.queue_status, view.run),
            (QueueStatus::Ready, 3),
            "{item}"
        );
        assert_eq!(view.due, view.slot, "it waits for its slot");
        assert_eq!(view.last_error, None);
        slots.push(view.slot);
    }
    for (n, placed) in others.iter().enumerate() {
        let view = f.view(&payment(&format!("later{n:05}"))).await;
        assert_eq!(view.slot, placed.scheduled, "what was told stays true");
        slots.push(view.slot);
    }
    for window in f.windows().await {
        assert!(window.used <= 2, "{window:?}");
    }
    let last = slots.iter().max().unwrap();
    let windows: BTreeSet<i64> = slots.iter().map(|at| at.as_second() / 4).collect();
    assert_eq!(windows.len(), 6, "eleven of them, two in a window: {last}");
}

pub async fn replayed_items_wait_for_slots_as_if_they_had_never_failed(f: &dyn Fixture) {
    let items = [
        bring(f, State::Dead, "a").await,
        bring(f, State::Dead, "b").await,
    ];
    let found = candidates(f, CandidatesBy::Dead).await;
    assert_eq!(found.len(), 2);
    let job = started(f, wish("job-1", JobAct::Replay), &found).await;
    assert_eq!(work_off(f, &job).await.done, 2);
    for item in &items {
        let view = f.view(item).await;
        assert_eq!(
            (view.queue_status, view.retry_count),
            (QueueStatus::Ready, 0)
        );
        assert_eq!((view.due, view.last_error.as_deref()), (view.slot, None));
        assert_eq!(audited(f, item, "REPLAYED").await, 1);
    }
}

pub async fn rescheduled_items_are_due_no_earlier_than_their_time(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let now = f.now().await;
    f.place(many("p", 3, now)).await;
    let found = candidates(f, CandidatesBy::Status("SCHEDULED".into())).await;
    let at = f.next_hour().await;
    let wish = Wish {
        requested: Some(at),
        ..wish("job-1", JobAct::Reschedule)
    };
    let job = started(f, wish, &found).await;
    assert_eq!(work_off(f, &job).await.done, 3);
    for found in found {
        let view = f.view(&Item::new(&payments(), &found.id)).await;
        assert!(view.slot >= at && view.requested == at, "{view:?}");
    }
}

pub async fn reopened_items_were_refused_and_nothing_else(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = f.dispatched(&["a", "b"]).await;
    // By the bank, and by nobody who was asked.
    let turn = f.turns(vec![super::fixture::send(&items[0])]).await;
    let attempt = super::fixture::given(&turn)[0].0;
    let refused = Settlement {
        record: Some(StatusMove::new(&["SCHEDULED"], "REJECTED")),
        then: Then::Finish,
        ..settlement(&items[0], attempt, Outcome::Refused("no".into()))
    };
    assert!(f.settle(refused).await);
    let by_rule = StatusMove::new(&["SCHEDULED"], "REJECTED");
    assert!(f.store().finish(&items[1], 1, by_rule).await.unwrap());
    let found = candidates(f, CandidatesBy::Status("REJECTED".into())).await;
    let job = started(f, wish("job-1", JobAct::Reopen), &found).await;
    let view = work_off(f, &job).await;
    assert_eq!((view.done, view.left_out), (1, 1));
    let left_out = results(f, &job, true).await;
    let why = Some("the bank has not refused it".to_owned());
    assert_eq!(
        (&left_out[0].id, &left_out[0].left_out),
        (&ItemId::new("b"), &why)
    );
    let view = f.view(&items[0]).await;
    assert_eq!(
        (view.queue_status, view.status.as_str()),
        (QueueStatus::Ready, "SCHEDULED")
    );
}

pub async fn workers_at_the_same_time_act_on_each_item_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = held(f, 40).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let job = started(f, wish("job-1", JobAct::Release), &found).await;
    let workers = (0..4).map(|_| async {
        for _ in 0..20 {
            if work(f, &job, 3).await == Worked::NotRunning {
                return;
            }
        }
    });
    join_all(workers).await;
    let view = seen(f, &job).await;
    assert_eq!(
        (view.state, view.done, view.left_out),
        (JobState::Done, 40, 0)
    );
    assert_eq!(results(f, &job, false).await.len(), 40);
    for item in &items {
        assert_eq!(audited(f, item, "RELEASED").await, 1, "{item}");
        assert_eq!(f.view(item).await.run, 3, "{item}");
    }
}

pub async fn a_job_goes_on_after_a_restart_where_it_was(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    held(f, 10).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let job = started(f, wish("job-1", JobAct::Cancel), &found).await;
    assert_eq!(work(f, &job, 4).await, Worked::Some(4));
    f.restart().await;
    let to_do = f.store().job_to_do(JobPlace::Store).await.unwrap().unwrap();
    assert_eq!((to_do.id, to_do.done), (job.clone(), 4));
    assert_eq!(work_off(f, &job).await.done, 10);
    assert_eq!(f.store().job_to_do(JobPlace::Store).await.unwrap(), None);
}

pub async fn a_stopped_job_leaves_the_rest_as_it_is(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let items = held(f, 5).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let job = started(f, wish("job-1", JobAct::Cancel), &found).await;
    assert_eq!(work(f, &job, 2).await, Worked::Some(2));
    let stop = async || f.store().stop_job(&job, ops()).await.unwrap();
    assert!(stop().await);
    assert!(!stop().await, "once");
    assert_eq!(work(f, &job, 2).await, Worked::NotRunning);
    let view = seen(f, &job).await;
    assert_eq!((view.state, view.done), (JobState::Stopped, 2));
    assert_eq!(view.stopped.as_deref(), Some("ops: because"));
    for (n, item) in items.iter().enumerate() {
        let is_cancelled = f.view(item).await.queue_status == QueueStatus::Cancelled;
        assert_eq!(is_cancelled, n < 2, "{item}");
    }
    let again = f.store().start_job(&job, ops()).await.unwrap();
    assert!(!again, "what was stopped is not started again");
}

pub async fn jobs_are_listed_newest_first_and_done_oldest_first(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    held(f, 1).await;
    let found = candidates(f, CandidatesBy::Held).await;
    for name in ["job-1", "job-2", "job-3"] {
        started(f, wish(name, JobAct::Cancel), &found).await;
        f.advance(SECOND).await;
    }
    preview(f, wish("job-4", JobAct::Cancel), &found).await;
    let page = async |from: PageFrom<PageToken>| {
        let page = f.store().jobs(from, 2).await.unwrap();
        page.map(|job| job.id.to_string())
    };
    there_and_back(page, &["job-3", "job-2", "job-1"]).await;
    assert_eq!(f.store().counted(Counted::Jobs, 9).await.unwrap(), 3);
    assert_eq!(f.store().counted(Counted::Jobs, 2).await.unwrap(), 2);
    let to_do = f.store().job_to_do(JobPlace::Store).await.unwrap();
    assert_eq!(to_do.map(|job| job.id), Some(JobId::new("job-1")));
}

pub async fn a_preview_is_nothing_until_it_is_confirmed_and_is_forgotten_when_it_is_old(
    f: &dyn Fixture,
) {
    f.lane(plan(1000, 4)).await;
    held(f, ITEMS_PER_CHUNK + 1).await;
    let found = candidates(f, CandidatesBy::Held).await;
    let job = preview(f, wish("job-1", JobAct::Cancel), &found).await;
    let store = f.store();
    assert_eq!(work(f, &job, 10).await, Worked::NotRunning);
    let view = store
        .job_by_digest("digest of job-1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((view.id, view.state), (job.clone(), JobState::Preview));
    assert_eq!(view.summary.count, found.len() as u64);
    let second = store.previewed_items(&job, 1).await.unwrap();
    assert_eq!(second, [JobItem::from(&found[ITEMS_PER_CHUNK])]);
    assert_eq!(store.forget_previews(HOUR, 1).await.unwrap(), 0, "not yet");
    f.advance(HOUR + MINUTE).await;
    let kept = started(f, wish("job-2", JobAct::Cancel), &found).await;
    while store.forget_previews(HOUR, 1).await.unwrap() > 0 {}
    assert_eq!(store.job(&job).await.unwrap(), None);
    assert_eq!(store.previewed_items(&job, 0).await.unwrap(), []);
    assert!(!store.start_job(&job, ops()).await.unwrap());
    f.advance(2 * HOUR).await;
    assert_eq!(store.forget_previews(HOUR, 1).await.unwrap(), 0);
    assert_eq!(
        seen(f, &kept).await.state,
        JobState::Running,
        "a job is kept"
    );
}

pub async fn candidates_come_page_by_page_from_the_index_that_serves_them(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    held(f, 5).await;
    let now = f.now().await;
    f.place(many("q", 2, now)).await;
    let (mut ids, mut after) = (vec![], None::<ItemId>);
    loop {
        let wanted = CandidatesWanted {
            item_type: payments(),
            by: CandidatesBy::Held,
            after: after.clone(),
            limit: 2,
        };
        let page = f.store().candidates(wanted).await.unwrap();
        after = page.last().map(|item| item.id.clone());
        ids.extend(page.into_iter().map(|item| item.id.to_string()));
        if after.is_none() {
            break;
        }
    }
    assert_eq!(ids, ["p00000", "p00001", "p00002", "p00003", "p00004"]);
    let all = candidates(f, CandidatesBy::Status("SCHEDULED".into())).await;
    assert_eq!(all.len(), 7);
    assert!(candidates(f, CandidatesBy::Dead).await.is_empty());
    let first = &all[0];
    let view = f.view(&payment("p00000")).await;
    assert_eq!((first.money, first.due), (view.money, view.due));
    assert_eq!(first.created_at, view.created_at);
    assert_eq!((first.found.run, &first.found.lane), (view.run, &bank()));
    // As whoever would move it finds it: what may have been done is not cancelled.
    bring(f, State::HeldInDoubt, "doubt").await;
    let held = candidates(f, CandidatesBy::Held).await;
    let may_be_done = held.iter().filter(|it| it.found.may_be_done);
    let may_be_done: Vec<_> = may_be_done.map(|it| it.id.as_str()).collect();
    assert_eq!(may_be_done, ["doubt"]);
}
