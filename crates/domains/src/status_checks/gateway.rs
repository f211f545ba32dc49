//! The child flow: all chunks of one gateway, one after the other; in each the IDB facade is told
//! first, then the PGI gateway is asked about one payment after the other.

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Ctx, End, Flow, FlowError};
use tollgate_core::id::FlowId;

use super::WorkflowConfig;
use super::calls::{CallIdbFacade, CallPgiGateway};
use super::evidence::NoteDone;
use super::grouping::{Chunk, ChunkOutcome, FailedPayment, chunks_per_run};
use super::rows::{ReadChunks, RecordChunk};

#[derive(Debug)]
pub struct GatewayWorkflow;

/// Which gateway by its number: its name and its payments are in the chunks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayInput {
    pub check: FlowId,
    pub gateway: u32,
    pub chunks: u32,
    pub config: WorkflowConfig,
    pub resolve: bool,
    /// What earlier runs have done.
    pub completed: u32,
    pub failed: u32,
}

/// Counts: who succeeded and who failed is in the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GatewayResult {
    pub chunks: u32,
    pub failed: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChunkProgress {
    pub total_chunks: u32,
    pub completed_chunks: u32,
    pub current_chunk_index: u32,
}

/// Ids of checks end in a UUID, so the children of two checks never meet.
pub(super) fn flow_id(check: &FlowId, gateway: u32) -> FlowId {
    FlowId::new(format!("{check}-gateway-{gateway}"))
}

impl Flow for GatewayWorkflow {
    const NAME: &'static str = "GatewayWorkflow";
    type In = GatewayInput;
    type Out = GatewayResult;

    async fn run<C: Ctx>(ctx: C, mut input: GatewayInput) -> Result<End<Self>, FlowError> {
        show(&ctx, &input);
        let limit = chunks_per_run(input.config.chunk());
        let chunks = ctx
            .step(ReadChunks {
                check: input.check.clone(),
                gateway: input.gateway,
                from: input.completed,
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
            })
            .await?;
        if chunks.is_empty() && input.completed < input.chunks {
            return Err(FlowError("its chunks are gone".to_owned()));
        }
        for chunk in chunks {
            let outcome = ask_about(&ctx, &input, chunk).await;
            input.failed += u32::from(outcome.has_failed());
            ctx.step(RecordChunk {
                check: input.check.clone(),
                gateway: input.gateway,
                index: input.completed,
                outcome,
            })
            .await?;
            input.completed += 1;
            show(&ctx, &input);
        }
        if input.completed < input.chunks {
            return Ok(End::Again(input));
        }
        Ok(End::Done(GatewayResult {
            chunks: input.completed,
            failed: input.failed,
        }))
    }
}

/// One chunk: a facade that was not told means that nobody is asked; who cannot be asked about
/// keeps nobody else from it.
async fn ask_about<C: Ctx>(ctx: &C, input: &GatewayInput, chunk: Chunk) -> ChunkOutcome {
    let Chunk {
        gateway,
        payment_ids,
    } = chunk;
    let config = input.config;
    let told = ctx.step(CallIdbFacade {
        chunk_index: input.completed,
        gateway: gateway.clone(),
        payment_ids: payment_ids.clone(),
        config,
    });
    if let Err(error) = told.await {
        let error = error.message;
        return ChunkOutcome::NotAnnounced { error };
    }
    let mut failed = vec![];
    for payment_id in payment_ids {
        let asked = ctx.step(CallPgiGateway {
            gateway: gateway.clone(),
            payment_id: payment_id.clone(),
            config,
        });
        match asked.await {
            Ok(asked) if asked.completed && input.resolve => {
                let reference = asked.reference;
                let note = ctx.step(NoteDone {
                    check: input.check.clone(),
                    payment_id,
                    reference,
                });
                // That it could not be noted leaves it in doubt; it was asked about all the same.
                let _ = note.await;
            }
            Ok(_) => {}
            Err(error) => failed.push(FailedPayment {
                payment_id,
                error: error.message,
            }),
        }
    }
    ChunkOutcome::Asked { failed }
}

fn show<C: Ctx>(ctx: &C, input: &GatewayInput) {
    let last = input.chunks.saturating_sub(1);
    ctx.progress(&ChunkProgress {
        total_chunks: input.chunks,
        completed_chunks: input.completed,
        current_chunk_index: input.completed.min(last),
    });
}
