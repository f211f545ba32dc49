//! `tollgate rules …`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};
use tollgate_domains::json;

use super::Shown;
use super::client::Client;
use super::table::{cell, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the rules and routes in force, and all earlier versions.
    Show,
    /// Reload rules, routes and invoice checks from the service's configuration file.
    Reload {
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
        /// Required if the new rules stop more than 100 waiting payments.
        #[arg(long)]
        confirm: bool,
    },
    /// Test the rules and routes of a configuration file. Changes nothing.
    Try {
        /// Configuration file. Only its rules and routes are used.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// JSON file with a list of payments to test, instead of waiting payments.
        #[arg(long, value_name = "FILE")]
        payments: Option<PathBuf>,
        /// Number of waiting payments to test.
        #[arg(long, conflicts_with = "payments", default_value_t = 100)]
        waiting: u32,
    },
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::Show => {
            let answer = client.get("/admin/rules").await?;
            shown.show(&answer, summary);
        }
        Command::Reload { reason, confirm } => {
            let body = json!({"reason": reason, "confirm": confirm});
            let path = "/admin/rules/reload";
            let answer = client.send(Method::POST, path, &body).await?;
            shown.show(&answer, reloaded);
        }
        Command::Try {
            file,
            payments,
            waiting,
        } => {
            let mut body = serde_json::to_value(tollgate_server::read_rules(&file)?)?;
            match payments {
                Some(payments) => body["payments"] = read_json(&payments)?,
                None => body["waiting"] = json!(waiting),
            }
            let path = "/admin/rules/dry-run";
            let answer = client.send(Method::POST, path, &body).await?;
            shown.show(&answer, tried);
        }
    }
    Ok(())
}

fn read_json(file: &std::path::Path) -> anyhow::Result<Value> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    json::read(text.as_bytes()).with_context(|| file.display().to_string())
}

fn summary(answer: &Value) -> String {
    let rules = answer["rules"].as_array().into_iter().flatten();
    let rules: Vec<Vec<String>> = rules
        .map(|rule| vec![cell(&rule["name"]), what(rule), cell(&rule["message"])])
        .collect();
    let conditions = [
        "gateway",
        "currency",
        "minAmount",
        "maxAmount",
        "debtorPrefix",
        "creditorPrefix",
    ];
    let versions = ["version", "since", "actor", "reason", "rules", "routes"];
    let (routes, history) = (&answer["routes"], &answer["history"]);
    [
        format!("Version {}\n", answer["version"]),
        listed(
            "Rules",
            "No rules: every valid payment is accepted.",
            &["rule", "requires", "message"],
            &rules,
        ),
        listed(
            "Routes",
            "No routes: a payment without a gateway uses the default gateway.",
            &conditions,
            &rows(routes, &conditions),
        ),
        listed(
            "History",
            "No earlier versions.",
            &versions,
            &rows(history, &versions),
        ),
    ]
    .join("\n")
}

/// A table under its title, or a sentence where it would be empty.
fn listed(title: &str, none: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return format!("{none}\n");
    }
    format!("{title}\n{}", table(header, rows))
}

fn what(rule: &Value) -> String {
    if let Some(expression) = rule["require"].as_str() {
        return expression.to_owned();
    }
    if let Some(secs) = rule["duplicateWithinSecs"].as_u64() {
        return format!("no duplicate within {secs} s");
    }
    let (total, currency) = (cell(&rule["dailyTotal"]), cell(&rule["currency"]));
    let zone = rule["zone"].as_str().unwrap_or("UTC");
    format!("at most {total} {currency} a day ({zone})")
}

fn reloaded(answer: &Value) -> String {
    let (version, rules, routes) = (&answer["version"], &answer["rules"], &answer["routes"]);
    let checks = match answer["checksChanged"].as_bool() {
        Some(true) => format!("\n{} invoice checks are in force", answer["checks"]),
        _ => String::new(),
    };
    if answer["changed"] == true {
        let stops = stops(&answer["wouldStop"]);
        return format!(
            "version {version} is in force: {rules} rules, {routes} routes\n{stops}{checks}"
        );
    }
    format!("no rule has changed: version {version} stays in force{checks}")
}

/// What rules do to the payments that wait.
fn stops(effect: &Value) -> String {
    let (held, rejected) = (&effect["held"], &effect["rejected"]);
    if *held == 0 && *rejected == 0 {
        return "none of the waiting payments will be stopped".to_owned();
    }
    let rules = effect["byRule"].as_object().into_iter().flatten();
    let rules: Vec<String> = rules
        .map(|(rule, count)| format!("{rule} {count}"))
        .collect();
    let rules = rules.join(", ");
    format!("of the waiting payments {held} will be held and {rejected} rejected ({rules})")
}

fn tried(answer: &Value) -> String {
    let (count, accepted) = (&answer["payments"], &answer["accepted"]);
    let head = format!(
        "{count} payments: {accepted} accepted, {} refused, {} invalid\n{}\n",
        answer["refused"],
        answer["invalid"],
        stops(&answer["wouldStop"])
    );
    let counts = answer["refusedByRule"].as_object().into_iter().flatten();
    let counts: Vec<Vec<String>> = counts
        .map(|(rule, count)| vec![rule.clone(), count.to_string()])
        .collect();
    let results = ["paymentId", "verdict", "gateway", "lane", "rule", "message"];
    let others = answer["results"].as_array().into_iter().flatten();
    let others: Value = others
        .filter(|one| one["verdict"] != "ACCEPTED")
        .cloned()
        .collect();
    let others = rows(&others, &results);
    if others.is_empty() {
        return head;
    }
    let mut parts = vec![head];
    if !counts.is_empty() {
        parts.push(table(&["refused by", "payments"], &counts));
    }
    parts.push(format!("Not accepted\n{}", table(&results, &others)));
    parts.join("\n")
}
