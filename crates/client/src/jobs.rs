//! Jobs: one action on many items, previewed and confirmed.

use tollgate_contract::{Because, Job, JobItems, JobList, JobOrPreview, JobRequest};

use crate::address::{flag, number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about jobs; see [`Client::jobs`].
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'c> {
    client: &'c Client,
}

impl Client {
    /// Jobs: one action on many items.
    pub fn jobs(&self) -> Jobs<'_> {
        Jobs { client: self }
    }
}

/// Which results of a job to list.
#[derive(Debug, Clone, Default)]
pub struct JobItemQuery {
    /// Only items that were left out.
    pub left_out: bool,
    /// Page token: `next` of the previous page.
    pub after: Option<u64>,
    /// Page size. Default: 100, maximum: 1000.
    pub limit: Option<u32>,
}

impl Jobs<'_> {
    /// Previews a job (`dry_run`), or starts the one that was previewed (`digest`).
    ///
    /// If other items are found than in the preview, the refusal has the code `preview_stale` and the new preview.
    pub async fn submit(self, request: &JobRequest) -> Result<Answer<JobOrPreview>, Error> {
        self.client.post("/admin/jobs", request).await
    }

    /// Lists jobs, newest first. `after` is `next` of the previous page.
    pub async fn list(
        self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Answer<JobList>, Error> {
        let after = after.map(str::to_owned);
        let query = query(&[("after", after), ("limit", number(limit))]);
        self.client.get(&format!("/admin/jobs{query}")).await
    }

    /// Shows a job and its progress.
    pub async fn get(self, job: &str) -> Result<Answer<Job>, Error> {
        let path = format!("/admin/jobs/{}", quoted(job));
        self.client.get(&path).await
    }

    /// Lists the results of a job, item by item.
    pub async fn items(self, job: &str, asked: &JobItemQuery) -> Result<Answer<JobItems>, Error> {
        let query = query(&[
            ("leftOut", flag(asked.left_out)),
            ("after", number(asked.after)),
            ("limit", number(asked.limit)),
        ]);
        let path = format!("/admin/jobs/{}/items{query}", quoted(job));
        self.client.get(&path).await
    }

    /// Stops a job. Items already done stay done; the rest is left unchanged.
    pub async fn stop(self, job: &str, reason: &str) -> Result<Answer<Job>, Error> {
        let path = format!("/admin/jobs/{}/stop", quoted(job));
        let reason = reason.to_owned();
        self.client.post(&path, &Because { reason }).await
    }
}
