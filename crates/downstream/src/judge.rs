//! What an exchange with a downstream proves, by its description; the tests are the rows of the shipped contract.
//! Pure. No description can loosen what is decided here: what a lost answer proves, whose answer it is, and which
//! statuses prove nothing. What an earlier Unknown makes of an answer is the sender's business.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use serde_json::{Value, json};
use tollgate_core::excerpt::excerpt;
use tollgate_core::marker::Marker;
use tollgate_core::outcome::{AttemptKind, Outcome, Quiet};
use tollgate_core::ports::{ExchangeResult, Health, Request};
use tollgate_expression::{Expression, Facts};

use crate::description::{Description, LOST_ANSWERS, Meaning, Row, as_text};
use crate::stranger::{is_own, what_it_said, why_it_stops};

/// How long a lane stays quiet when the downstream does not say.
pub(crate) const DEFAULT_QUIET: Duration = Duration::from_secs(1);
/// The longest a downstream's `Retry-After` can silence its lane.
pub(crate) const MAX_QUIET: Duration = Duration::from_mins(1);
/// How much of a refusal's body, or of the reason in it, is kept.
const EXCERPT_CHARS: usize = 200;

/// What happened on the wire.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// Failed before the first byte.
    NotSent(String),
    /// Sent, or perhaps sent, and no whole answer came back.
    Lost(String),
    Answered(Answer),
}

/// An answer that arrived whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn empty(status: u16) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: vec![],
        }
    }

    /// The header as it came, if it came.
    pub(crate) fn retry_after(&self) -> Option<Cow<'_, str>> {
        let value = self.headers.get(RETRY_AFTER)?;
        Some(String::from_utf8_lossy(value.as_bytes()))
    }
}

/// What came of an exchange, and by which row of the description.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) heard: ExchangeResult,
    /// Where the row is written that applied.
    pub(crate) line: Option<usize>,
    /// In the words of a description.
    pub(crate) means: &'static str,
    pub(crate) reference: Option<String>,
}

impl Judged {
    fn of(means: Meaning, outcome: Outcome, health: Health) -> Self {
        Self {
            heard: ExchangeResult {
                outcome,
                health,
                is_duplicate: means == Meaning::DoneBefore,
            },
            line: None,
            means: means.as_str(),
            reference: None,
        }
    }

    fn unknown(why: String, health: Health) -> Self {
        Self::of(Meaning::Unknown, Outcome::Unknown(why), health)
    }
}

/// One exchange about a request, by the description and by what recognises the downstream's own answers.
pub(crate) fn judge(
    description: &Description,
    marker: &Marker,
    kind: AttemptKind,
    exchange: Exchange,
    request: &Request,
) -> Judged {
    let answer = match (exchange, kind) {
        (Exchange::NotSent(why), AttemptKind::Send) => {
            let outcome = Outcome::retry(format!("failed before the first byte: {why}"));
            return Judged::of(Meaning::NotDone, outcome, Health::Untold);
        }
        // `Retry` would claim that the downstream denies knowing the item.
        (Exchange::NotSent(why), AttemptKind::Probe) => {
            return Judged::unknown(format!("not asked: {why}"), Health::Untold);
        }
        (Exchange::Lost(why), _) => return Judged::unknown(why, Health::Fails),
        (Exchange::Answered(answer), _) => answer,
    };
    let status = answer.status;
    if proves_nothing(status) && !(400..=499).contains(&status) {
        return Judged::unknown(format!("status {status}"), Health::Fails);
    }
    let facts = description.facts_after(request, &answer);
    let row = description.row(kind, status, &facts);
    let row = row.filter(|_| !proves_nothing(status));
    let is_stranger = (400..=499).contains(&status)
        && !is_own(&answer, marker, promises_nothing_done(row), || {
            description.owns(&answer, &facts)
        });
    if is_stranger {
        return strangers(kind, &answer);
    }
    let mut judged = match row {
        Some(row) => by_row(row, kind, answer, &facts),
        None => {
            let health = if turns_us_away(status) {
                turned_away(status)
            } else {
                Health::Fails
            };
            Judged::unknown(unexplained(status), health)
        }
    };
    judged.line = row.map(|row| row.line);
    judged
}

fn promises_nothing_done(row: Option<&Row>) -> bool {
    row.is_some_and(|row| row.means == Meaning::NotDone)
}

/// Statuses that prove nothing, whatever a description says: 1xx, redirects, and answers that were lost on the way.
fn proves_nothing(status: u16) -> bool {
    !matches!(status, 200..=299 | 400..=599) || LOST_ANSWERS.contains(&status)
}

fn unexplained(status: u16) -> String {
    format!("status {status}, and no row of the description explains it")
}

/// It may have passed the request on before it lost the answer. A bank that cannot be asked may leave questions to
/// whatever stands in front of it: a stranger's answer to a question stops nothing, or a person who resumes the lane
/// would see it paused by the next question.
fn strangers(kind: AttemptKind, answer: &Answer) -> Judged {
    let stops = kind == AttemptKind::Send && !passes_by_itself(answer.status);
    let health = if stops || turns_us_away(answer.status) {
        Health::TurnsUsAway {
            why: why_it_stops(answer),
        }
    } else {
        Health::Fails
    };
    Judged::unknown(what_it_said(answer), health)
}

