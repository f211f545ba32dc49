//! What is looked at before a charge: a chain of checks, ours first and then the configured ones.
//! The first that does not say "continue" decides. Pure.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::id::check_item_id;
use tollgate_core::money::{Currency, Money};

use super::request::Customer;
use super::retry_schedule::parse_pause;
use super::status::InvoiceStatus;
use crate::expression::{Expression, Facts, Value, Vocabulary, map};

/// How long a check that postpones does so if it does not say.
const DEFAULT_PAUSE: &str = "1d";
/// A chain is walked before every charge.
const MOST_CHECKS: usize = 100;

/// What a check says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Continue,
    /// Not this time: it comes again with its schedule.
    Skip,
    /// Never: it is FAILED.
    Fail,
    /// Not now: it comes again after this.
    Postpone(Duration),
    /// There is nothing left to charge: its end is all that is missing.
    Settled,
    /// A charge is in doubt: it is asked about, and nothing is charged anew.
    Ask,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Continue => "continue",
            Self::Skip | Self::Settled => "skip",
            Self::Fail => "fail",
            Self::Postpone(_) | Self::Ask => "postpone",
        })
    }
}

/// The chain's verdict, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub check: String,
    pub verdict: Verdict,
    pub reason: String,
}

/// An invoice at the moment of its charge.
#[derive(Debug)]
pub struct Subject<'a> {
    pub invoice_id: &'a str,
    pub customer_id: &'a str,
    pub status: &'a str,
    pub money: Money,
    pub created_at: Timestamp,
    /// How often it was declined.
    pub declines: usize,
    /// Whether one of its charges was answered with yes.
    pub was_charged: bool,
    /// Whether a charge may have been made whose answer nobody knows.
    pub undecided: bool,
    pub customer: Option<&'a Customer>,
    pub now: Timestamp,
}

/// One link of the chain. `None` lets the next one look.
pub trait Check: Send + Sync {
    fn name(&self) -> &str;
    fn objection(&self, subject: &Subject<'_>) -> Option<(Verdict, String)>;
}

/// A check of our own: a name and what it objects to.
struct BuiltIn {
    name: &'static str,
    objects: fn(&Subject<'_>) -> Option<(Verdict, String)>,
}

impl Check for BuiltIn {
    fn name(&self) -> &str {
        self.name
    }
    fn objection(&self, subject: &Subject<'_>) -> Option<(Verdict, String)> {
        (self.objects)(subject)
    }
}

const BUILT_IN: [BuiltIn; 5] = [
    BuiltIn {
        name: "not-paid",
        objects: |it| {
            let paid = it.status == InvoiceStatus::Paid.as_str();
            paid.then(|| (Verdict::Settled, "the invoice is PAID".to_owned()))
        },
    },
    BuiltIn {
        name: "not-charged-already",
        objects: |it| {
            it.was_charged
                .then(|| (Verdict::Settled, "the provider has charged it".to_owned()))
        },
    },
    BuiltIn {
        name: "not-in-doubt",
        objects: |it| {
            let why = "an earlier charge is in doubt; the provider is asked about it first";
            it.undecided.then(|| (Verdict::Ask, why.to_owned()))
        },
    },
    BuiltIn {
        name: "customer-exists",
        objects: |it| {
            let why = || format!("there is no customer {}", it.customer_id);
            it.customer.is_none().then(|| (Verdict::Fail, why()))
        },
    },
    BuiltIn {
        name: "currency-matches",
        objects: |it| {
            let customer = it.customer.map(|customer| customer.currency);
            let other = customer.filter(|currency| *currency != it.money.currency)?;
            let is = it.money.currency;
            Some((
                Verdict::Fail,
                format!("the invoice's currency is {is}, its customer's is {other}"),
            ))
        },
    },
];

/// A check as it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckText {
    pub name: String,
    /// A CEL expression over the invoice and its customer.
    pub require: String,
    /// What follows when it is not true: `skip`, `fail` or `postpone`.
    pub otherwise: String,
    /// For how long it is postponed.
    #[serde(default)]
    pub pause: Option<String>,
    pub message: String,
}

struct Configured {
    name: String,
    require: Expression,
    otherwise: Verdict,
    message: String,
}

impl Check for Configured {
    fn name(&self) -> &str {
        &self.name
    }
    /// What cannot be judged is not charged: a person sees why, and it comes again.
    fn objection(&self, subject: &Subject<'_>) -> Option<(Verdict, String)> {
        match self.require.holds(&facts(subject)) {
            Ok(true) => None,
            Ok(false) => Some((self.otherwise.clone(), self.message.clone())),
            Err(failed) => {
                let pause = parse_pause(DEFAULT_PAUSE).unwrap_or_default();
                let why = format!("{}: it cannot be evaluated: {failed}", self.message);
                Some((Verdict::Postpone(pause), why))
            }
        }
    }
}

/// All checks, in the order in which they are asked.
pub struct Chain {
    checks: Vec<Box<dyn Check>>,
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.checks.iter().map(|check| check.name());
        f.debug_list().entries(names).finish()
    }
}

