//! Items in doubt: they were sent, and their outcome is unknown.

use tollgate_contract::{
    Doubtful, InDoubtList, InDoubtQuestion, InDoubtQuestions, Resolution, ResolutionResult,
};

use crate::address::{query, quoted};
use crate::{Answer, Client, Error};

/// Calls about items in doubt; see [`Client::in_doubt`].
#[derive(Debug, Clone, Copy)]
pub struct InDoubt<'c> {
    client: &'c Client,
}

impl Client {
    /// Items in doubt: payments and invoices that were sent and whose outcome is unknown.
    pub fn in_doubt(&self) -> InDoubt<'_> {
        InDoubt { client: self }
    }
}

impl InDoubt<'_> {
    /// Lists items of one type in doubt, newest first, with their total amounts. The type is `PAYMENT` (default) or
    /// `INVOICE`; `after` is `next` of the previous page.
    pub async fn list(
        self,
        item_type: Option<&str>,
        after: Option<&str>,
    ) -> Result<Answer<InDoubtList>, Error> {
        let query = query(&[
            ("type", item_type.map(str::to_owned)),
            ("after", after.map(str::to_owned)),
        ]);
        self.client.get(&format!("/admin/in-doubt{query}")).await
    }

    /// Shows an item that is or was in doubt.
    pub async fn get(self, item_type: &str, id: &str) -> Result<Answer<Doubtful>, Error> {
        self.client.get(&path(item_type, id)).await
    }

    /// Asks the banks about payments in doubt. Payments that were not asked about in time are in `left`.
    pub async fn ask(self, question: &InDoubtQuestion) -> Result<Answer<InDoubtQuestions>, Error> {
        self.client.post("/admin/in-doubt/ask", question).await
    }

    /// Records a person's decision about an item in doubt.
    pub async fn resolve(
        self,
        item_type: &str,
        id: &str,
        resolution: &Resolution,
    ) -> Result<Answer<ResolutionResult>, Error> {
        let path = format!("{}/resolve", path(item_type, id));
        self.client.post(&path, resolution).await
    }
}

fn path(item_type: &str, id: &str) -> String {
    format!("/admin/in-doubt/{}/{}", quoted(item_type), quoted(id))
}