fn by_row(row: &Row, kind: AttemptKind, answer: Answer, facts: &Facts) -> Judged {
    let status = answer.status;
    let said = |expression: &Option<Expression>| said(expression.as_ref(), facts);
    match row.means {
        Meaning::Done | Meaning::DoneBefore => done(row, answer, facts),
        Meaning::Refused => {
            let why = said(&row.reason).map(|why| format!("status {status}: {why}"));
            let why = why.unwrap_or_else(|| refusal(&answer));
            Judged::of(row.means, Outcome::Refused(why), Health::Answers)
        }
        Meaning::Declined => {
            let why = said(&row.reason);
            let why = why.unwrap_or_else(|| "declined without a reason".to_owned());
            Judged::of(row.means, Outcome::Declined(why), Health::Answers)
        }
        Meaning::NotDone => {
            let outcome = Outcome::Retry {
                why: format!("status {status}: not done"),
                quiet: Quiet::For(quiet_for(answer.retry_after().as_deref())),
            };
            Judged::of(row.means, outcome, Health::Answers)
        }
        Meaning::NotKnown => {
            let outcome = Outcome::retry("unknown to the downstream");
            Judged::of(row.means, outcome, Health::Answers)
        }
        Meaning::Stop => {
            let outcome = match kind {
                AttemptKind::Send => Outcome::retry(wrongly_configured(status)),
                AttemptKind::Probe => Outcome::Unknown(format!("status {status}")),
            };
            Judged::of(row.means, outcome, turned_away(status))
        }
        Meaning::Unknown => Judged::unknown(format!("status {status}"), Health::Fails),
    }
}

/// The answer is kept as it came; if the row says where their reference and the amount stand, these stand in front.
fn done(row: &Row, answer: Answer, facts: &Facts) -> Judged {
    let status = answer.status;
    let believed = |it: &Expression| it.holds(facts) == Ok(true);
    if !row.believed_if.as_ref().is_none_or(believed) {
        let why = format!("status {status}, but the answer does not name the payment");
        return Judged::unknown(why, Health::Fails);
    }
    let Ok(text) = String::from_utf8(answer.body) else {
        return Judged::unknown(
            format!("status {status} with a body that is not text"),
            Health::Fails,
        );
    };
    let reference = said(row.reference.as_ref(), facts);
    let named = [
        ("bankReference", reference.clone()),
        ("amount", said(row.amount.as_ref(), facts)),
        ("currency", said(row.currency.as_ref(), facts)),
    ];
    let kept = if named.iter().all(|(_, value)| value.is_none()) {
        text
    } else {
        let mut fields = json!({});
        for (name, value) in named {
            if let Some(value) = value {
                fields[name] = value.into();
            }
        }
        fields["answer"] = serde_json::from_str(&text).unwrap_or(Value::String(text));
        fields.to_string()
    };
    Judged {
        reference,
        ..Judged::of(row.means, Outcome::Done(kept), Health::Answers)
    }
}

/// What an expression finds in the answer, in short; none if it is not there.
fn said(expression: Option<&Expression>, facts: &Facts) -> Option<String> {
    let text = as_text(expression?, facts).ok()?;
    Some(excerpt(text.trim(), EXCERPT_CHARS)).filter(|text| !text.is_empty())
}

fn turned_away(status: u16) -> Health {
    Health::TurnsUsAway {
        why: wrongly_configured(status),
    }
}

/// The configuration is wrong, and the next request will fare no better.
fn turns_us_away(status: u16) -> bool {
    matches!(status, 401 | 403 | 405 | 407)
}

fn wrongly_configured(status: u16) -> String {
    format!("status {status}: the configuration is wrong, not the payment")
}

/// Says something about the moment, whoever says it: the breaker slows the lane down, and no person is needed.
fn passes_by_itself(status: u16) -> bool {
    matches!(status, 408 | 425 | 429)
}

/// Whole seconds only: a date would need a clock shared with the downstream.
pub(crate) fn quiet_for(retry_after: Option<&str>) -> Duration {
    let is_seconds =
        |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match retry_after.map(str::trim).filter(is_seconds) {
        Some(digits) => digits
            .parse()
            .map_or(MAX_QUIET, Duration::from_secs)
            .min(MAX_QUIET),
        None => DEFAULT_QUIET,
    }
}

fn refusal(answer: &Answer) -> String {
    let body = String::from_utf8_lossy(&answer.body);
    let excerpt = excerpt(body.trim(), EXCERPT_CHARS);
    if excerpt.is_empty() {
        format!("status {}", answer.status)
    } else {
        format!("status {}: {excerpt}", answer.status)
    }
}

#[cfg(test)]
impl Answer {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: HeaderMap::new(),
            body: body.into(),
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.insert(name, value.parse().unwrap());
        self
    }

    pub(crate) fn retrying_after(self, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with("retry-after", value),
            None => self,
        }
    }
}

#[cfg(test)]
mod charge_tests;
#[cfg(test)]
mod tests;