impl Chain {
    /// Ours, and these behind them; or what is wrong with the first of them that is.
    pub fn read(texts: &[CheckText]) -> Result<Self, String> {
        if texts.len() > MOST_CHECKS {
            return Err(format!(
                "invoices.checks: at most {MOST_CHECKS} checks are allowed"
            ));
        }
        let mut checks: Vec<Box<dyn Check>> = vec![];
        for built_in in BUILT_IN {
            checks.push(Box::new(built_in));
        }
        for text in texts {
            let wrong = |why: String| format!("invoices.checks: {:?} {why}", text.name);
            check_item_id(&text.name).map_err(wrong)?;
            if checks.iter().any(|check| check.name() == text.name) {
                return Err(wrong("is used by two checks; rename one of them".into()));
            }
            checks.push(Box::new(read(text).map_err(wrong)?));
        }
        Ok(Self { checks })
    }

    pub fn find(&self, subject: &Subject<'_>) -> Finding {
        for check in &self.checks {
            if let Some((verdict, reason)) = check.objection(subject) {
                return Finding {
                    check: check.name().to_owned(),
                    verdict,
                    reason,
                };
            }
        }
        Finding {
            check: "all".to_owned(),
            verdict: Verdict::Continue,
            reason: format!("{} checks have passed", self.checks.len()),
        }
    }
}

fn read(text: &CheckText) -> Result<Configured, String> {
    let pause = match (text.otherwise.as_str(), &text.pause) {
        ("postpone", pause) => parse_pause(pause.as_deref().unwrap_or(DEFAULT_PAUSE))
            .map_err(|why| format!("pause: {why}"))?,
        (_, Some(_)) => {
            return Err("pause: is only allowed with otherwise = \"postpone\"".to_owned());
        }
        (_, None) => Duration::ZERO,
    };
    let otherwise = match text.otherwise.as_str() {
        "skip" => Verdict::Skip,
        "fail" => Verdict::Fail,
        "postpone" => Verdict::Postpone(pause),
        other => {
            return Err(format!(
                "otherwise: {other:?} is unknown; use skip, fail or postpone"
            ));
        }
    };
    if text.message.trim().is_empty() {
        return Err("message: must not be empty".to_owned());
    }
    let require = Expression::compile(&VOCABULARY, &sample(), &text.require)
        .map_err(|why| format!("require: {why}"))?;
    Ok(Configured {
        name: text.name.clone(),
        require,
        otherwise,
        message: text.message.clone(),
    })
}

/// What a configured check may speak of.
static VOCABULARY: Vocabulary = Vocabulary {
    variables: &[
        "invoiceId",
        "customerId",
        "amountMinor",
        "currency",
        "status",
        "createdAt",
        "declines",
        "customer",
        "now",
    ],
    // A customer may be null, which has no fields at all.
    objects: &[],
};

fn facts(it: &Subject<'_>) -> Facts {
    let customer = it.customer.map_or(Value::Null, |customer| {
        let fields = [
            ("customerId", customer.customer_id.as_str()),
            ("currency", customer.currency.code()),
            ("timeZone", customer.time_zone.as_str()),
        ];
        map(fields.map(|(name, text)| (name.to_owned(), text.into())))
    });
    let declines = i64::try_from(it.declines).unwrap_or(i64::MAX);
    let known = vec![
        ("invoiceId", it.invoice_id.into()),
        ("customerId", it.customer_id.into()),
        ("amountMinor", Value::Int(it.money.minor)),
        ("currency", it.money.currency.code().into()),
        ("status", it.status.into()),
        ("createdAt", Value::Int(it.created_at.as_second())),
        ("declines", Value::Int(declines)),
        ("customer", customer),
        ("now", Value::Int(it.now.as_second())),
    ];
    Facts::new(known, it.money.currency)
}

fn sample() -> Facts {
    let currency = Currency::from_code("EUR").expect("the euro is a currency");
    let customer = Customer {
        customer_id: "sample".to_owned(),
        currency,
        time_zone: "UTC".to_owned(),
        ladder: None,
    };
    facts(&Subject {
        invoice_id: "sample",
        customer_id: "sample",
        status: InvoiceStatus::Pending.as_str(),
        money: Money { minor: 1, currency },
        created_at: Timestamp::UNIX_EPOCH,
        declines: 0,
        was_charged: false,
        undecided: false,
        customer: Some(&customer),
        now: Timestamp::UNIX_EPOCH,
    })
}

#[cfg(test)]
mod tests;
