//! Customers, each a setting: written once, and the same again changes nothing.

use std::sync::Arc;

use tollgate_core::ports::{Author, SettingKind, Store, StoreError};

use super::error::BillingError;
use super::request::Customer;

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

    pub async fn get(&self, id: &str) -> Result<Option<Customer>, StoreError> {
        let Some(setting) = self.store.setting(SettingKind::Customer, id).await? else {
            return Ok(None);
        };
        serde_json::from_str(&setting.body_json)
            .map(Some)
            .map_err(|e| StoreError::Bug(format!("customer {id}: {e}")))
    }
}
