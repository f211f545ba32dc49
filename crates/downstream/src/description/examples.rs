//! Recorded answers, and what they are expected to mean: a description is tested without its bank. All of them are about
//! the sample (`Subject::sample`).

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_core::marker::Marker;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::Request;

use super::Description;
use super::reader::{Kind, Node, Wrong};
use crate::judge::{Answer, Exchange, judge};

#[derive(Debug, Clone)]
pub(super) struct Example {
    line: usize,
    kind: AttemptKind,
    expected: Expected,
}

#[derive(Debug, Clone)]
enum Expected {
    /// What goes out, but for the login.
    Request(String),
    Answer {
        status: u16,
        headers: HeaderMap,
        body: String,
        means: String,
        reference: Option<String>,
    },
}

/// One recorded example, as it came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    pub line: usize,
    pub is_right: bool,
    /// One line for people.
    pub told: String,
}

const FIELDS: [&str; 7] = [
    "to",
    "request",
    "status",
    "headers",
    "body",
    "means",
    "reference",
];

pub(super) fn read(node: &Node) -> Result<Vec<Example>, Wrong> {
    node.list("examples")?.iter().map(example).collect()
}

fn example(node: &Node) -> Result<Example, Wrong> {
    let fields = node.fields("examples", &FIELDS)?;
    let kind = match fields.text("to")? {
        Some("send") | None => AttemptKind::Send,
        Some("probe") => AttemptKind::Probe,
        Some(_) => return Err(node.wrong("examples.to must be \"send\" or \"probe\"")),
    };
    if let Some(request) = fields.text("request")? {
        return Ok(Example {
            line: node.line,
            kind,
            expected: Expected::Request(request.trim_end().to_owned()),
        });
    }
    let status = fields.required("status")?;
    let Kind::Whole(number @ 100..=599) = status.kind else {
        return Err(status.wrong("examples.status must be a status such as 200"));
    };
    Ok(Example {
        line: node.line,
        kind,
        expected: Expected::Answer {
            status: u16::try_from(number).unwrap_or_default(),
            headers: headers(fields.get("headers"))?,
            body: fields.text("body")?.unwrap_or_default().to_owned(),
            means: fields.required("means")?.text("examples.means")?.to_owned(),
            reference: fields.text("reference")?.map(str::to_owned),
        },
    })
}

fn headers(node: Option<&Node>) -> Result<HeaderMap, Wrong> {
    let mut headers = HeaderMap::new();
    let Some(node) = node else {
        return Ok(headers);
    };
    for (name, value) in node.table("examples.headers")? {
        let wrong = || value.wrong(format!("examples.headers.{name} is not a header"));
        let parsed: HeaderName = name.parse().map_err(|_| wrong())?;
        let text = value.text("examples.headers")?;
        headers.insert(parsed, HeaderValue::from_str(text).map_err(|_| wrong())?);
    }
    Ok(headers)
}

impl Description {
    /// Every recorded example by the table, in order.
    pub fn check(&self) -> Vec<Checked> {
        self.examples.iter().map(|it| self.checked(it)).collect()
    }

    /// A request as it goes out, without the URL and what the login adds.
    pub fn shown_request(&self, kind: AttemptKind, request: &Request) -> Result<String, String> {
        Ok(self.compose(kind, request)?.shown())
    }

    fn checked(&self, example: &Example) -> Checked {
        let (line, kind) = (example.line, example.kind);
        let (is_right, told) = match &example.expected {
            Expected::Request(expected) => match self.shown_request(kind, &self.subject.sample()) {
                Ok(shown) if shown == *expected => (true, "the request is as recorded".to_owned()),
                Ok(shown) => (false, format!("the request differs:\n{shown}")),
                Err(why) => (false, format!("the request cannot be built: {why}")),
            },
            Expected::Answer {
                status,
                headers,
                body,
                means,
                reference,
            } => {
                let answer = Answer {
                    status: *status,
                    headers: headers.clone(),
                    body: body.clone().into_bytes(),
                };
                let (exchange, request) = (Exchange::Answered(answer), self.subject.sample());
                let judged = judge(self, &Marker::Contract, kind, exchange, &request);
                let by = judged.line.map_or_else(
                    || "no row applies".to_owned(),
                    |line| format!("the row in line {line}"),
                );
                let told = format!("{kind:?} status {status}: {} ({by})", judged.means);
                if judged.means != means {
                    (
                        false,
                        format!(
                            "{told}, expected {means}: {}",
                            judged.heard.outcome.detail()
                        ),
                    )
                } else if reference.is_some() && judged.reference != *reference {
                    let found = judged.reference.unwrap_or_default();
                    (false, format!("{told}, but the reference is {found:?}"))
                } else {
                    (true, told)
                }
            }
        };
        Checked {
            line,
            is_right,
            told,
        }
    }
}
