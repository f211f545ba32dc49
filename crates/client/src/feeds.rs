//! Feeds: topics whose records are imported.

use tollgate_contract::{Because, Feed, FeedForgotten, FeedList, FeedSeek, FeedSought};

use crate::address::quoted;
use crate::{Answer, Client, Error};

/// Calls about feeds; see [`Client::feeds`].
#[derive(Debug, Clone, Copy)]
pub struct Feeds<'c> {
    client: &'c Client,
}

impl Client {
    /// Feeds: topics whose records are imported.
    pub fn feeds(&self) -> Feeds<'_> {
        Feeds { client: self }
    }
}

impl Feeds<'_> {
    /// Lists all feeds with their positions and the records left to read.
    pub async fn list(self) -> Result<Answer<FeedList>, Error> {
        self.client.get("/admin/feeds").await
    }

    /// Pauses a feed. Records that were already imported are not affected.
    pub async fn pause(self, feed: &str, reason: &str) -> Result<Answer<Feed>, Error> {
        let reason = reason.to_owned();
        let path = path(feed, "pause");
        self.client.post(&path, &Because { reason }).await
    }

    /// Reads a paused feed again, from its positions on.
    pub async fn resume(self, feed: &str, reason: &str) -> Result<Answer<Feed>, Error> {
        let reason = reason.to_owned();
        let path = path(feed, "resume");
        self.client.post(&path, &Because { reason }).await
    }

    /// Moves one partition of a paused feed.
    pub async fn seek(self, feed: &str, seek: &FeedSeek) -> Result<Answer<FeedSought>, Error> {
        self.client.post(&path(feed, "seek"), seek).await
    }

    /// Deletes the positions of a feed that no process configures any more.
    pub async fn forget(self, feed: &str, reason: &str) -> Result<Answer<FeedForgotten>, Error> {
        let reason = reason.to_owned();
        let path = path(feed, "forget");
        self.client.post(&path, &Because { reason }).await
    }
}

fn path(feed: &str, what: &str) -> String {
    format!("/admin/feeds/{}/{what}", quoted(feed))
}
