//! What a person does about each kind: a sentence, the page of the console, and the section of the handbook.

use tollgate_core::ports::Need;

#[derive(Debug)]
pub struct Advice {
    /// A heading.
    pub title: &'static str,
    pub todo: &'static str,
    /// Page of the console on which to do it.
    pub console: &'static str,
    /// Section of the handbook, with its file.
    pub handbook: &'static str,
}

pub fn advice(kind: Need) -> Advice {
    Advice {
        title: title(kind),
        todo: todo(kind),
        console: console(kind),
        handbook: handbook(kind),
    }
}

fn title(kind: Need) -> &'static str {
    match kind {
        Need::KillSwitches => "Kill switch on",
        Need::RefusalStorms => "Lanes stopped by a refusal storm",
        Need::LanesPaused => "Lanes paused",
        Need::LanesClosed => "Lanes closed",
        Need::InDoubt => "In doubt",
        Need::AnswersDiffer => "Answers with a different amount",
        Need::Held => "Held",
        Need::DeadlinesAtRisk => "Deadlines at risk",
        Need::DeadLetters => "Dead letters",
        Need::NotPlanned => "Accepted payments without a slot",
        Need::FeedsStopped => "Feeds paused or in trouble",
        Need::ImportsRejected => "Imports with rejected lines",
        Need::FeedDeadLetters => "Dead letters of feeds",
        Need::NotificationsFailing => "Failing notifications",
        Need::EventsStuck => "Unpublished events",
        Need::EventsDiffer => "Processes with different event settings",
        Need::ArchiveTroubled => "Archive days with a problem",
        Need::ArchiveOverdue => "Archive days without a file",
        Need::ErasuresStuck => "Failing erasures",
        Need::NoStandby => "No standby",
    }
}

fn todo(kind: Need) -> &'static str {
    match kind {
        Need::KillSwitches => {
            "No item of this type is dispatched. Enable it again once the cause is fixed."
        }
        Need::RefusalStorms => {
            "The bank refused too many payments in a row. Fix the cause, resume the lane, then reopen the refused payments."
        }
        Need::LanesPaused => {
            "A paused lane sends nothing. Resume it when the reason no longer holds."
        }
        Need::LanesClosed => {
            "The bank is failing or asked for a pause. Check the bank; the lane opens again by itself."
        }
        Need::InDoubt => {
            "These were sent, but their outcome is unknown. Ask the bank. If the bank cannot answer, resolve each item by hand."
        }
        Need::AnswersDiffer => {
            "The bank confirmed an amount or currency that differs from what was sent. Clarify each payment with the bank, then mark this as seen."
        }
        Need::Held => {
            "These missed their deadline, or a rule holds them. Release, reschedule or cancel them, one by one or all together."
        }
        Need::DeadlinesAtRisk => {
            "These are expected to be late or held. Adjust the lane (limit, plan and slots in one step), resume it, or reschedule other payments."
        }
        Need::DeadLetters => "Tollgate has given these up. Fix the cause, then replay them.",
        Need::NotPlanned => {
            "These were accepted and have no slot yet. Tollgate retries; the payment's page shows the last error."
        }
        Need::FeedsStopped => {
            "These feeds are paused, not read, or have a problem. Fix the cause, then resume paused feeds. Tollgate retries the others."
        }
        Need::ImportsRejected => {
            "Some lines were rejected. Correct these lines, import them again, then mark this as seen."
        }
        Need::FeedDeadLetters => {
            "Records that could not be read are in the dead-letter topic. Ask their sender to correct and resend them, then mark this as seen."
        }
        Need::NotificationsFailing => {
            "A receiver does not accept webhooks. Fix the receiver; Tollgate retries for three days. Replay the notifications that Tollgate gave up."
        }
        Need::EventsStuck => {
            "Events are kept until the brokers accept them. Fix the brokers or the topic. If events are turned off, none are written: restart the process that has [events], or remove [events] from its configuration."
        }
        Need::EventsDiffer => {
            "Processes are configured to publish events to different places. Give all processes the same settings and restart them."
        }
        Need::ArchiveTroubled => {
            "A day could not be moved, exported, verified or dropped. A day leaves the database only after its file has been compared with the database. Do what the message says. Tollgate tries again every ten minutes, and at once with tollgate archive run."
        }
        Need::ArchiveOverdue => {
            "These days should have been exported more than a day ago. Check that the disk of retention.export_dir responds and that no stopped process holds the file .lock in it."
        }
        Need::ErasuresStuck => {
            "A step of an erasure failed. Tollgate retries it at intervals of up to 30 seconds; later erasures wait until it succeeds. Do what the message says."
        }
        Need::NoStandby => {
            "No process can take over if the leader stops. Start a second process on the same database."
        }
    }
}

