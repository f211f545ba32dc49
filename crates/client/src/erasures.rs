//! Erasures of personal data.

use tollgate_contract::{Erasure, ErasureOrPreview, ErasureRequest};

use crate::address::quoted;
use crate::{Answer, Client, Error};

/// Calls about erasures; see [`Client::erasures`].
#[derive(Debug, Clone, Copy)]
pub struct Erasures<'c> {
    client: &'c Client,
}

impl Client {
    /// Erasures of personal data.
    pub fn erasures(&self) -> Erasures<'_> {
        Erasures { client: self }
    }
}

impl Erasures<'_> {
    /// Previews an erasure (`dry_run`), or starts the one that was previewed (`digest`). It cannot be undone.
    pub async fn submit(self, request: &ErasureRequest) -> Result<Answer<ErasureOrPreview>, Error> {
        self.client.post("/admin/erasures", request).await
    }

    /// Shows an erasure and its progress.
    pub async fn get(self, erasure: &str) -> Result<Answer<Erasure>, Error> {
        let path = format!("/admin/erasures/{}", quoted(erasure));
        self.client.get(&path).await
    }
}
