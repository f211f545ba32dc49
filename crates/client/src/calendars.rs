//! Calendars: the opening hours of lanes.

use tollgate_contract::{Calendar, CalendarChange, Version};

use crate::address::{query, quoted};
use crate::{Answer, Client, Error};

/// Calls about calendars; see [`Client::calendars`].
#[derive(Debug, Clone, Copy)]
pub struct Calendars<'c> {
    client: &'c Client,
}

impl Client {
    /// Calendars: the opening hours of lanes.
    pub fn calendars(&self) -> Calendars<'_> {
        Calendars { client: self }
    }
}

impl Calendars<'_> {
    /// Lists calendars and the lanes that use them.
    pub async fn list(self) -> Result<Answer<Vec<Calendar>>, Error> {
        self.client.get("/admin/calendars").await
    }

    /// Shows a calendar with its next opening times.
    pub async fn get(self, name: &str) -> Result<Answer<Calendar>, Error> {
        self.client.get(&path(name)).await
    }

    /// Creates or replaces a calendar.
    pub async fn put(self, name: &str, change: &CalendarChange) -> Result<Answer<Calendar>, Error> {
        self.client.put(&path(name), change).await
    }

    /// Replaces the holidays of a calendar. The text has one date and name per line. `confirm` is required if the
    /// change would leave waiting items without a slot.
    pub async fn put_holidays(
        self,
        name: &str,
        text: String,
        reason: &str,
        confirm: bool,
    ) -> Result<Answer<Calendar>, Error> {
        let query = query(&[
            ("reason", Some(reason.to_owned())),
            ("confirm", Some(confirm.to_string())),
        ]);
        let path = format!("{}/holidays{query}", path(name));
        self.client.put_text(&path, text).await
    }

    /// Lists all versions of a calendar, newest first.
    pub async fn history(self, name: &str) -> Result<Answer<Vec<Version>>, Error> {
        let path = format!("{}/history", path(name));
        self.client.get(&path).await
    }
}

fn path(name: &str) -> String {
    format!("/admin/calendars/{}", quoted(name))
}
