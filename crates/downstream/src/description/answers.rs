//! The ordered table that says what an answer means. Safety is not in it: what no row can say is refused when the
//! description is read, and what no answer proves is decided in `judge.rs` before any row is looked at.

use std::ops::RangeInclusive;

use tollgate_core::outcome::AttemptKind;
use tollgate_expression::{Expression, Facts, Vocabulary};

use super::facts::OF_ANSWER;
use super::reader::{Kind, Node, Wrong};

#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) line: usize,
    statuses: Vec<Statuses>,
    when: Option<Expression>,
    pub(crate) means: Meaning,
    /// Of what is done: what must hold before it is believed.
    pub(crate) believed_if: Option<Expression>,
    pub(crate) reason: Option<Expression>,
    pub(crate) reference: Option<Expression>,
    pub(crate) amount: Option<Expression>,
    pub(crate) currency: Option<Expression>,
    /// As it is written, for people.
    condition: Option<String>,
    /// It proves nothing by itself.
    pub(crate) believes_anything: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Done,
    /// A duplicate: proof only if an earlier send under this key is in doubt.
    DoneBefore,
    Refused,
    /// A definite no to this key.
    Declined,
    NotDone,
    /// Of a question: the bank knows nothing of it.
    NotKnown,
    /// The configuration is wrong: the lane is paused.
    Stop,
    Unknown,
}

impl Meaning {
    const ALL: [Self; 8] = [
        Self::Done,
        Self::DoneBefore,
        Self::Refused,
        Self::Declined,
        Self::NotDone,
        Self::NotKnown,
        Self::Stop,
        Self::Unknown,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::DoneBefore => "done before",
            Self::Refused => "refused",
            Self::Declined => "declined",
            Self::NotDone => "not done",
            Self::NotKnown => "not known",
            Self::Stop => "stop",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.as_str() == text)
    }

    fn is_for(self, kind: AttemptKind) -> bool {
        match self {
            Self::Done | Self::Declined | Self::Stop | Self::Unknown => true,
            Self::DoneBefore | Self::Refused | Self::NotDone => kind == AttemptKind::Send,
            Self::NotKnown => kind == AttemptKind::Probe,
        }
    }

    /// The statuses that can mean this at all.
    fn possible(self) -> &'static [RangeInclusive<u16>] {
        match self {
            Self::Done => &[200..=299],
            Self::DoneBefore | Self::Refused | Self::Declined | Self::NotKnown => {
                &[200..=299, 400..=499]
            }
            Self::NotDone => &[400..=599],
            Self::Stop => &[400..=499],
            Self::Unknown => &[100..=599],
        }
    }
}

/// What a proxy on the way says that has waited in vain: nobody knows whether it was done.
pub(crate) const LOST_ANSWERS: [u16; 3] = [408, 502, 504];
/// About us or about the moment, and not about the payment: a row must name them to be about them.
const NOT_ABOUT_THE_PAYMENT: [u16; 7] = [401, 403, 405, 407, 408, 425, 429];
/// They judge no payment, whoever says so.
const NEVER_A_REFUSAL: [u16; 5] = [401, 405, 407, 425, 429];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statuses {
    One(u16),
    /// 2xx, 4xx: of the fourth class only those that can be about a payment.
    Class(u16),
}

impl Statuses {
    fn include(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => status / 100 == class && !NOT_ABOUT_THE_PAYMENT.contains(&status),
        }
    }
}

impl std::fmt::Display for Statuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::One(status) => status.fmt(f),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}

impl Row {
    /// An expression that fails does not apply: whatever no row matches is unknown.
    pub(crate) fn matches(&self, status: u16, facts: &Facts) -> bool {
        self.statuses.iter().any(|it| it.include(status))
            && self
                .when
                .as_ref()
                .is_none_or(|when| when.holds(facts) == Ok(true))
    }

