//! The flow that takes one chunk in. It is told which chunk, not its lines: those stay in the
//! store, and a flow's payload stays small.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Call, Ctx, End, Flow, FlowError, Policy, Step, StepError};
use tollgate_core::id::LaneName;
use tollgate_core::ports::{ChunkId, ChunkTurn, Placed, StoreResult};
use tollgate_dispatch::LaneForecast;

use super::super::deferred::Trouble;
use super::super::init::{Admit, Answer, Prepare, Verdict};
use super::super::{Payments, item_type};
use super::judge::Read;
use super::tries;
use crate::steps::STORE_STEP;

#[derive(Debug)]
pub struct PaymentBulkInitFlow;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChunkInput {
    pub chunk: ChunkId,
}

impl Flow for PaymentBulkInitFlow {
    const NAME: &'static str = "PaymentBulkInitWorkflow";
    type In = ChunkInput;
    type Out = bool;

    async fn run<C: Ctx>(ctx: C, input: ChunkInput) -> Result<End<Self>, FlowError> {
        let counted = ctx.step(AdmitChunk { chunk: input.chunk }).await?;
        Ok(End::Done(counted))
    }
}

/// Admits the payments of a chunk in one transaction, then ends the chunk in another. Dead in
/// between, the next try finds its own admissions and counts them as such; so a line is counted
/// once, by the one that ends the chunk. The answer is whether that was this try. A try that fails is noted
/// on the chunk, which waits in the store for the next one. Chunks are admitted in the order of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AdmitChunk {
    pub chunk: ChunkId,
}

impl Step for AdmitChunk {
    const NAME: &'static str = "admit_chunk";
    type Out = bool;
    type World = Payments;

    fn key(&self) -> String {
        Self::NAME.to_owned()
    }
    fn policy(&self) -> Policy {
        STORE_STEP
    }
    async fn run(&self, world: &Payments, call: &Call) -> Result<bool, StepError> {
        let taken_in = match Trouble::of_many_tries(call) {
            Ok(()) => self.take_in(world).await,
            Err(trouble) => Err(trouble),
        };
        tries::ended(&*world.store, &self.chunk, taken_in, call).await
    }
}

impl AdmitChunk {
    async fn take_in(&self, world: &Payments) -> Result<bool, Trouble> {
        let Some(text) = world.store.chunk(&self.chunk).await? else {
            return Ok(false);
        };
        let mut read = Read::default();
        tries::each_line(&text, |number, line| read.line(number, line)).await;
        drop(text);
        // The chunk's own name, also if this is a second flow for it.
        let flow = self.chunk.flow();
        let payments = std::mem::take(&mut read.payments);
        let prepare = Prepare { payments };
        let checked = prepare.check(world).await?;
        let turn = tries::turn(&*world.store, &world.order, &self.chunk).await?;
        let Some(turn) = turn else {
            return Ok(false);
        };
        let admit = Admit {
            payments: prepare.payments,
            checked,
        };
        let answers = admit.admit(world, &flow).await?;
        if turn == ChunkTurn::Now {
            world.order.admitted(&self.chunk);
        }
        let forecasts = forecasts(world, &answers).await?;
        let meets = |placed: &Placed| {
            let lane = forecasts.get(&placed.lane)?;
            lane.ready(&item_type(), placed.scheduled, placed.deadline)
                .meets_deadline
        };
        let mut end = read.end(&admit.payments, answers, &flow, meets);
        tries::keep_rejected(&*world.store, &self.chunk, &mut end).await?;
        Ok(world.store.finish_chunk(&self.chunk, end).await?)
    }
}

/// What is foreseen for the lanes that a chunk went to: one look each, whatever its length.
async fn forecasts(
    world: &Payments,
    answers: &[Answer],
) -> StoreResult<HashMap<LaneName, Arc<LaneForecast>>> {
    let mut found = HashMap::new();
    for answer in answers {
        let Verdict::Scheduled { placed, .. } = &answer.verdict else {
            continue;
        };
        if placed.deadline.is_none() || found.contains_key(&placed.lane) {
            continue;
        }
        if let Some(forecast) = world.forecaster.lane(&placed.lane).await? {
            found.insert(placed.lane.clone(), forecast);
        }
    }
    Ok(found)
}

/// Lets others run on this thread: a thousand lines are milliseconds, and a turn at the gate is
/// missed by less.
pub(in crate::payments) async fn breathe() {
    let mut has_waited = false;
    poll_fn(|context| {
        if has_waited {
            return Poll::Ready(());
        }
        has_waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
