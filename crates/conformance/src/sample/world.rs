//! What the sample's steps act on: it counts every call, and keeps each effect once.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::sync::watch;
use tollgate_core::id::FlowId;

/// Effects are idempotent by name, as a downstream with an idempotency key is; calls are not.
#[derive(Debug)]
pub struct World {
    calls: Mutex<BTreeMap<String, u32>>,
    effects: Mutex<BTreeMap<String, i64>>,
    held: watch::Sender<bool>,
}

impl Default for World {
    fn default() -> Self {
        Self {
            calls: Mutex::default(),
            effects: Mutex::default(),
            held: watch::Sender::new(false),
        }
    }
}

impl World {
    /// Makes `Wait` steps wait until [`World::release`], or until the guard is dropped: a worker
    /// could not be stopped while a failed test still holds its step.
    #[must_use]
    pub fn hold(&self) -> Held<'_> {
        self.held.send_replace(true);
        Held(self)
    }

    pub fn release(&self) {
        self.held.send_replace(false);
    }

    /// How often each named piece of work of a flow was done; a child's count on their own.
    pub fn calls(&self, flow: &FlowId) -> BTreeMap<String, u32> {
        of_flow(&self.calls.lock().unwrap(), flow)
    }

    /// Effects of a flow by `round/name`.
    pub fn effects(&self, flow: &FlowId) -> BTreeMap<String, i64> {
        of_flow(&self.effects.lock().unwrap(), flow)
    }

    pub(super) fn add(&self, flow: &FlowId, round: i64, name: &str, amount: i64) -> i64 {
        let name = format!("{round}/{name}");
        self.count(flow, &name);
        let mut effects = self.effects.lock().unwrap();
        *effects.entry(format!("{flow} {name}")).or_insert(amount)
    }

    pub(super) fn count(&self, flow: &FlowId, name: &str) {
        let mut calls = self.calls.lock().unwrap();
        *calls.entry(format!("{flow} {name}")).or_default() += 1;
    }

    pub(super) async fn let_go(&self) {
        let mut held = self.held.subscribe();
        // The sender lives in `self`, so it cannot be gone.
        let _ = held.wait_for(|held| !held).await;
    }
}

#[derive(Debug)]
pub struct Held<'a>(&'a World);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

fn of_flow<T: Copy>(all: &BTreeMap<String, T>, flow: &FlowId) -> BTreeMap<String, T> {
    let prefix = format!("{flow} ");
    all.iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?.to_owned(), *value)))
        .collect()
}
