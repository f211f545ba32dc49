//! Starting a check and asking for it, with an engine that does as it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tempfile::TempDir;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    CheckEnd, Engine, FlowView, PartList, Start, Started, StatusChecks, Unreachable,
};
use tollgate_domains::status_checks::{
    PaymentStatusCheckWorkflow, ReportStatus, StartError, StatusCheckService, TASK_QUEUE,
    WorkflowConfig,
};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use crate::RUNTIME;

struct Puppet {
    started: Mutex<Vec<Start>>,
    says: Result<Started, Unreachable>,
    view: Mutex<FlowView>,
}

#[async_trait]
impl Engine for Puppet {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        self.started.lock().unwrap().extend(flows);
        self.says.clone().map(|started| vec![started])
    }
    async fn view(&self, _: &FlowId, _: Duration) -> Result<FlowView, Unreachable> {
        Ok(self.view.lock().unwrap().clone())
    }
}

struct Scene {
    service: StatusCheckService,
    store: Arc<SqliteStore>,
    engine: Arc<Puppet>,
    _folder: TempDir,
}

fn scene(says: Result<Started, Unreachable>) -> Scene {
    let _inside = RUNTIME.enter();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::at(folder.path().join("t.db"))).unwrap();
    let store = Arc::new(store);
    let running = FlowView::Running {
        progress_json: None,
    };
    let engine = Arc::new(Puppet {
        started: Mutex::default(),
        says,
        view: Mutex::new(running),
    });
    let service = StatusCheckService {
        store: store.clone(),
        engine: engine.clone(),
        config: WorkflowConfig::default(),
    };
    Scene {
        service,
        store,
        engine,
        _folder: folder,
    }
}

fn id() -> FlowId {
    FlowId::new("payment-check-1")
}

fn three() -> Vec<String> {
    ["a", "b", "a"].map(str::to_owned).to_vec()
}

impl Scene {
    fn start(&self) -> Result<(), StartError> {
        RUNTIME.block_on(self.service.start(&id(), three()))
    }
    fn status(&self) -> ReportStatus {
        let report = RUNTIME.block_on(self.service.report(&id()));
        report.unwrap().unwrap().status
    }
    fn failed(&self) -> String {
        match self.status() {
            ReportStatus::Failed(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_rows_come_first_and_the_flow_carries_no_payments() {
    let scene = scene(Ok(Started::New));
    assert_eq!(scene.start(), Ok(()));
    let started = scene.engine.started.lock().unwrap();
    assert_eq!(started.len(), 1);
    assert_eq!(
        (&started[0].id, started[0].task_queue.as_str()),
        (&id(), TASK_QUEUE)
    );
    let name = <PaymentStatusCheckWorkflow as tollgate_core::flow::Flow>::NAME;
    assert_eq!(started[0].name, name);
    assert!(!started[0].input_json.contains("\"a\""), "{:?}", started[0]);
    let parts = RUNTIME.block_on(scene.store.parts(&id(), PartList::Lookups, 0, 9));
    assert_eq!(parts.unwrap()[0].body_json, r#"["a","b"]"#, "each once");
    assert_eq!(scene.status(), ReportStatus::Running);
}

#[test]
fn the_same_id_started_twice_fails_and_changes_nothing() {
    let scene = scene(Ok(Started::New));
    assert_eq!(scene.start(), Ok(()));
    assert_eq!(scene.start(), Err(StartError::Known));
    assert_eq!(scene.engine.started.lock().unwrap().len(), 1);
    assert_eq!(scene.status(), ReportStatus::Running, "the first goes on");
    let unknown = RUNTIME.block_on(scene.service.report(&FlowId::new("other")));
    assert_eq!(unknown.unwrap(), None);
}

#[test]
fn a_check_whose_flow_did_not_start_does_not_seem_to_run() {
    let away = Unreachable("away".into());
    let table = [
        (
            Err(away.clone()),
            StartError::Unavailable(away.to_string()),
            away.to_string(),
        ),
        (
            Ok(Started::Failed("no such flow".into())),
            StartError::Failed("no such flow".into()),
            "no such flow".to_owned(),
        ),
        (
            Ok(Started::Already),
            StartError::Known,
            "the id was given before".to_owned(),
        ),
    ];
    for (says, error, why) in table {
        let scene = scene(says);
        assert_eq!(scene.start(), Err(error));
        assert_eq!(scene.failed(), format!("it could not be started: {why}"));
    }
}

#[test]
fn a_flow_that_ended_without_a_word_is_told_as_failed() {
    let scene = scene(Ok(Started::New));
    scene.start().unwrap();
    let ended = |view: FlowView| *scene.engine.view.lock().unwrap() = view;
    ended(FlowView::Failed {
        error: "terminated".into(),
    });
    assert_eq!(scene.failed(), "terminated");
    ended(FlowView::NotFound);
    assert!(scene.failed().contains("no longer exists"));
    // The rows know better than an engine that has forgotten.
    let result_json = r#"{"successful":{},"failed":{},"gatewayLookupFailed":["a"]}"#.to_owned();
    let end = CheckEnd::Completed { result_json };
    RUNTIME.block_on(scene.store.end_check(&id(), end)).unwrap();
    assert!(matches!(scene.status(), ReportStatus::Completed(_)));
}
