//! Acts on many items: previews, work, results and what is forgotten.

use std::time::Duration;

use tollgate_core::id::{BulkId, JobId};
use tollgate_core::job::{Candidate, JobAct, JobItem, JobMoves, JobPlace, JobSummary};
use tollgate_core::ports::{
    AskedItem, CandidatesBy, CandidatesWanted, Jobs, NewJob, PageFrom, ResultsWanted, SharedClock,
    StatusMove, Worked,
};
use tollgate_store::postgres::PostgresStore;

use super::fill;
use super::operations::{author, filled};
use crate::trouble::payments;

/// What a preview reads at once.
const PAGE: u32 = 2000;

pub(super) async fn run_all(store: &PostgresStore) {
    let held = candidates(store, CandidatesBy::Held, None).await;
    let dead = candidates(store, CandidatesBy::Dead, None).await;
    let file = CandidatesBy::Import(BulkId::new(fill::bulk(990_500)));
    assert_eq!(candidates(store, file, None).await.len(), PAGE as usize);
    let waiting = CandidatesBy::Status("SCHEDULED".into());
    let waiting = candidates(store, waiting, Some(993_000)).await;
    assert_eq!(waiting.len(), PAGE as usize);
    let ended = CandidatesBy::Status("PROCESSING".into());
    let ended = candidates(store, ended, Some(300_000)).await;
    assert_eq!(ended.len(), PAGE as usize);
    act(store, JobAct::Release, &held[..5]).await;
    act(store, JobAct::Replay, &dead[..5]).await;
    act(store, JobAct::Cancel, &waiting[..5]).await;
    act(store, JobAct::Reschedule, &waiting[5..10]).await;
    let stopped = preview(store, JobAct::Cancel, &waiting[10..]).await;
    assert!(store.start_job(&stopped, author()).await.unwrap());
    assert!(store.stop_job(&stopped, author()).await.unwrap());
    ask(store, &waiting[20..22]).await;
    let newest = store.jobs(PageFrom::Start, 100).await.unwrap();
    let next = store.jobs(newest.next.into(), 100).await.unwrap();
    assert_eq!(next.items.len(), 100);
    let back = PageFrom::Before(next.previous.unwrap());
    assert_eq!(store.jobs(back, 100).await.unwrap().items.len(), 100);
    for only_left_out in [false, true] {
        let wanted = ResultsWanted {
            job: JobId::new("job-500"),
            only_left_out,
            after: Some(100),
            limit: 10,
        };
        let page = store.job_results(wanted).await.unwrap();
        assert_eq!(page.items.len(), 10);
    }
    let hour = Duration::from_hours(1);
    assert_eq!(store.forget_previews(hour, 50).await.unwrap(), 50);
    while store.forget_previews(hour, 5000).await.unwrap() > 0 {}
}

async fn candidates(store: &PostgresStore, by: CandidatesBy, after: Option<u32>) -> Vec<Candidate> {
    let wanted = CandidatesWanted {
        item_type: payments(),
        by,
        after: after.map(|n| filled(n).id),
        limit: PAGE,
    };
    store.candidates(wanted).await.unwrap()
}

async fn preview(store: &PostgresStore, act: JobAct, items: &[Candidate]) -> JobId {
    let id = JobId::new(format!("new-{}-{}", act.as_str(), items.len()));
    let new = NewJob {
        id: id.clone(),
        item_type: payments(),
        act,
        requested: Some(store.now().await.unwrap()),
        filter_json: "{}".into(),
        actor: "ops".into(),
    };
    assert!(store.open_job(new).await.unwrap());
    let mut summary = JobSummary::default();
    for item in items {
        summary.take(item);
    }
    let items: Vec<JobItem> = items.iter().map(JobItem::from).collect();
    let chunks = items.chunks(200).map(<[JobItem]>::to_vec).collect();
    store.add_job_items(&id, 0, chunks).await.unwrap();
    store
        .close_preview(&id, id.as_str(), summary)
        .await
        .unwrap();
    assert!(!store.previewed_items(&id, 0).await.unwrap().is_empty());
    id
}

async fn act(store: &PostgresStore, act: JobAct, items: &[Candidate]) {
    let id = preview(store, act, items).await;
    assert!(store.start_job(&id, author()).await.unwrap());
    assert!(store.job(&id).await.unwrap().is_some());
    assert!(store.job_by_digest(id.as_str()).await.unwrap().is_some());
    let to_do = store.job_to_do(JobPlace::Store).await.unwrap().unwrap();
    assert_eq!(to_do.id, id);
    let moves = JobMoves {
        cancelled: StatusMove::new(&["SCHEDULED"], "CANCELLED"),
        reopened: StatusMove::new(&["REJECTED"], "SCHEDULED"),
    };
    let worked = store.work_job(&id, 10, moves).await.unwrap();
    assert_eq!(worked, Worked::Ended(5));
    let view = store.job(&id).await.unwrap().unwrap();
    assert_eq!((view.done, view.left_out), (5, 0), "{act:?}");
}

async fn ask(store: &PostgresStore, items: &[Candidate]) {
    let id = preview(store, JobAct::Ask, items).await;
    assert!(store.start_job(&id, author()).await.unwrap());
    let to_do = store.job_to_do(JobPlace::Banks).await.unwrap().unwrap();
    assert_eq!(to_do.id, id);
    for (number, item) in store.next_to_ask(&id, 10).await.unwrap() {
        let asked = AskedItem {
            number,
            id: item,
            said: Err("the lane is paused".into()),
        };
        store.note_asked(&id, asked).await.unwrap();
    }
    let view = store.job(&id).await.unwrap().unwrap();
    assert_eq!((view.done, view.left_out), (0, 2));
}
