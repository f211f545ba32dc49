//! Intake on a real store, with an engine that does what it is told: what was accepted is tried until it is planned,
//! and whoever asks again is told how things stand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::id::{BulkId, FlowId, ItemId, LaneName};
use tollgate_core::ports::{
    Author, ChunkId, Engine, FlowView, LOOK_AFTER, OperatorActions, Queue, Records, Requests,
    Start, Started, Unreachable,
};
use tollgate_domains::payments::{
    self, Accepted, Answer, InitInput, Intake, PaymentRequest, Unrecorded, Verdict,
};
use tollgate_sandbox::BankOptions;

use crate::scene::{RUNTIME, Town, payment};

/// What becomes of a flow.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    /// It cannot be started.
    Unstartable,
    Runs,
    Fails,
    /// The payment is planned by this flow, or by a file's.
    Plans,
    IsLate,
}

struct Scripted {
    town: Arc<Town>,
    fate: Mutex<Fate>,
    started: Mutex<BTreeMap<FlowId, PaymentRequest>>,
}

impl Scripted {
    /// Plans the payment, as the flow of this name does.
    async fn plan(&self, payment: &PaymentRequest, flow: &FlowId) {
        let item = payments::new_item(payment, &LaneName::new("default"), flow).unwrap();
        let kind = payments::item_type();
        let admitted = self.town.store.admit(&kind, vec![item]).await;
        admitted.unwrap();
    }
}

#[async_trait]
impl Engine for Scripted {
    async fn start(&self, flows: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
        if *self.fate.lock().unwrap() == Fate::Unstartable {
            return Err(Unreachable("it is away".to_owned()));
        }
        let mut started = self.started.lock().unwrap();
        let one = |flow: Start| {
            let input: InitInput = serde_json::from_str(&flow.input_json).unwrap();
            match started.insert(flow.id, input.payments[0].clone()) {
                None => Started::New,
                Some(_) => Started::Already,
            }
        };
        Ok(flows.into_iter().map(one).collect())
    }

    async fn view(&self, id: &FlowId, _: Duration) -> Result<FlowView, Unreachable> {
        let Some(payment) = self.started.lock().unwrap().get(id).cloned() else {
            return Ok(FlowView::NotFound);
        };
        let fate = *self.fate.lock().unwrap();
        let by = match fate {
            Fate::Unstartable | Fate::Runs => {
                return Ok(FlowView::Running {
                    progress_json: None,
                });
            }
            Fate::Fails => {
                let error = "the journal cannot be written".to_owned();
                return Ok(FlowView::Failed { error });
            }
            Fate::Plans => id.clone(),
            Fate::IsLate => {
                let bulk = BulkId::new("b");
                ChunkId { bulk, number: 1 }.flow()
            }
        };
        self.plan(&payment, &by).await;
        let item = payments::item(&payment.payment_id);
        let view = self.town.store.item(&item).await.unwrap();
        let answer = Answer {
            content_hash: payment.content_hash(),
            verdict: Verdict::Scheduled {
                placed: view.unwrap().placed(),
                repeat: fate == Fate::IsLate,
            },
        };
        Ok(FlowView::Done {
            result_json: serde_json::to_string(&[answer]).unwrap(),
        })
    }
}

struct Scene {
    town: Arc<Town>,
    engine: Arc<Scripted>,
    intake: Intake,
}

impl Scene {
    fn new(fate: Fate) -> Self {
        let (town, _) = Town::build(BankOptions::default());
        let town = Arc::new(town);
        let engine = Arc::new(Scripted {
            town: Arc::clone(&town),
            fate: Mutex::new(fate),
            started: Mutex::default(),
        });
        let intake = Intake {
            store: town.store.clone(),
            engine: engine.clone(),
        };
        Self {
            town,
            engine,
            intake,
        }
    }

    fn post(&self, id: &str) -> Accepted {
        let accepted = self.intake.accept(payment(id), Duration::from_secs(1));
        RUNTIME.block_on(accepted).unwrap()
    }

    fn becomes(&self, fate: Fate) {
        *self.engine.fate.lock().unwrap() = fate;
    }

    /// One look, after so long.
    fn look_after(&self, pause: Duration) -> u32 {
        self.town.time.advance(pause);
        RUNTIME.block_on(self.intake.retry_due()).unwrap()
    }

