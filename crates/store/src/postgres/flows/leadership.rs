//! Leader and standbys: the one row that says who leads, the rows of all processes, and calls between
//! them. A beat is a count; how long one is missing is for whoever looks to say, by its own clock.

use std::sync::Arc;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::leadership::{ProcessId, Seen};
use tollgate_core::ports::{
    Call, FlowView, Leadership, NodeLine, Nodes, Showing, StoreError, StoreResult, Term,
};

use super::calls::{CHANNEL, NOTIFY};
use super::{release_all, view_from};
use crate::postgres::PostgresStore;
use crate::postgres::connection::run::{Params, all, execute, lock_name, optional};
use crate::urgency::Urgency;

/// The lock that every write under an epoch shares; a takeover holds it alone.
pub(super) const NODE_LOCK: &str = "tollgate/node";

#[async_trait]
impl Leadership for PostgresStore {
    fn process(&self) -> ProcessId {
        self.process
    }

    async fn look(&self) -> StoreResult<Nodes> {
        self.runner
            .autocommit(Urgency::Urgent, |c| {
                Box::pin(async move {
                    // One row at least: that of the leader.
                    let rows = all(c, LOOK, &[]).await?;
                    nodes_from(&rows)
                })
            })
            .await
    }

    async fn show(&self, as_what: &Showing) -> StoreResult<()> {
        const SHOW: &str =
            "INSERT INTO node_process (process, beat, name, address, version, cannot_lead)
             VALUES ($1, 1, $2, $3, $4, $5)
             ON CONFLICT (process) DO UPDATE SET beat = node_process.beat + 1,
                 name = EXCLUDED.name, address = EXCLUDED.address, version = EXCLUDED.version,
                 cannot_lead = EXCLUDED.cannot_lead";
        let (process, shown) = (self.process, as_what.clone());
        self.runner
            .autocommit(Urgency::Urgent, move |c| {
                Box::pin(async move {
                    let shown: Params<'_> = &[
                        &process.0,
                        &shown.name,
                        &shown.address,
                        &shown.version,
                        &shown.cannot_lead,
                    ];
                    execute(c, SHOW, shown).await.map(drop)
                })
            })
            .await
    }

    async fn leave(&self) -> StoreResult<()> {
        const LEAVE: &str = "DELETE FROM node_process WHERE process = $1";
        let process = self.process;
        self.runner
            .autocommit(Urgency::Urgent, move |c| {
                Box::pin(async move { execute(c, LEAVE, &[&process.0]).await.map(drop) })
            })
            .await
    }

    async fn forget(&self, silent: Vec<(ProcessId, i64)>) -> StoreResult<()> {
        const FORGET: &str = "DELETE FROM node_process p
             USING unnest($1::bigint[], $2::bigint[]) AS s (process, beat)
             WHERE p.process = s.process AND p.beat = s.beat";
        let (ids, beats): (Vec<i64>, Vec<i64>) =
            silent.into_iter().map(|(id, beat)| (id.0, beat)).unzip();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { execute(c, FORGET, &[&ids, &beats]).await.map(drop) })
            })
            .await
    }

    async fn lead(&self, seen: Option<Seen>, settings: &str) -> StoreResult<Option<Term>> {
        let (process, settings) = (self.process, settings.to_owned());
        let epoch = self
            .runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move { take(tx, process, &settings, seen).await })
            })
            .await?;
        Ok(epoch.map(|epoch| {
            let store = self.for_term();
            store.node.took_over(epoch);
            Term {
                epoch,
                store: Arc::new(store),
            }
        }))
    }

    async fn beat(&self, epoch: Epoch) -> StoreResult<()> {
        // Waits for whoever is taking over, and then finds another epoch.
        const BEAT: &str = "UPDATE node SET beat = beat + 1 WHERE epoch = $1";
        let has_beaten = self
            .runner
            .autocommit(Urgency::Urgent, move |c| {
                Box::pin(async move { execute(c, BEAT, &[&epoch.0]).await })
            })
            .await?;
        if has_beaten == 1 {
            return Ok(());
        }
        let why = format!(
            "this node's epoch is {}, the store's is a later one",
            epoch.0
        );
        Err(StoreError::Fenced(why))
    }

    async fn resign(&self, epoch: Epoch) -> StoreResult<()> {
        const RESIGN: &str = "UPDATE node SET epoch = epoch + 1, leader = NULL, beat = 0
             WHERE epoch = $1";
        self.runner
            .in_transaction(Urgency::Urgent, move |tx| {
                Box::pin(async move {
                    lock_name(tx, NODE_LOCK).await?;
                    execute(tx, RESIGN, &[&epoch.0]).await?;
                    let call = Call::Leadership.as_str();
                    execute(tx, NOTIFY, &[&CHANNEL, &call]).await.map(drop)
                })
            })
            .await
    }

    async fn call(&self, call: Call) -> StoreResult<()> {
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let params: Params<'_> = &[&CHANNEL, &call.as_str()];
                    execute(c, NOTIFY, params).await.map(drop)
                })
            })
            .await
    }

    async fn called(&self) -> Call {
        self.calls.next().await
    }

    async fn ended_flows(&self, ids: Vec<FlowId>) -> StoreResult<Vec<(FlowId, FlowView)>> {
        const ENDED: &str = "SELECT state, progress, result, flow_id FROM flow
             WHERE flow_id = ANY($1) AND state IN ('DONE', 'FAILED')";
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let ids: Vec<&str> = ids.iter().map(FlowId::as_str).collect();
                    let rows = all(c, ENDED, &[&ids]).await?;
                    let ended = |row: &Row| (FlowId::new(row.get::<_, String>(3)), view_from(row));
                    Ok(rows.iter().map(ended).collect())
                })
            })
            .await
    }
}

