//! Customers, each a setting: written once, and the same again changes nothing.

use std::sync::Arc;

use tollgate_core::id::ItemId;
use tollgate_core::ports::{Author, OwnedWanted, SettingKind, Store, StoreError};

use super::error::BillingError;
use super::item_type;
use super::request::Customer;
use super::status::InvoiceStatus;

/// So many of a customer's outstanding invoices are looked at, to say how many there are.
const MOST_COUNTED: u32 = 1000;

pub struct Customers {
    pub store: Arc<dyn Store>,
}

impl std::fmt::Debug for Customers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Customers").finish_non_exhaustive()
    }
}

impl Customers {
    /// True if it is new, false if it was known; a conflict if it was known as something else.
    pub async fn create(&self, customer: &Customer, author: Author) -> Result<bool, BillingError> {
        let body = serde_json::to_string(customer).map_err(|e| StoreError::Bug(e.to_string()))?;
        let (kind, id) = (SettingKind::Customer, &customer.customer_id);
        let written = self
            .store
            .replace_setting(kind, id, 0, body, author)
            .await?;
        if written.is_some() {
            return Ok(true);
        }
        if self.get(id).await?.as_ref() == Some(customer) {
            return Ok(false);
        }
        Err(BillingError::Conflict(format!(
            "customer {id} is known with other content; another customer needs an id of its own"
        )))
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
        let Some(setting) = self.store.setting(SettingKind::Customer, id).await? else {
            return Ok(None);
        };
        serde_json::from_str(&setting.body_json)
            .map(Some)
            .map_err(|e| StoreError::Bug(format!("customer {id}: {e}")))
    }
}

/// "3 outstanding invoices", or how many at least.
pub(super) fn told(outstanding: usize) -> String {
    let many = if outstanding >= MOST_COUNTED as usize {
        " or more"
    } else {
        ""
    };
    let s = if outstanding == 1 { "" } else { "s" };
    format!("{outstanding}{many} outstanding invoice{s}")
}
