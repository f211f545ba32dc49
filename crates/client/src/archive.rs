//! The archive: days of ended items, in the database and in files.

use tollgate_contract::{
    ArchiveRound, ArchiveStatus, ArchivedAudit, ArchivedDayList, ArchivedItemList, Because,
    VerifiedDay,
};

use crate::address::{number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about the archive; see [`Client::archive`].
#[derive(Debug, Clone, Copy)]
pub struct Archive<'c> {
    client: &'c Client,
}

impl Client {
    /// The archive: items that ended, by the day of their end.
    pub fn archive(&self) -> Archive<'_> {
        Archive { client: self }
    }
}

/// A page of the archive.
#[derive(Debug, Clone, Default)]
pub struct ArchiveQuery {
    /// `PAYMENT`, `INVOICE` or `NOTIFICATION`. Default: all.
    pub item_type: Option<String>,
    /// Page token: `next` of the previous page.
    pub after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl ArchiveQuery {
    fn query(&self) -> String {
        query(&[
            ("itemType", self.item_type.clone()),
            ("after", self.after.clone()),
            ("limit", number(self.limit)),
        ])
    }
}

/// Which items of a day to list. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct ArchivedItemQuery {
    /// `PAYMENT`, `INVOICE` or `NOTIFICATION`. Default: all.
    pub item_type: Option<String>,
    /// Status with which the item ended, such as `PROCESSING`.
    pub status: Option<String>,
    /// Complete account number of the debtor or the creditor.
    pub account: Option<String>,
    /// Reference of the payment.
    pub reference: Option<String>,
    /// Page token: `next` of the previous page.
    pub after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

/// A day of the archive.
#[derive(Debug, Clone)]
pub struct ArchiveDay {
    /// UTC day on which the items ended, such as `2026-11-18`.
    pub day: String,
    /// `PAYMENT`, `INVOICE` or `NOTIFICATION`. Default: all.
    pub item_type: Option<String>,
}

impl ArchiveDay {
    fn path(&self, what: &str) -> String {
        let query = query(&[("itemType", self.item_type.clone())]);
        format!("/admin/archive/{}{what}{query}", quoted(&self.day))
    }
}

impl Archive<'_> {
    /// Lists the days of the archive, oldest first.
    pub async fn list(self, page: &ArchiveQuery) -> Result<Answer<ArchivedDayList>, Error> {
        let path = format!("/admin/archive{}", page.query());
        self.client.get(&path).await
    }

    /// Shows a day: where it is, its totals, its files and their digests.
    pub async fn get(self, day: &ArchiveDay) -> Result<Answer<ArchivedDayList>, Error> {
        self.client.get(&day.path("")).await
    }

    /// Lists the items of a day, in the order of their ids.
    pub async fn items(
        self,
        day: &str,
        asked: &ArchivedItemQuery,
    ) -> Result<Answer<ArchivedItemList>, Error> {
        let query = query(&[
            ("itemType", asked.item_type.clone()),
            ("status", asked.status.clone()),
            ("account", asked.account.clone()),
            ("reference", asked.reference.clone()),
            ("after", asked.after.clone()),
            ("limit", number(asked.limit)),
        ]);
        let path = format!("/admin/archive/{}/items{query}", quoted(day));
        self.client.get(&path).await
    }

    /// Lists the audit entries about the items of a day, item by item.
    pub async fn audit(
        self,
        day: &str,
        page: &ArchiveQuery,
    ) -> Result<Answer<ArchivedAudit>, Error> {
        let path = format!("/admin/archive/{}/audit{}", quoted(day), page.query());
        self.client.get(&path).await
    }

    /// Shows sizes, days without a file, and problems.
    pub async fn status(self) -> Result<Answer<ArchiveStatus>, Error> {
        self.client.get("/admin/archive/status").await
    }

    /// Does now what the service does by itself: moves ended items, exports closed days, drops old days.
    pub async fn run(self, reason: &str) -> Result<Answer<ArchiveRound>, Error> {
        let reason = reason.to_owned();
        let path = "/admin/archive/run";
        self.client.post(path, &Because { reason }).await
    }

    /// Reads the complete files of a day and compares them with their manifests and with the database.
    pub async fn verify(self, day: &ArchiveDay) -> Result<Answer<VerifiedDay>, Error> {
        let nothing = serde_json::Map::new();
        self.client.post(&day.path("/verify"), &nothing).await
    }

    /// Exports a day to the folder `retention.export_dir`.
    pub async fn export(
        self,
        day: &ArchiveDay,
        reason: &str,
    ) -> Result<Answer<ArchivedDayList>, Error> {
        let reason = reason.to_owned();
        let path = day.path("/export");
        self.client.post(&path, &Because { reason }).await
    }

    /// Restores a day from its files into the database.
    pub async fn restore(
        self,
        day: &ArchiveDay,
        reason: &str,
    ) -> Result<Answer<ArchivedDayList>, Error> {
        let reason = reason.to_owned();
        let path = day.path("/restore");
        self.client.post(&path, &Because { reason }).await
    }
}
