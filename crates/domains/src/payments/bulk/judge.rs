//! What becomes of a chunk's lines: each content goes to admission once, and its answer decides
//! about all lines that hold it. Pure.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use tollgate_core::Timestamp;
use tollgate_core::details::{Details, one};
use tollgate_core::id::{FlowId, ItemId, LaneName};
use tollgate_core::money::Money;
use tollgate_core::ports::{BulkSum, ChunkEnd, LineError, Placed};

use super::super::init::{Answer, Verdict};
use super::super::request::PaymentRequest;
use crate::json;

/// A line's error names at most this many fields, with at most this many characters each.
const MOST_FIELDS: usize = 20;
const MOST_CHARS: usize = 200;

/// The lines of a chunk, as far as they can be told without looking anything up.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// One per id and content. Two contents of one id are left to admission: it knows which of
    /// them is the known one, or the first that passes its checks.
    pub(super) payments: Vec<PaymentRequest>,
    /// The line of each.
    lines: Vec<u64>,
    /// The first place of an id.
    by_id: HashMap<ItemId, usize>,
    /// Lines that repeat an earlier one, by its place.
    repeats: Vec<(u64, usize)>,
    rejected: Vec<LineError>,
}

impl Read {
    pub(super) fn line(&mut self, number: u64, text: Result<&[u8], String>) {
        match parsed(text, "paymentId", PaymentRequest::parse) {
            Ok(payment) => self.payment(number, payment),
            Err((id, details)) => self.rejected.push(error(number, id, details)),
        }
    }

    fn payment(&mut self, number: u64, payment: PaymentRequest) {
        let place = self.payments.len();
        let first = *self
            .by_id
            .entry(payment.payment_id.clone())
            .or_insert(place);
        if first < place {
            let same = (first..place).find(|earlier| self.payments[*earlier] == payment);
            if let Some(same) = same {
                self.repeats.push((number, same));
                return;
            }
        }
        self.payments.push(payment);
        self.lines.push(number);
    }

    /// Every line ends as accepted, duplicate or rejected. What this chunk's own flow has admitted
    /// in an earlier try is accepted, not a duplicate.
    pub(super) fn end(
        mut self,
        payments: &[PaymentRequest],
        answers: Vec<Answer>,
        flow: &FlowId,
        meets: impl Fn(&Placed) -> Option<bool>,
    ) -> ChunkEnd {
        let mut end = ChunkEnd::default();
        let mut sums = Sums::new();
        let mut refusals: HashMap<usize, Details> = HashMap::new();
        for (place, (payment, answer)) in payments.iter().zip(answers).enumerate() {
            let details = match judge(answer.verdict, flow) {
                Judged::Accepted(placed) => {
                    let sum = add(&mut sums, payment.money, &placed);
                    foresee(sum, payment.deadline, meets(&placed));
                    continue;
                }
                Judged::Duplicate => {
                    end.duplicate += 1;
                    continue;
                }
                Judged::Conflict => match self.by_id.get(&payment.payment_id) {
                    Some(first) if *first < place && !refusals.contains_key(first) => {
                        other_content("paymentId", self.lines[*first])
                    }
                    _ => one("paymentId", KNOWN),
                },
                Judged::Rejected(details) => details,
            };
            let id = Some(payment.payment_id.to_string());
            let error = error(self.lines[place], id, details.clone());
            self.rejected.push(error);
            refusals.insert(place, details);
        }
        for (number, same) in self.repeats {
            let Some(details) = refusals.get(&same) else {
                end.duplicate += 1;
                continue;
            };
            let id = Some(payments[same].payment_id.to_string());
            self.rejected.push(error(number, id, details.clone()));
        }
        self.rejected.sort_unstable_by_key(|error| error.line);
        end.rejected = self.rejected;
        end.sums = sums.into_values().collect();
        end
    }
}

const ERASED: &str = "existed, and its data was erased; use a new id";
const KNOWN: &str = "already exists with different content; use a new id for a changed payment";

enum Judged {
    Accepted(Placed),
    Duplicate,
    Conflict,
    Rejected(Details),
}

