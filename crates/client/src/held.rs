//! Held items: they wait for a person. [`Payments`](crate::Payments) releases, reschedules and cancels them.

use tollgate_contract::HeldList;

use crate::address::{number, query};
use crate::{Answer, Client, Error};

/// Calls about held items; see [`Client::held`].
#[derive(Debug, Clone, Copy)]
pub struct Held<'c> {
    client: &'c Client,
}

impl Client {
    /// Held items: they missed their deadline, or a rule holds them.
    pub fn held(&self) -> Held<'_> {
        Held { client: self }
    }
}

/// Which held items to list.
#[derive(Debug, Clone, Default)]
pub struct HeldQuery {
    /// `PAYMENT` (default) or `INVOICE`.
    pub item_type: Option<String>,
    /// Gateway (bank) of the item.
    pub gateway: Option<String>,
    /// Page token: `next` of the previous page.
    pub after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl Held<'_> {
    /// Lists held items with their total amounts, newest due time first.
    pub async fn list(self, asked: &HeldQuery) -> Result<Answer<HeldList>, Error> {
        let query = query(&[
            ("type", asked.item_type.clone()),
            ("gateway", asked.gateway.clone()),
            ("after", asked.after.clone()),
            ("limit", number(asked.limit)),
        ]);
        self.client.get(&format!("/admin/held{query}")).await
    }
}
