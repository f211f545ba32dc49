//! Items that are not sent now: they go back to the queue, are held for a person, or are another run's.

use std::time::Duration;

use tollgate_core::actor;
use tollgate_core::ports::{RuleStop, StoreResult};

use super::Sender;
use crate::sending::exchange::superseded;
use crate::sending::job::{Job, Sent};

impl Sender {
    /// Nothing can be made of this one item for its downstream: a person decides, and the lane goes on.
    pub(super) async fn cannot_be_made(&self, job: &Job, why: &str) -> StoreResult<Sent> {
        let stop = RuleStop {
            actor: actor::SENDER,
            rules: vec!["description".to_owned()],
            why: format!("the bank's description cannot be applied to it: {why}"),
            rejected: None,
        };
        tracing::warn!(item = %job.item, "held: {}", stop.why);
        let (item, run) = (&job.item, job.run);
        if self.store.stop_by_rules(item, run, stop).await? {
            return Ok(Sent::Held);
        }
        Ok(superseded(job, "hold", OTHERS))
    }

    pub(super) async fn hold(&self, job: &Job) -> StoreResult<Sent> {
        if self.store.hold(&job.item, job.run).await? {
            return Ok(Sent::Held);
        }
        Ok(superseded(job, "hold", OTHERS))
    }

    pub(super) async fn put_back(
        &self,
        job: &Job,
        pause: Duration,
        why: &str,
    ) -> StoreResult<Sent> {
        let back = self.store.put_back(&job.item, job.run, pause, why);
        Ok(requeued(job, back.await?, why))
    }

    /// It got no turn, and keeps its place.
    pub(super) async fn put_back_in_place(&self, job: &Job, why: &str) -> StoreResult<Sent> {
        let back = self.store.put_back_in_place(&job.item, job.run, why);
        Ok(requeued(job, back.await?, why))
    }
}

pub(super) fn requeued(job: &Job, is_back: bool, why: &str) -> Sent {
    if is_back {
        Sent::Requeued(why.to_owned())
    } else {
        superseded(job, "put back", OTHERS)
    }
}

const OTHERS: &str = "another run owns the item";
