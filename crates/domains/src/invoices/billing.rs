//! Taking invoices in and giving them their time; and what people do to them afterwards.

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::id::{FlowId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::Money;
use tollgate_core::ports::{
    Admission, Author, ItemView, KnownContent, NewItem, NewRecord, Placed, RecordLine,
    RecordsWanted, Store, StoreError,
};

use super::customers::Customers;
use super::error::{BillingError, intervened};
use super::request::{Customer, InvoiceRequest};
use super::schedule::{Schedule, ScheduleText};
use super::schedules::{Schedules, never_again};
use super::status::{InvoiceStatus, reopened, rescued};
use super::{item, item_type};
use crate::archived::{archived, in_a_file};

/// At most this many invoices are seen in one look of the sweep.
const SWEPT_AT_ONCE: u32 = 1000;

pub struct Billing {
    pub(super) store: Arc<dyn Store>,
    /// The provider's.
    lane: LaneName,
    customers: Customers,
    schedules: Schedules,
}

impl std::fmt::Debug for Billing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Billing")
            .field("lane", &self.lane)
            .finish_non_exhaustive()
    }
}

/// An invoice that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub status: String,
    /// As it is now; a person may have corrected it since.
    pub money: Money,
    pub placed: Placed,
    /// Known already, with the same content.
    pub repeat: bool,
    /// What somebody should think about who gave it a schedule of its own.
    pub warning: Option<String>,
}

/// What one look of the sweep has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub rescued: u64,
    /// Where the next look begins; `None` at the end.
    pub next: Option<ItemId>,
}

impl Billing {
    pub fn new(store: Arc<dyn Store>, lane: LaneName) -> Self {
        Self {
            lane,
            customers: Customers::new(Arc::clone(&store)),
            schedules: Schedules::new(Arc::clone(&store)),
            store,
        }
    }

    pub fn customers(&self) -> &Customers {
        &self.customers
    }

    pub fn schedules(&self) -> &Schedules {
        &self.schedules
    }

    /// Takes an invoice in, in one transaction. When this returns `Ok`,
    /// it is durable and has its time.
    #[tracing::instrument(skip_all, fields(item = %item(&invoice.invoice_id)))]
    pub async fn create(&self, invoice: &InvoiceRequest) -> Result<Taken, BillingError> {
        // Sameness first: a repeat never fails because something has changed since.
        if let Some(known) = self.store.item(&item(&invoice.invoice_id)).await? {
            return self.repeated(invoice, &known).await;
        }
        self.check_archived(invoice).await?;
        let customer = self.payer(invoice).await?;
        let own = invoice.schedule.as_ref();
        let schedule = self.schedule(own, &customer).await?;
        let now = self.store.now().await?;
        let at = schedule.after(now, &customer.zone());
        let at = at.ok_or_else(never_again)?;
        let warning = own.and_then(|_| schedule.warning(now, &customer.zone()));
        // There is no flow: taking one in is one transaction.
        let flow = FlowId::new(format!("create-invoice-{}", invoice.invoice_id));
        let new = self.new_item(invoice, at, flow);
        let admitted = self.store.admit(&item_type(), vec![new]).await?.pop();
        match admitted {
            Some(Admission::New(placed)) => Ok(Taken {
                status: InvoiceStatus::Pending.as_str().to_owned(),
                money: invoice.money,
                placed,
                repeat: false,
                warning,
            }),
            // Somebody else was faster with the same.
            Some(Admission::Repeat(_) | Admission::Conflict | Admission::Archived) => {
                let known = self.invoice(&invoice.invoice_id).await?;
                self.repeated(invoice, &known).await
            }
            Some(Admission::Erased) => Err(BillingError::Erased(invoice.invoice_id.to_string())),
            Some(Admission::Refused(why) | Admission::RefusedBy { message: why, .. }) => {
                Err(BillingError::Refused(why))
            }
            // Invoices are planned as they are accepted, without requests.
            Some(Admission::Cancelled) | None => {
                Err(StoreError::Bug("an admission is missing".to_owned()).into())
            }
        }
    }

    /// Refused if the id is known from a file of the archive: nothing can be told of it but that it has ended.
    async fn check_archived(&self, invoice: &InvoiceRequest) -> Result<(), BillingError> {
        let id = &invoice.invoice_id;
        let known = archived(&*self.store, &item(id), &invoice.content_hash()).await?;
        match known.map(|known| (known.content, known.day)) {
            None => Ok(()),
            Some((KnownContent::Erased, _)) => Err(BillingError::Erased(id.to_string())),
            Some((KnownContent::Same, day)) => Err(BillingError::Archived(format!(
                "invoice {id} ended on {day} and is in a file of the archive; it is not accepted again"
            ))),
            Some((KnownContent::Other, _)) => Err(BillingError::Known(format!(
                "invoice {id} already exists with different content; use a new id for a changed invoice"
            ))),
        }
    }

    async fn repeated(
        &self,
        invoice: &InvoiceRequest,
        known: &ItemView,
    ) -> Result<Taken, BillingError> {
        if known.is_erased() {
            return Err(BillingError::Erased(invoice.invoice_id.to_string()));
        }
        if known.content_hash != invoice.content_hash() {
            return Err(BillingError::Known(format!(
                "invoice {} already exists with different content; use a new id for a changed invoice",
                invoice.invoice_id
            )));
        }
        let warning = match &invoice.schedule {
            Some(own) => self.schedules.warning(own).await?,
            None => None,
        };
        Ok(Taken {
            status: known.status.clone(),
            money: known.money,
            placed: known.placed(),
            repeat: true,
            warning,
        })
    }

