//! What the shipped contract for payments makes of every status: the rows of `docs/bank.md`.

use super::*;
use crate::description::Subject;

const NAMED: &str = r#"{"paymentId":"pay_1","status":"ok"}"#;

fn answered(status: u16, retry_after: Option<&str>, body: &[u8]) -> Exchange {
    Exchange::Answered(Answer::new(status, body).retrying_after(retry_after))
}

fn request() -> Request {
    Request {
        reference: "pay_1".into(),
        ..Subject::Payments.sample()
    }
}

fn bank(means_not_done: &[u16]) -> Description {
    let bank = Description::payments();
    bank.promising_not_done(means_not_done).unwrap()
}

fn send(exchange: Exchange, means_not_done: &[u16]) -> ExchangeResult {
    let (bank, kind) = (bank(means_not_done), AttemptKind::Send);
    judge(&bank, &Marker::Contract, kind, exchange, &request()).heard
}

fn sent(exchange: Exchange, means_not_done: &[u16]) -> Outcome {
    send(exchange, means_not_done).outcome
}

fn probe(exchange: Exchange) -> ExchangeResult {
    let (bank, kind) = (Description::payments(), AttemptKind::Probe);
    judge(&bank, &Marker::Contract, kind, exchange, &request()).heard
}

fn sent_status(status: u16) -> Outcome {
    sent(answered(status, None, NAMED.as_bytes()), &[429])
}

fn is_unknown(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unknown(_))
}

#[test]
fn a_send_that_never_started_is_retried_and_a_lost_answer_is_unknown() {
    assert_eq!(
        sent(Exchange::NotSent("connection closed".into()), &[429]),
        Outcome::retry("failed before the first byte: connection closed")
    );
    for lost in [
        "no answer within 10s",
        "connection reset",
        "incomplete answer",
    ] {
        assert_eq!(
            sent(Exchange::Lost(lost.into()), &[429]),
            Outcome::Unknown(lost.into())
        );
    }
}

#[test]
fn only_a_2xx_that_names_the_payment_in_json_is_done() {
    for status in [200, 201, 202, 299] {
        assert_eq!(sent_status(status), Outcome::Done(NAMED.into()));
    }
    let others: [&[u8]; 11] = [
        b"",
        b"OK",
        b"{}",
        b"[]",
        br#"["pay_1"]"#,
        br#"{"paymentId":"pay_2"}"#,
        br#"{"paymentId":"PAY_1"}"#,
        br#"{"paymentId":1}"#,
        br#"{"paymentId":"pay_1""#,
        br#"{"paymentId":"pay_2","paymentId":"pay_1"}"#,
        b"{\"paymentId\":\"pay_1\",\"note\":\"\xff\"}",
    ];
    for body in others {
        let outcome = sent(answered(200, None, body), &[200, 429]);
        assert!(is_unknown(&outcome), "{body:?}: {outcome:?}");
    }
}

#[test]
fn a_429_is_not_done_and_quiets_the_lane_for_as_long_as_it_says_up_to_a_bound() {
    let table = [
        (None, 1),
        (Some("0"), 0),
        (Some("7"), 7),
        (Some(" 7 "), 7),
        (Some("60"), 60),
        (Some("61"), 60),
        (Some("99999999999999999999999"), 60),
        (Some("+5"), 1),
        (Some("-5"), 1),
        (Some("1.5"), 1),
        (Some(""), 1),
        (Some("Wed, 21 Oct 2026 07:28:00 GMT"), 1),
    ];
    for (header, quiet_secs) in table {
        let expected = Outcome::Retry {
            why: "status 429: not done".into(),
            quiet: Quiet::For(Duration::from_secs(quiet_secs)),
        };
        let got = sent(answered(429, header, b"{}"), &[429]);
        assert_eq!(got, expected, "{header:?}");
    }
}

#[test]
fn a_503_is_not_done_only_if_the_profile_says_so_and_it_names_a_time() {
    let quiet = |secs| Outcome::Retry {
        why: "status 503: not done".into(),
        quiet: Quiet::For(Duration::from_secs(secs)),
    };
    let when = |header, profile: &[u16]| sent(answered(503, header, b""), profile);
    assert_eq!(when(Some("3"), &[429, 503]), quiet(3));
    assert_eq!(when(Some("a date"), &[429, 503]), quiet(1));
    assert!(is_unknown(&when(None, &[429, 503])));
    assert!(is_unknown(&when(Some("3"), &[429])));
    assert!(is_unknown(&when(None, &[429])));
}

#[test]
fn a_profile_that_promises_nothing_for_429_leaves_it_unknown() {
    assert!(is_unknown(&sent(answered(429, Some("3"), b""), &[])));
}

fn turned_away(heard: &ExchangeResult) -> bool {
    matches!(heard.health, Health::TurnsUsAway { .. })
}

#[test]
fn a_wrong_configuration_stops_the_lane_and_costs_no_payment() {
    for status in [401, 403, 405, 407] {
        let answer = || answered(status, None, b"{}");
        let (sent, asked) = (send(answer(), &[429]), probe(answer()));
        assert!(matches!(sent.outcome, Outcome::Retry { .. }), "{sent:?}");
        assert!(is_unknown(&asked.outcome), "{asked:?}");
        assert!(turned_away(&sent) && turned_away(&asked));
    }
}

