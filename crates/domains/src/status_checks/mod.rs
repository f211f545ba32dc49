//! Status checks: a list of payments is looked up, grouped by gateway, and asked about there. A parent
//! flow and one child per gateway; what they work on and what comes of it are rows in the store.

mod calls;
mod config;
mod evidence;
mod gateway;
mod grouping;
mod parent;
mod request;
mod rows;
mod service;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rust_decimal::Decimal;
use tollgate_core::flow::Registrar;
use tollgate_core::id::{FlowId, LaneName};
use tollgate_core::ports::{CheckServices, Engine, Shown, Store};
use tollgate_dispatch::Gate;

pub use calls::{CallIdbFacade, CallPgiGateway, GetGatewayForPayment, PaymentCheckError};
pub use config::WorkflowConfig;
pub use evidence::NoteDone;
pub use gateway::{ChunkProgress, GatewayInput, GatewayResult, GatewayWorkflow};
pub use grouping::{CheckStatusResult, FailedChunk, ProgressInfo, Stage};
pub use parent::{CheckInput, PaymentStatusCheckWorkflow, Place};
pub use request::{MAX_PAYMENTS, payment_ids};
pub use rows::{
    Aggregate, FailCheck, FailGateway, PlanChunks, ReadChunks, ReadLookups, RecordChunk,
    RecordLookups,
};
pub use service::{GatewayProgress, Report, ReportStatus, StartError, StatusCheckService};

/// Apart from those of payments, so that a check of ten thousand delays none.
pub const TASK_QUEUE: &str = "status-check-task-queue";

/// How long a call waits for its turn at a gateway's lane; then it has failed, for now.
pub const TURN_PATIENCE: Duration = Duration::from_mins(1);

/// What the steps of this domain need.
pub struct World {
    pub store: Arc<dyn Store>,
    pub services: Arc<dyn CheckServices>,
    pub gate: Arc<Gate>,
    /// The lanes of the gateways that have one: every call about a payment of theirs takes a turn.
    pub lanes: BTreeMap<String, LaneName>,
    /// How much of a lane's rate these calls may take from payments.
    pub lane_share: Decimal,
    /// Set once there is an engine whose own tools show how far a check is.
    pub engine: OnceLock<Arc<dyn Engine>>,
}

/// Of a check with more chunks than these, the engine's tools do not show each: a flow takes only so many signals.
const MOST_SHOWN: u32 = 1000;

impl World {
    /// Shows the engine's tools what the API says of a check: the rows know. Whoever misses this sees the next.
    async fn show(&self, check: &FlowId) {
        let Some(engine) = self.engine.get() else {
            return;
        };
        let Ok(Some(view)) = self.store.check(check).await else {
            return;
        };
        let progress = ProgressInfo::of(&view);
        let done = progress.chunks_completed;
        let every = progress.chunks_total.div_ceil(MOST_SHOWN).max(1);
        if !done.is_multiple_of(every) && done < progress.chunks_total {
            return;
        }
        let Ok(progress_json) = serde_json::to_string(&progress) else {
            return;
        };
        let shown = Shown {
            rank: u64::from(done),
            progress_json,
        };
        if let Err(error) = engine.show(check, shown).await {
            tracing::debug!(%check, %error, "the engine did not accept the progress of a status check");
        }
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World")
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}

/// The whole domain, for either engine.
pub fn register(registrar: &mut impl Registrar, world: &Arc<World>) {
    registrar
        .flow::<PaymentStatusCheckWorkflow>()
        .flow::<GatewayWorkflow>()
        .step::<GetGatewayForPayment>(world)
        .step::<CallIdbFacade>(world)
        .step::<CallPgiGateway>(world)
        .step::<ReadLookups>(world)
        .step::<RecordLookups>(world)
        .step::<PlanChunks>(world)
        .step::<ReadChunks>(world)
        .step::<RecordChunk>(world)
        .step::<FailGateway>(world)
        .step::<Aggregate>(world)
        .step::<FailCheck>(world)
        .step::<NoteDone>(world);
}
