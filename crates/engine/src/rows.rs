//! Writing flows to be run, by whichever process.

use tollgate_core::ports::{Flows, NewFlow, Start, Started, StoreError, StoreResult, Unreachable};

/// Writes them together, or one by one, so that a flow which can never be written does not fail its
/// neighbours.
pub(crate) async fn start(
    flows: &dyn Flows,
    starts: Vec<Start>,
) -> Result<Vec<Started>, Unreachable> {
    if starts.is_empty() {
        return Ok(vec![]);
    }
    match write(flows, starts.clone()).await {
        Ok(started) => Ok(started),
        Err(StoreError::Invalid(_) | StoreError::Bug(_)) => singly(flows, starts).await,
        Err(error) => Err(unreachable(&error)),
    }
}

async fn write(flows: &dyn Flows, starts: Vec<Start>) -> StoreResult<Vec<Started>> {
    let rows = starts.into_iter().map(new_flow).collect();
    let started = |new: bool| if new { Started::New } else { Started::Already };
    let new = flows.start_flows(rows).await?;
    Ok(new.into_iter().map(started).collect())
}

async fn singly(flows: &dyn Flows, starts: Vec<Start>) -> Result<Vec<Started>, Unreachable> {
    let mut answers = Vec::with_capacity(starts.len());
    for start in starts {
        match write(flows, vec![start]).await {
            Ok(answer) => answers.extend(answer),
            Err(error @ (StoreError::Invalid(_) | StoreError::Bug(_))) => {
                answers.push(Started::Failed(error.to_string()));
            }
            Err(error) => return Err(unreachable(&error)),
        }
    }
    Ok(answers)
}

fn new_flow(start: Start) -> NewFlow {
    NewFlow {
        id: start.id,
        name: start.name,
        input_json: start.input_json,
        delay: start.delay,
        is_child: false,
    }
}

pub(crate) fn unreachable(error: &StoreError) -> Unreachable {
    Unreachable(error.to_string())
}