fn judge(verdict: Verdict, flow: &FlowId) -> Judged {
    match verdict {
        Verdict::Scheduled { placed, repeat } if !repeat || placed.init_flow == *flow => {
            Judged::Accepted(placed)
        }
        Verdict::Scheduled { .. } | Verdict::Cancelled | Verdict::Archived => Judged::Duplicate,
        Verdict::Erased => Judged::Rejected(one("paymentId", ERASED)),
        Verdict::Conflict => Judged::Conflict,
        Verdict::Invalid(details) => Judged::Rejected(details),
        Verdict::Refused { rule, message } => Judged::Rejected(one(&rule, message)),
        Verdict::Deferred => Judged::Rejected(one("line", "could not be processed; send it again")),
    }
}

/// By lane and currency.
pub(crate) type Sums = BTreeMap<(LaneName, &'static str), BulkSum>;

/// Adds an item that was accepted.
pub(crate) fn add<'a>(sums: &'a mut Sums, money: Money, placed: &Placed) -> &'a mut BulkSum {
    let (currency, slot) = (money.currency.code(), placed.scheduled);
    let sum = sums
        .entry((placed.lane.clone(), currency))
        .or_insert_with(|| BulkSum {
            lane: placed.lane.clone(),
            currency: currency.to_owned(),
            accepted: 0,
            amount_minor: 0,
            met: 0,
            missed: 0,
            first_slot: slot,
            last_slot: slot,
            deadlines: None,
        });
    sum.accepted += 1;
    sum.amount_minor += money.minor;
    sum.first_slot = sum.first_slot.min(slot);
    sum.last_slot = sum.last_slot.max(slot);
    sum
}

/// Adds the deadline of an accepted payment, and whether it is foreseen to be met.
fn foresee(sum: &mut BulkSum, deadline: Option<Timestamp>, meets: Option<bool>) {
    sum.met += u64::from(meets == Some(true));
    sum.missed += u64::from(meets == Some(false));
    if let Some(deadline) = deadline {
        let (first, last) = sum.deadlines.unwrap_or((deadline, deadline));
        sum.deadlines = Some((first.min(deadline), last.max(deadline)));
    }
}

/// The id, if it could be read, and what is wrong.
type Wrong = (Option<String>, Details);

/// What a line holds, whose id is in this field.
pub(crate) fn parsed<T>(
    text: Result<&[u8], String>,
    id_field: &str,
    parse: impl FnOnce(&Value) -> Result<T, Details>,
) -> Result<T, Wrong> {
    let json = text.map_err(|why| unreadable(&why))?;
    let text = std::str::from_utf8(json).map_err(|e| {
        let at = e.valid_up_to() + 1;
        unreadable(&format!("is not valid UTF-8 (byte {at})"))
    })?;
    let body = json::read(text.as_bytes()).map_err(|refused| (None, refused.details("line")))?;
    parse(&body).map_err(|details| {
        let id = body.get(id_field).and_then(|id| id.as_str());
        (id.map(str::to_owned), details)
    })
}

fn unreadable(why: &str) -> Wrong {
    (None, one("line", why))
}

/// Of a line whose id an earlier one has.
pub(crate) fn other_content(id_field: &str, first: u64) -> Details {
    let what = format!("is also on line {first}, with other content");
    one(id_field, what)
}

