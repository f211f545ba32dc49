//! Rules and routes of payments.

use serde::Serialize;
use tollgate_contract::{RulesInForce, RulesReload, RulesReloaded, RulesTried};

use crate::{Answer, Client, Error};

/// Calls about rules and routes; see [`Client::rules`].
#[derive(Debug, Clone, Copy)]
pub struct Rules<'c> {
    client: &'c Client,
}

impl Client {
    /// Rules and routes of payments.
    pub fn rules(&self) -> Rules<'_> {
        Rules { client: self }
    }
}

impl Rules<'_> {
    /// Shows the rules and routes in force, and all earlier versions.
    pub async fn get(self) -> Result<Answer<RulesInForce>, Error> {
        self.client.get("/admin/rules").await
    }

    /// Reads rules, routes and invoice checks again from the server's configuration file.
    pub async fn reload(self, request: &RulesReload) -> Result<Answer<RulesReloaded>, Error> {
        self.client.post("/admin/rules/reload", request).await
    }

    /// Tests rules and routes against payments. Nothing is stored.
    ///
    /// The request is `RulesTrial` of the OpenAPI document. It is free JSON here, since rules and payments that are
    /// wrong are what it is for.
    pub async fn try_out(
        self,
        request: &(impl Serialize + ?Sized),
    ) -> Result<Answer<RulesTried>, Error> {
        self.client.post("/admin/rules/dry-run", request).await
    }
}
