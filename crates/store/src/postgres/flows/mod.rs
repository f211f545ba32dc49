//! Flow rows: taking the node, starting flows and handing them out. What running flows write
//! goes in groups (`writes.rs`). Every write checks the node's epoch. Leader and standbys are here, too.

pub(crate) mod calls;
mod leadership;
pub(crate) mod writes;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::ports::{
    DueFlow, DueFlows, FlowEnd, FlowView, Flows, JournalEntry, NewFlow, StoreError, StoreResult,
};

use super::PostgresStore;
use crate::node;
use crate::postgres::connection::run::{Params, all, execute, lock_name, one, optional};
use crate::urgency::Urgency;
use crate::value::{micros, until};
use writes::{FlowWrite, Write};

#[async_trait]
impl Flows for PostgresStore {
    async fn take_node(&self) -> StoreResult<Epoch> {
        let process = self.process;
        let taken = self
            .runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { leadership::take(tx, process, "", None).await })
            })
            .await?;
        let epoch = taken.ok_or_else(|| StoreError::Bug("node is empty".into()))?;
        self.node.took_over(epoch);
        Ok(epoch)
    }

    async fn start_flows(&self, flows: Vec<NewFlow>) -> StoreResult<Vec<bool>> {
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { start_flows(c, &flows).await })
            })
            .await
    }

    async fn due_flows(&self, epoch: Epoch, limit: u32) -> StoreResult<DueFlows> {
        let handout = self.handouts.begin();
        let lost = self.handouts.lost_before(handout);
        let given = lost.clone();
        let due = self
            .runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { due_flows(tx, epoch, limit, handout, &lost).await })
            })
            .await?;
        self.handouts.arrived(handout, &given);
        Ok(due)
    }

    async fn journal(&self, epoch: Epoch, flow: &FlowId, entry: JournalEntry) -> StoreResult<()> {
        let (flow, write) = (flow.clone(), Write::Journal(entry));
        self.flow_writes
            .write(FlowWrite { epoch, flow, write })
            .await
    }

    async fn flow_progress(
        &self,
        epoch: Epoch,
        flow: &FlowId,
        progress: String,
    ) -> StoreResult<()> {
        let (flow, write) = (flow.clone(), Write::Progress(progress));
        self.flow_writes
            .write(FlowWrite { epoch, flow, write })
            .await
    }

    async fn end_flow(&self, epoch: Epoch, flow: &FlowId, end: FlowEnd) -> StoreResult<()> {
        let (flow, write) = (flow.clone(), Write::End(end));
        self.flow_writes
            .write(FlowWrite { epoch, flow, write })
            .await
    }

    async fn flow(&self, id: &FlowId) -> StoreResult<FlowView> {
        const FLOW: &str = "SELECT state, progress, result FROM flow WHERE flow_id = $1";
        let id = id.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = optional(c, FLOW, &[&id.as_str()]).await?;
                    Ok(row.map_or(FlowView::NotFound, |row| view_from(&row)))
                })
            })
            .await
    }
}

/// What an earlier node had in hand is to be done again.
pub(super) async fn release_all(tx: &Transaction<'_>) -> StoreResult<()> {
    // Due at once, even if the clock was set back meanwhile.
    let pending = "UPDATE flow SET state = 'PENDING', due_at = least(due_at, (SELECT tg_now()))
                   WHERE state = 'LIVE'";
    execute(tx, pending, &[]).await?;
    // Locked one by one in the order of their keys, as everywhere.
    let ready = "WITH claimed AS MATERIALIZED (
                     SELECT item_type, item_id FROM under_way WHERE queue_status = 'CLAIMED'
                     ORDER BY item_type, item_id
                 ), held AS MATERIALIZED (
                     SELECT q.* FROM claimed CROSS JOIN LATERAL (SELECT item_type, item_id FROM item_queue
                          WHERE item_type = claimed.item_type AND item_id = claimed.item_id
                            AND queue_status = 'CLAIMED'
                          LIMIT 1 FOR UPDATE) q
                 )
                 UPDATE item_queue q SET queue_status = 'READY', run = q.run + 1, claimed_at = NULL
                 FROM held WHERE q.item_type = held.item_type AND q.item_id = held.item_id";
    execute(tx, ready, &[]).await.map(drop)
}

/// The epoch in force, which stays in force until this transaction ends.
pub(super) async fn epoch_in_force(tx: &Transaction<'_>) -> StoreResult<i64> {
    Ok(one(tx, "SELECT tg_epoch()", &[]).await?.get(0))
}

async fn start_flows(c: &deadpool_postgres::Client, flows: &[NewFlow]) -> StoreResult<Vec<bool>> {
    const START: &str =
        "INSERT INTO flow (flow_id, name, state, is_child, started_at, due_at, input)
         SELECT n.flow_id, n.name, 'PENDING', n.is_child, now.us, now.us + n.delay, n.input
         FROM unnest($1::text[], $2::text[], $3::boolean[], $4::bigint[], $5::text[])
              AS n (flow_id, name, is_child, delay, input),
              (SELECT tg_now() AS us) AS now
         ON CONFLICT (flow_id) DO NOTHING
         RETURNING flow_id";
    // In the order of their ids, so that two who start the same flows never wait in a circle.
    let mut sorted: Vec<&NewFlow> = flows.iter().collect();
    sorted.sort_by(|a, b| a.id.cmp(&b.id));
    let texts = |of: fn(&NewFlow) -> &str| sorted.iter().map(|f| of(f)).collect::<Vec<_>>();
    let children: Vec<bool> = sorted.iter().map(|f| f.is_child).collect();
    let delays: Vec<i64> = sorted.iter().map(|f| micros(f.delay)).collect();
    let params: Params<'_> = &[
        &texts(|f| f.id.as_str()),
        &texts(|f| &f.name),
        &children,
        &delays,
        &texts(|f| &f.input_json),
    ];
    let rows = all(c, START, params).await?;
    let mut new: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
    Ok(flows
        .iter()
        .map(|flow| new.remove(flow.id.as_str()))
        .collect())
}

