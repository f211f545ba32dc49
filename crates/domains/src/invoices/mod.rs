//! Invoices: taken in with their time, looked at and charged once when it comes. The queue carries
//! only the id; whoever executes reads the invoice as it is then.

mod billing;
mod charge;
mod checks;
mod checks_in_force;
mod chunk;
mod corrections;
mod cron;
mod customers;
mod error;
mod exec;
mod many;
mod request;
mod retry_schedule;
mod schedule;
mod schedules;
mod status;

use std::sync::Arc;

use rust_decimal::Decimal;
use tollgate_core::flow::{Flow, Registrar};
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{ItemView, Store, StoreError};
use tollgate_dispatch::{Executes, FileOrder, Sender, register_batch};

pub use billing::{Billing, Swept, Taken};
pub use charge::ChargeInvoice;
pub use checks::{Chain, Check, CheckText, Finding, Subject, Verdict};
pub use checks_in_force::ChecksInForce;
pub use chunk::{AdmitInvoices, InvoiceBulkInitFlow};
pub use corrections::SettledBy;
pub use cron::Cron;
pub use customers::Customers;
pub use error::BillingError;
pub use exec::{Billed, CheckInvoice, Checked, InvoiceExecFlow};
pub use request::{Customer, InvoiceDocument, InvoiceRequest};
pub use retry_schedule::RetrySchedule;
pub use schedule::{Schedule, ScheduleText};
pub use schedules::{Level, ScheduleInForce, Schedules};
pub use status::{InvoiceStatus, resolution};

pub const EXEC_TASK_QUEUE: &str = "invoice-exec-task-queue";
/// What an entry of the audit trail is called that holds a verdict:
/// `{check}: {verdict}: {reason}`. A check's name has no blank.
pub const CHECKED: &str = "CHECKED";

pub fn item_type() -> ItemType {
    ItemType::new("INVOICE")
}

pub fn item(id: &ItemId) -> Item {
    Item::new(&item_type(), id)
}

/// What the steps of this domain need.
pub struct Invoices {
    store: Arc<dyn Store>,
    customers: Customers,
    schedules: Schedules,
    /// Takes in what feeds bring.
    billing: Billing,
    /// In which the chunks of a partition are admitted.
    order: FileOrder,
    /// To the provider.
    sender: Sender,
    checks: Arc<ChecksInForce>,
    /// Of customers without one of their own.
    retry_schedule: RetrySchedule,
}

impl Invoices {
    pub fn new(
        store: Arc<dyn Store>,
        lane: LaneName,
        sender: Sender,
        checks: Arc<ChecksInForce>,
        retry_schedule: RetrySchedule,
    ) -> Self {
        Self {
            customers: Customers::new(Arc::clone(&store)),
            schedules: Schedules::new(Arc::clone(&store)),
            billing: Billing::new(Arc::clone(&store), lane),
            order: FileOrder::new(Arc::clone(&store)),
            store,
            sender,
            checks,
            retry_schedule,
        }
    }
}

impl std::fmt::Debug for Invoices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Invoices")
            .field("sender", &self.sender)
            .field("checks", &self.checks)
            .finish_non_exhaustive()
    }
}

/// The whole domain, for either engine.
pub fn register(registrar: &mut impl Registrar, world: &Arc<Invoices>) {
    registrar
        .flow::<InvoiceExecFlow>()
        .step::<CheckInvoice>(world)
        .step::<ChargeInvoice>(world)
        .flow::<InvoiceBulkInitFlow>()
        .step::<AdmitInvoices>(world);
    register_batch(registrar, world);
}

/// The item type's configuration as it is before anyone changes it.
pub fn default_config() -> ItemTypeConfig {
    ItemTypeConfig {
        exec_workflow_type: InvoiceExecFlow::NAME.to_owned(),
        exec_batch_workflow_type: Invoices::BATCH_FLOW.to_owned(),
        exec_task_queue: EXEC_TASK_QUEUE.to_owned(),
        ..ItemTypeConfig::default()
    }
}

/// The provider's lane as it is created: as the payments' default.
pub fn default_lane() -> LaneChange {
    LaneChange {
        max_per_window: Some(100),
        window_size_secs: Some(4),
        max_per_second: Some(Decimal::from(50)),
        ..LaneChange::default()
    }
}

/// What is kept of an invoice.
pub fn document(view: &ItemView) -> Result<InvoiceDocument, StoreError> {
    serde_json::from_str(body(view)?)
        .map_err(|e| StoreError::Bug(format!("invoice {}: {e}", view.item.id)))
}

/// The same, as it is stored.
fn body(view: &ItemView) -> Result<&str, StoreError> {
    let lost = || StoreError::Bug(format!("invoice {}: its body is missing", view.item.id));
    view.body.as_deref().ok_or_else(lost)
}
