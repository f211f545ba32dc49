//! Payments: submit, look up, list, and change one.

use tollgate_contract::{
    AcceptedPayment, Because, NewPayment, Payment, PaymentList, RescheduleRequest,
};

use crate::address::{flag, number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about payments; see [`Client::payments`].
#[derive(Debug, Clone, Copy)]
pub struct Payments<'c> {
    client: &'c Client,
}

impl Client {
    /// Payments.
    pub fn payments(&self) -> Payments<'_> {
        Payments { client: self }
    }
}

/// Which payments to list. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct PaymentQuery {
    /// Status, such as `SCHEDULED`.
    pub status: Option<String>,
    /// Lane of the payment.
    pub lane: Option<String>,
    /// Gateway (bank) of the payment.
    pub gateway: Option<String>,
    /// Import that the payment came from.
    pub batch: Option<String>,
    /// ISO 4217 code.
    pub currency: Option<String>,
    /// Smallest amount; needs `currency`.
    pub min_amount: Option<String>,
    /// Largest amount; needs `currency`.
    pub max_amount: Option<String>,
    /// Accepted at this time or later.
    pub accepted_from: Option<String>,
    /// Accepted before this time.
    pub accepted_to: Option<String>,
    /// Complete account number of the debtor or the creditor.
    pub account: Option<String>,
    /// Reference for the parties.
    pub reference: Option<String>,
    /// Only payments whose deadline passed before they ended.
    pub late: bool,
    /// Only payments that are held.
    pub held: bool,
    /// Only payments that are expected to miss their deadline.
    pub at_risk: bool,
    /// Page token: `next` of the previous page.
    pub after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl PaymentQuery {
    fn path(&self) -> String {
        let query = query(&[
            ("status", self.status.clone()),
            ("lane", self.lane.clone()),
            ("gateway", self.gateway.clone()),
            ("batch", self.batch.clone()),
            ("currency", self.currency.clone()),
            ("minAmount", self.min_amount.clone()),
            ("maxAmount", self.max_amount.clone()),
            ("acceptedFrom", self.accepted_from.clone()),
            ("acceptedTo", self.accepted_to.clone()),
            ("account", self.account.clone()),
            ("reference", self.reference.clone()),
            ("late", flag(self.late)),
            ("held", flag(self.held)),
            ("atRisk", flag(self.at_risk)),
            ("after", self.after.clone()),
            ("limit", number(self.limit)),
        ]);
        format!("/payments{query}")
    }
}

impl Payments<'_> {
    /// Submits a payment. Repeating the same request changes nothing; the status is 201 for a new payment, 202 if its
    /// slot is not known yet, 200 if it was known already.
    pub async fn submit(self, payment: &NewPayment) -> Result<Answer<AcceptedPayment>, Error> {
        self.client.post("/payments", payment).await
    }

    /// Looks a payment up: status, history, and why it is not running.
    pub async fn get(self, id: &str) -> Result<Answer<Payment>, Error> {
        let path = format!("/payments/{}", quoted(id));
        self.client.get(&path).await
    }

    /// Lists payments, newest first, paged. The payments of an import are sorted by id.
    pub async fn list(self, query: &PaymentQuery) -> Result<Answer<PaymentList>, Error> {
        self.client.get(&query.path()).await
    }

    /// Cancels a waiting or held payment.
    pub async fn cancel(self, id: &str, reason: &str) -> Result<Answer<Payment>, Error> {
        self.act(id, "cancel", reason).await
    }

    /// Releases a payment that was held after its deadline or by a rule.
    pub async fn release(self, id: &str, reason: &str) -> Result<Answer<Payment>, Error> {
        self.act(id, "release", reason).await
    }

    /// Reopens a payment that the bank refused, to send it again.
    pub async fn reopen(self, id: &str, reason: &str) -> Result<Answer<Payment>, Error> {
        self.act(id, "reopen", reason).await
    }

    /// Gives a waiting or held payment a new earliest time.
    pub async fn reschedule(
        self,
        id: &str,
        request: &RescheduleRequest,
    ) -> Result<Answer<Payment>, Error> {
        let path = format!("/payments/{}/reschedule", quoted(id));
        self.client.post(&path, request).await
    }

    async fn act(self, id: &str, act: &str, reason: &str) -> Result<Answer<Payment>, Error> {
        let path = format!("/payments/{}/{act}", quoted(id));
        let reason = reason.to_owned();
        self.client.post(&path, &Because { reason }).await
    }
}
