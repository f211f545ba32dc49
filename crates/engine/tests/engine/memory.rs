//! The `Flows` port in memory, with the same promises as a real store: epochs are fenced, a flow
//! is handed out once per epoch, the first record of a key stays. Its time can be moved, and it
//! can be made unavailable.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::ports::{
    DueFlow, DueFlows, FlowEnd, FlowView, Flows, JournalEntry, NewFlow, StoreError, StoreResult,
};

pub(crate) struct Memory {
    state: Mutex<State>,
    began: Instant,
    refused_records: Semaphore,
    handed_out: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) is_away: bool,
    /// Whoever writes that a flow goes on hears of it only after the flow was handed out again.
    pub(crate) answers_late: bool,
    /// Every recorded key, in order, also of flows that have ended.
    pub(crate) recorded: Vec<String>,
    pub(crate) progress_writes: Vec<String>,
    /// The most flows that were marked as running at once.
    pub(crate) most_live: usize,
    epoch: i64,
    moved: Duration,
    rows: HashMap<FlowId, Row>,
    live: usize,
    due_children: BTreeSet<Due>,
    due_others: BTreeSet<Due>,
}

type Due = (Duration, FlowId);

struct Row {
    name: String,
    input_json: String,
    is_child: bool,
    is_live: bool,
    progress_json: Option<String>,
    journal: Vec<JournalEntry>,
    end: Option<FlowView>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            began: Instant::now(),
            refused_records: Semaphore::new(0),
            handed_out: Notify::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panics with the lock")
    }

    pub(crate) fn move_time(&self, by: Duration) {
        self.state().moved += by;
    }

    /// Waits until a record came while the store was away.
    pub(crate) async fn a_record_was_refused(&self) {
        let refused = self.refused_records.acquire().await;
        refused.expect("never closed").forget();
    }

    pub(crate) fn journal_of(&self, id: &FlowId) -> Vec<String> {
        let state = self.state();
        state.rows[id]
            .journal
            .iter()
            .map(|entry| entry.key.clone())
            .collect()
    }

    fn now(&self, state: &State) -> Duration {
        self.began.elapsed() + state.moved
    }

    fn open(&self) -> StoreResult<MutexGuard<'_, State>> {
        let state = self.state();
        if state.is_away {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(state)
    }

    fn open_as(&self, epoch: Epoch) -> StoreResult<MutexGuard<'_, State>> {
        let state = self.open()?;
        if epoch.0 != state.epoch {
            return Err(StoreError::Fenced(format!("epoch {} rules", state.epoch)));
        }
        Ok(state)
    }
}

impl Memory {
    /// True when the answer shall be held back until the flow was handed out again.
    fn write_end(&self, epoch: Epoch, flow: &FlowId, end: FlowEnd) -> StoreResult<bool> {
        let mut state = self.open_as(epoch)?;
        let now = self.now(&state);
        state.live -= 1;
        let row = state.row(flow)?;
        row.is_live = false;
        row.journal.clear();
        match end {
            FlowEnd::Done(result_json) => row.end = Some(FlowView::Done { result_json }),
            FlowEnd::Failed(error) => row.end = Some(FlowView::Failed { error }),
            FlowEnd::Again { input_json } => {
                row.input_json = input_json;
                state.make_due(now, flow);
                return Ok(state.answers_late);
            }
        }
        Ok(false)
    }
}

impl State {
    fn make_due(&mut self, at: Duration, id: &FlowId) {
        let due = if self.rows[id].is_child {
            &mut self.due_children
        } else {
            &mut self.due_others
        };
        due.insert((at, id.clone()));
    }

    fn hand_out(&mut self, id: FlowId) -> DueFlow {
        self.live += 1;
        self.most_live = self.most_live.max(self.live);
        let row = self.rows.get_mut(&id).expect("due rows exist");
        row.is_live = true;
        DueFlow {
            id,
            name: row.name.clone(),
            input_json: row.input_json.clone(),
            is_child: row.is_child,
            journal: row.journal.clone(),
        }
    }