    fn flows(&self) -> Vec<String> {
        let started = self.engine.started.lock().unwrap();
        started.keys().map(ToString::to_string).collect()
    }

    fn why(&self, id: &str) -> Option<String> {
        let id = ItemId::new(id);
        let found = self.intake.unrecorded(&id);
        match RUNTIME.block_on(found).unwrap() {
            Some(Unrecorded::Initializing(request)) => request.last_error,
            other => panic!("{other:?}"),
        }
    }
}

fn planned(accepted: Accepted) -> (String, bool) {
    match accepted {
        Accepted::Planned { view, is_new } => (view.status, is_new),
        other => panic!("{other:?}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_payment_that_a_file_has_planned_meanwhile_is_no_new_one() {
    let scene = Scene::new(Fate::IsLate);
    assert_eq!(planned(scene.post("p")), ("SCHEDULED".to_owned(), false));
    scene.becomes(Fate::Plans);
    assert_eq!(planned(scene.post("q")), ("SCHEDULED".to_owned(), true));
}

#[test]
fn the_same_again_is_told_how_the_payment_is_now() {
    let scene = Scene::new(Fate::Plans);
    scene.post("p");
    let item = payments::item(&ItemId::new("p"));
    let author = Author::new("ops", "because");
    let cancel = scene
        .town
        .store
        .cancel(&item, payments::cancelled(), author);
    RUNTIME.block_on(cancel).unwrap();
    assert_eq!(planned(scene.post("p")), ("CANCELLED".to_owned(), false));
    let mut other = payment("p");
    other.reference = Some("another".into());
    let other = scene.intake.accept(other, SECOND);
    assert!(matches!(
        RUNTIME.block_on(other).unwrap(),
        Accepted::Conflict
    ));
}

#[test]
fn what_cannot_be_started_is_accepted_and_started_later() {
    let scene = Scene::new(Fate::Unstartable);
    let accepted = scene.post("p");
    assert!(
        matches!(accepted, Accepted::Initializing { .. }),
        "{accepted:?}"
    );
    assert!(scene.why("p").unwrap().contains("it is away"));
    assert_eq!(scene.look_after(SECOND), 0, "it is away still");
    assert_eq!(scene.look_after(SECOND), 0, "and the pause grows");
    scene.becomes(Fate::Runs);
    assert_eq!(scene.look_after(SECOND), 1);
    assert_eq!(scene.flows(), ["init-payment-p~1.3"]);
    scene.becomes(Fate::Plans);
    assert_eq!(planned(scene.post("p")), ("SCHEDULED".to_owned(), false));
}

#[test]
fn a_try_that_runs_is_left_alone_and_one_that_failed_is_followed_by_another() {
    let scene = Scene::new(Fate::Runs);
    scene.post("p");
    assert_eq!(scene.look_after(LOOK_AFTER + SECOND), 0, "it runs");
    assert_eq!(scene.flows(), ["init-payment-p"]);
    scene.becomes(Fate::Fails);
    assert_eq!(
        scene.look_after(LOOK_AFTER + SECOND),
        0,
        "the failure is noted"
    );
    assert!(
        scene
            .why("p")
            .unwrap()
            .contains("the journal cannot be written")
    );
    assert!(matches!(scene.post("p"), Accepted::Initializing { .. }));
    scene.becomes(Fate::Runs);
    assert_eq!(scene.look_after(SECOND), 1);
    assert_eq!(scene.flows(), ["init-payment-p", "init-payment-p~1.2"]);
}

#[test]
fn a_request_without_a_flow_is_started_as_it_was() {
    let scene = Scene::new(Fate::Runs);
    scene.post("p");
    // As if whoever accepted it had died before the start.
    scene.engine.started.lock().unwrap().clear();
    assert_eq!(scene.look_after(LOOK_AFTER + SECOND), 1);
    assert_eq!(scene.flows(), ["init-payment-p"]);
    let item = payments::item(&ItemId::new("p"));
    let withdrawn = scene
        .town
        .store
        .withdraw(&item, Author::new("ops", "because"));
    RUNTIME.block_on(withdrawn).unwrap();
    assert!(matches!(scene.post("p"), Accepted::Cancelled { .. }));
    assert_eq!(scene.look_after(LOOK_AFTER * 100), 0, "it has ended");
}