fn console(kind: Need) -> &'static str {
    match kind {
        Need::KillSwitches => "/console/item-types",
        Need::InDoubt => "/console/in-doubt",
        Need::AnswersDiffer => "/console/audit?action=ANSWER_DIFFERS",
        Need::Held => "/console/held",
        Need::DeadLetters => "/console/dead-letters",
        Need::NotPlanned => "/console/payments?status=INITIALIZING",
        Need::FeedsStopped | Need::FeedDeadLetters | Need::EventsStuck | Need::EventsDiffer => {
            "/console/feeds"
        }
        Need::ImportsRejected => "/console/imports",
        Need::ArchiveTroubled | Need::ArchiveOverdue => "/console/archive",
        Need::NotificationsFailing => "/console/dead-letters?type=NOTIFICATION",
        Need::RefusalStorms
        | Need::LanesPaused
        | Need::LanesClosed
        | Need::DeadlinesAtRisk
        | Need::ErasuresStuck
        | Need::NoStandby => "/",
    }
}

fn handbook(kind: Need) -> &'static str {
    match kind {
        Need::KillSwitches => "docs/operations.md#stop-everything",
        Need::RefusalStorms => "docs/operations.md#a-refusal-storm",
        Need::LanesPaused | Need::LanesClosed => "docs/operations.md#a-lane-is-paused-or-closed",
        Need::InDoubt => "docs/operations.md#payments-in-doubt",
        Need::AnswersDiffer => "docs/operations.md#a-bank-reports-a-different-amount",
        Need::Held => "docs/operations.md#payments-are-held",
        Need::DeadlinesAtRisk => "docs/operations.md#deadlines-are-missed",
        Need::DeadLetters => "docs/operations.md#dead-letters",
        Need::NotPlanned => "docs/operations.md#accepted-payments-have-no-slot",
        Need::FeedsStopped => "docs/operations.md#a-feed-is-not-read",
        Need::ImportsRejected => "docs/operations.md#an-import-has-rejected-lines",
        Need::FeedDeadLetters => "docs/operations.md#dead-letters-of-a-feed",
        Need::NotificationsFailing => "docs/operations.md#notifications-fail",
        Need::EventsStuck => "docs/operations.md#events-are-not-published",
        Need::EventsDiffer => "docs/operations.md#processes-have-different-events",
        Need::ArchiveTroubled => "docs/operations.md#a-day-of-the-archive-is-in-trouble",
        Need::ArchiveOverdue => "docs/operations.md#days-of-the-archive-have-no-file",
        Need::ErasuresStuck => "docs/operations.md#an-erasure-waits",
        Need::NoStandby => "docs/operations.md#no-leader-or-no-standby",
    }
}

#[cfg(test)]
mod tests {
    use tollgate_console::handbook_section;

    use super::*;

    #[test]
    fn every_kind_of_what_needs_a_person_has_its_section() {
        for kind in Need::ALL {
            let link = advice(kind).handbook;
            let text = handbook_section(link).unwrap_or_else(|| panic!("{link}"));
            assert!(text.len() > 100, "{link}: {text}");
        }
    }
}