/// A line may be long and wrong in many ways; what is kept of it is short.
pub(crate) fn error(line: u64, id: Option<String>, details: Details) -> LineError {
    let short = |text: String| match text.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    };
    let details = details
        .into_iter()
        .take(MOST_FIELDS)
        .map(|(field, what)| (short(field), short(what)));
    LineError {
        line,
        id: id.map(short),
        details: details.collect(),
        text: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(id: &str, amount: &str) -> String {
        format!(
            r#"{{"paymentId":"{id}","amount":"{amount}","currency":"EUR","deadline":"2026-11-16T17:00:00Z",
            "debtor":{{"account":"a","name":"A"}},"creditor":{{"account":"b","name":"B"}}}}"#
        )
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    /// Reads these lines and answers each payment that is asked about.
    fn ended(lines: &[String], answer: impl Fn(&str, i64) -> Verdict) -> ChunkEnd {
        let mut read = Read::default();
        for (n, line) in (1..).zip(lines) {
            read.line(n, Ok(line.as_bytes()));
        }
        let payments = std::mem::take(&mut read.payments);
        let answer = |payment: &PaymentRequest| Answer {
            content_hash: payment.content_hash(),
            verdict: answer(payment.payment_id.as_str(), payment.money.minor),
        };
        let answers = payments.iter().map(answer).collect();
        read.end(&payments, answers, &FlowId::new("ours"), in_time)
    }

    /// As foreseen in these tests.
    fn in_time(placed: &Placed) -> Option<bool> {
        placed.deadline.map(|deadline| placed.scheduled <= deadline)
    }

    fn scheduled(secs: i64, meets: bool, repeat: bool, flow: &str) -> Verdict {
        let deadline = at(if meets { secs } else { secs - 1 });
        let (lane, flow) = (LaneName::new("bank"), FlowId::new(flow));
        let placed = Placed::new(lane, at(secs), Some(deadline), flow);
        Verdict::Scheduled { placed, repeat }
    }

    #[test]
    fn every_line_is_accepted_duplicate_or_rejected() {
        let lines = [
            json("new", "1.50"),
            json("known", "1"),
            json("taken", "1"),
            json("new", "1.5"),
            json("new", "2"),
            json("again", "3"),
            "nonsense".to_owned(),
            json("bad id", "1"),
            json("refused", "1"),
            json("refused", "1"),
            json("new", "x"),
        ];
        let end = ended(&lines, |id, minor| match id {
            "new" if minor == 150 => scheduled(20, true, false, "ours"),
            "known" => scheduled(30, true, true, "init-payment-known"),
            "again" => scheduled(10, false, true, "ours"),
            "refused" => Verdict::Refused {
                rule: "limit".into(),
                message: "is too much".into(),
            },
            _ => Verdict::Conflict,
        });
        assert_eq!(end.duplicate, 2, "known, and new with the same content");
        assert_eq!(end.accepted(), 2, "new, and again from an earlier try");
        let sum = &end.sums[0];
        assert_eq!((sum.amount_minor, sum.met, sum.missed), (450, 1, 1));
        assert_eq!((sum.first_slot, sum.last_slot), (at(10), at(20)));
        assert_eq!(sum.deadlines.map(|(first, last)| first == last), Some(true));
        let said: Vec<_> = end
            .rejected
            .iter()
            .map(|error| {
                let details: Vec<_> = error
                    .details
                    .iter()
                    .map(|(k, v)| format!("{k} {v}"))
                    .collect();
                let id = error.id.as_deref().unwrap_or("-");
                format!("{} {id}: {}", error.line, details.join(", "))
            })
            .collect();
        assert_eq!(
            said,
            [
                "3 taken: paymentId already exists with different content; use a new id for a changed payment",
                "5 new: paymentId is also on line 1, with other content",
                "7 -: line is not JSON: expected ident at line 1 column 2",
                "8 bad id: paymentId may only contain A-Z a-z 0-9 _ - . :",
                "9 refused: limit is too much",
                "10 refused: limit is too much",
                "11 new: amount must be a decimal number in a string, such as \"125.50\"",
            ]
        );
        assert_eq!(end.accepted() + u64::from(end.duplicate) + 7, 11);
    }

    #[test]
    fn a_correction_in_the_same_chunk_and_the_known_content_are_found() {
        let lines = [
            json("p", "1"),
            json("p", "2"),
            json("q", "1"),
            json("q", "2"),
        ];
        let end = ended(&lines, |id, minor| match (id, minor) {
            ("p", 100) => Verdict::Invalid(one("deadline", "has passed")),
            ("p", _) => scheduled(10, true, false, "ours"),
            ("q", 200) => scheduled(10, true, true, "init-payment-q"),
            _ => Verdict::Conflict,
        });
        assert_eq!((end.accepted(), end.duplicate), (1, 1));
        let lines: Vec<_> = end.rejected.iter().map(|error| error.line).collect();
        assert_eq!(lines, [1, 3]);
        assert_eq!(end.rejected[1].details["paymentId"], KNOWN);
    }

    #[test]
    fn what_is_kept_of_a_bad_line_is_short() {
        let fields: Vec<_> = (0..50)
            .map(|n| format!("\"{n}{}\":1", "ä".repeat(1000)))
            .collect();
        let mut read = Read::default();
        read.line(1, Ok(format!("{{{}}}", fields.join(",")).as_bytes()));
        read.line(2, Ok(b"\xff"));
        let end = read.end(&[], vec![], &FlowId::new("ours"), in_time);
        assert!(end.rejected[0].details.len() <= MOST_FIELDS);
        let keys = end.rejected[0].details.keys();
        assert!(
            keys.into_iter()
                .all(|key| key.chars().count() <= MOST_CHARS + 1)
        );
        assert_eq!(
            end.rejected[1].details["line"],
            "is not valid UTF-8 (byte 1)"
        );
    }
}
