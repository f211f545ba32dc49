//! What people put right about an invoice: withdraw it, charge another amount, or note that it was paid
//! elsewhere. Each is refused once a charge was made or may have been.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_core::Timestamp;
use tollgate_core::id::ItemId;
use tollgate_core::money::Money;
use tollgate_core::ports::{Amendment, Author, ItemView, StoreError};

use super::billing::Billing;
use super::error::{BillingError, intervened};
use super::status::{InvoiceStatus, cancelled, uncharged};
use super::{body, document, item};

/// Who noted that an invoice was paid elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledBy {
    pub actor: String,
    pub reason: String,
    /// Where the payment is found, such as a transfer's number.
    pub reference: String,
    pub at: Timestamp,
}

impl Billing {
    /// Withdraws an invoice; it is never charged.
    pub async fn cancel(&self, id: &ItemId, author: Author) -> Result<ItemView, BillingError> {
        self.hot_invoice(id).await?;
        let said = self.store.cancel(&item(id), cancelled(), author).await?;
        intervened(id.as_str(), "cancelled", said)?;
        self.invoice(id).await
    }

    /// Charges another amount from here on, under the next key: the provider may know the old amount
    /// under the old one.
    pub async fn correct(
        &self,
        id: &ItemId,
        money: Money,
        author: Author,
    ) -> Result<ItemView, BillingError> {
        let view = self.hot_invoice(id).await?;
        if money.currency != view.money.currency {
            let why = format!("must be {}, as on the invoice", view.money.currency);
            return Err(BillingError::field("amount.currency", why));
        }
        let corrections = document(&view)?.corrections + 1;
        let (new, old) = (money.decimal(), view.money.decimal());
        let reason = format!("{new} instead of {old}: {}", author.reason);
        let amendment = Amendment {
            action: "CORRECTED",
            amount_minor: Some(money.minor),
            from: uncharged(),
            ends_as: None,
            body: with(&view, "corrections", &json!(corrections))?,
            was: body(&view)?.to_owned(),
        };
        let author = Author { reason, ..author };
        let said = self.store.amend(&item(id), amendment, author).await?;
        intervened(id.as_str(), "corrected", said)?;
        self.invoice(id).await
    }

    /// It was paid elsewhere: PAID, and nobody is charged.
    pub async fn settle(
        &self,
        id: &ItemId,
        reference: String,
        author: Author,
    ) -> Result<ItemView, BillingError> {
        let view = self.hot_invoice(id).await?;
        let by = SettledBy {
            actor: author.actor.clone(),
            reason: author.reason.clone(),
            reference,
            at: self.store.now().await?,
        };
        let reason = format!("paid as {}: {}", by.reference, by.reason);
        let amendment = Amendment {
            action: "SETTLED",
            amount_minor: None,
            from: uncharged(),
            ends_as: Some(InvoiceStatus::Paid.as_str().to_owned()),
            body: with(&view, "settledBy", &json!(by))?,
            was: body(&view)?.to_owned(),
        };
        let author = Author { reason, ..author };
        let said = self.store.amend(&item(id), amendment, author).await?;
        intervened(id.as_str(), "settled", said)?;
        self.invoice(id).await
    }
}

/// The body with one field more; sameness is judged by the request that it was made from.
fn with(view: &ItemView, field: &str, value: &Value) -> Result<String, StoreError> {
    let mut kept: Value = serde_json::from_str(body(view)?)
        .map_err(|e| StoreError::Bug(format!("invoice {}: {e}", view.item.id)))?;
    kept[field] = value.clone();
    Ok(kept.to_string())
}
