//! Flow rows and the journal of finished steps. Every write checks the node's epoch.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::ports::{
    DueFlow, DueFlows, FlowEnd, FlowView, Flows, JournalEntry, NewFlow, StoreResult,
};

use super::SqliteStore;
use crate::node;
use crate::sqlite::connection::error::Failed;
use crate::urgency::Urgency;
use crate::value::{micros, until};

#[async_trait]
impl Flows for SqliteStore {
    async fn take_node(&self) -> StoreResult<Epoch> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| {
            // Due at once, also if the clock was set back meanwhile.
            c.execute(
                "UPDATE flow SET state = 'PENDING', due_at = min(due_at, ?1) WHERE state = 'LIVE'",
                [clock.now_us()],
            )?;
            c.execute(
                "UPDATE item_queue SET queue_status = 'READY', run = run + 1, claimed_at = NULL
                 WHERE queue_status = 'CLAIMED'",
                [],
            )?;
            c.query_row(
                "UPDATE node SET epoch = epoch + 1 RETURNING epoch",
                [],
                |row| row.get(0),
            )
        };
        let epoch = Epoch(self.writer.write(Urgency::Urgent, write).await?);
        self.node.took_over(epoch);
        Ok(epoch)
    }

    async fn start_flows(&self, flows: Vec<NewFlow>) -> StoreResult<Vec<bool>> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| {
            let now = clock.now_us();
            let mut insert = c.prepare_cached(
                "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input)
                 VALUES (?1, ?2, 'PENDING', ?3, ?4, ?5, ?6) ON CONFLICT (flow_id) DO NOTHING",
            )?;
            flows
                .iter()
                .map(|flow| {
                    let due_at = now + micros(flow.delay);
                    insert
                        .execute(params![
                            flow.id.as_str(),
                            flow.name,
                            flow.is_child,
                            now,
                            due_at,
                            flow.input_json
                        ])
                        .map(|rows| rows == 1)
                })
                .collect::<rusqlite::Result<Vec<bool>>>()
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn due_flows(&self, epoch: Epoch, limit: u32) -> StoreResult<DueFlows> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| -> Result<DueFlows, Failed> {
            check_epoch(c, epoch)?;
            Ok(due_flows(c, limit, clock.now_us())?)
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn journal(&self, epoch: Epoch, flow: &FlowId, entry: JournalEntry) -> StoreResult<()> {
        let flow = flow.clone();
        let write = move |c: &Connection| -> Result<(), Failed> {
            check_epoch(c, epoch)?;
            c.prepare_cached(
                "INSERT INTO journal (flow_id, key, result) VALUES (?1, ?2, ?3)
                 ON CONFLICT (flow_id, key) DO NOTHING",
            )?
            .execute(params![flow.as_str(), entry.key, entry.result_json])?;
            Ok(())
        };
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn flow_progress(
        &self,
        epoch: Epoch,
        flow: &FlowId,
        progress: String,
    ) -> StoreResult<()> {
        let flow = flow.clone();
        let write = move |c: &Connection| -> Result<(), Failed> {
            check_epoch(c, epoch)?;
            c.prepare_cached(
                "UPDATE flow SET progress = ?2 WHERE flow_id = ?1 AND state = 'LIVE'",
            )?
            .execute(params![flow.as_str(), progress])?;
            Ok(())
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn end_flow(&self, epoch: Epoch, flow: &FlowId, end: FlowEnd) -> StoreResult<()> {
        let (flow, clock) = (flow.clone(), self.clock.clone());
        let write = move |c: &Connection| -> Result<(), Failed> {
            check_epoch(c, epoch)?;
            Ok(end_flow(c, &flow, &end, clock.now_us())?)
        };
        self.writer.write(Urgency::Urgent, write).await
    }

    async fn flow(&self, id: &FlowId) -> StoreResult<FlowView> {
        let id = id.clone();
        let read = move |c: &Connection| {
            let row: Option<(String, Option<String>, Option<String>)> = c
                .prepare_cached("SELECT state, progress, result FROM flow WHERE flow_id = ?1")?
                .query_row([id.as_str()], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })
                .optional()?;
            Ok(match row {
                None => FlowView::NotFound,
                Some((state, progress_json, result)) => match state.as_str() {
                    "DONE" => FlowView::Done {
                        result_json: result.unwrap_or_default(),
                    },
                    "FAILED" => FlowView::Failed {
                        error: result.unwrap_or_default(),
                    },
                    _ => FlowView::Running { progress_json },
                },
            })
        };
        self.readers.read(read).await
    }
}

fn check_epoch(c: &Connection, epoch: Epoch) -> Result<(), Failed> {
    Ok(node::check(epoch, epoch_in_force(c)?)?)
}

pub(super) fn epoch_in_force(c: &Connection) -> rusqlite::Result<i64> {
    c.prepare_cached("SELECT epoch FROM node")?
        .query_row([], |row| row.get(0))
}

fn due_flows(c: &Connection, limit: u32, now: i64) -> rusqlite::Result<DueFlows> {
    // Children first: parents in memory wait for them.
    let mut due = pending(c, true, limit, now)?;
    let left = limit.saturating_sub(u32::try_from(due.len()).unwrap_or(limit));
    due.extend(pending(c, false, left, now)?);
    let mut go_live = c.prepare_cached("UPDATE flow SET state = 'LIVE' WHERE flow_id = ?1")?;
    let mut journal = c.prepare_cached("SELECT key, result FROM journal WHERE flow_id = ?1")?;
    for flow in &mut due {
        go_live.execute([flow.id.as_str()])?;
        flow.journal = journal
            .query_map([flow.id.as_str()], |row| {
                Ok(JournalEntry {
                    key: row.get(0)?,
                    result_json: row.get(1)?,
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
    }
    let next = [next_due(c, true)?, next_due(c, false)?];
    let next_in = next.into_iter().flatten().min().map(|at| until(now, at));
    Ok(DueFlows {
        flows: due,
        next_in,
    })
}

fn pending(c: &Connection, child: bool, limit: u32, now: i64) -> rusqlite::Result<Vec<DueFlow>> {
    c.prepare_cached(
        "SELECT flow_id, name, input, is_child FROM flow
         WHERE state = 'PENDING' AND is_child = ?1 AND due_at <= ?2 ORDER BY due_at LIMIT ?3",
    )?
    .query_map(params![child, now, limit], |row| {
        Ok(DueFlow {
            id: FlowId::new(row.get::<_, String>(0)?),
            name: row.get(1)?,
            input_json: row.get(2)?,
            is_child: row.get(3)?,
            journal: vec![],
        })
    })?
    .collect()
}

fn next_due(c: &Connection, child: bool) -> rusqlite::Result<Option<i64>> {
    c.prepare_cached("SELECT min(due_at) FROM flow WHERE state = 'PENDING' AND is_child = ?1")?
        .query_row([child], |row| row.get(0))
}

fn end_flow(c: &Connection, flow: &FlowId, end: &FlowEnd, now: i64) -> rusqlite::Result<()> {
    c.prepare_cached("DELETE FROM journal WHERE flow_id = ?1")?
        .execute([flow.as_str()])?;
    let (state, result, input) = match end {
        FlowEnd::Done(result) => ("DONE", Some(result.as_str()), ""),
        FlowEnd::Failed(why) => ("FAILED", Some(why.as_str()), ""),
        FlowEnd::Again { input_json } => ("PENDING", None, input_json.as_str()),
    };
    c.prepare_cached(
        "UPDATE flow SET state = ?2, result = ?3, input = ?4, started_at = ?5, due_at = ?5
         WHERE flow_id = ?1",
    )?
    .execute(params![flow.as_str(), state, result, input, now])?;
    Ok(())
}
