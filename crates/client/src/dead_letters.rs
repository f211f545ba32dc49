//! Dead letters: items whose retries are used up.

use tollgate_contract::{Because, DeadLetterList, Replayed};

use crate::address::{number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about dead letters; see [`Client::dead_letters`].
#[derive(Debug, Clone, Copy)]
pub struct DeadLetters<'c> {
    client: &'c Client,
}

impl Client {
    /// Dead letters: items whose retries are used up.
    pub fn dead_letters(&self) -> DeadLetters<'_> {
        DeadLetters { client: self }
    }
}

/// Which dead letters to list.
#[derive(Debug, Clone, Default)]
pub struct DeadLetterQuery {
    /// `PAYMENT` (default), `INVOICE` or `NOTIFICATION`.
    pub item_type: Option<String>,
    /// Page token: `next` of the previous page.
    pub after: Option<String>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl DeadLetters<'_> {
    /// Lists dead letters with the reason, newest due time first.
    pub async fn list(self, asked: &DeadLetterQuery) -> Result<Answer<DeadLetterList>, Error> {
        let query = query(&[
            ("type", asked.item_type.clone()),
            ("after", asked.after.clone()),
            ("limit", number(asked.limit)),
        ]);
        let path = format!("/admin/dead-letters{query}");
        self.client.get(&path).await
    }

    /// Puts a dead letter back into the queue, to run now.
    pub async fn replay(
        self,
        item_type: &str,
        id: &str,
        reason: &str,
    ) -> Result<Answer<Replayed>, Error> {
        let (item_type, id) = (quoted(item_type), quoted(id));
        let path = format!("/admin/dead-letters/{item_type}/{id}/replay");
        let reason = reason.to_owned();
        self.client.post(&path, &Because { reason }).await
    }
}