    /// For people: `status 503 when body.code == 'BUSY'`.
    pub(crate) fn shown(&self) -> String {
        let statuses: Vec<_> = self.statuses.iter().map(ToString::to_string).collect();
        let statuses = statuses.join(", ");
        match &self.condition {
            Some(condition) => format!("status {statuses} when {condition}"),
            None => format!("status {statuses}"),
        }
    }

    pub(crate) fn has_5xx(&self) -> bool {
        self.statuses
            .iter()
            .any(|it| matches!(it, Statuses::One(500..)))
    }

    /// As the key `means_not_done` has it: a 5xx only if it says when to come back.
    pub(crate) fn promised(
        statuses: &[u16],
        line: usize,
        words: &'static Vocabulary,
        sample: &Facts,
    ) -> Result<Vec<Self>, String> {
        let (own, servers): (Vec<u16>, Vec<u16>) = statuses.iter().partition(|it| **it < 500);
        let row = |statuses: Vec<u16>, condition: Option<&str>| -> Result<Self, String> {
            let when = condition.map(|it| Expression::compile(words, sample, it));
            Ok(Self {
                line,
                statuses: statuses.into_iter().map(Statuses::One).collect(),
                when: when.transpose()?,
                means: Meaning::NotDone,
                believed_if: None,
                reason: None,
                reference: None,
                amount: None,
                currency: None,
                condition: condition.map(str::to_owned),
                believes_anything: false,
            })
        };
        let mut rows = vec![];
        if !own.is_empty() {
            rows.push(row(own, None)?);
        }
        if !servers.is_empty() {
            rows.push(row(servers, Some("'retry-after' in headers"))?);
        }
        Ok(rows)
    }
}

const FIELDS: [&str; 8] = [
    "status",
    "when",
    "means",
    "believed_if",
    "reason",
    "reference",
    "amount",
    "currency",
];

/// The rows of one table, each checked by itself.
pub(crate) fn read(
    node: &Node,
    kind: AttemptKind,
    words: &'static Vocabulary,
    sample: &Facts,
) -> Result<Vec<Row>, Wrong> {
    let name = match kind {
        AttemptKind::Send => "send.answers",
        AttemptKind::Probe => "probe.answers",
    };
    let rows = node.list(name)?.iter();
    rows.map(|node| row(node, name, kind, words, sample))
        .collect()
}

fn row(
    node: &Node,
    name: &'static str,
    kind: AttemptKind,
    words: &'static Vocabulary,
    sample: &Facts,
) -> Result<Row, Wrong> {
    let fields = node.fields(name, &FIELDS)?;
    let means = fields.required("means")?;
    let means = parse_meaning(means, name, kind)?;
    let statuses = statuses(fields.required("status")?, name)?;
    let verdict = |field: &str| verdict(fields.get(field), name, field, words, sample);
    let value = |field: &str, of: &[Meaning]| {
        let Some(node) = fields.get(field) else {
            return Ok(None);
        };
        if !of.contains(&means) {
            let means = means.as_str();
            return Err(node.wrong(format!(
                "{name}.{field} is not allowed with means = {means:?}"
            )));
        }
        let source = node.text(field)?;
        let compiled = Expression::compile_value(words, source);
        let compiled = compiled.map_err(|why| node.wrong(format!("{name}.{field}: {why}")));
        compiled.map(Some)
    };
    let done = [Meaning::Done, Meaning::DoneBefore];
    let of_request = words.variables.split_at(OF_ANSWER).1;
    let believed_if = verdict("believed_if")?;
    let row = Row {
        line: node.line,
        statuses,
        when: verdict("when")?,
        means,
        reason: value("reason", &[Meaning::Refused, Meaning::Declined])?,
        reference: value("reference", &done)?,
        amount: value("amount", &done)?,
        currency: value("currency", &done)?,
        condition: fields.text("when")?.map(str::to_owned),
        believes_anything: believed_if
            .as_ref()
            .is_some_and(|it| it.speaks_of(of_request).is_none()),
        believed_if,
    };
    check(&row, node, name)?;
    Ok(row)
}

