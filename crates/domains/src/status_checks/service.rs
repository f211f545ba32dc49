//! Starting a check, and what is told about one. The rows come first: a flow finds its payments, and a
//! row whose flow never began is told as failed.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use thiserror::Error;
use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    CheckEnd, CheckPhase, CheckView, Engine, FlowView, GatewayView, Memo, Page, Start, Started,
    Store, StoreError, StoreResult,
};

use super::grouping::{CheckStatusResult, Chunk, ProgressInfo, parts, without_duplicates};
use super::parent::{CheckInput, PaymentStatusCheckWorkflow, Place};
use super::{TASK_QUEUE, WorkflowConfig};

pub struct StatusCheckService {
    pub store: Arc<dyn Store>,
    pub engine: Arc<dyn Engine>,
    pub config: WorkflowConfig,
}

impl std::fmt::Debug for StatusCheckService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusCheckService")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Why a check did not start.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StartError {
    #[error("the id was given before")]
    Known,
    /// Not now.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        if error.may_pass() {
            Self::Unavailable(why)
        } else {
            Self::Failed(why)
        }
    }
}

/// What is told about a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub progress: ProgressInfo,
    pub status: ReportStatus,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportStatus {
    Running,
    Completed(CheckStatusResult),
    Failed(String),
}

/// How far a check is with one gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayProgress {
    pub gateway: String,
    pub chunks_total: u32,
    /// With or without success.
    pub chunks_completed: u32,
    pub chunks_failed: u32,
}

impl StatusCheckService {
    /// Starts a check under an id that nobody has used. When this returns `Ok`, it is durable.
    pub async fn start(&self, check: &FlowId, payment_ids: Vec<String>) -> Result<(), StartError> {
        self.begin(check, payment_ids, false).await
    }

    /// The same about payments of ours that are in doubt: an answer that is evidence ends the doubt.
    pub async fn resolve(
        &self,
        check: &FlowId,
        payment_ids: Vec<String>,
    ) -> Result<(), StartError> {
        self.begin(check, payment_ids, true).await
    }

    async fn begin(
        &self,
        check: &FlowId,
        payment_ids: Vec<String>,
        resolve: bool,
    ) -> Result<(), StartError> {
        let ids = without_duplicates(payment_ids);
        let lookups = parts(&ids, self.config.batch()).map(serde_json::to_string);
        let lookups: Vec<String> = lookups
            .collect::<Result<_, _>>()
            .map_err(|e| StartError::Failed(e.to_string()))?;
        let (payments, parts) = (count(ids.len()), count(lookups.len()));
        if !self.store.open_check(check, payments, lookups).await? {
            return Err(StartError::Known);
        }
        let input = CheckInput {
            config: self.config,
            payments,
            parts,
            resolve,
            place: Place::Lookups { part: 0 },
        };
        let started = self.start_flow(check, &input).await;
        if started.is_ok() {
            counter!("tollgate_status_checks_started_total").increment(1);
            tracing::info!(%check, payments, resolve, "a status check has started");
        }
        if let Err(error) = &started {
            // Nobody knows the id; still, no row should say that it runs.
            let error = format!("it could not be started: {error}");
            let ended = self.store.end_check(check, CheckEnd::Failed { error });
            if let Err(error) = ended.await {
                tracing::warn!(%check, %error, "a status check that never started could not be ended; retention removes it");
            }
        }
        started
    }

    async fn start_flow(&self, check: &FlowId, input: &CheckInput) -> Result<(), StartError> {
        let input_json =
            serde_json::to_string(input).map_err(|e| StartError::Failed(e.to_string()))?;
        let start = Start {
            id: check.clone(),
            name: PaymentStatusCheckWorkflow::NAME.to_owned(),
            task_queue: TASK_QUEUE.to_owned(),
            input_json,
            delay: Duration::ZERO,
            memo: Memo::new(),
        };
        let started = self.engine.start(vec![start]).await;
        let started = started.map_err(|away| StartError::Unavailable(away.to_string()))?;
        match started.into_iter().next() {
            Some(Started::New) => Ok(()),
            Some(Started::Already) => Err(StartError::Known),
            Some(Started::Failed(why)) => Err(StartError::Failed(why)),
            None => Err(StartError::Unavailable("the engine did not answer".into())),
        }
    }

    /// What is known of a check.
    pub async fn report(&self, check: &FlowId) -> StoreResult<Option<Report>> {
        let Some(view) = self.store.check(check).await? else {
            return Ok(None);
        };
        if view.end.is_some() {
            return report(&view, None).map(Some);
        }
        let failed = match self.engine.view(check, Duration::ZERO).await {
            Ok(FlowView::Failed { error }) => Some(error),
            Ok(FlowView::NotFound) => {
                Some("its workflow no longer exists; start another status check".to_owned())
            }
            // Its last write is there, or was not there yet when we looked.
            Ok(FlowView::Done { .. }) => {
                let view = self.store.check(check).await?.unwrap_or(view);
                return report(&view, None).map(Some);
            }
            Ok(FlowView::Running { .. }) | Err(_) => None,
        };
        report(&view, failed).map(Some)
    }

    /// How far a check is with each gateway, after the one of this number; `None` if nobody knows the
    /// check. None of them while payments are looked up.
    pub async fn gateways(
        &self,
        check: &FlowId,
        after: Option<u32>,
        limit: u32,
    ) -> StoreResult<Option<Page<GatewayProgress, u32>>> {
        let Some(view) = self.store.check(check).await? else {
            return Ok(None);
        };
        if view.phase == CheckPhase::EsLookup {
            return Ok(Some(Page {
                items: vec![],
                next: None,
                previous: None,
            }));
        }
        let page = self.store.check_gateways(check, after, limit).await?;
        let items = page.items.iter().map(gateway);
        let items = items.collect::<Result<_, _>>()?;
        Ok(Some(Page {
            items,
            next: page.next,
            previous: None,
        }))
    }
}

fn gateway(view: &GatewayView) -> StoreResult<GatewayProgress> {
    let first: Chunk = serde_json::from_str(&view.first_chunk_json)
        .map_err(|e| StoreError::Bug(format!("a chunk cannot be read: {e}")))?;
    Ok(GatewayProgress {
        gateway: first.gateway,
        chunks_total: view.chunks,
        chunks_completed: view.chunks_ended,
        chunks_failed: view.chunks_failed,
    })
}

fn report(view: &CheckView, failed: Option<String>) -> StoreResult<Report> {
    let status = match (&view.end, failed) {
        (Some(CheckEnd::Completed { result_json }), _) => {
            let result = serde_json::from_str(result_json);
            let result =
                result.map_err(|e| StoreError::Bug(format!("a result cannot be read: {e}")))?;
            ReportStatus::Completed(result)
        }
        (Some(CheckEnd::Failed { error }), _) => ReportStatus::Failed(error.clone()),
        (None, Some(error)) => ReportStatus::Failed(error),
        (None, None) => ReportStatus::Running,
    };
    Ok(Report {
        progress: ProgressInfo::of(view),
        status,
    })
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
