//! Control totals.

use tollgate_contract::Totals;

use crate::Day;
use crate::address::query;
use crate::{Answer, Client, Error};

impl Client {
    /// Shows the control totals of a day: every payment and invoice accepted on it, each in exactly one status.
    pub async fn totals(&self, day: &Day) -> Result<Answer<Totals>, Error> {
        let query = query(&day.parameters());
        self.get(&format!("/admin/totals{query}")).await
    }
}