    pub(super) async fn schedule(
        &self,
        own: Option<&ScheduleText>,
        customer: &Customer,
    ) -> Result<Schedule, BillingError> {
        let schedule = self.schedules.of_invoice(None, own, customer).await;
        schedule.map_err(|error| in_field("schedule", error))
    }

    async fn payer(&self, invoice: &InvoiceRequest) -> Result<Customer, BillingError> {
        let customer = self.customer(&invoice.customer_id).await?;
        pays_in(&customer, invoice)?;
        Ok(customer)
    }

    pub(super) async fn customer(&self, id: &str) -> Result<Customer, BillingError> {
        let customer = self.customers.get(id).await?;
        customer.ok_or_else(|| {
            let why = format!("there is no customer {id}; POST /customers first");
            BillingError::field("customerId", why)
        })
    }

    /// `flow` is who takes it in.
    pub(super) fn new_item(
        &self,
        invoice: &InvoiceRequest,
        at: Timestamp,
        flow: FlowId,
    ) -> NewItem {
        let id = &invoice.invoice_id;
        NewItem {
            id: id.clone(),
            lane: self.lane.clone(),
            requested: Some(at),
            deadline: None,
            hold_if_late: false,
            record: NewRecord {
                owner: invoice.customer_id.clone(),
                by_owner: true,
                status: InvoiceStatus::Pending.as_str().to_owned(),
                money: invoice.money,
                content_hash: invoice.content_hash(),
            },
            guards: vec![],
            // Whoever charges it reads the invoice as it is then: it may be corrected meanwhile.
            body: invoice.document().to_string(),
            init_flow: flow,
        }
    }

    /// Gives an invoice that waits another time; one that has FAILED is tried again. Without a time
    /// it is derived anew from its schedule.
    pub async fn reschedule(
        &self,
        id: &ItemId,
        at: Option<Timestamp>,
        author: Author,
    ) -> Result<ItemView, BillingError> {
        let view = self.hot_invoice(id).await?;
        if view.status == InvoiceStatus::Paid.as_str() {
            return Err(BillingError::Conflict(format!(
                "invoice {id} is PAID, and is not charged again"
            )));
        }
        let now = self.store.now().await?;
        let at = match at {
            Some(at) => at.max(now),
            None => self.schedules.next_of(&view, now).await?,
        };
        let item = item(id);
        let said = if view.status == InvoiceStatus::Failed.as_str() {
            self.store.reopen(&item, reopened(), at, author).await?
        } else {
            self.store.reschedule(&item, at, author).await?
        };
        intervened(id.as_str(), "rescheduled", said)?;
        self.invoice(id).await
    }

    /// One that a person may act on.
    pub(super) async fn hot_invoice(&self, id: &ItemId) -> Result<ItemView, BillingError> {
        let view = self.invoice(id).await?;
        match &view.archived {
            None => Ok(view),
            Some(from) => Err(BillingError::Conflict(format!(
                "invoice {id} ended on {} and is in the archive, where items stay as they are; use a new id",
                from.day
            ))),
        }
    }

    pub async fn invoice(&self, id: &ItemId) -> Result<ItemView, BillingError> {
        if let Some(view) = self.store.item(&item(id)).await? {
            return Ok(view);
        }
        let known = archived(&*self.store, &item(id), "").await?;
        Err(known.map_or_else(
            || BillingError::no_invoice(id.as_str()),
            |known| BillingError::Archived(in_a_file("invoice", id, &known)),
        ))
    }

    /// Finds outstanding invoices that nothing would ever charge, and gives them their time again.
    pub async fn sweep(&self, after: Option<ItemId>) -> Result<Swept, BillingError> {
        let wanted = RecordsWanted {
            status: Some(InvoiceStatus::Pending.as_str().to_owned()),
            after,
            ..RecordsWanted::all(item_type(), SWEPT_AT_ONCE)
        };
        let page = self.store.records(wanted).await?;
        let mut swept = Swept {
            rescued: 0,
            next: page.next,
        };
        for line in page.items.iter().filter(|line| may_be_lost(line)) {
            match self.rescue(&line.id).await {
                Ok(rescued) => swept.rescued += u64::from(rescued),
                Err(BillingError::Store(error)) => return Err(error.into()),
                // One that has no time any more must not keep the others from theirs.
                Err(error) => tracing::warn!(invoice = %line.id, %error, "it stays unscheduled"),
            }
        }
        Ok(swept)
    }

    async fn rescue(&self, id: &ItemId) -> Result<bool, BillingError> {
        let view = self.invoice(id).await?;
        if view.finished_at.is_none() {
            return Ok(false);
        }
        let now = self.store.now().await?;
        let at = self.schedules.next_of(&view, now).await?;
        let author = Author::new(actor::SWEEP, "outstanding, and was not scheduled");
        let said = self.store.reopen(&item(id), rescued(), at, author).await?;
        Ok(intervened(id.as_str(), "rescued", said).is_ok())
    }
}

/// An invoice is in its customer's currency.
pub(super) fn pays_in(customer: &Customer, invoice: &InvoiceRequest) -> Result<(), BillingError> {
    if customer.currency == invoice.money.currency {
        return Ok(());
    }
    let why = format!(
        "customer {} pays in {}",
        customer.customer_id, customer.currency
    );
    Err(BillingError::field("amount.currency", why))
}

fn may_be_lost(line: &RecordLine) -> bool {
    matches!(
        line.queue_status,
        QueueStatus::Dispatched | QueueStatus::Cancelled
    )
}

/// The fields of a part, by their names in the whole.
fn in_field(field: &str, error: BillingError) -> BillingError {
    match error {
        BillingError::Invalid(details) => {
            let named = |(name, why)| (format!("{field}.{name}"), why);
            BillingError::Invalid(details.into_iter().map(named).collect())
        }
        other => other,
    }
}
