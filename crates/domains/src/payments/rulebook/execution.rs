//! Rules at execution: which are judged again before a payment is sent, and what follows.

use tollgate_core::Timestamp;
use tollgate_core::id::LaneName;

use super::super::rule_text::{At, OnFailure, RuleText};
use super::super::{PaymentRequest, facts};
use super::{Kind, Refusal, Rulebook};
use crate::digest;

/// What an expression may mean one thing by at intake and another at execution.
const OF_THE_MOMENT: [&str; 4] = ["now", "executeAt", "deadline", "holdIfLate"];
/// Enough of a digest that two wordings of one rule never look alike.
const KEY_CHARS: usize = 16;

/// What the rules have against sending a payment now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::payments) struct Objection {
    /// Every rule that is against it, for a release to let pass.
    pub(in crate::payments) keys: Vec<String>,
    pub(in crate::payments) names: Vec<String>,
    pub(in crate::payments) why: String,
    /// It ends; otherwise it waits for a person.
    pub(in crate::payments) rejects: bool,
}

impl Rulebook {
    /// Whether anything is judged before a payment is sent.
    pub(in crate::payments) fn judges_execution(&self) -> bool {
        self.rules.iter().any(|rule| rule.at_execution.is_some())
    }

    /// All rules that are against sending it, less those that a person let it pass. What cannot be
    /// judged holds it, whatever the rule says: a broken rule must not end a payment.
    pub(in crate::payments) fn objection(
        &self,
        payment: &PaymentRequest,
        gateway: &str,
        lane: &LaneName,
        now: Timestamp,
        passed: &[String],
    ) -> Option<Objection> {
        let facts = facts::of(payment, gateway, lane, now);
        let judged = self.rules.iter().filter(|rule| !passed.contains(&rule.key));
        let against: Vec<_> = judged
            .filter_map(|rule| {
                let follows = rule.at_execution?;
                let refusal = rule.refusal(&facts)?;
                let rejects = follows == OnFailure::Reject && refusal.is_judged;
                Some((rule.key.clone(), refusal, rejects))
            })
            .collect();
        if against.is_empty() {
            return None;
        }
        let told = |refusal: &Refusal| format!("rule {:?}: {}", refusal.rule, refusal.message);
        let why: Vec<String> = against
            .iter()
            .map(|(_, refusal, _)| told(refusal))
            .collect();
        Some(Objection {
            rejects: against.iter().any(|(.., rejects)| *rejects),
            why: format!("{} (rules of version {})", why.join("; "), self.version),
            names: against.iter().map(|one| one.1.rule.clone()).collect(),
            keys: against.into_iter().map(|(key, ..)| key).collect(),
        })
    }
}

/// Name and words: another rule of the book may change without asking a person again.
pub(super) fn rule_key(rule: &RuleText) -> String {
    let words = rule.require.as_deref().unwrap_or_default();
    let digest = digest::of(&format!("{}\n{words}", rule.name));
    let digest: String = digest.chars().take(KEY_CHARS).collect();
    format!("{}#{digest}", rule.name)
}

/// Whether it says when it is judged, as far as it must.
pub(super) fn check_moments(rule: &RuleText, kind: &Kind) -> Result<(), String> {
    let at = rule.at.as_deref();
    if at.is_some_and(<[At]>::is_empty) {
        return Err("at must name intake, execution or both".to_owned());
    }
    let names_execution = at.is_some_and(|at| at.contains(&At::Execution));
    match kind {
        Kind::Count(_) if names_execution || rule.on_failure.is_some() => {
            Err("is only evaluated at intake; remove at and on_failure".to_owned())
        }
        Kind::Count(_) => Ok(()),
        Kind::Require(_) if at.is_some() && !names_execution && rule.on_failure.is_some() => {
            Err("on_failure is only allowed with a rule that is evaluated at execution".to_owned())
        }
        Kind::Require(expression) => match expression.speaks_of(&OF_THE_MOMENT) {
            Some(name) if at.is_none() => Err(format!(
                "uses {name}, which changes between intake and execution; set at = [\"intake\"], [\"execution\"] or both"
            )),
            _ => Ok(()),
        },
    }
}
