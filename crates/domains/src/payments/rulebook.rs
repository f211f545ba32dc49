//! One version of rules and routes, read and compiled: what is said about a payment without
//! asking anybody. Rules that count what came before become guards of the store; what is judged
//! again before a payment is sent is in `execution.rs`.

mod execution;

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use metrics::counter;
use tollgate_core::Timestamp;
use tollgate_core::id::{LaneName, check_item_id};
use tollgate_core::money::Money;

use self::execution::{check_moments, rule_key};
use super::PaymentRequest;
use super::facts;
use super::guard_rule::{GuardKind, GuardRule};
use super::route_table::{RouteTable, read_currency};
use super::rule_text::{At, OnFailure, Problem, RuleText, RulesText};
use crate::expression::{Expression, Facts};

pub(super) use execution::Objection;

const MOST_RULES: usize = 100;
const MAX_NAME_CHARS: usize = 64;
const MAX_MESSAGE_CHARS: usize = 500;
/// Duplicates are looked for at most this far back.
const LONGEST_PERIOD_SECS: u32 = 90 * 24 * 3600;
/// What is refused without any rule of anybody's.
const BUILT_IN: [&str; 3] = ["distinct_accounts", "gateway", "lane"];

#[derive(Debug, Default)]
pub struct Rulebook {
    /// 0 if no rules have ever been set.
    pub version: i64,
    routes: RouteTable,
    rules: Vec<Rule>,
    guards: Vec<GuardRule>,
}

#[derive(Debug)]
struct Rule {
    name: String,
    message: String,
    expression: Expression,
    at_intake: bool,
    /// What follows at execution; nothing if it is not judged then.
    at_execution: Option<OnFailure>,
    /// Its name and its words: what a person has let a payment pass.
    key: String,
}

/// A rule's no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) rule: String,
    pub(super) message: String,
    /// It spoke; otherwise it could not be judged.
    pub(super) is_judged: bool,
}

enum Kind {
    Require(Expression),
    Count(GuardKind),
}

impl Rulebook {
    /// All or nothing: one wrong rule or route, and there is no book. `is_gateway` knows the banks
    /// that are connected.
    pub fn read(
        text: &RulesText,
        version: i64,
        is_gateway: impl Fn(&str) -> bool,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = vec![];
        let mut book = Self {
            version,
            ..Self::default()
        };
        if text.rules.len() > MOST_RULES {
            problems.push(Problem::new("rules", format!("more than {MOST_RULES}")));
        }
        let mut names = BTreeSet::new();
        for (n, rule) in text.rules.iter().enumerate() {
            let place = format!("rules[{n}] {:?}", rule.name);
            let read = check_names(rule)
                .and_then(|()| read_kind(rule))
                .and_then(|kind| check_moments(rule, &kind).map(|()| kind));
            if !names.insert(&rule.name) {
                problems.push(Problem::new(&place, "has the same name as an earlier rule"));
            }
            match read {
                Ok(kind) => book.add(rule, kind),
                Err(what) => problems.push(Problem::new(place, what)),
            }
        }
        match RouteTable::read(&text.routes, is_gateway) {
            Ok(routes) => book.routes = routes,
            Err(wrong) => problems.extend(wrong),
        }
        if problems.is_empty() {
            Ok(book)
        } else {
            Err(problems)
        }
    }

    fn add(&mut self, rule: &RuleText, kind: Kind) {
        let (name, message) = (rule.name.clone(), rule.message.clone());
        let is_at = |moment| rule.at.as_ref().is_none_or(|at| at.contains(&moment));
        match kind {
            Kind::Require(expression) => self.rules.push(Rule {
                name,
                message,
                expression,
                at_intake: is_at(At::Intake),
                at_execution: is_at(At::Execution)
                    .then(|| rule.on_failure.unwrap_or(OnFailure::Hold)),
                key: rule_key(rule),
            }),
            Kind::Count(kind) => self.guards.push(GuardRule {
                name,
                message,
                kind,
            }),
        }
    }

