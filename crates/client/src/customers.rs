//! Customers: who invoices are charged to.

use tollgate_contract::{Customer, CustomerChange, CustomerList};

use crate::address::{number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about customers; see [`Client::customers`].
#[derive(Debug, Clone, Copy)]
pub struct Customers<'c> {
    client: &'c Client,
}

impl Client {
    /// Customers of invoices.
    pub fn customers(&self) -> Customers<'_> {
        Customers { client: self }
    }
}

impl Customers<'_> {
    /// Creates a customer. Repeating the same request changes nothing; the status is 201 for a new customer and 200 if
    /// it existed already.
    pub async fn create(self, customer: &Customer) -> Result<Answer<Customer>, Error> {
        self.client.post("/customers", customer).await
    }

    /// Shows a customer.
    pub async fn get(self, id: &str) -> Result<Answer<Customer>, Error> {
        self.client.get(&path(id)).await
    }

    /// Lists customers by id. `after` is `next` of the previous page.
    pub async fn list(
        self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Answer<CustomerList>, Error> {
        let after = after.map(str::to_owned);
        let query = query(&[("after", after), ("limit", number(limit))]);
        self.client.get(&format!("/customers{query}")).await
    }

    /// Replaces all values of a customer. Queued invoices keep their time.
    pub async fn change(
        self,
        id: &str,
        change: &CustomerChange,
    ) -> Result<Answer<Customer>, Error> {
        self.client.put(&path(id), change).await
    }
}

fn path(id: &str) -> String {
    format!("/customers/{}", quoted(id))
}
