//! The audit trail and the control totals.

use askama::Template;
use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use tollgate_core::Timestamp;

use super::Console;
use super::call::{Problem, query};
use super::in_doubt::MONEY;
use super::session::Session;
use super::shell::{Shell, Tab, clock, grouped, page as drawn, tabs};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Trail {
    item: String,
    actor: String,
    after: String,
}

#[derive(Deserialize)]
struct Entries {
    entries: Vec<Entry>,
    next: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    at: Timestamp,
    item: Option<String>,
    action: String,
    status_before: Option<String>,
    status_after: Option<String>,
    actor: String,
    detail: String,
}

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    shell: Shell,
    asked: Trail,
    entries: Vec<Entry>,
    next: Option<String>,
}

pub(super) async fn audit(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<Trail>,
) -> Result<Response, Problem> {
    let filter = [("item", asked.item.trim()), ("actor", asked.actor.trim())];
    let wanted = query(&[filter[0], filter[1], ("after", &asked.after)]);
    let found: Entries = console
        .get(&session, &format!("/admin/audit{wanted}"))
        .await?;
    let next = found.next.map(|after| after.to_string());
    let next = next.map(|after| query(&[filter[0], filter[1], ("after", &after)]));
    Ok(drawn(&AuditPage {
        shell: Shell::new(&session, "Audit", "Audit", ""),
        next: next.map(|wanted| format!("/console/audit{wanted}")),
        entries: found.entries,
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Totals {
    from: Timestamp,
    to: Timestamp,
    as_of: Timestamp,
    payments: Vec<Bucket>,
    invoices: Vec<Bucket>,
}

#[derive(Deserialize)]
struct Bucket {
    status: String,
    currency: String,
    count: u64,
    amount: String,
}

#[derive(Template)]
#[template(path = "totals.html")]
struct TotalsPage {
    shell: Shell,
    tabs: Vec<Tab>,
    asked: Day,
    totals: Totals,
}

impl TotalsPage {
    fn is_of_invoices(&self) -> bool {
        self.asked.item_type == MONEY[1]
    }
    fn buckets(&self) -> &[Bucket] {
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
    let totals: Totals = console
        .get(&session, &format!("/admin/totals{wanted}"))
        .await?;
    Ok(drawn(&TotalsPage {
        shell: Shell::new(&session, "Totals", "Totals", ""),
        tabs,
        asked,
        totals,
    }))
}
