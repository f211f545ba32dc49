//! The audit trail and the control totals.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use jiff::Timestamp;
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_contract::MACHINE_ACTORS;

use super::Console;
use super::archive::InWords;
use super::call::{Problem, query};
use super::in_doubt::MONEY;
use super::session::Session;
use super::shell::{Shell, Tab, clock, grouped, page as drawn, soft, status_word, tabs};
use super::turns::{ListAt, Paged, Turns};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Trail {
    item: String,
    actor: String,
    action: String,
    by: String,
    after: String,
    before: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/audit",
    file: "/console/export/audit",
    called: ("entry", "entries"),
};

/// As many of the machine's last entries are summed up where nothing is asked for.
const SUMMED: u32 = 1000;

impl Trail {
    /// Whether nothing is asked for: then people come first, however much the machine wrote since.
    fn is_open(&self) -> bool {
        let asked = [&self.item, &self.actor, &self.action, &self.by];
        let places = [&self.after, &self.before];
        let all = asked.iter().chain(&places);
        all.into_iter().all(|it| it.trim().is_empty())
    }

    /// As the API has them.
    fn conditions(&self) -> [(&str, &str); 4] {
        [
            ("item", self.item.trim()),
            ("actor", self.actor.trim()),
            ("action", self.action.trim()),
            ("by", &self.by),
        ]
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    shell: Shell,
    asked: Trail,
    people: Vec<contract::AuditEntry>,
    machine: Vec<Repeated>,
    /// How many of the machine's last entries are summed up; none if they are in order.
    summed: usize,
    turns: Turns,
    /// Where the search stopped before the page was full.
    scanned_to: Option<Timestamp>,
}

/// Entries of Tollgate itself that say the same, one after the other.
struct Repeated {
    /// The newest of them.
    entry: contract::AuditEntry,
    times: u32,
}

fn say_the_same(one: &contract::AuditEntry, other: &contract::AuditEntry) -> bool {
    (&one.actor, &one.action, &one.status_after)
        == (&other.actor, &other.action, &other.status_after)
}

/// The same, wherever they are among the others.
fn summed(entries: Vec<contract::AuditEntry>) -> Vec<Repeated> {
    let mut summed: Vec<Repeated> = vec![];
    for entry in entries {
        let known = summed.iter_mut().find(|it| say_the_same(&it.entry, &entry));
        match known {
            Some(known) => known.times += 1,
            None => summed.push(Repeated { entry, times: 1 }),
        }
    }
    summed
}

/// What people did, and what Tollgate did by itself.
fn parted(entries: Vec<contract::AuditEntry>) -> (Vec<contract::AuditEntry>, Vec<Repeated>) {
    let (people, machine): (Vec<_>, Vec<_>) = entries
        .into_iter()
        .partition(|entry| !MACHINE_ACTORS.contains(&&*entry.actor));
    let mut repeated: Vec<Repeated> = vec![];
    for entry in machine {
        match repeated.last_mut() {
            Some(last) if say_the_same(&last.entry, &entry) => last.times += 1,
            _ => repeated.push(Repeated { entry, times: 1 }),
        }
    }
    (people, repeated)
}

pub(super) async fn audit(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<Trail>,
) -> Result<Response, Problem> {
    let shell = Shell::new(&session, "Audit", "Audit", "");
    if asked.is_open() {
        let people: contract::AuditLog = console.get(&session, "/admin/audit?by=people").await?;
        let machine = format!("/admin/audit?by=machine&limit={SUMMED}");
        let machine: contract::AuditLog = console.get(&session, &machine).await?;
        let ends = people.ends();
        let mut turns = LIST.turns(&[("by", "people")], &ends);
        turns.files = LIST.turns(&[], &ends).files;
        return Ok(drawn(&AuditPage {
            shell,
            turns,
            scanned_to: people.scanned_to,
            people: people.entries,
            summed: machine.entries.len(),
            machine: summed(machine.entries),
            asked,
        }));
    }
    let places = [("after", &*asked.after), ("before", &*asked.before)];
    let wanted = query(&[&asked.conditions()[..], &places].concat());
    let address = format!("/admin/audit{wanted}");
    let found: contract::AuditLog = console.get(&session, &address).await?;
    let ends = found.ends();
    let (people, machine) = parted(found.entries);
    Ok(drawn(&AuditPage {
        shell,
        turns: LIST.turns(&asked.conditions(), &ends),
        scanned_to: found.scanned_to,
        people,
        machine,
        summed: 0,
        asked,
    }))
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Day {
    #[serde(rename = "type")]
    item_type: String,
    date: String,
    zone: String,
}

#[derive(Template)]
#[template(path = "totals.html")]
struct TotalsPage {
    shell: Shell,
    tabs: Vec<Tab>,
    asked: Day,
    totals: contract::Totals,
}

impl TotalsPage {
    fn is_of_invoices(&self) -> bool {
        self.asked.item_type == MONEY[1]
    }
    fn sums(&self) -> &[contract::TotalSum] {
        if self.is_of_invoices() {
            &self.totals.invoice_sums
        } else {
            &self.totals.payment_sums
        }
    }
    /// The list of what a bucket counts. Held items are apart, unless they are in doubt.
    fn list_of(&self, bucket: &contract::Bucket) -> String {
        if self.is_of_invoices() {
            let held = [("type", MONEY[1])];
            return match bucket.status.as_str() {
                "HELD" => format!("/console/held{}", query(&held)),
                status => format!("/console/invoices{}", query(&[("status", status)])),
            };
        }
        let (status, held) = match bucket.status.as_str() {
            "HELD" => ("", "true"),
            status @ "SCHEDULED" => (status, "false"),
            status => (status, ""),
        };
        let (from, to) = (self.totals.from.to_string(), self.totals.to.to_string());
        let wanted = query(&[
            ("status", status),
            ("held", held),
            ("currency", &bucket.currency),
            ("acceptedFrom", &from),
            ("acceptedTo", &to),
        ]);
        format!("/console/payments{wanted}")
    }
    fn buckets(&self) -> &[contract::Bucket] {
        if self.is_of_invoices() {
            &self.totals.invoices
        } else {
            &self.totals.payments
        }
    }
}

pub(super) async fn totals(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<Day>,
) -> Result<Response, Problem> {
    let day = [("date", asked.date.trim()), ("zone", asked.zone.trim())];
    let wanted = query(&day);
    let by_type = |name: &str| {
        let asked = query(&[("type", name), day[0], day[1]]);
        format!("/console/totals{asked}")
    };
    let tabs = tabs(&MONEY, &asked.item_type, by_type);
    let totals: contract::Totals = console
        .get(&session, &format!("/admin/totals{wanted}"))
        .await?;
    Ok(drawn(&TotalsPage {
        shell: Shell::new(&session, "Totals", "Totals", ""),
        tabs,
        asked,
        totals,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(actor: &str, action: &str) -> contract::AuditEntry {
        contract::AuditEntry {
            id: 1,
            at: Timestamp::UNIX_EPOCH,
            batch_id: None,
            item: None,
            action: action.to_owned(),
            status_before: None,
            status_after: None,
            actor: actor.to_owned(),
            detail: String::new(),
        }
    }

    #[test]
    fn people_come_first_and_what_the_machine_repeats_is_counted() {
        let trail = [
            ("sender", "RETRY"),
            ("ann", "PAUSED"),
            ("sender", "RETRY"),
            ("sweeper", "HELD"),
            ("local", "RELEASED"),
            ("sender", "RETRY"),
        ];
        let (people, machine) = parted(trail.map(|(who, did)| entry(who, did)).into());
        let people: Vec<_> = people.iter().map(|it| it.actor.as_str()).collect();
        assert_eq!(people, ["ann", "local"]);
        let machine: Vec<_> = machine
            .iter()
            .map(|it| (it.entry.action.as_str(), it.times))
            .collect();
        assert_eq!(machine, [("RETRY", 2), ("HELD", 1), ("RETRY", 1)]);
        let summed = summed(trail.map(|(who, did)| entry(who, did)).into());
        assert_eq!((summed.len(), summed[0].times), (4, 3));
    }
}