fn parse_meaning(node: &Node, name: &str, kind: AttemptKind) -> Result<Meaning, Wrong> {
    let text = node.text(&format!("{name}.means"))?;
    let found = Meaning::parse(text).filter(|means| means.is_for(kind));
    found.ok_or_else(|| {
        let known = Meaning::ALL.into_iter().filter(|it| it.is_for(kind));
        let known: Vec<_> = known.map(Meaning::as_str).collect();
        node.wrong(format!(
            "{name}.means: {text:?} is not one of {}",
            known.join(", ")
        ))
    })
}

fn verdict(
    node: Option<&Node>,
    name: &str,
    field: &str,
    words: &'static Vocabulary,
    sample: &Facts,
) -> Result<Option<Expression>, Wrong> {
    let Some(node) = node else {
        return Ok(None);
    };
    let wrong = |why: String| node.wrong(format!("{name}.{field}: {why}"));
    let source = node.text(&format!("{name}.{field}"))?;
    let compiled = Expression::compile(words, sample, source).map_err(wrong)?;
    // What a body holds is known only when it comes; the rest can be tried now.
    if compiled.speaks_of(&["body", "headers"]).is_none() {
        compiled.check_types(sample).map_err(wrong)?;
    }
    Ok(Some(compiled))
}

fn statuses(node: &Node, name: &str) -> Result<Vec<Statuses>, Wrong> {
    let one = |node: &Node| match &node.kind {
        Kind::Whole(status @ 100..=599) => {
            let status = u16::try_from(*status).unwrap_or_default();
            Ok(Statuses::One(status))
        }
        Kind::Text(text) if text == "2xx" => Ok(Statuses::Class(2)),
        Kind::Text(text) if text == "4xx" => Ok(Statuses::Class(4)),
        _ => Err(node.wrong(format!(
            "{name}.status: write a status such as 422, \"2xx\" or \"4xx\", or a list of them"
        ))),
    };
    match &node.kind {
        Kind::List(nodes) if !nodes.is_empty() => nodes.iter().map(one).collect(),
        _ => Ok(vec![one(node)?]),
    }
}

fn check(row: &Row, node: &Node, name: &str) -> Result<(), Wrong> {
    let means = row.means;
    let wrong = |why: String| Err(node.wrong(format!("{name}: {why}")));
    for it in &row.statuses {
        let status = match *it {
            Statuses::One(status) => status,
            Statuses::Class(class) => class * 100,
        };
        let said = means.as_str();
        if means != Meaning::Unknown && LOST_ANSWERS.contains(&status) {
            return wrong(format!(
                "status {status} is always unknown: it means that an answer was lost, so the payment may have been executed"
            ));
        }
        if !means.possible().iter().any(|range| range.contains(&status)) {
            return wrong(format!("status {it} cannot mean {said:?}"));
        }
        let judges = matches!(
            means,
            Meaning::Refused | Meaning::Declined | Meaning::DoneBefore
        );
        if judges && NEVER_A_REFUSAL.contains(&status) {
            return wrong(format!(
                "status {status} says nothing about the payment itself; it cannot mean {said:?}"
            ));
        }
        if means == Meaning::NotDone && status >= 500 && row.when.is_none() {
            return wrong(format!(
                "status {status} is unknown unless its body or a header proves otherwise; state the proof in \"when\""
            ));
        }
    }
    let needs_proof = means == Meaning::Done;
    match &row.believed_if {
        None if needs_proof => wrong(
            "\"done\" needs believed_if: a comparison of the answer with the payment, such as \"body.paymentId == paymentId\"; write \"true\" if the answer has no such field".to_owned(),
        ),
        Some(_) if !needs_proof => wrong("believed_if is only allowed with \"done\"".to_owned()),
        _ => Ok(()),
    }
}
