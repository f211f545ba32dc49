//! The audit log.

use tollgate_contract::AuditLog;

use crate::address::{number, query};
use crate::{Answer, Client, Error};

/// Calls about the audit log; see [`Client::audit`].
#[derive(Debug, Clone, Copy)]
pub struct Audit<'c> {
    client: &'c Client,
}

impl Client {
    /// The audit log.
    pub fn audit(&self) -> Audit<'_> {
        Audit { client: self }
    }
}

/// Which entries to list. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Item, as `TYPE/ID`.
    pub item: Option<String>,
    /// Who did it.
    pub actor: Option<String>,
    /// Event, such as `SETTING_CHANGED`.
    pub action: Option<String>,
    /// Kind of actor: `people` or `machine`.
    pub by: Option<String>,
    /// Entries from this time on.
    pub from: Option<String>,
    /// Entries before this time.
    pub to: Option<String>,
    /// Page token: `next` of the previous page.
    pub after: Option<i64>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl AuditQuery {
    fn path(&self) -> String {
        let query = query(&[
            ("item", self.item.clone()),
            ("actor", self.actor.clone()),
            ("action", self.action.clone()),
            ("by", self.by.clone()),
            ("from", self.from.clone()),
            ("to", self.to.clone()),
            ("after", number(self.after)),
            ("limit", number(self.limit)),
        ]);
        format!("/admin/audit{query}")
    }
}

impl Audit<'_> {
    /// Lists entries, newest first.
    pub async fn list(self, query: &AuditQuery) -> Result<Answer<AuditLog>, Error> {
        self.client.get(&query.path()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_escaped() {
        let query = AuditQuery {
            item: Some("PAYMENT/pay_1".to_owned()),
            actor: Some("ann & bob".to_owned()),
            after: Some(7),
            ..AuditQuery::default()
        };
        let path = "/admin/audit?item=PAYMENT%2Fpay_1&actor=ann%20%26%20bob&after=7";
        assert_eq!(query.path(), path);
    }
}
