//! Events: moves of items, published to a topic.

use tollgate_contract::{Because, Events as State, EventsOff};

use crate::{Answer, Client, Error};

/// Calls about events; see [`Client::events`].
#[derive(Debug, Clone, Copy)]
pub struct Events<'c> {
    client: &'c Client,
}

impl Client {
    /// Events: moves of payments and invoices, published to a topic.
    pub fn events(&self) -> Events<'_> {
        Events { client: self }
    }
}

impl Events<'_> {
    /// Shows whether events are on, and how many are not published yet.
    pub async fn get(self) -> Result<Answer<State>, Error> {
        self.client.get("/admin/events").await
    }

    /// Turns events off and drops those that are not published.
    pub async fn turn_off(self, reason: &str) -> Result<Answer<EventsOff>, Error> {
        let reason = reason.to_owned();
        let path = "/admin/events/off";
        self.client.post(path, &Because { reason }).await
    }
}
