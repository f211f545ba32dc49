//! Schedules: when invoices are charged.

use tollgate_contract::{Schedule, ScheduleChange, ScheduleInForce};

use crate::address::{query, quoted};
use crate::{Answer, Client, Error};

/// Calls about schedules; see [`Client::schedules`].
#[derive(Debug, Clone, Copy)]
pub struct Schedules<'c> {
    client: &'c Client,
}

impl Client {
    /// Schedules: when invoices are charged.
    pub fn schedules(&self) -> Schedules<'_> {
        Schedules { client: self }
    }
}

/// Whose schedule it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleOf<'i> {
    /// The schedule of every invoice that has no other.
    Global,
    /// The schedule of this customer's invoices.
    Customer(&'i str),
    /// The schedule of this invoice.
    Invoice(&'i str),
}

impl ScheduleOf<'_> {
    fn path(self) -> String {
        match self {
            Self::Global => "/billing/schedules/global".to_owned(),
            Self::Customer(id) => format!("/billing/schedules/customer/{}", quoted(id)),
            Self::Invoice(id) => format!("/billing/schedules/invoice/{}", quoted(id)),
        }
    }
}

impl Schedules<'_> {
    /// Shows a schedule with its next times.
    pub async fn get(self, of: ScheduleOf<'_>) -> Result<Answer<ScheduleInForce>, Error> {
        self.client.get(&of.path()).await
    }

    /// Previews the next times of a schedule. Changes nothing.
    pub async fn preview(self, schedule: &Schedule) -> Result<Answer<ScheduleInForce>, Error> {
        let path = "/billing/schedules/preview";
        self.client.post(path, schedule).await
    }

    /// Sets a schedule. Queued invoices keep their time.
    pub async fn put(
        self,
        of: ScheduleOf<'_>,
        change: &ScheduleChange,
    ) -> Result<Answer<ScheduleInForce>, Error> {
        self.client.put(&of.path(), change).await
    }

    /// Removes a schedule; the global one cannot be removed. `force` is required if outstanding invoices use it; they
    /// keep their time.
    pub async fn delete(self, of: ScheduleOf<'_>, reason: &str, force: bool) -> Result<(), Error> {
        let query = query(&[
            ("force", Some(force.to_string())),
            ("reason", Some(reason.to_owned())),
        ]);
        self.client.delete(&format!("{}{query}", of.path())).await
    }
}
