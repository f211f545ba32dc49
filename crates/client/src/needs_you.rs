//! What needs attention.

use tollgate_contract::{NeedSeenRequest, NeedsYou as Needs};

use crate::address::quoted;
use crate::{Answer, Client, Error};

/// Calls about what needs attention; see [`Client::needs_you`].
#[derive(Debug, Clone, Copy)]
pub struct NeedsYou<'c> {
    client: &'c Client,
}

impl Client {
    /// What needs attention: held and in doubt payments, stopped lanes, kill switches and more.
    pub fn needs_you(&self) -> NeedsYou<'_> {
        NeedsYou { client: self }
    }
}

impl NeedsYou<'_> {
    /// Lists what needs attention, the most urgent first.
    pub async fn get(self) -> Result<Answer<Needs>, Error> {
        self.client.get("/admin/needs-you").await
    }

    /// Marks one kind as seen, until its count grows.
    pub async fn seen(self, kind: &str, request: &NeedSeenRequest) -> Result<Answer<Needs>, Error> {
        let path = format!("/admin/needs-you/{}/seen", quoted(kind));
        self.client.post(&path, request).await
    }
}
