//! Payments: an init flow that prepares and admits, an exec flow that sends, once.

mod before_send;
pub mod bulk;
mod canonical;
pub(crate) mod deferred;
mod dry_run;
mod exec;
mod facts;
mod guard_rule;
mod init;
mod intake;
mod notify;
mod prepare;
mod request;
mod retries;
mod route_table;
mod routes;
mod rule_text;
mod rulebook;
mod rules_effect;
mod rules_in_force;
mod search;
mod status;

use std::sync::Arc;

use tollgate_core::flow::Registrar;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::ports::{ItemView, NewItem, Store, StoreError};
use tollgate_dispatch::{Executes, FileOrder, Forecaster, register_batch};

use crate::notifications::Receiver;

pub use dry_run::{Trial, Tried, dry_run};
pub use exec::{ExecutePayment, PaymentExecFlow, PostProcess, connector_of, question_about};
pub use init::{Admit, Answer, InitInput, PaymentInitFlow, Prepare, Verdict};
pub use intake::{Accepted, Intake, IntakeError, Unrecorded, first_init_flow, init_flow};
pub use notify::{SendNotifications, times_reopened};
pub use prepare::out_of_bounds;
pub use request::{Party, PaymentRequest, parse_time};
pub use routes::{Bank, DEFAULT_GATEWAY, Routes};
pub use rule_text::{At, OnFailure, Problem, RouteText, RuleText, RulesText};
pub use rulebook::Rulebook;
pub use rules_effect::RulesEffect;
pub use rules_in_force::{RulesError, RulesInForce, text_of};
pub use search::Sought;
pub use status::{PaymentStatus, cancelled, job_moves, refuses_reopen, reopened, resolution};

pub const INIT_TASK_QUEUE: &str = "payment-init-task-queue";
pub const EXEC_TASK_QUEUE: &str = "payment-exec-task-queue";
/// An init flow takes at most this many payments.
pub const MAX_BATCH: usize = 1000;

pub fn item_type() -> ItemType {
    ItemType::new("PAYMENT")
}

pub fn item(id: &ItemId) -> Item {
    Item::new(&item_type(), id)
}

/// What the steps of this domain need.
pub struct Payments {
    pub store: Arc<dyn Store>,
    /// Who is told what became of a payment.
    pub receivers: Vec<Receiver>,
    pub routes: Arc<Routes<Bank>>,
    pub rules: Arc<RulesInForce>,
    pub forecaster: Arc<Forecaster>,
    /// In which the chunks of a file are admitted.
    pub order: FileOrder,
}

impl std::fmt::Debug for Payments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Payments")
            .field("routes", &self.routes)
            .finish_non_exhaustive()
    }
}

/// What is written for a payment of the default bank that passed its checks: the pure half of
/// intake.
pub fn new_item(
    payment: &PaymentRequest,
    lane: &LaneName,
    init_flow: &FlowId,
) -> Result<NewItem, serde_json::Error> {
    let gateway = payment.gateway.as_deref().unwrap_or(DEFAULT_GATEWAY);
    let route = routes::PaymentRoute {
        gateway: gateway.to_owned(),
        connector: None,
        lane: lane.clone(),
    };
    prepare::build(payment, route, &[], init_flow)
}

/// A payment as it was taken in.
pub fn document(view: &ItemView) -> Result<PaymentRequest, StoreError> {
    serde_json::from_str(view.body.as_deref().unwrap_or_default())
        .map_err(|e| StoreError::Bug(format!("payment {}: {e}", view.item.id)))
}

/// The gateway it goes through, chosen when it was taken in; none if that is lost.
pub fn gateway(view: &ItemView) -> Option<String> {
    let context = prepare::PaymentContext::read(view.body.as_deref()?).ok()?;
    Some(context.gateway)
}

/// The whole domain, for either engine.
pub fn register(registrar: &mut impl Registrar, world: &Arc<Payments>) {
    for lane in world.routes.lanes() {
        exec::count_differing(lane, 0);
    }
    registrar
        .flow::<PaymentInitFlow>()
        .step::<Prepare>(world)
        .step::<Admit>(world)
        .flow::<bulk::PaymentBulkInitFlow>()
        .step::<bulk::AdmitChunk>(world)
        .flow::<PaymentExecFlow>()
        .step::<ExecutePayment>(world)
        .step::<PostProcess>(world)
        .step::<SendNotifications>(world);
    register_batch(registrar, world);
}

/// The item type's configuration as it is before anyone changes it.
pub fn default_config() -> ItemTypeConfig {
    use tollgate_core::flow::Flow;
    ItemTypeConfig {
        exec_workflow_type: PaymentExecFlow::NAME.to_owned(),
        exec_batch_workflow_type: Payments::BATCH_FLOW.to_owned(),
        exec_task_queue: EXEC_TASK_QUEUE.to_owned(),
        ..ItemTypeConfig::default()
    }
}