#[test]
fn a_strangers_4xx_is_unknown_and_stops_the_lane_unless_it_passes_by_itself() {
    let bodies: [&[u8]; 4] = [b"", b"default backend - 404", b"<html></html>", b"[]"];
    for (status, body) in (400..=499).flat_map(|status| bodies.map(|body| (status, body))) {
        let sent = send(answered(status, None, body), &[429]);
        assert!(is_unknown(&sent.outcome), "{status}: {sent:?}");
        let passes = matches!(status, 408 | 425 | 429);
        assert_eq!(turned_away(&sent), !passes, "{status}: {sent:?}");
        assert!(!passes || sent.health == Health::Fails);
    }
    for status in [404, 410] {
        let not_ours = send(answered(status, None, br#"{"paymentId":"pay_2"}"#), &[429]);
        assert!(is_unknown(&not_ours.outcome) && turned_away(&not_ours));
    }
}

/// A question that a stranger answers has learned nothing, and stops nothing by itself.
#[test]
fn a_strangers_404_to_a_probe_proves_nothing() {
    let bodies: [&[u8]; 5] = [
        b"",
        b"default backend",
        b"{}",
        b"[]",
        br#"{"paymentId":"pay_2"}"#,
    ];
    for body in bodies {
        let asked = probe(answered(404, None, body));
        assert!(is_unknown(&asked.outcome), "{asked:?}");
        assert_eq!(asked.health, Health::Fails);
    }
    assert!(turned_away(&probe(answered(401, None, b"who are you?"))));
}

#[test]
fn an_exchange_tells_about_the_downstream_unless_no_byte_went_out() {
    let send = |exchange| send(exchange, &[429]).health;
    let probe = |exchange| probe(exchange).health;
    for health in [&send as &dyn Fn(Exchange) -> Health, &probe] {
        assert_eq!(health(Exchange::NotSent("closed".into())), Health::Untold);
        assert_eq!(health(Exchange::Lost("reset".into())), Health::Fails);
        let status = |status| health(answered(status, None, NAMED.as_bytes()));
        assert_eq!(
            (status(200), status(404)),
            (Health::Answers, Health::Answers)
        );
        assert_eq!((status(500), status(408)), (Health::Fails, Health::Fails));
    }
    let refused = send(answered(429, Some("1"), b""));
    assert_eq!(refused, Health::Answers, "it is there, and asks for quiet");
}

#[test]
fn every_other_4xx_is_refused_with_its_reason() {
    let kept = [401, 403, 405, 407, 408, 425, 429];
    let said = r#" {"paymentId":"pay_1","why":"no such account"} "#;
    for status in (400..=499).filter(|status| !kept.contains(status)) {
        let expected = Outcome::Refused(format!("status {status}: {}", said.trim()));
        let got = sent(answered(status, None, said.as_bytes()), &[429]);
        assert_eq!(got, expected);
    }
}

#[test]
fn a_refusals_reason_is_bounded_whatever_the_body_holds() {
    let sent = |body: &[u8]| {
        let (bank, kind) = (Description::payments(), AttemptKind::Send);
        let exchange = answered(422, None, body);
        judge(&bank, &Marker::AnyBody, kind, exchange, &request())
            .heard
            .outcome
    };
    let long = sent("é".repeat(5_000).as_bytes());
    assert_eq!(
        long.detail().chars().count(),
        "status 422: ".len() + EXCERPT_CHARS
    );
    let garbage = Outcome::Refused("status 422: \u{fffd}\u{fffd}".into());
    assert_eq!(sent(b"\xff\xfe"), garbage);
    assert_eq!(sent(b""), Outcome::Refused("status 422".into()));
}

#[test]
fn everything_else_is_unknown() {
    let rest = [408, 425].into_iter().chain(300..=399).chain(500..=599);
    for status in rest.chain([101, 600, 999]) {
        let outcome = sent_status(status);
        assert!(is_unknown(&outcome), "{status}: {outcome:?}");
    }
}

#[test]
fn a_probe_believes_only_a_200_that_names_the_payment_and_a_404() {
    let probed = |exchange| probe(exchange).outcome;
    assert_eq!(
        probed(answered(200, None, NAMED.as_bytes())),
        Outcome::Done(NAMED.into())
    );
    assert_eq!(
        probed(answered(404, None, NAMED.as_bytes())),
        Outcome::retry("unknown to the downstream")
    );
    for status in (201..=599).filter(|status| *status != 404) {
        let outcome = probed(answered(status, Some("1"), NAMED.as_bytes()));
        assert!(is_unknown(&outcome), "{status}: {outcome:?}");
    }
    assert!(is_unknown(&probed(answered(200, None, b"{}"))));
    assert!(is_unknown(&probed(Exchange::Lost("reset".into()))));
    assert!(is_unknown(&probed(Exchange::NotSent("closed".into()))));
}
