//! Taking invoices in and giving them their time; and what people do to them afterwards.

use std::sync::Arc;

use tollgate_core::Timestamp;
use tollgate_core::actor;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::id::{FlowId, ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::Money;
use tollgate_core::ports::{
    Admission, Author, ItemView, Known, KnownContent, NewItem, NewRecord, Placed, RecordLine,
    RecordsWanted, Store, StoreError,
};

use super::customers::Customers;
use super::error::{BillingError, intervened};
use super::request::{Customer, InvoiceRequest};
use super::schedule::{Schedule, ScheduleText};
use super::schedules::{Schedules, never_again};
use super::status::{InvoiceStatus, reopened, rescued};
use super::{item, item_type};
use crate::archived::{archived, cannot_act, in_a_file};

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
    /// None if it has ended and its slot is in a file of the archive.
    pub placed: Option<Placed>,
    /// The day on which it ended, if it is in the archive.
    pub archived: Option<ArchiveDay>,
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
        if let Some(known) = self.known(invoice).await? {
            return Ok(known);
        }
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
                placed: Some(placed),
                archived: None,
                repeat: false,
                warning,
            }),
            // Somebody else was faster with the same.
            Some(Admission::Repeat(_) | Admission::Conflict | Admission::Archived) => {
                let known = self.known(invoice).await?;
                known.ok_or_else(|| BillingError::no_invoice(invoice.invoice_id.as_str()))
            }
            Some(Admission::Erased) => Err(erased(invoice)),
            Some(Admission::Refused(why) | Admission::RefusedBy { message: why, .. }) => {
                Err(BillingError::Refused(why))
            }
            // Invoices are planned as they are accepted, without requests.
            Some(Admission::Cancelled) | None => {
                Err(StoreError::Bug("an admission is missing".to_owned()).into())
            }
        }
    }

    /// What is answered to a repeat of an id, wherever the invoice is now; none if the id is new.
    async fn known(&self, invoice: &InvoiceRequest) -> Result<Option<Taken>, BillingError> {
        let id = item(&invoice.invoice_id);
        if let Some(view) = self.store.item(&id).await? {
            return self.repeated(invoice, view).await.map(Some);
        }
        let known = archived(&*self.store, &id, &invoice.content_hash()).await?;
        known.map(|known| in_files(invoice, known)).transpose()
    }

    async fn repeated(
        &self,
        invoice: &InvoiceRequest,
        known: ItemView,
    ) -> Result<Taken, BillingError> {
        if known.is_erased() {
            return Err(erased(invoice));
        }
        if known.content_hash != invoice.content_hash() {
            return Err(other_content(invoice));
        }
        let warning = match &invoice.schedule {
            Some(own) => self.schedules.warning(own).await?,
            None => None,
        };
        Ok(Taken {
            money: known.money,
            placed: Some(known.placed()),
            archived: known.archived.as_ref().map(|from| from.day),
            status: known.status,
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
        let status = InvoiceStatus::Pending.as_str();
        let hash = invoice.content_hash();
        let record = NewRecord {
            by_owner: true,
            ..NewRecord::new(&invoice.customer_id, status, invoice.money, hash)
        };
        let (id, lane) = (invoice.invoice_id.clone(), self.lane.clone());
        // Whoever charges it reads the invoice as it is then: it may be corrected meanwhile.
        let body = invoice.document().to_string();
        NewItem {
            requested: Some(at),
            ..NewItem::new(id, lane, record, body, flow)
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
        let view = self.store.item(&item(id)).await?;
        if let Some(view) = view.filter(|view| view.archived.is_none()) {
            return Ok(view);
        }
        let known = archived(&*self.store, &item(id), "").await?;
        Err(known.map_or_else(
            || BillingError::no_invoice(id.as_str()),
            |known| {
                let why = cannot_act(&known);
                BillingError::Unchangeable(format!("invoice {id} cannot be changed: {why}"))
            },
        ))
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
                Err(error) => {
                    tracing::warn!(invoice = %line.id, %error, "an outstanding invoice cannot be scheduled");
                }
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
        let author = Author::new(actor::SWEEP, "outstanding, but had no planned charge");
        let said = self.store.reopen(&item(id), rescued(), at, author).await?;
        Ok(intervened(id.as_str(), "rescued", said).is_ok())
    }
}

/// It has ended, and the rest of it is in a file: its amount is the one that was asked for.
fn in_files(invoice: &InvoiceRequest, known: Known) -> Result<Taken, BillingError> {
    match known.content {
        KnownContent::Same => Ok(Taken {
            status: known.status,
            money: invoice.money,
            placed: None,
            archived: Some(known.day),
            repeat: true,
            warning: None,
        }),
        KnownContent::Other => Err(other_content(invoice)),
        KnownContent::Erased => Err(erased(invoice)),
    }
}

fn other_content(invoice: &InvoiceRequest) -> BillingError {
    BillingError::Known(format!(
        "invoice {} already exists with different content; use a new id for a changed invoice",
        invoice.invoice_id
    ))
}

fn erased(invoice: &InvoiceRequest) -> BillingError {
    BillingError::Erased(invoice.invoice_id.to_string())
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
