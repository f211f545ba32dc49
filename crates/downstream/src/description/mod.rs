//! A bank by description: the requests that it wants, and what its answers mean. Read and compiled once, at the start;
//! `docs/connect-a-bank.md` has the format.

mod answers;
mod body;
mod examples;
mod facts;
mod outgoing;
mod reader;
mod shipped;
mod template;

use http::Method;
use sha2::{Digest, Sha256};
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::Request;
use tollgate_expression::{Expression, Facts};

use crate::judge::Answer;
pub(crate) use answers::{LOST_ANSWERS, Meaning, Row};
use body::Words;
pub use examples::Checked;
pub use facts::Subject;
use outgoing::{Composed, Outgoing, PROBE_FIELDS, SEND_FIELDS};
pub use reader::Wrong;
use reader::{Fields, Node};
pub use shipped::SHIPPED;
pub(crate) use template::{Template, as_text};

/// This many digits of the hash tell versions apart: 64 bits.
const DIGITS: usize = 16;

#[derive(Debug, Clone)]
pub struct Description {
    pub title: String,
    pub subject: Subject,
    pub promises: Promises,
    text: String,
    version: String,
    send: Outgoing,
    answers: Vec<Row>,
    probe: Option<Probe>,
    own_if: Option<Expression>,
    examples: Vec<examples::Example>,
}

#[derive(Debug, Clone)]
struct Probe {
    request: Outgoing,
    answers: Vec<Row>,
    by_key: bool,
}

/// What the bank promises about repeats; the configuration may say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promises {
    /// None if the description leaves it to the configuration: banks that share an API may differ in it.
    pub honours_idempotency_key: Option<bool>,
    pub key_retention_secs: u64,
    pub settle_secs: u64,
    pub remembers_refusals: bool,
}

impl Description {
    pub fn read(text: &str) -> Result<Self, Wrong> {
        let root = reader::read(text)?;
        let known = [
            "title", "about", "own_if", "promises", "send", "probe", "examples",
        ];
        let file = root.fields("the description", &known)?;
        let subject = subject(&file)?;
        let request = subject.sample();
        let sample = subject.facts(&request);
        let answered = subject.facts_after(&request, &Answer::empty(200));
        let words = Words {
            vocabulary: subject.request_words(),
            sample: &sample,
        };
        let send_node = file.required("send")?;
        let send = send_node.fields("send", &SEND_FIELDS)?;
        let own_if = file.get("own_if").map(|node| {
            let source = node.text("own_if")?;
            let compiled = Expression::compile(subject.answer_words(), &answered, source);
            compiled.map_err(|why| node.wrong(format!("own_if: {why}")))
        });
        let promises = promises(&file)?;
        let probe = probe(&file, subject, words, &answered)?;
        if promises.honours_idempotency_key == Some(false) && probe.is_none() {
            return Err(Wrong {
                line: send_node.line,
                what: NO_WAY_OUT.to_owned(),
            });
        }
        let examples = file.get("examples");
        let examples = examples.map(examples::read).transpose()?;
        Ok(Self {
            title: file.text("title")?.unwrap_or("a bank").to_owned(),
            subject,
            promises,
            text: text.to_owned(),
            version: version(send_node)?,
            send: Outgoing::read(send, Method::POST, words)?,
            answers: answers::read(
                send.required("answers")?,
                AttemptKind::Send,
                subject.answer_words(),
                &answered,
            )?,
            probe,
            own_if: own_if.transpose()?,
            examples: examples.unwrap_or_default(),
        })
    }

    /// With other statuses than the description's that promise that nothing was done.
    pub fn promising_not_done(mut self, statuses: &[u16]) -> Result<Self, String> {
        let is_promise = |row: &Row| row.means == Meaning::NotDone;
        let place = self.answers.iter().position(is_promise);
        let line = place.map_or(1, |place| self.answers[place].line);
        self.answers.retain(|row| !is_promise(row));
        let answered = self
            .subject
            .facts_after(&self.subject.sample(), &Answer::empty(200));
        let rows = Row::promised(statuses, line, self.subject.answer_words(), &answered)?;
        let place = place.unwrap_or(self.answers.len());
        self.answers.splice(place..place, rows);
        Ok(self)
    }

