//! Answers about rules and routes, from what the domain knows.

use std::collections::BTreeMap;

use tollgate_contract as contract;
use tollgate_core::ports::Setting;
use tollgate_domains::payments::{At, OnFailure, RouteText, RuleText, RulesEffect, Trial, text_of};

use crate::answer::of::Of;

impl Of<RuleText> for contract::Rule {
    fn of(rule: RuleText) -> Self {
        let RuleText {
            name,
            message,
            require,
            duplicate_within_secs,
            daily_total,
            at,
            on_failure,
            currency,
            zone,
        } = rule;
        Self {
            name,
            message,
            require,
            duplicate_within_secs,
            daily_total,
            at: at.map(|moments| moments.into_iter().map(moment).collect()),
            on_failure: on_failure.map(|what| consequence(what).to_owned()),
            currency,
            zone,
        }
    }
}

fn moment(at: At) -> String {
    match at {
        At::Intake => "intake".to_owned(),
        At::Execution => "execution".to_owned(),
    }
}

fn consequence(what: OnFailure) -> &'static str {
    match what {
        OnFailure::Hold => "hold",
        OnFailure::Reject => "reject",
    }
}

impl Of<RouteText> for contract::Route {
    fn of(route: RouteText) -> Self {
        let RouteText {
            gateway,
            currency,
            min_amount,
            max_amount,
            debtor_prefix,
            creditor_prefix,
        } = route;
        Self {
            gateway,
            currency,
            min_amount,
            max_amount,
            debtor_prefix,
            creditor_prefix,
        }
    }
}

impl Of<&Setting> for contract::RulesVersion {
    fn of(setting: &Setting) -> Self {
        let text = text_of(setting).unwrap_or_default();
        Self {
            version: setting.version,
            since: setting.created_at,
            actor: setting.author.actor.clone(),
            reason: setting.author.reason.clone(),
            rules: text.rules.len(),
            routes: text.routes.len(),
        }
    }
}

impl Of<RulesEffect> for contract::RulesEffect {
    fn of(effect: RulesEffect) -> Self {
        let RulesEffect {
            held,
            rejected,
            by_rule,
        } = effect;
        Self {
            held,
            rejected,
            by_rule,
        }
    }
}

impl Of<(Option<String>, Trial)> for contract::TriedPayment {
    fn of((payment_id, trial): (Option<String>, Trial)) -> Self {
        let empty = Self {
            payment_id,
            verdict: "ACCEPTED".to_owned(),
            gateway: None,
            lane: None,
            rule: None,
            message: None,
            details: BTreeMap::new(),
        };
        match trial {
            Trial::Accepted { gateway, lane } => Self {
                gateway: Some(gateway),
                lane: Some(lane.to_string()),
                ..empty
            },
            Trial::Invalid(details) => Self {
                verdict: "INVALID".to_owned(),
                details,
                ..empty
            },
            Trial::Refused { rule, message } => Self {
                verdict: "REFUSED".to_owned(),
                rule: Some(rule),
                message: Some(message),
                ..empty
            },
        }
    }
}

impl Of<(Vec<contract::TriedPayment>, RulesEffect)> for contract::RulesTried {
    fn of((results, effect): (Vec<contract::TriedPayment>, RulesEffect)) -> Self {
        let count = |verdict: &str| results.iter().filter(|one| one.verdict == verdict).count();
        let mut refused_by_rule = BTreeMap::new();
        for rule in results.iter().filter_map(|one| one.rule.clone()) {
            *refused_by_rule.entry(rule).or_insert(0) += 1;
        }
        Self {
            payments: results.len(),
            accepted: count("ACCEPTED"),
            invalid: count("INVALID"),
            refused: count("REFUSED"),
            refused_by_rule,
            would_stop: contract::RulesEffect::of(effect),
            results,
        }
    }
}
