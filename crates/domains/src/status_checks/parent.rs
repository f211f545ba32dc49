//! The parent flow: lookups in batches, then all gateways at once, then the result. It carries places
//! in the check's lists and no payments, and continues as new every few hundred calls.

use std::cell::RefCell;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Ctx, End, Flow, FlowError};
use tollgate_core::join;
use tollgate_core::ports::CheckPhase;

use super::WorkflowConfig;
use super::calls::GetGatewayForPayment;
use super::gateway::{self, GatewayInput, GatewayWorkflow};
use super::grouping::ProgressInfo;
use super::rows::{Aggregate, FailCheck, FailGateway, PlanChunks, ReadLookups, RecordLookups};

/// At most this many gateways are worked on at once. There are one to twenty; more than this only if
/// somebody has written nonsense into the documents.
const GATEWAYS_PER_RUN: usize = 100;

#[derive(Debug)]
pub struct PaymentStatusCheckWorkflow;

/// The check's id is the flow's.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckInput {
    pub config: WorkflowConfig,
    pub payments: u32,
    /// How many parts its lookups have.
    pub parts: u32,
    /// Whether an answer that is evidence ends the doubt about a payment of ours.
    pub resolve: bool,
    pub place: Place,
}

/// Where a run begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    Lookups {
        part: u32,
    },
    Gateways {
        /// The first one that has not been worked on.
        next: u32,
        /// How many chunks each of them has.
        chunks: Vec<u32>,
        completed: u32,
        failed: u32,
    },
}

impl Flow for PaymentStatusCheckWorkflow {
    const NAME: &'static str = "PaymentStatusCheckWorkflow";
    type In = CheckInput;
    type Out = ProgressInfo;

    async fn run<C: Ctx>(ctx: C, input: CheckInput) -> Result<End<Self>, FlowError> {
        let ended = go_on(&ctx, input).await;
        if let Err(FlowError(error)) = &ended {
            let error = error.clone();
            // Whoever asks learns it from the engine if it cannot be written.
            let _ = ctx.step(FailCheck { error }).await;
        }
        ended
    }
}

type Ended = Result<End<PaymentStatusCheckWorkflow>, FlowError>;

async fn go_on<C: Ctx>(ctx: &C, input: CheckInput) -> Ended {
    let (config, payments) = (input.config, input.payments);
    let again = |place| Ok(End::Again(CheckInput { place, ..input }));
    match input.place.clone() {
        Place::Lookups { part } if part < input.parts => {
            ctx.progress(&ProgressInfo::lookups(payments));
            look_up(ctx, part, config).await?;
            again(Place::Lookups { part: part + 1 })
        }
        Place::Lookups { .. } => {
            ctx.progress(&ProgressInfo::lookups(payments));
            let chunk_size = config.max_payments_per_chunk;
            let chunks = ctx.step(PlanChunks { chunk_size }).await?;
            let (next, completed, failed) = (0, 0, 0);
            again(Place::Gateways {
                next,
                chunks,
                completed,
                failed,
            })
        }
        Place::Gateways {
            next,
            chunks,
            completed,
            failed,
        } => {
            let mut progress = ProgressInfo {
                total_payments: payments,
                gateways_identified: count(chunks.len()),
                chunks_total: chunks.iter().sum(),
                chunks_completed: completed,
                chunks_failed: failed,
                current_phase: CheckPhase::GatewayProcessing,
            };
            let some = chunks.iter().copied().enumerate();
            let some = some.skip(next as usize).take(GATEWAYS_PER_RUN);
            let some: Vec<(usize, u32)> = some.collect();
            let worked_on = next + count(some.len());
            let how = How {
                config,
                resolve: input.resolve,
            };
            progress = ask_gateways(ctx, some, how, progress).await?;
            if worked_on < count(chunks.len()) {
                return again(Place::Gateways {
                    next: worked_on,
                    chunks,
                    completed: progress.chunks_completed,
                    failed: progress.chunks_failed,
                });
            }
            progress.current_phase = CheckPhase::Aggregating;
            ctx.progress(&progress);
            let gateways = progress.gateways_identified;
            let ended = ctx.step(Aggregate { gateways }).await?;
            ctx.progress(&ended);
            Ok(End::Done(ended))
        }
    }
}

/// One part of the lookups: its batches one after the other, the lookups of a batch at once.
async fn look_up<C: Ctx>(ctx: &C, part: u32, config: WorkflowConfig) -> Result<(), FlowError> {
    let ids = ctx.step(ReadLookups { part }).await?;
    let mut gateways = Vec::with_capacity(ids.len());
    for batch in ids.chunks(config.batch()) {
        let lookups = batch.iter().map(|payment_id| {
            ctx.step(GetGatewayForPayment {
                payment_id: payment_id.clone(),
                config,
            })
        });
        let found = join::windowed(batch.len(), lookups).await.into_iter();
        // Who cannot be looked up is left out, and keeps nobody else from it.
        gateways.extend(found.map(|found| found.ok().map(|info| info.gateway_name)));
    }
    ctx.step(RecordLookups { part, gateways }).await?;
    Ok(())
}

/// What the children are told.
#[derive(Clone, Copy)]
struct How {
    config: WorkflowConfig,
    resolve: bool,
}

/// All these gateways at once. One that fails as a whole fails alone.
async fn ask_gateways<C: Ctx>(
    ctx: &C,
    gateways: Vec<(usize, u32)>,
    how: How,
    progress: ProgressInfo,
) -> Result<ProgressInfo, FlowError> {
    ctx.progress(&progress);
    let progress = RefCell::new(progress);
    let children = gateways.iter().map(|&(place, chunks)| {
        let progress = &progress;
        async move {
            let gateway = count(place);
            let failed = ask_gateway(ctx, gateway, chunks, how).await?;
            let mut progress = progress.borrow_mut();
            progress.chunks_completed += chunks;
            progress.chunks_failed += failed;
            // What is shown meanwhile counts chunks, and the steps that end one say it (`World::show`).
            Ok(())
        }
    });
    let all = join::windowed(GATEWAYS_PER_RUN, children).await;
    all.into_iter().collect::<Result<(), FlowError>>()?;
    Ok(progress.into_inner())
}

/// How many of its chunks have failed.
async fn ask_gateway<C: Ctx>(
    ctx: &C,
    gateway: u32,
    chunks: u32,
    how: How,
) -> Result<u32, FlowError> {
    let check = ctx.flow_id();
    let input = GatewayInput {
        check: check.clone(),
        gateway,
        chunks,
        config: how.config,
        resolve: how.resolve,
        completed: 0,
        failed: 0,
    };
    let child = gateway::flow_id(check, gateway);
    match ctx.child::<GatewayWorkflow>(child, input).await {
        Ok(result) => Ok(result.failed),
        Err(FlowError(error)) => {
            // Those before the failure may have gone well: the rows know.
            let failed = ctx.step(FailGateway { gateway, error }).await?;
            Ok(failed.unwrap_or(chunks))
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