const LOOK: &str = "SELECT n.epoch, n.beat, n.leader, n.settings,
            p.process, p.beat, p.name, p.address, p.version, p.cannot_lead
     FROM node n LEFT JOIN node_process p ON true ORDER BY p.process";

fn nodes_from(rows: &[Row]) -> StoreResult<Nodes> {
    let Some(first) = rows.first() else {
        return Err(StoreError::Bug("node is empty".into()));
    };
    let line = |row: &Row| {
        Some(NodeLine {
            process: ProcessId(row.get::<_, Option<i64>>(4)?),
            beat: row.get(5),
            showing: Showing {
                name: row.get(6),
                address: row.get(7),
                version: row.get(8),
                cannot_lead: row.get(9),
            },
        })
    };
    Ok(Nodes {
        seen: Seen {
            epoch: Epoch(first.get(0)),
            beat: first.get(1),
            leader: first.get::<_, Option<i64>>(2).map(ProcessId),
        },
        settings: first.get(3),
        processes: rows.iter().filter_map(line).collect(),
    })
}

/// Waits for every write of the earlier leader to end, and lets none begin. Nothing if the state is not
/// the one that was seen.
pub(super) async fn take(
    tx: &Transaction<'_>,
    process: ProcessId,
    settings: &str,
    seen: Option<Seen>,
) -> StoreResult<Option<Epoch>> {
    const TAKE: &str = "UPDATE node SET epoch = epoch + 1, leader = $1, beat = 0, settings = $2
         WHERE $3 OR (epoch = $4 AND beat = $5) RETURNING epoch";
    lock_name(tx, NODE_LOCK).await?;
    let (epoch, beat) = seen.map_or((0, 0), |seen| (seen.epoch.0, seen.beat));
    let params: Params<'_> = &[&process.0, &settings, &seen.is_none(), &epoch, &beat];
    let Some(row) = optional(tx, TAKE, params).await? else {
        return Ok(None);
    };
    release_all(tx).await?;
    Ok(Some(Epoch(row.get(0))))
}
