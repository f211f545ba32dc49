//! Questions to a bank about one payment.

use tollgate_contract::{BankAnswer, BankQuestion};

use crate::address::quoted;
use crate::{Answer, Client, Error};

impl Client {
    /// Asks a gateway (bank), or `default`, whether it knows a payment. The answer changes nothing.
    pub async fn ask_bank(
        &self,
        bank: &str,
        payment_id: &str,
    ) -> Result<Answer<BankAnswer>, Error> {
        let path = format!("/admin/banks/{}/ask", quoted(bank));
        let payment_id = payment_id.to_owned();
        self.post(&path, &BankQuestion { payment_id }).await
    }
}
