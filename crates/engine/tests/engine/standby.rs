//! A process that does not run flows: it writes them, and waits for their ends as if it did.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tollgate_core::flow::Flow;
use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::leadership::{ProcessId, Seen};
use tollgate_core::ports::{
    Call, Engine, FlowView, Flows, Leadership, Nodes, Showing, Started, StoreResult, Term,
};
use tollgate_engine::{Handle, Options, Standby, Switch};

use crate::bench::{Bench, PATIENCE, done, engine_on, start_of};
use crate::flows::{Countdown, Script, Sequence, work};
use crate::memory::Memory;

/// Calls reach the engine that leads; nothing else of leadership matters here.
struct Others {
    memory: Arc<Memory>,
    leader: Mutex<Handle>,
}

#[async_trait]
impl Leadership for Others {
    fn process(&self) -> ProcessId {
        ProcessId(1)
    }

    async fn look(&self) -> StoreResult<Nodes> {
        let seen = Seen {
            epoch: Epoch(1),
            beat: 0,
            leader: None,
        };
        Ok(Nodes {
            seen,
            settings: String::new(),
            processes: vec![],
        })
    }

    async fn show(&self, _: &Showing) -> StoreResult<()> {
        Ok(())
    }

    async fn leave(&self) -> StoreResult<()> {
        Ok(())
    }

    async fn forget(&self, _: Vec<(ProcessId, i64)>) -> StoreResult<()> {
        Ok(())
    }

    async fn lead(&self, _: Option<Seen>, _: &str) -> StoreResult<Option<Term>> {
        Ok(None)
    }

    async fn beat(&self, _: Epoch) -> StoreResult<()> {
        Ok(())
    }

    async fn resign(&self, _: Epoch) -> StoreResult<()> {
        Ok(())
    }

    async fn call(&self, call: Call) -> StoreResult<()> {
        assert_eq!(call, Call::Flows);
        self.leader.lock().expect("no test panics with it").wake();
        Ok(())
    }

    async fn called(&self) -> Call {
        std::future::pending().await
    }

    async fn ended_flows(&self, ids: Vec<FlowId>) -> StoreResult<Vec<(FlowId, FlowView)>> {
        let mut ended = vec![];
        for id in ids {
            let view = self.memory.flow(&id).await?;
            if matches!(view, FlowView::Done { .. } | FlowView::Failed { .. }) {
                ended.push((id, view));
            }
        }
        Ok(ended)
    }
}

fn standby(bench: &Bench) -> (Standby, Arc<Others>, watch::Sender<bool>) {
    let others = Arc::new(Others {
        memory: Arc::clone(&bench.memory),
        leader: Mutex::new(bench.handle.clone()),
    });
    let (stop, stopped) = watch::channel(false);
    let standby = Standby::new(Arc::clone(&bench.memory) as _, Arc::clone(&others) as _);
    tokio::spawn(standby.clone().run(stopped));
    (standby, others, stop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flows_of_a_standby_are_run_by_the_leader_and_their_ends_are_told() {
    // A leader that would not look by itself before the test is over: the call alone wakes it.
    let options = Options {
        longest_poll: 10 * PATIENCE,
        ..Options::default()
    };
    let bench = Bench::with(options).await;
    let (standby, _others, _stop) = standby(&bench);
    for number in 0..20_u32 {
        let id = format!("f{number}");
        let start = start_of(&id, Countdown::NAME, &number, Duration::ZERO);
        let started = standby.start(vec![start.clone()]).await.unwrap();
        assert_eq!(started, [Started::New]);
        let end = standby.view(&FlowId::new(&id), PATIENCE).await.unwrap();
        assert!(matches!(end, FlowView::Done { .. }), "{end:?}");
        let again = standby.start(vec![start]).await.unwrap();
        assert_eq!(again, [Started::Already]);
    }
    let none = standby.view(&FlowId::new("none"), PATIENCE).await.unwrap();
    assert_eq!(none, FlowView::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_flow_while_its_leader_hands_over_is_told_by_the_next() {
    let bench = Bench::new().await;
    let (standby, others, _stop) = standby(&bench);
    let switch = Switch::new(Some(standby));
    switch.set(Some(bench.handle.clone()));
    let works = vec![work("a", Script::WaitAtGate)];
    let start = start_of("f", Sequence::NAME, &works, Duration::ZERO);
    switch.start(vec![start]).await.unwrap();
    bench.world.at_the_gate(1).await;
    let waiting = {
        let switch = switch.clone();
        tokio::spawn(async move { switch.view(&FlowId::new("f"), PATIENCE).await })
    };
    bench.engine.stop();
    switch.set(None);
    let next = engine_on(&bench.memory, &bench.world, Options::default()).await;
    *others.leader.lock().unwrap() = next.handle();
    bench.world.at_the_gate(1).await;
    bench.world.gate.add_permits(2);
    assert_eq!(waiting.await.unwrap().unwrap(), done(&["a#1"]));
}
