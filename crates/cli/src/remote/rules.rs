//! `tollgate rules …`.

use std::path::PathBuf;

use anyhow::Context;
use clap::Subcommand;
use serde_json::{Value, json};
use tollgate_client::Client;
use tollgate_client::contract::{
    Route, Rule, RulesEffect, RulesInForce, RulesReload, RulesReloaded, RulesTried, RulesVersion,
    TriedPayment,
};
use tollgate_domains::json;

use super::Shown;
use super::table::{cell, row, table};

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
    let rules = client.rules();
    match command {
        Command::Show => shown.show(&rules.get().await?, summary),
        Command::Reload { reason, confirm } => {
            let request = RulesReload { reason, confirm };
            shown.show(&rules.reload(&request).await?, reloaded);
        }
        Command::Try {
            file,
            payments,
            waiting,
        } => {
            // As the files say it: the service judges it.
            let mut body = serde_json::to_value(tollgate_server::read_rules(&file)?)?;
            match payments {
                Some(payments) => body["payments"] = read_json(&payments)?,
                None => body["waiting"] = json!(waiting),
            }
            shown.show(&rules.try_out(&body).await?, tried);
        }
    }
    Ok(())
}

fn read_json(file: &std::path::Path) -> anyhow::Result<Value> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    json::read(text.as_bytes()).with_context(|| file.display().to_string())
}

fn summary(answer: &RulesInForce) -> String {
    let rules = answer.rules.iter();
    let rules: Vec<Vec<String>> = rules
        .map(|rule| row(&[&rule.name, &what(rule), &rule.message]))
        .collect();
    let conditions = [
        "gateway",
        "currency",
        "minAmount",
        "maxAmount",
        "debtorPrefix",
        "creditorPrefix",
    ];
    let routes: Vec<Vec<String>> = answer.routes.iter().map(route).collect();
    let versions = ["version", "since", "actor", "reason", "rules", "routes"];
    let history: Vec<Vec<String>> = answer.history.iter().map(version).collect();
    [
        format!("Version {}\n", answer.version),
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
            &routes,
        ),
        listed("History", "No earlier versions.", &versions, &history),
    ]
    .join("\n")
}

fn route(route: &Route) -> Vec<String> {
    row(&[
        &route.gateway,
        &route.currency,
        &route.min_amount,
        &route.max_amount,
        &route.debtor_prefix,
        &route.creditor_prefix,
    ])
}

fn version(it: &RulesVersion) -> Vec<String> {
    row(&[
        &it.version,
        &it.since,
        &it.actor,
        &it.reason,
        &it.rules,
        &it.routes,
    ])
}

/// A table under its title, or a sentence where it would be empty.
fn listed(title: &str, none: &str, header: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return format!("{none}\n");
    }
    format!("{title}\n{}", table(header, rows))
}

/// All fields by name: a new kind of rule must be shown here.
fn what(rule: &Rule) -> String {
    let Rule {
        name: _,
        message: _,
        require,
        duplicate_within_secs,
        daily_total,
        at: _,
        on_failure: _,
        currency,
        zone,
    } = rule;
    match (require, duplicate_within_secs, daily_total) {
        (Some(expression), _, _) => expression.clone(),
        (None, Some(secs), _) => format!("no duplicate within {secs} s"),
        (None, None, Some(total)) => {
            let zone = zone.as_deref().unwrap_or("UTC");
            format!("at most {total} {} a day ({zone})", cell(currency))
        }
        // Of a server that is newer than this program.
        (None, None, None) => "a kind of rule that this version of tollgate does not know".into(),
    }
}

fn reloaded(answer: &RulesReloaded) -> String {
    let (version, rules, routes) = (answer.version, answer.rules, answer.routes);
    let checks = if answer.checks_changed {
        format!("\n{} invoice checks are in force", answer.checks)
    } else {
        String::new()
    };
    if answer.changed {
        let stops = stops(&answer.would_stop);
        return format!(
            "version {version} is in force: {rules} rules, {routes} routes\n{stops}{checks}"
        );
    }
    format!("no rule has changed: version {version} stays in force{checks}")
}

/// What rules do to the payments that wait.
fn stops(effect: &RulesEffect) -> String {
    let (held, rejected) = (effect.held, effect.rejected);
    if held == 0 && rejected == 0 {
        return "none of the waiting payments will be stopped".to_owned();
    }
    let rules = effect.by_rule.iter();
    let rules: Vec<String> = rules
        .map(|(rule, count)| format!("{rule} {count}"))
        .collect();
    let rules = rules.join(", ");
    format!("of the waiting payments {held} will be held and {rejected} rejected ({rules})")
}

fn tried(answer: &RulesTried) -> String {
    let head = format!(
        "{} payments: {} accepted, {} refused, {} invalid\n{}\n",
        answer.payments,
        answer.accepted,
        answer.refused,
        answer.invalid,
        stops(&answer.would_stop)
    );
    let others = answer.results.iter();
    let others = others.filter(|one| one.verdict != "ACCEPTED");
    let others: Vec<Vec<String>> = others.map(trial).collect();
    if others.is_empty() {
        return head;
    }
    let mut parts = vec![head];
    if !answer.refused_by_rule.is_empty() {
        let counts = answer.refused_by_rule.iter();
        let counts: Vec<Vec<String>> = counts.map(|(rule, count)| row(&[rule, count])).collect();
        parts.push(table(&["refused by", "payments"], &counts));
    }
    let results = ["paymentId", "verdict", "gateway", "lane", "rule", "message"];
    parts.push(format!("Not accepted\n{}", table(&results, &others)));
    parts.join("\n")
}

fn trial(it: &TriedPayment) -> Vec<String> {
    row(&[
        &it.payment_id,
        &it.verdict,
        &it.gateway,
        &it.lane,
        &it.rule,
        &it.message,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_rule_is_shown_as_itself_and_an_unknown_one_as_no_other() {
        let table = [
            (json!({"require": "amountMinor > 1"}), "amountMinor > 1"),
            (
                json!({"duplicateWithinSecs": 60}),
                "no duplicate within 60 s",
            ),
            (
                json!({"dailyTotal": "10.00", "currency": "EUR"}),
                "at most 10.00 EUR a day (UTC)",
            ),
            (
                json!({"mostPerHour": 5}),
                "a kind of rule that this version of tollgate does not know",
            ),
        ];
        for (mut rule, expected) in table {
            rule["name"] = json!("r");
            rule["message"] = json!("no");
            let rule: Rule = serde_json::from_value(rule).unwrap();
            assert_eq!(what(&rule), expected);
        }
    }
}
