//! The port as a flow in memory sees it: steps, children and progress over shared state.

use std::cell::{RefCell, RefMut};
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use serde::Serialize;
use serde_json::Value;
use tollgate_core::flow::{Ctx, End, Flow, FlowError, Step, StepError};
use tollgate_core::id::FlowId;

use super::flows::{Life, Row, State, Stop, copy, json, parse};
use super::{Memory, Plan, Ran, Registered, Work};

#[derive(Debug, Clone)]
pub struct MemoryCtx {
    pub(super) id: FlowId,
    pub(super) shared: Rc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) registered: Registered,
    pub(super) work: Work,
    state: RefCell<State>,
}

impl Ctx for MemoryCtx {
    fn flow_id(&self) -> &FlowId {
        &self.id
    }

    async fn step<S: Step>(&self, step: S) -> Result<S::Out, StepError> {
        let (key, input) = (step.key(), json(&step));
        let recorded = match self.recall(&key, &input) {
            Some(recorded) => recorded,
            None => {
                // Parallel steps are all asked for before the first of them is run.
                self.yield_once().await;
                match self.perform::<S>(&key, input) {
                    Some(result) => result,
                    None => pending().await,
                }
            }
        };
        recorded.map(parse)
    }

    async fn child<F: Flow>(&self, id: FlowId, input: F::In) -> Result<F::Out, FlowError> {
        let child = Self {
            id,
            shared: self.shared.clone(),
        };
        while child.state().life.running.contains(&child.id) {
            self.yield_once().await;
        }
        child.follow::<F>(copy(&input)).await
    }

    fn progress(&self, progress: &impl Serialize) {
        let progress = json(progress);
        self.row(|row| row.progress = Some(progress));
    }
}

impl MemoryCtx {
    pub(super) fn root(memory: &Memory, id: &FlowId, plan: Option<Plan>) -> Self {
        let state = State {
            plan,
            ..State::default()
        };
        let shared = Shared {
            registered: memory.registered.clone(),
            work: memory.work.clone(),
            state: RefCell::new(state),
        };
        Self {
            id: id.clone(),
            shared: Rc::new(shared),
        }
    }

    /// Runs this flow from its row, made from `input` if there is none, over all its rounds.
    /// Boxed, so that a flow may have children of its own type.
    pub(super) fn follow<F: Flow>(
        self,
        input: F::In,
    ) -> Pin<Box<dyn Future<Output = Result<F::Out, FlowError>>>> {
        Box::pin(async move {
            if !self.shared.registered.flows.contains(F::NAME) {
                return self
                    .broken(format!("flow {} is not registered", F::NAME))
                    .await;
            }
            if let Some(end) = self.open(json(&input)) {
                return end.map(parse);
            }
            loop {
                let input = parse(self.row(|row| row.input.clone()));
                match F::run(self.clone(), input).await {
                    Ok(End::Again(input)) => self.begin_anew(json(&input)),
                    Ok(End::Done(out)) => return self.end(Ok(json(&out))).map(parse),
                    Err(error) => return self.end(Err(error)).map(parse),
                }
            }
        })
    }

    /// Makes the row if there is none, and marks it as running; or returns its end.
    fn open(&self, input: Value) -> Option<Result<Value, FlowError>> {
        let mut state = self.state();
        let id = self.id.clone();
        let row = state.durable.entry(id.clone());
        let end = row.or_insert_with(|| Row::new(input)).end.clone();
        if end.is_none() {
            state.life.running.insert(id);
        }
        end
    }

    fn begin_anew(&self, input: Value) {
        self.state().life.keys.retain(|(id, _)| *id != self.id);
        self.row(|row| {
            row.input = input;
            row.journal.clear();
        });
    }

    fn end(&self, end: Result<Value, FlowError>) -> Result<Value, FlowError> {
        self.state().life.running.remove(&self.id);
        self.row(|row| row.end = Some(end.clone()));
        end
    }

    pub(super) fn into_ran<T>(self, result: Result<T, FlowError>, crashes: u32) -> Ran<T> {
        let state = std::mem::take(&mut *self.state());
        let progress = state.durable.into_iter();
        Ran {
            result,
            calls: state.calls,
            missed: state.plan,
            progress: progress
                .filter_map(|(id, row)| Some((id, row.progress?)))
                .collect(),
            crashes,
        }
    }

    pub(super) fn forget_this_life(&self) {
        self.state().life = Life::default();
    }

    pub(super) fn take_moved(&self) -> bool {
        std::mem::take(&mut self.state().life.moved)
    }

    /// Why this life has ended, if it has; the caller drops all its futures.
    pub(super) fn take_stop(&self) -> Option<Stop> {
        self.state().life.stop.take()
    }

    async fn yield_once(&self) {
        let mut yielded = false;
        poll_fn(|_| {
            if yielded {
                return Poll::Ready(());
            }
            yielded = true;
            self.state().life.moved = true;
            Poll::Pending
        })
        .await;
    }

    async fn broken<T>(&self, why: String) -> T {
        self.stop::<()>(Stop::Broken(why));
        pending().await
    }

    /// Ends this life; the first reason counts.
    pub(super) fn stop<T>(&self, stop: Stop) -> Option<T> {
        self.state().life.stop.get_or_insert(stop);
        None
    }

    pub(super) fn row<T>(&self, use_it: impl FnOnce(&mut Row) -> T) -> T {
        let mut state = self.state();
        let row = state.durable.get_mut(&self.id);
        use_it(row.expect("a flow's row is made before its code runs"))
    }

    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.shared.state.borrow_mut()
    }
}
