//! What running flows write: steps, progress and ends, of many flows in a few statements.

use deadpool_postgres::Transaction;
use tollgate_core::id::{Epoch, FlowId};
use tollgate_core::ports::{FlowEnd, JournalEntry, StoreResult};

use super::epoch_in_force;
use crate::node;
use crate::postgres::connection::group::Job;
use crate::postgres::connection::run::{by_keys, execute};
use crate::postgres::connection::value::storable;

#[derive(Debug, Clone)]
pub(crate) enum Write {
    Journal(JournalEntry),
    Progress(String),
    End(FlowEnd),
}

/// One write of one flow.
#[derive(Debug, Clone)]
pub(crate) struct FlowWrite {
    pub(crate) epoch: Epoch,
    pub(crate) flow: FlowId,
    pub(crate) write: Write,
}

impl Job for FlowWrite {
    type Answer = ();
}

/// An older node's writes are refused one by one; the others go on.
pub(crate) async fn write_flows(
    tx: &Transaction<'_>,
    jobs: Vec<FlowWrite>,
) -> StoreResult<Vec<StoreResult<()>>> {
    let (in_force, ()) = futures::try_join!(epoch_in_force(tx), by_keys(tx))?;
    let allowed: Vec<_> = jobs
        .iter()
        .map(|job| node::check(job.epoch, in_force))
        .collect();
    let current: Vec<&FlowWrite> = jobs
        .iter()
        .zip(&allowed)
        .filter(|(_, allowed)| allowed.is_ok())
        .map(|(job, _)| job)
        .collect();
    journal(tx, &current).await?;
    progress(tx, &current).await?;
    // Drops the journal, so it comes last.
    end(tx, &current).await?;
    Ok(allowed)
}

async fn journal(tx: &Transaction<'_>, jobs: &[&FlowWrite]) -> StoreResult<()> {
    const JOURNAL: &str = "INSERT INTO journal (flow_id, key, result)
         SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
         ON CONFLICT (flow_id, key) DO NOTHING";
    let (mut flows, mut keys, mut results) = (vec![], vec![], vec![]);
    for job in jobs {
        if let Write::Journal(entry) = &job.write {
            flows.push(job.flow.as_str());
            keys.push(entry.key.as_str());
            results.push(entry.result_json.as_str());
        }
    }
    if flows.is_empty() {
        return Ok(());
    }
    execute(tx, JOURNAL, &[&flows, &keys, &results])
        .await
        .map(drop)
}

/// The latest of a flow wins.
async fn progress(tx: &Transaction<'_>, jobs: &[&FlowWrite]) -> StoreResult<()> {
    const PROGRESS: &str = "UPDATE flow SET progress = n.progress
         FROM (SELECT DISTINCT ON (flow_id) flow_id, progress
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w (flow_id, progress, n)
               ORDER BY flow_id, n DESC) n
         WHERE flow.flow_id = n.flow_id AND flow.state = 'LIVE'";
    let (mut flows, mut latest) = (vec![], vec![]);
    for job in jobs {
        if let Write::Progress(progress) = &job.write {
            flows.push(job.flow.as_str());
            latest.push(progress.as_str());
        }
    }
    if flows.is_empty() {
        return Ok(());
    }
    execute(tx, PROGRESS, &[&flows, &latest]).await.map(drop)
}

async fn end(tx: &Transaction<'_>, jobs: &[&FlowWrite]) -> StoreResult<()> {
    const FORGET: &str = "DELETE FROM journal WHERE flow_id = ANY($1)";
    const END: &str = "UPDATE flow SET state = n.state, result = n.result, input = n.input,
                started_at = now.us, due_at = now.us
         FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
              AS n (flow_id, state, result, input),
              (SELECT tg_now() AS us) AS now
         WHERE flow.flow_id = n.flow_id";
    let (mut flows, mut states, mut results, mut inputs) = (vec![], vec![], vec![], vec![]);
    for job in jobs {
        let Write::End(end) = &job.write else {
            continue;
        };
        let (state, result, input) = match end {
            FlowEnd::Done(result) => ("DONE", Some(storable(result)), ""),
            FlowEnd::Failed(why) => ("FAILED", Some(storable(why)), ""),
            FlowEnd::Again { input_json } => ("PENDING", None, input_json.as_str()),
        };
        flows.push(job.flow.as_str());
        states.push(state);
        results.push(result);
        inputs.push(input);
    }
    if flows.is_empty() {
        return Ok(());
    }
    execute(tx, FORGET, &[&flows]).await?;
    execute(tx, END, &[&flows, &states, &results, &inputs])
        .await
        .map(drop)
}
