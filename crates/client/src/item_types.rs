//! Item types: how items are dispatched.

use tollgate_contract::{ItemType, ItemTypeChange, Version};

use crate::address::quoted;
use crate::{Answer, Client, Error};

/// Calls about item types; see [`Client::item_types`].
#[derive(Debug, Clone, Copy)]
pub struct ItemTypes<'c> {
    client: &'c Client,
}

impl Client {
    /// Item types: how items are dispatched, and their kill switches.
    pub fn item_types(&self) -> ItemTypes<'_> {
        ItemTypes { client: self }
    }
}

impl ItemTypes<'_> {
    /// Lists item types.
    pub async fn list(self) -> Result<Answer<Vec<ItemType>>, Error> {
        self.client.get("/admin/item-types").await
    }

    /// Shows an item type with all its settings.
    pub async fn get(self, item_type: &str) -> Result<Answer<ItemType>, Error> {
        self.client.get(&path(item_type)).await
    }

    /// Changes an item type. Fields that are not given keep their value.
    pub async fn put(
        self,
        item_type: &str,
        change: &ItemTypeChange,
    ) -> Result<Answer<ItemType>, Error> {
        self.client.put(&path(item_type), change).await
    }

    /// Lists all versions of an item type, newest first.
    pub async fn history(self, item_type: &str) -> Result<Answer<Vec<Version>>, Error> {
        let path = format!("{}/history", path(item_type));
        self.client.get(&path).await
    }
}

fn path(item_type: &str) -> String {
    format!("/admin/item-types/{}", quoted(item_type))
}