/// Handouts go one after the other, so that one whose answer was lost has ended, one way or the
/// other, before the next looks for what it took.
async fn due_flows(
    tx: &Transaction<'_>,
    epoch: Epoch,
    limit: u32,
    handout: i64,
    lost: &[i64],
) -> StoreResult<DueFlows> {
    const DUE: &str = "WITH due AS MATERIALIZED (
             SELECT * FROM (
                 (SELECT flow_id, is_child, due_at FROM flow
                  WHERE state = 'PENDING' AND is_child AND due_at <= (SELECT tg_now())
                  ORDER BY due_at LIMIT $1)
                 UNION ALL
                 (SELECT flow_id, is_child, due_at FROM flow
                  WHERE state = 'PENDING' AND NOT is_child AND due_at <= (SELECT tg_now())
                  ORDER BY due_at LIMIT $1)
             ) both_kinds ORDER BY is_child DESC, due_at LIMIT $1
         ), moved AS (
             UPDATE flow f SET state = 'LIVE', handout = $2 FROM due
             WHERE f.flow_id = due.flow_id
             RETURNING f.flow_id, f.name, f.input, f.is_child, f.due_at
         )
         SELECT flow_id, name, input, is_child FROM moved ORDER BY is_child DESC, due_at";
    const LOST: &str = "UPDATE flow SET handout = $2
         WHERE state = 'LIVE' AND handout = ANY($1)
         RETURNING flow_id, name, input, is_child";
    lock_name(tx, "tollgate/handout").await?;
    node::check(epoch, epoch_in_force(tx).await?)?;
    let mut rows = if lost.is_empty() {
        vec![]
    } else {
        all(tx, LOST, &[&lost, &handout]).await?
    };
    rows.extend(all(tx, DUE, &[&i64::from(limit), &handout]).await?);
    let mut flows: Vec<DueFlow> = rows.iter().map(due_from).collect();
    add_journals(tx, &mut flows).await?;
    // The ends of one index.
    let next = "SELECT least((SELECT due_at FROM flow WHERE state = 'PENDING' AND is_child ORDER BY due_at LIMIT 1),
                    (SELECT due_at FROM flow WHERE state = 'PENDING' AND NOT is_child
                     ORDER BY due_at LIMIT 1)),
                (SELECT tg_now())";
    let row = one(tx, next, &[]).await?;
    let next_in = row.get::<_, Option<i64>>(0).map(|at| until(row.get(1), at));
    Ok(DueFlows { flows, next_in })
}

async fn add_journals(tx: &Transaction<'_>, flows: &mut [DueFlow]) -> StoreResult<()> {
    const JOURNALS: &str = "SELECT flow_id, key, result FROM journal WHERE flow_id = ANY($1)";
    if flows.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = flows.iter().map(|f| f.id.as_str()).collect();
    let mut journals: HashMap<String, Vec<JournalEntry>> = HashMap::new();
    for row in all(tx, JOURNALS, &[&ids]).await? {
        let entry = JournalEntry {
            key: row.get(1),
            result_json: row.get(2),
        };
        journals.entry(row.get(0)).or_default().push(entry);
    }
    for flow in flows {
        flow.journal = journals.remove(flow.id.as_str()).unwrap_or_default();
    }
    Ok(())
}

fn due_from(row: &Row) -> DueFlow {
    DueFlow {
        id: FlowId::new(row.get::<_, String>(0)),
        name: row.get(1),
        input_json: row.get(2),
        is_child: row.get(3),
        journal: vec![],
    }
}

pub(super) fn view_from(row: &Row) -> FlowView {
    let result = row.get::<_, Option<String>>(2).unwrap_or_default();
    match row.get(0) {
        "DONE" => FlowView::Done {
            result_json: result,
        },
        "FAILED" => FlowView::Failed { error: result },
        _ => FlowView::Running {
            progress_json: row.get(1),
        },
    }
}

/// Flows are handed out once per epoch, so an answer that was lost on its way (a connection that
/// broke under the commit, a caller that hung up) must be given again.
#[derive(Debug)]
pub(super) struct Handouts(Mutex<Open>);

#[derive(Debug)]
struct Open {
    last: i64,
    not_arrived: BTreeSet<i64>,
}

/// So many handouts of one process before their numbers meet those of the next.
const HANDOUTS_PER_PROCESS: i64 = 1 << 40;

impl Handouts {
    /// For the process of this number.
    pub(super) fn of(process: i64) -> Self {
        Self(Mutex::new(Open {
            last: process * HANDOUTS_PER_PROCESS,
            not_arrived: BTreeSet::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> i64 {
        let mut open = self.lock();
        open.last += 1;
        let handout = open.last;
        open.not_arrived.insert(handout);
        handout
    }

    fn lost_before(&self, handout: i64) -> Vec<i64> {
        self.lock().not_arrived.range(..handout).copied().collect()
    }

    fn arrived(&self, handout: i64, lost: &[i64]) {
        let mut open = self.lock();
        open.not_arrived.remove(&handout);
        for lost in lost {
            open.not_arrived.remove(lost);
        }
    }
}
