//! Customers, each a setting: created once, changed by people, and the same again changes nothing.

use std::sync::Arc;

use tollgate_core::id::ItemId;
use tollgate_core::ports::{Author, OwnedWanted, Page, Setting, SettingKind, Store, StoreError};

use super::error::BillingError;
use super::item_type;
use super::request::Customer;
use super::status::InvoiceStatus;

/// At most this many of a customer's outstanding invoices are counted.
const MOST_COUNTED: u32 = 1000;

pub struct Customers {
    store: Arc<dyn Store>,
}

impl std::fmt::Debug for Customers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Customers").finish_non_exhaustive()
    }
}

impl Customers {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// True if it is new, false if it was known; a conflict if it was known as something else.
    pub async fn create(&self, customer: &Customer, author: Author) -> Result<bool, BillingError> {
        let id = &customer.customer_id;
        if self.write(0, customer, author).await? {
            return Ok(true);
        }
        if self.get(id).await?.as_ref() == Some(customer) {
            return Ok(false);
        }
        Err(BillingError::Known(format!(
            "customer {id} already exists with different content; use a new id for another customer"
        )))
    }

    /// Changes a customer. What is queued keeps its time, and its amount: the currency stays while
    /// there are outstanding invoices in it.
    pub async fn change(&self, customer: &Customer, author: Author) -> Result<(), BillingError> {
        let id = &customer.customer_id;
        let Some(setting) = self.store.setting(SettingKind::Customer, id).await? else {
            return Err(BillingError::no_customer(id));
        };
        let before = read(id, &setting)?;
        if before == *customer {
            return Ok(());
        }
        if before.currency != customer.currency {
            let outstanding = self.outstanding(id).await?.len();
            if outstanding > 0 {
                let (many, currency) = (outstanding_text(outstanding), before.currency);
                return Err(BillingError::Conflict(format!(
                    "currency: customer {id} has {many} in {currency}; change it after they have ended"
                )));
            }
        }
        if self.write(setting.version, customer, author).await? {
            return Ok(());
        }
        Err(BillingError::Conflict(format!(
            "customer {id} was changed by another request; read it again and retry"
        )))
    }

    /// True if this version was still in force.
    async fn write(
        &self,
        version: i64,
        customer: &Customer,
        author: Author,
    ) -> Result<bool, StoreError> {
        let body = serde_json::to_string(customer).map_err(|e| StoreError::Bug(e.to_string()))?;
        let (kind, id) = (SettingKind::Customer, &customer.customer_id);
        let written = self.store.replace_setting(kind, id, version, body, author);
        Ok(written.await?.is_some())
    }

    /// In the order of their ids.
    pub async fn list(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Page<Customer, String>, StoreError> {
        let page = self.store.settings(SettingKind::Customer, after, limit);
        let page = page.await?;
        let customers = page.items.iter().map(|one| read(&one.name, &one.setting));
        Ok(Page {
            items: customers.collect::<Result<_, _>>()?,
            next: page.next,
            previous: None,
        })
    }

    /// A customer's invoices that have not ended; no more than [`MOST_COUNTED`] of them.
    pub(super) async fn outstanding(&self, id: &str) -> Result<Vec<ItemId>, StoreError> {
        let statuses = InvoiceStatus::OUTSTANDING.map(|status| status.as_str().to_owned());
        let wanted = OwnedWanted {
            item_type: item_type(),
            owner: id.to_owned(),
            statuses: statuses.into(),
            limit: MOST_COUNTED,
        };
        self.store.owned(wanted).await
    }

    pub async fn get(&self, id: &str) -> Result<Option<Customer>, StoreError> {
        let setting = self.store.setting(SettingKind::Customer, id).await?;
        setting.map(|setting| read(id, &setting)).transpose()
    }

    /// Of something that cannot be without one.
    pub(super) async fn known(&self, id: &str) -> Result<Customer, BillingError> {
        let customer = self.get(id).await?;
        customer.ok_or_else(|| BillingError::no_customer(id))
    }
}

fn read(id: &str, setting: &Setting) -> Result<Customer, StoreError> {
    serde_json::from_str(&setting.body_json)
        .map_err(|e| StoreError::Bug(format!("customer {id}: {e}")))
}

/// "3 outstanding invoices", or how many at least.
pub(super) fn outstanding_text(outstanding: usize) -> String {
    let many = if outstanding >= MOST_COUNTED as usize {
        " or more"
    } else {
        ""
    };
    let s = if outstanding == 1 { "" } else { "s" };
    format!("{outstanding}{many} outstanding invoice{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_outstanding_is_told_as_far_as_it_was_counted() {
        let table = [
            (1, "1 outstanding invoice"),
            (2, "2 outstanding invoices"),
            (999, "999 outstanding invoices"),
            (1000, "1000 or more outstanding invoices"),
        ];
        for (outstanding, expected) in table {
            assert_eq!(outstanding_text(outstanding), expected);
        }
    }
}