    /// The whole file, as it was read.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The same for two descriptions that send the same bytes.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn can_be_asked(&self) -> bool {
        self.probe.is_some()
    }

    pub(crate) fn asks_by_key(&self) -> bool {
        self.probe.as_ref().is_some_and(|probe| probe.by_key)
    }

    /// What an operator should know that this description promises in the bank's name.
    pub fn bold_promises(&self) -> Vec<String> {
        let mut told = vec![];
        for row in &self.answers {
            let shown = row.shown();
            if row.means == Meaning::NotDone && row.has_5xx() {
                told.push(format!("{shown} promises that nothing was done"));
            }
            if row.means == Meaning::Declined {
                told.push(format!(
                    "{shown} is a final refusal, even after a lost answer"
                ));
            }
            if row.means == Meaning::Done && row.believes_anything {
                told.push(format!(
                    "{shown} means done, although no field of the answer is checked"
                ));
            }
        }
        told
    }

    pub(crate) fn compose(&self, kind: AttemptKind, request: &Request) -> Result<Composed, String> {
        let facts = self.subject.facts(request);
        match (kind, &self.probe) {
            (AttemptKind::Send, _) => self.send.compose(&facts, request),
            (AttemptKind::Probe, Some(probe)) => probe.request.compose(&facts, request),
            (AttemptKind::Probe, None) => Err("this bank cannot be asked".to_owned()),
        }
    }

    /// The first row that applies.
    pub(crate) fn row(&self, kind: AttemptKind, status: u16, facts: &Facts) -> Option<&Row> {
        let rows = match (kind, &self.probe) {
            (AttemptKind::Send, _) => &self.answers,
            (AttemptKind::Probe, Some(probe)) => &probe.answers,
            (AttemptKind::Probe, None) => return None,
        };
        rows.iter().find(|row| row.matches(status, facts))
    }

    /// Whether a 4xx is the bank's own, by the description. Without a word about it: if it is JSON.
    pub(crate) fn owns(&self, answer: &Answer, facts: &Facts) -> bool {
        match &self.own_if {
            Some(own_if) => own_if.holds(facts) == Ok(true),
            None => serde_json::from_slice::<serde_json::Map<_, _>>(&answer.body).is_ok(),
        }
    }

    pub(crate) fn facts_after(&self, request: &Request, answer: &Answer) -> Facts {
        self.subject.facts_after(request, answer)
    }
}

pub(crate) const NO_WAY_OUT: &str = "keys are not honoured and there is no [probe]: a payment whose answer is lost could neither be resent nor queried";

fn subject(file: &Fields<'_>) -> Result<Subject, Wrong> {
    match file.get("about") {
        None => Ok(Subject::Payments),
        Some(node) => match node.text("about")? {
            "payments" => Ok(Subject::Payments),
            "invoices" => Ok(Subject::Invoices),
            _ => Err(node.wrong("about must be \"payments\" or \"invoices\"")),
        },
    }
}

const HONOURS: &str = "honours_idempotency_key";
/// Says that the answer is the bank's, and that the configuration must give it.
const ASK: &str = "ask the bank";

fn promises(file: &Fields<'_>) -> Result<Promises, Wrong> {
    let node = file.required("promises")?;
    let known = [
        HONOURS,
        "key_retention_secs",
        "settle_secs",
        "remembers_refusals",
    ];
    let fields = node.fields("promises", &known)?;
    let asks = fields.get(HONOURS).and_then(|node| node.text(HONOURS).ok());
    let honours = match asks {
        Some(ASK) => None,
        Some(_) => {
            let node = fields.get(HONOURS).unwrap_or(node);
            return Err(node.wrong(
                "promises.honours_idempotency_key must be true, false or \"ask the bank\"",
            ));
        }
        None => fields.yes(HONOURS)?.map(Some).ok_or_else(|| {
            node.wrong("promises needs honours_idempotency_key: whether a repeat under the same key is recognised")
        })?,
    };
    let retention = fields.secs("key_retention_secs")?;
    if honours == Some(true) && retention.is_none() {
        return Err(node.wrong("promises needs key_retention_secs: how long a key is remembered"));
    }
    Ok(Promises {
        honours_idempotency_key: honours,
        key_retention_secs: retention.unwrap_or_default(),
        settle_secs: fields.secs("settle_secs")?.unwrap_or(60),
        remembers_refusals: fields.yes("remembers_refusals")?.unwrap_or(true),
    })
}

fn probe(
    file: &Fields<'_>,
    subject: Subject,
    words: Words<'_>,
    answered: &Facts,
) -> Result<Option<Probe>, Wrong> {
    let Some(node) = file.get("probe") else {
        return Ok(None);
    };
    let fields = node.fields("probe", &PROBE_FIELDS)?;
    let rows = fields.required("answers")?;
    Ok(Some(Probe {
        request: Outgoing::read(fields, Method::GET, words)?,
        answers: answers::read(rows, AttemptKind::Probe, subject.answer_words(), answered)?,
        by_key: fields.yes("by_key")?.unwrap_or(false),
    }))
}

/// By what is sent, and by nothing else: who repairs the meaning of an answer changes no bytes.
fn version(send: &Node) -> Result<String, Wrong> {
    let mut hash = Sha256::new();
    for (name, node) in send.table("send")? {
        if name != "answers" {
            hash.update(format!("{name:?}={};", node.canonical()));
        }
    }
    Ok(hex::encode(hash.finalize()).chars().take(DIGITS).collect())
}

#[cfg(test)]
mod tests;
