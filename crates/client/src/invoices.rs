//! Invoices: create, look up, list, and change one.

use tollgate_contract::{
    AcceptedInvoice, Because, Invoice, InvoiceCorrection, InvoiceList, InvoiceOccurrences,
    InvoiceReschedule, InvoiceSettlement, NewInvoice,
};

use crate::address::{number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about invoices; see [`Client::invoices`].
#[derive(Debug, Clone, Copy)]
pub struct Invoices<'c> {
    client: &'c Client,
}

impl Client {
    /// Invoices.
    pub fn invoices(&self) -> Invoices<'_> {
        Invoices { client: self }
    }
}

/// Which invoices to list. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct InvoiceQuery {
    /// Status, such as `PENDING`.
    pub status: Option<String>,
    /// Id of the customer.
    pub customer: Option<String>,
    /// Page token: `next` of the previous page.
    pub after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl Invoices<'_> {
    /// Creates an invoice. Repeating the same request changes nothing; the status is 201 for a new invoice and 200 if
    /// it existed already.
    pub async fn create(self, invoice: &NewInvoice) -> Result<Answer<AcceptedInvoice>, Error> {
        self.client.post("/invoices", invoice).await
    }

    /// Looks an invoice up: its next charge and its history.
    pub async fn get(self, id: &str) -> Result<Answer<Invoice>, Error> {
        let path = format!("/invoices/{}", quoted(id));
        self.client.get(&path).await
    }

    /// Lists invoices, newest first.
    pub async fn list(self, asked: &InvoiceQuery) -> Result<Answer<InvoiceList>, Error> {
        let query = query(&[
            ("status", asked.status.clone()),
            ("customer", asked.customer.clone()),
            ("after", asked.after.clone()),
            ("limit", number(asked.limit)),
        ]);
        self.client.get(&format!("/invoices{query}")).await
    }

    /// Lists the next times at which an invoice may be charged.
    pub async fn occurrences(self, id: &str) -> Result<Answer<InvoiceOccurrences>, Error> {
        self.client.get(&path(id, "occurrences")).await
    }

    /// Cancels an invoice that has not been charged.
    pub async fn cancel(self, id: &str, reason: &str) -> Result<Answer<Invoice>, Error> {
        let reason = reason.to_owned();
        let path = path(id, "cancel");
        self.client.post(&path, &Because { reason }).await
    }

    /// Gives a waiting invoice a new earliest time. A `FAILED` invoice is charged again.
    pub async fn reschedule(
        self,
        id: &str,
        request: &InvoiceReschedule,
    ) -> Result<Answer<Invoice>, Error> {
        self.client.post(&path(id, "reschedule"), request).await
    }

    /// Changes the amount of an invoice that has not been charged.
    pub async fn correct(
        self,
        id: &str,
        request: &InvoiceCorrection,
    ) -> Result<Answer<Invoice>, Error> {
        self.client.post(&path(id, "correct"), request).await
    }

    /// Marks an invoice that was paid elsewhere as paid. The customer is not charged.
    pub async fn settle(
        self,
        id: &str,
        request: &InvoiceSettlement,
    ) -> Result<Answer<Invoice>, Error> {
        self.client.post(&path(id, "settle"), request).await
    }
}

fn path(id: &str, what: &str) -> String {
    format!("/invoices/{}/{what}", quoted(id))
}
