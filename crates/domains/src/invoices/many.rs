//! Many invoices at once: what they have in common is looked up once, and all that can be taken in are, in one
//! transaction.

use std::collections::HashMap;

use tollgate_core::Timestamp;
use tollgate_core::details::{Details, one};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Admission, KnownContent, NewItem, Placed, StoreError};

use super::billing::{Billing, pays_in};
use super::error::BillingError;
use super::request::{Customer, InvoiceRequest};
use super::schedules::never_again;
use super::{item, item_type};
use crate::archived::archived;

const ERASED: &str = "existed, and its data was erased; use a new id";
const KNOWN: &str = "already exists with different content; use a new id for a changed invoice";

/// What came of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Judged {
    /// Taken in, by this flow.
    Accepted(Placed),
    /// Known with the same content.
    Duplicate,
    /// Known with other content.
    Conflict,
    Rejected(Details),
}

/// What is wrong with a record whose id another import has, with other content.
pub(super) fn known() -> Details {
    one("invoiceId", KNOWN)
}

/// Customers of these invoices, each with the next time of those that have no schedule of their own.
type Payers = HashMap<String, (Customer, Option<Timestamp>)>;

impl Billing {
    /// In their order, in the name of a flow: what it has taken in before is accepted, and no duplicate.
    pub(super) async fn create_many(
        &self,
        invoices: &[InvoiceRequest],
        flow: &FlowId,
    ) -> Result<Vec<Judged>, StoreError> {
        let now = self.store.now().await?;
        let (mut payers, mut new) = (Payers::new(), vec![]);
        let mut judged: Vec<Option<Judged>> = vec![];
        for invoice in invoices {
            match self.due(invoice, now, &mut payers).await {
                Ok(at) => {
                    new.push(self.new_item(invoice, at, flow.clone()));
                    judged.push(None);
                }
                Err(BillingError::Store(error)) => return Err(error),
                Err(error) => judged.push(Some(self.known_or(invoice, flow, error).await?)),
            }
        }
        let mut admitted = self.admitted(new, flow).await?.into_iter();
        let missing = || StoreError::Bug("an admission is missing".to_owned());
        let each = judged
            .into_iter()
            .map(|one| one.or_else(|| admitted.next()));
        each.map(|one| one.ok_or_else(missing)).collect()
    }

    async fn due(
        &self,
        invoice: &InvoiceRequest,
        now: Timestamp,
        payers: &mut Payers,
    ) -> Result<Timestamp, BillingError> {
        let id = &invoice.customer_id;
        if !payers.contains_key(id) {
            payers.insert(id.clone(), (self.customer(id).await?, None));
        }
        let (customer, next) = payers.get_mut(id).ok_or_else(never_again)?;
        pays_in(customer, invoice)?;
        if let (None, Some(next)) = (&invoice.schedule, *next) {
            return Ok(next);
        }
        let schedule = self.schedule(invoice.schedule.as_ref(), customer).await?;
        let at = schedule.after(now, &customer.zone());
        let at = at.ok_or_else(never_again)?;
        if invoice.schedule.is_none() {
            *next = Some(at);
        }
        Ok(at)
    }

    /// A repeat never fails because something has changed since.
    async fn known_or(
        &self,
        invoice: &InvoiceRequest,
        flow: &FlowId,
        error: BillingError,
    ) -> Result<Judged, StoreError> {
        let (id, hash) = (item(&invoice.invoice_id), invoice.content_hash());
        let Some(known) = self.store.item(&id).await? else {
            if let Some(known) = archived(&*self.store, &id, &hash).await? {
                return Ok(match known.content {
                    KnownContent::Same => Judged::Duplicate,
                    KnownContent::Other => Judged::Conflict,
                    KnownContent::Erased => Judged::Rejected(one("invoiceId", ERASED)),
                });
            }
            return Ok(Judged::Rejected(match error {
                BillingError::Invalid(details) => details,
                other => one("invoiceId", other.to_string()),
            }));
        };
        Ok(if known.is_erased() {
            Judged::Rejected(one("invoiceId", ERASED))
        } else if known.content_hash != invoice.content_hash() {
            Judged::Conflict
        } else if known.init_flow == *flow {
            Judged::Accepted(known.placed())
        } else {
            Judged::Duplicate
        })
    }

    async fn admitted(&self, new: Vec<NewItem>, flow: &FlowId) -> Result<Vec<Judged>, StoreError> {
        if new.is_empty() {
            return Ok(vec![]);
        }
        let admitted = self.store.admit(&item_type(), new).await?;
        let judge = |admission| match admission {
            Admission::New(placed) => Judged::Accepted(placed),
            Admission::Repeat(placed) if placed.init_flow == *flow => Judged::Accepted(placed),
            // An invoice has no request that could be withdrawn before.
            Admission::Repeat(_) | Admission::Cancelled | Admission::Archived => Judged::Duplicate,
            Admission::Erased => Judged::Rejected(one("invoiceId", ERASED)),
            Admission::Conflict => Judged::Conflict,
            Admission::Refused(message) => Judged::Rejected(one(Admission::LANE, message)),
            Admission::RefusedBy { rule, message } => Judged::Rejected(one(&rule, message)),
        };
        Ok(admitted.into_iter().map(judge).collect())
    }
}
