//! The text in which faults are written. Rules are separated by line ends or `;`, and `#` begins a
//! comment. A rule is `WHICH: FAULT`:
//!
//! ```text
//! send 3: reset after                      # exactly the third send since these faults were set
//! sends 10-20: 429 retry-after 2
//! sends of payment pay_7: stall
//! send 1 of each payment: 500 after        # numbered payment by payment
//! 1 in 50 sends: half                      # at random, by the seed
//! probes: latency 2s
//! all: latency 20ms
//! sends of payment inv_7: decline           # an invoice is named like a payment
//! webhooks 1-20: 500 before                # what the receiver of notifications does
//! checks of payment pay_7: 500             # what the services of a status check do
//! ```
//!
//! WHICH is `[1 in N] sends|probes|webhooks|lookups|notifies|checks|all [N | N-M | N-] [of payment ID | of each payment]`.
//!
//! | FAULT | what it does |
//! |---|---|
//! | `latency TIME` | the work is done at once, its answer held back |
//! | `work TIME` | the work takes so long, whether the client waits or not; meanwhile its key is in use, and another request with it gets a 409 |
//! | `settle TIME` | the work is done, but a probe finds it only so much later |
//! | `forget-key TIME` | the key is forgotten so long after the work: a repeat takes effect again |
//! | `decline` | a charge is declined, and under its key always will be; payments are not |
//! | `STATUS` | 400–599 instead of the answer, e.g. `429`, `401`, `409`, `500`, and `404` for a probe; may end in `retry-after SECS` |
//! | `stranger STATUS` | 400–599 in plain text that is not the bank's, as from a load balancer on the way |
//! | `reset` | a TCP reset |
//! | `stall` | never an answer, and the connection stays open |
//! | `half` | the head and half of the body, then the connection is closed |
//! | `garbage` | 200 with a body that is no JSON |
//! | `empty` | 200 with no body at all |
//! | `wrong-id` | 200 with JSON that names another payment |
//! | `wrong-amount` | 200 with JSON that says another amount |
//! | `huge [MEGABYTES]` | 200 with that much JSON (default 8) |
//!
//! TIME is `20ms`, `2s` or `5m`. Behind a fault from STATUS on stands `before` (nothing was done) or
//! `after` (the work was done); without it `after` is meant, except that a 4xx of the bank's own always means
//! that nothing was done. Of the rules from STATUS on, the first that matches strikes; of each of the four with
//! a TIME, and `decline`, also the first, together with that.

mod fault;
mod which;

use std::str::FromStr;

use self::{fault::parse_fault, which::parse_which};
use crate::faults::{Fault, Faults, Rule, Subject, Which};

const MAX_RULES: usize = 1_000;

/// A text that says no faults, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, \"{rule}\": {field}: {reason}")]
pub struct SpecError {
    pub line: usize,
    pub rule: String,
    /// The part of the rule that is wrong, by its name above.
    pub field: &'static str,
    pub reason: String,
}

/// What is wrong with one part, before it is known where the rule stands.
struct Wrong {
    field: &'static str,
    reason: String,
}

impl FromStr for Faults {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut rules = vec![];
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            for rule in line
                .split(';')
                .map(str::trim)
                .filter(|rule| !rule.is_empty())
            {
                let parsed = parse_rule(rule).and_then(|parsed| {
                    let room = rules.len() < MAX_RULES;
                    room.then_some(parsed)
                        .ok_or_else(|| wrong("rules", format!("more than {MAX_RULES}")))
                });
                rules.push(parsed.map_err(|Wrong { field, reason }| SpecError {
                    line: index + 1,
                    rule: rule.to_owned(),
                    field,
                    reason,
                })?);
            }
        }
        Ok(Self { rules })
    }
}

fn parse_rule(rule: &str) -> Result<Rule, Wrong> {
    // An id may hold a colon, but no space.
    let (which, fault) = rule
        .split_once(": ")
        .ok_or_else(|| wrong("rule", "must be WHICH: FAULT, as in send 3: reset after"))?;
    let which = parse_which(&words(which))?;
    let fault = parse_fault(&words(fault))?;
    check_together(&which, fault)?;
    Ok(Rule { which, fault })
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// What each half allows, and the whole does not.
fn check_together(which: &Which, fault: Fault) -> Result<(), Wrong> {
    let sends_only = matches!(
        fault,
        Fault::Work(_) | Fault::Settle(_) | Fault::ForgetKey(_) | Fault::Decline
    );
    let idle = match which.subject {
        Subject::Probes => Some("a probe"),
        Subject::Webhooks => Some("a webhook"),
        Subject::Lookups | Subject::Notifies | Subject::Checks => Some("a status check"),
        Subject::Sends | Subject::All => None,
    };
    if let Some(idle) = idle.filter(|_| sends_only) {
        let reason = format!("\"{fault}\" is for sends, {idle} does no work");
        return Err(wrong("fault", reason));
    }
    Ok(())
}

fn whole<T: FromStr>(field: &'static str, text: &str) -> Result<T, Wrong> {
    text.parse()
        .map_err(|_| wrong(field, format!("\"{text}\" is not a whole number from 1")))
}

fn wrong(field: &'static str, reason: impl Into<String>) -> Wrong {
    Wrong {
        field,
        reason: reason.into(),
    }
}
