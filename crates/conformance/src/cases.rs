//! The promises of the `Engine` port, as cases that know no engine. Each adapter's test starts
//! the engine with [`crate::sample`] registered, and hands it over.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Engine, FlowView, Memo, Start, Started};

use crate::sample::{
    FAILED, SampleFlow, SampleIn, SampleOut, SampleProgress, SampleTwins, World, child_id, effects,
    outcome,
};

/// More than any case needs on a busy machine.
const LONG: Duration = Duration::from_mins(1);

/// Runs all cases. `run` makes the flow ids of this run its own.
pub async fn cases(engine: &dyn Engine, world: &World, task_queue: &str, run: &str) {
    let stage = Stage {
        engine,
        world,
        task_queue,
        run,
    };
    stage.an_id_never_started_is_not_found().await;
    stage
        .every_effect_happens_once_and_starting_again_changes_nothing()
        .await;
    stage.a_child_that_runs_is_joined().await;
    stage.a_failed_flow_shows_its_error().await;
    stage.a_start_delay_is_honoured().await;
}

struct Stage<'a> {
    engine: &'a dyn Engine,
    world: &'a World,
    task_queue: &'a str,
    run: &'a str,
}

impl Stage<'_> {
    async fn an_id_never_started_is_not_found(&self) {
        let view = self.view(&self.id("never"), Duration::ZERO).await;
        assert_eq!(view, FlowView::NotFound);
    }

    async fn every_effect_happens_once_and_starting_again_changes_nothing(&self) {
        let rounds = 3;
        let id = self.id("rounds");
        let start = || self.start(&id, SampleIn::rounds(rounds), Duration::ZERO);

        let held = self.world.hold();
        assert_eq!(start().await, Started::New);
        assert_eq!(start().await, Started::Already, "while it runs");
        self.wait_for_progress(&id, &SampleProgress::waiting())
            .await;
        drop(held);
        assert_eq!(self.result::<SampleOut>(&id).await, outcome(rounds));
        self.assert_effects_once(&id, rounds);

        assert_eq!(start().await, Started::Already, "after its end");
        assert_eq!(self.result::<SampleOut>(&id).await, outcome(rounds));
        self.assert_effects_once(&id, rounds);
    }

    async fn a_child_that_runs_is_joined(&self) {
        let id = self.id("twins");
        let held = self.world.hold();
        let twins = self.flow::<SampleTwins>(&id, SampleIn::rounds(1), Duration::ZERO);
        assert_eq!(twins.await, Started::New);
        self.wait_for_progress(&child_id(&id), &SampleProgress::waiting())
            .await;
        drop(held);
        let both: Vec<SampleOut> = self.result(&id).await;
        assert_eq!(both, [outcome(1), outcome(1)]);
        self.assert_effects_once(&child_id(&id), 1);
    }

    async fn a_failed_flow_shows_its_error(&self) {
        let id = self.id("failing");
        let started = self.start(&id, SampleIn::failing(), Duration::ZERO).await;
        assert_eq!(started, Started::New);
        let failed = FlowView::Failed {
            error: FAILED.into(),
        };
        assert_eq!(self.view(&id, LONG).await, failed);
        let again = self.start(&id, SampleIn::rounds(1), Duration::ZERO).await;
        assert_eq!(again, Started::Already);
        assert_eq!(self.view(&id, Duration::ZERO).await, failed);
    }

    async fn a_start_delay_is_honoured(&self) {
        let id = self.id("delayed");
        let delay = Duration::from_secs(2);
        let begun = Instant::now();
        let started = self.start(&id, SampleIn::rounds(1), delay).await;
        assert_eq!(started, Started::New);
        let again = self.start(&id, SampleIn::rounds(1), delay).await;
        assert_eq!(again, Started::Already, "while it waits for its time");
        let waiting = FlowView::Running {
            progress_json: None,
        };
        assert_eq!(self.view(&id, delay / 4).await, waiting);
        assert_eq!(self.world.calls(&id), BTreeMap::new());

        assert_eq!(self.result::<SampleOut>(&id).await, outcome(1));
        let took = begun.elapsed();
        assert!(took >= delay, "it ended after {took:?} already");
    }

    fn id(&self, name: &str) -> FlowId {
        FlowId::new(format!("sample-{}-{name}", self.run))
    }

    async fn start(&self, id: &FlowId, input: SampleIn, delay: Duration) -> Started {
        self.flow::<SampleFlow>(id, input, delay).await
    }

    async fn flow<F: Flow>(&self, id: &FlowId, input: F::In, delay: Duration) -> Started {
        let start = Start {
            id: id.clone(),
            name: F::NAME.into(),
            task_queue: self.task_queue.into(),
            input_json: serde_json::to_string(&input).unwrap(),
            delay,
            memo: Memo::new(),
        };
        let mut started = self.engine.start(vec![start]).await.unwrap();
        assert_eq!(started.len(), 1);
        started.remove(0)
    }

    async fn view(&self, id: &FlowId, wait: Duration) -> FlowView {
        self.engine.view(id, wait).await.unwrap()
    }

    async fn result<T: DeserializeOwned>(&self, id: &FlowId) -> T {
        match self.view(id, LONG).await {
            FlowView::Done { result_json } => serde_json::from_str(&result_json).unwrap(),
            other => panic!("{id} is not done: {other:?}"),
        }
    }

    /// A child may not be known yet; a flow that is held must not have ended.
    async fn wait_for_progress(&self, id: &FlowId, wanted: &SampleProgress) {
        let wanted = serde_json::to_value(wanted).unwrap();
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        let begun = Instant::now();
        while begun.elapsed() < LONG {
            pace.tick().await;
            let shown = match self.view(id, Duration::ZERO).await {
                FlowView::NotFound => None,
                FlowView::Running { progress_json } => progress_json,
                ended @ (FlowView::Done { .. } | FlowView::Failed { .. }) => {
                    panic!("{id} is held, but {ended:?}")
                }
            };
            let shown = shown.map(|shown| serde_json::from_str(&shown).unwrap());
            if shown.as_ref() == Some(&wanted) {
                return;
            }
        }
        panic!("{id} never showed {wanted}");
    }

    /// The world knows each effect, and no call came twice.
    fn assert_effects_once(&self, id: &FlowId, rounds: i64) {
        let (parent, child) = effects(rounds);
        let refusals = u32::try_from(rounds).unwrap();
        let mut calls: BTreeMap<_, _> = parent.keys().map(|name| (name.clone(), 1)).collect();
        calls.insert("refuse-for-good".into(), refusals);
        calls.insert("refuse-for-now".into(), refusals);
        assert_eq!(self.world.effects(id), parent);
        assert_eq!(self.world.calls(id), calls);
        assert_eq!(self.world.effects(&child_id(id)), child);
        assert!(
            self.world
                .calls(&child_id(id))
                .values()
                .all(|calls| *calls == 1)
        );
    }
}
