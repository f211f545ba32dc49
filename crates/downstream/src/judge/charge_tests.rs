//! What the shipped contract for invoices makes of an answer.

use super::*;
use crate::description::Subject;

fn judged(kind: AttemptKind, status: u16, body: &str) -> Outcome {
    let exchange = Exchange::Answered(Answer::new(status, body));
    let request = Subject::Invoices.sample();
    let provider = Description::invoices();
    judge(&provider, &Marker::Contract, kind, exchange, &request)
        .heard
        .outcome
}
fn sent(status: u16, body: &str) -> Outcome {
    judged(AttemptKind::Send, status, body)
}
fn asked(status: u16, body: &str) -> Outcome {
    judged(AttemptKind::Probe, status, body)
}

#[test]
fn a_charge_is_done_or_declined_by_its_one_field_alone() {
    let yes = r#"{"charged":true,"reference":"c-1"}"#;
    let declined = |why: &str| Outcome::Declined(why.to_owned());
    for judged in [sent, asked] {
        assert_eq!(judged(200, yes), Outcome::Done(yes.to_owned()));
        assert_eq!(
            judged(200, r#"{"charged":false,"reason":"no\nfunds"}"#),
            declined("no funds")
        );
        let silent = judged(200, r#"{"charged":false}"#);
        assert_eq!(silent, declined("declined without a reason"));
    }
    let later = sent(202, r#"{"charged":false}"#);
    assert!(matches!(later, Outcome::Unknown(_)), "not charged yet");
    let others = [
        "",
        "OK",
        "{}",
        "[true]",
        "true",
        r#"{"charged":"true"}"#,
        r#"{"charged":1}"#,
        r#"{"charged":null}"#,
        r#"{"charged":true,"charged":false}"#,
        r#"{"charged":true"#,
    ];
    for body in others {
        for outcome in [sent(200, body), asked(200, body)] {
            assert!(matches!(outcome, Outcome::Unknown(_)), "{body}");
        }
    }
}

const NAMED: [&str; 2] = [
    r#"{"invoiceId":"inv_1","error":"no such customer"}"#,
    r#"{"key":"invoice-inv_1-1","error":"no such customer"}"#,
];

#[test]
fn an_unknown_customer_and_a_wrong_currency_are_refused() {
    for (status, body) in [404, 409, 422].into_iter().zip(NAMED.into_iter().cycle()) {
        let why = format!("status {status}: {body}");
        assert_eq!(sent(status, body), Outcome::Refused(why));
    }
    assert!(matches!(sent(500, ""), Outcome::Unknown(_)));
    assert!(matches!(sent(429, "{}"), Outcome::Retry { .. }));
    assert!(matches!(sent(401, "{}"), Outcome::Retry { .. }));
}

#[test]
fn a_stranger_neither_refuses_a_charge_nor_denies_it() {
    let bodies = [
        "",
        "default backend - 404",
        "<html>",
        r#"{"invoiceId":"inv_2"}"#,
    ];
    for body in bodies {
        for outcome in [sent(404, body), sent(410, body), asked(404, body)] {
            assert!(
                matches!(outcome, Outcome::Unknown(_)),
                "{body}: {outcome:?}"
            );
        }
    }
    assert!(matches!(sent(409, "taken"), Outcome::Unknown(_)));
}

#[test]
fn a_question_believes_a_404_that_names_the_charge_and_no_other_refusal() {
    for body in NAMED {
        assert!(matches!(asked(404, body), Outcome::Retry { .. }));
    }
    for status in [201, 400, 409, 410, 429, 500] {
        let outcome = asked(status, r#"{"charged":true,"invoiceId":"inv_1"}"#);
        assert!(matches!(outcome, Outcome::Unknown(_)), "{status}");
    }
}

#[test]
fn a_reason_is_bounded() {
    let body = format!(r#"{{"charged":false,"reason":"{}"}}"#, "é".repeat(5000));
    assert_eq!(sent(200, &body).detail().chars().count(), EXCERPT_CHARS);
}