    /// Of a payment that names none; None is the default.
    pub(super) fn gateway_of(&self, payment: &PaymentRequest) -> Option<&str> {
        self.routes.gateway_of(payment)
    }

    /// The first rule that is against a payment. What cannot be judged is refused: a rule that
    /// nobody can answer is no reason to pay.
    pub(super) fn refusal(
        &self,
        payment: &PaymentRequest,
        gateway: &str,
        lane: &LaneName,
        now: Timestamp,
    ) -> Option<Refusal> {
        let mut rules = self.rules.iter().filter(|rule| rule.at_intake).peekable();
        rules.peek()?;
        let facts = facts::of(payment, gateway, lane, now);
        rules.find_map(|rule| rule.refusal(&facts))
    }

    pub(super) fn guards(&self) -> &[GuardRule] {
        &self.guards
    }
}

impl Rule {
    fn refusal(&self, facts: &Facts) -> Option<Refusal> {
        let (message, is_judged) = match self.expression.holds(facts) {
            Ok(true) => return None,
            Ok(false) => (self.message.clone(), true),
            Err(why) => {
                counter!("tollgate_rule_errors_total", "rule" => self.name.clone()).increment(1);
                let told = format!("{} (the rule could not be evaluated: {why})", self.message);
                (told, false)
            }
        };
        let rule = self.name.clone();
        Some(Refusal {
            rule,
            message,
            is_judged,
        })
    }
}

fn check_names(rule: &RuleText) -> Result<(), String> {
    if rule.name.len() > MAX_NAME_CHARS {
        return Err(format!(
            "name must have at most {MAX_NAME_CHARS} characters"
        ));
    }
    check_item_id(&rule.name).map_err(|why| format!("name {why}"))?;
    if BUILT_IN.contains(&rule.name.as_str()) {
        return Err("has the name of a built-in rule; choose another".to_owned());
    }
    let chars = rule.message.chars().count();
    if rule.message.trim().is_empty() || chars > MAX_MESSAGE_CHARS {
        return Err(format!(
            "message must have 1 to {MAX_MESSAGE_CHARS} characters"
        ));
    }
    Ok(())
}

fn read_kind(rule: &RuleText) -> Result<Kind, String> {
    let of_totals = rule.currency.is_some() || rule.zone.is_some();
    match (&rule.require, rule.duplicate_within_secs, &rule.daily_total) {
        (Some(source), None, None) if !of_totals => {
            let compiled = facts::compile(source);
            compiled
                .map(Kind::Require)
                .map_err(|why| format!("require {why}"))
        }
        (None, Some(secs), None) if !of_totals => {
            if secs == 0 || secs > LONGEST_PERIOD_SECS {
                return Err(format!(
                    "duplicate_within_secs must be from 1 to {LONGEST_PERIOD_SECS}"
                ));
            }
            Ok(Kind::Count(GuardKind::NoDuplicate { within_secs: secs }))
        }
        (None, None, Some(amount)) => daily_total(rule, amount).map(Kind::Count),
        (Some(_), None, None) | (None, Some(_), None) => {
            Err("currency and zone are only allowed with daily_total".to_owned())
        }
        _ => Err("must have one of require, duplicate_within_secs and daily_total".to_owned()),
    }
}

fn daily_total(rule: &RuleText, amount: &str) -> Result<GuardKind, String> {
    let Some(code) = &rule.currency else {
        return Err("daily_total needs a currency".to_owned());
    };
    let currency = read_currency(code)?;
    let most = Money::parse(amount, currency).map_err(|why| format!("daily_total {why}"))?;
    let zone = rule.zone.clone().unwrap_or_else(|| "UTC".to_owned());
    if TimeZone::get(&zone).is_err() {
        return Err(format!(
            "zone {zone:?} must be an IANA time zone such as \"Europe/Berlin\""
        ));
    }
    Ok(GuardKind::DailyTotal { most, zone })
}

#[cfg(test)]
mod tests;