    fn row(&mut self, id: &FlowId) -> StoreResult<&mut Row> {
        self.rows
            .get_mut(id)
            .ok_or_else(|| StoreError::Bug(format!("no flow {id}")))
    }
}

#[async_trait]
impl Flows for Memory {
    async fn take_node(&self) -> StoreResult<Epoch> {
        let mut state = self.open()?;
        state.epoch += 1;
        state.live = 0;
        let now = self.now(&state);
        let mut stranded = Vec::new();
        for (id, row) in &mut state.rows {
            if std::mem::take(&mut row.is_live) {
                stranded.push(id.clone());
            }
        }
        for id in stranded {
            state.make_due(now, &id);
        }
        Ok(Epoch(state.epoch))
    }

    async fn start_flows(&self, flows: Vec<NewFlow>) -> StoreResult<Vec<bool>> {
        let mut state = self.open()?;
        let now = self.now(&state);
        let start = |flow: NewFlow| {
            if state.rows.contains_key(&flow.id) {
                return false;
            }
            let row = Row {
                name: flow.name,
                input_json: flow.input_json,
                is_child: flow.is_child,
                is_live: false,
                progress_json: None,
                journal: Vec::new(),
                end: None,
            };
            state.rows.insert(flow.id.clone(), row);
            state.make_due(now + flow.delay, &flow.id);
            true
        };
        Ok(flows.into_iter().map(start).collect())
    }

    async fn due_flows(&self, epoch: Epoch, limit: u32) -> StoreResult<DueFlows> {
        let mut state = self.open_as(epoch)?;
        let now = self.now(&state);
        let mut flows = Vec::new();
        for children in [true, false] {
            loop {
                let due = if children {
                    &mut state.due_children
                } else {
                    &mut state.due_others
                };
                let is_due = due.first().is_some_and(|(at, _)| *at <= now);
                if !is_due || flows.len() >= limit as usize {
                    break;
                }
                let (_, id) = due.pop_first().expect("just looked at");
                flows.push(state.hand_out(id));
            }
        }
        if !flows.is_empty() {
            self.handed_out.notify_waiters();
        }
        let next = [state.due_children.first(), state.due_others.first()];
        let next_at = next.into_iter().flatten().map(|(at, _)| *at).min();
        Ok(DueFlows {
            flows,
            next_in: next_at.map(|at| at.saturating_sub(now)),
        })
    }

    async fn journal(&self, epoch: Epoch, flow: &FlowId, entry: JournalEntry) -> StoreResult<()> {
        let mut state = self
            .open_as(epoch)
            .inspect_err(|_| self.refused_records.add_permits(1))?;
        let row = state.row(flow)?;
        if row.journal.iter().all(|known| known.key != entry.key) {
            row.journal.push(entry.clone());
            state.recorded.push(entry.key);
        }
        Ok(())
    }

    async fn flow_progress(
        &self,
        epoch: Epoch,
        flow: &FlowId,
        progress: String,
    ) -> StoreResult<()> {
        let mut state = self.open_as(epoch)?;
        state.row(flow)?.progress_json = Some(progress.clone());
        state.progress_writes.push(progress);
        Ok(())
    }

    async fn end_flow(&self, epoch: Epoch, flow: &FlowId, end: FlowEnd) -> StoreResult<()> {
        let mut handed_out = pin!(self.handed_out.notified());
        handed_out.as_mut().enable();
        if self.write_end(epoch, flow, end)? {
            handed_out.await;
        }
        Ok(())
    }

    async fn flow(&self, id: &FlowId) -> StoreResult<FlowView> {
        let state = self.open()?;
        let Some(row) = state.rows.get(id) else {
            return Ok(FlowView::NotFound);
        };
        let running = || FlowView::Running {
            progress_json: row.progress_json.clone(),
        };
        Ok(row.end.clone().unwrap_or_else(running))
    }
}
