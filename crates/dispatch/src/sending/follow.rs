//! What follows from an outcome: for the record, for the queue, and for the flow. Pure.

use std::time::Duration;

use tollgate_core::outcome::{Outcome, Quiet};
use tollgate_core::ports::{ExchangeResult, StatusMove, Then};
use tollgate_core::retry;

use crate::sending::decide::{Doubt, UNPROVED};
use crate::sending::job::{IfDeclined, Job, Sent};

/// The pauses of an item that goes back to the queue, by how often it failed: growing, and without an end.
pub(crate) const PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_secs(1),
    factor: retry::TWICE,
    longest_pause: Duration::from_mins(5),
};

pub(crate) struct Follows {
    pub(crate) record: Option<StatusMove>,
    pub(crate) then: Then,
    /// What was Unknown is known not to have been done.
    pub(crate) disproves: bool,
    pub(crate) sent: Sent,
}

/// A duplicate is believed only of something that may have been sent before.
pub(crate) fn proved(heard: ExchangeResult, duplicate_proves: bool) -> Outcome {
    if heard.is_duplicate && !duplicate_proves {
        return Outcome::Unknown(format!("{UNPROVED}: {}", heard.outcome.detail()));
    }
    heard.outcome
}

/// Once an attempt is Unknown, a later refusal proves nothing about it. A decline does: it is the
/// downstream's word about the key, and not about this one request.
pub(crate) fn judge(said: Outcome, doubt: Doubt) -> Outcome {
    match (said, doubt) {
        (Outcome::Refused(reason), Doubt::Since { .. }) => Outcome::Unknown(format!(
            "an earlier send is in doubt, and this answer proves nothing about it: {reason}"
        )),
        (said, _) => said,
    }
}

/// `evidence_in`: how long until "unknown to me" would be evidence, nothing if it is; for a probe.
/// `pause`: how long the item rests otherwise.
pub(crate) fn follow(
    job: &Job,
    if_declined: Option<&IfDeclined>,
    outcome: &Outcome,
    evidence_in: Option<Duration>,
    pause: Duration,
) -> Follows {
    match outcome {
        Outcome::Done(answer) => done(job, answer),
        Outcome::Refused(reason) => Follows {
            record: Some(job.moves.refused.clone()),
            then: job.refused_then.clone(),
            disproves: false,
            sent: Sent::Refused(reason.clone()),
        },
        Outcome::Declined(reason) => match if_declined {
            Some(IfDeclined { record, then }) => Follows {
                record: Some(record.clone()),
                then: then.clone(),
                disproves: false,
                sent: Sent::Declined(reason.clone()),
            },
            // Nobody has said what follows: a no like any other.
            None => Follows {
                record: Some(job.moves.refused.clone()),
                then: job.refused_then.clone(),
                disproves: false,
                sent: Sent::Declined(reason.clone()),
            },
        },
        Outcome::Unknown(why) => requeue(Some(job.moves.in_doubt.clone()), pause, why),
        // "Unknown to me": ask again when that will be evidence, and until then it is in doubt, also
        // if the process that sent it died before it could write that down. If it is evidence, nothing was
        // done: the item is what it was before, and whatever is looked at before a send is looked at
        // again.
        Outcome::Retry { why, quiet } => match (evidence_in, quiet) {
            (Some(wait), _) if wait.is_zero() => Follows {
                disproves: true,
                ..requeue(Some(job.moves.not_done.clone()), wait, why)
            },
            (Some(wait), _) => requeue(Some(job.moves.in_doubt.clone()), wait, why),
            (None, Quiet::For(time)) => requeue(None, pause.max(*time), why),
            (None, Quiet::No) => requeue(None, pause, why),
        },
    }
}

fn done(job: &Job, answer: &str) -> Follows {
    let end = job.if_done.as_ref();
    match end.filter(|end| (end.leaves_nothing)(answer)) {
        Some(end) => Follows {
            record: Some(end.record.clone()),
            then: Then::Finish,
            disproves: false,
            sent: Sent::Ended(answer.to_owned()),
        },
        None => Follows {
            record: Some(job.moves.done.clone()),
            then: Then::Stay,
            disproves: false,
            sent: Sent::Done(answer.to_owned()),
        },
    }
}

fn requeue(record: Option<StatusMove>, after: Duration, why: &str) -> Follows {
    let why = why.to_owned();
    Follows {
        record,
        then: Then::Requeue {
            after,
            why: why.clone(),
        },
        disproves: false,
        sent: Sent::Requeued(why),
    }
}
