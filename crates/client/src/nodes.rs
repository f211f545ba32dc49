//! Nodes: the processes on the store.

use tollgate_contract::Nodes as NodeList;

use crate::{Answer, Client, Error};

/// Calls about nodes; see [`Client::nodes`].
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'c> {
    client: &'c Client,
}

impl Client {
    /// Nodes: the processes on the store.
    pub fn nodes(&self) -> Nodes<'_> {
        Nodes { client: self }
    }
}

impl Nodes<'_> {
    /// Lists the processes: which one is the leader, and which ones can take over.
    pub async fn list(self) -> Result<Answer<NodeList>, Error> {
        self.client.get("/admin/nodes").await
    }
}
