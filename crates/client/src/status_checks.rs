//! Status checks: the gateways are asked about payments.

use tollgate_contract::{CheckStatus, CheckStatusRequest, CheckStatusStart};

use crate::address::quoted;
use crate::{Answer, Client, Error};

/// Calls about status checks; see [`Client::status_checks`].
#[derive(Debug, Clone, Copy)]
pub struct StatusChecks<'c> {
    client: &'c Client,
}

impl Client {
    /// Status checks: the gateways are asked about payments.
    pub fn status_checks(&self) -> StatusChecks<'_> {
        StatusChecks { client: self }
    }
}

impl StatusChecks<'_> {
    /// Starts a status check of at most 10,000 payments.
    pub async fn start(
        self,
        request: &CheckStatusRequest,
    ) -> Result<Answer<CheckStatusStart>, Error> {
        self.client.post("/payments/check-status", request).await
    }

    /// Shows progress and result of a status check.
    pub async fn get(self, workflow_id: &str) -> Result<Answer<CheckStatus>, Error> {
        let path = format!("/payments/check-status/{}", quoted(workflow_id));
        self.client.get(&path).await
    }
}
