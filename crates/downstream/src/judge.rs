//! What an exchange with a downstream proves, by its contract: the tests below are its rows. Pure. What
//! an earlier Unknown makes of a later 4xx is the sender's business, not decided here.

use std::borrow::Cow;
use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use serde::Deserialize;
use tollgate_core::excerpt::excerpt;
use tollgate_core::outcome::{AttemptKind, Outcome, Quiet};
use tollgate_core::ports::{Health, Heard, Profile};

use crate::stranger::{what_it_said, why_it_stops};

/// How long a lane stays quiet when the downstream does not say.
pub(crate) const DEFAULT_QUIET: Duration = Duration::from_secs(1);
/// The longest a downstream's `Retry-After` can silence its lane.
pub(crate) const MAX_QUIET: Duration = Duration::from_mins(1);
/// How much of a refusal's body is kept as its reason.
const EXCERPT_CHARS: usize = 200;

/// What happened on the wire.
#[derive(Debug)]
pub(crate) enum Exchange {
    /// Failed before the first byte.
    NotSent(String),
    /// Sent, or perhaps sent, and no whole answer came back.
    Lost(String),
    Answered(Answer),
    /// Answered with a 4xx that is not recognisably the downstream's own (`stranger.rs`).
    Stranger(Answer),
}

/// An answer that arrived whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The header as it came, if it came.
    pub(crate) fn retry_after(&self) -> Option<Cow<'_, str>> {
        let value = self.headers.get(RETRY_AFTER)?;
        Some(String::from_utf8_lossy(value.as_bytes()))
    }
}

/// What an exchange proves about the item, by this judge, and what it tells about the downstream.
pub(crate) fn heard(
    kind: AttemptKind,
    exchange: Exchange,
    judge: impl FnOnce(Exchange) -> Outcome,
) -> Heard {
    let turned_away = why_turned_away(kind, &exchange);
    let unsent = matches!(exchange, Exchange::NotSent(_));
    let outcome = judge(exchange);
    let health = match (turned_away, &outcome) {
        _ if unsent => Health::Untold,
        (Some(why), _) => Health::TurnsUsAway { why },
        (None, Outcome::Unknown(_)) => Health::Fails,
        (
            None,
            Outcome::Done(_) | Outcome::Refused(_) | Outcome::Declined(_) | Outcome::Retry { .. },
        ) => Health::Answers,
    };
    Heard { outcome, health }
}

/// A bank that cannot be asked may leave questions to whatever stands in front of it: a stranger's answer to a
/// question stops nothing, or a person who resumes the lane would see it paused by the next question.
fn why_turned_away(kind: AttemptKind, exchange: &Exchange) -> Option<String> {
    match exchange {
        Exchange::Answered(answer) if turns_us_away(answer.status) => {
            Some(wrongly_configured(answer.status))
        }
        Exchange::Stranger(answer) => {
            let stops = kind == AttemptKind::Send && !passes_by_itself(answer.status);
            (stops || turns_us_away(answer.status)).then(|| why_it_stops(answer))
        }
        Exchange::Answered(_) | Exchange::NotSent(_) | Exchange::Lost(_) => None,
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

pub(crate) fn judge_send(exchange: Exchange, reference: &str, profile: &Profile) -> Outcome {
    judge_send_by(exchange, profile, |answer| done_if_named(answer, reference))
}

/// With another reading of a 2xx.
pub(crate) fn judge_send_by(
    exchange: Exchange,
    profile: &Profile,
    read: impl FnOnce(Answer) -> Outcome,
) -> Outcome {
    let answer = match exchange {
        Exchange::NotSent(why) => {
            return Outcome::retry(format!("failed before the first byte: {why}"));
        }
        Exchange::Lost(why) => return Outcome::Unknown(why),
        // It may have passed the request on before it lost the answer.
        Exchange::Stranger(answer) => return Outcome::Unknown(what_it_said(&answer)),
        Exchange::Answered(answer) => answer,
    };
    let status = answer.status;
    match status {
        200..=299 => read(answer),
        _ if turns_us_away(status) => Outcome::retry(wrongly_configured(status)),
        _ if means_not_done(&answer, profile) => Outcome::Retry {
            why: format!("status {status}: not done"),
            quiet: Quiet::For(quiet_for(answer.retry_after().as_deref())),
        },
        // A 429 without its promise is no definite no either: the payment itself was not judged.
        _ if passes_by_itself(status) => Outcome::Unknown(format!("status {status}")),
        400..=499 => Outcome::Refused(refusal(&answer)),
        _ => Outcome::Unknown(format!("status {status}")),
    }
}

/// A probe that did not go out has learned nothing: that is `Unknown`, for `Retry` would claim
/// that the downstream denies knowing the item.
pub(crate) fn judge_probe(exchange: Exchange, reference: &str) -> Outcome {
    judge_probe_by(exchange, |answer| done_if_named(answer, reference))
}

/// With another reading of a 200.
pub(crate) fn judge_probe_by(exchange: Exchange, read: impl FnOnce(Answer) -> Outcome) -> Outcome {
    match exchange {
        Exchange::NotSent(why) => Outcome::Unknown(format!("not asked: {why}")),
        Exchange::Lost(why) => Outcome::Unknown(why),
        Exchange::Stranger(answer) => Outcome::Unknown(what_it_said(&answer)),
        Exchange::Answered(answer) => match answer.status {
            200 => read(answer),
            404 => Outcome::retry("unknown to the downstream"),
            status => Outcome::Unknown(format!("status {status}")),
        },
    }
}

/// The one field an answer must have. A body that names it twice does not parse.
#[derive(Deserialize)]
struct Named {
    #[serde(rename = "paymentId")]
    payment_id: String,
}

fn done_if_named(answer: Answer, reference: &str) -> Outcome {
    let status = answer.status;
    // serde would also read a struct from an array, which names nothing.
    let named = |text: &String| {
        text.trim_start().starts_with('{')
            && serde_json::from_str::<Named>(text).is_ok_and(|it| it.payment_id == reference)
    };
    match String::from_utf8(answer.body).ok().filter(named) {
        Some(text) => Outcome::Done(text),
        None => Outcome::Unknown(format!("status {status} without the paymentId in JSON")),
    }
}

fn means_not_done(answer: &Answer, profile: &Profile) -> bool {
    let says_when = answer.retry_after().is_some();
    profile.means_not_done.contains(&answer.status) && (answer.status < 500 || says_when)
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
mod tests {
    use tollgate_core::marker::Marker;

    use super::*;
    use crate::stranger::tell_apart;

    const NAMED: &str = r#"{"paymentId":"pay_1","status":"ok"}"#;

    fn answered(status: u16, retry_after: Option<&str>, body: &[u8]) -> Exchange {
        Exchange::Answered(Answer::new(status, body).retrying_after(retry_after))
    }

    fn profile(means_not_done: &[u16]) -> Profile {
        Profile {
            honours_idempotency_key: true,
            key_retention: Duration::from_hours(24),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: means_not_done.into(),
            recognised_by: Marker::Contract,
            asks_by_key: false,
        }
    }

    fn told_apart(exchange: Exchange, profile: &Profile) -> Exchange {
        tell_apart(exchange, profile, &[("paymentId", "pay_1")])
    }

    fn send(exchange: Exchange, means_not_done: &[u16]) -> Heard {
        let profile = profile(means_not_done);
        let exchange = told_apart(exchange, &profile);
        heard(AttemptKind::Send, exchange, |e| {
            judge_send(e, "pay_1", &profile)
        })
    }

    fn sent(exchange: Exchange, means_not_done: &[u16]) -> Outcome {
        send(exchange, means_not_done).outcome
    }

    fn probe(exchange: Exchange) -> Heard {
        let exchange = told_apart(exchange, &profile(&[429]));
        heard(AttemptKind::Probe, exchange, |e| judge_probe(e, "pay_1"))
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
        for lost in ["no answer within 10s", "connection reset", "half an answer"] {
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

    fn turned_away(heard: &Heard) -> bool {
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
        let any_body = Profile {
            recognised_by: Marker::AnyBody,
            ..profile(&[429])
        };
        let sent = |body: &[u8]| {
            let exchange = told_apart(answered(422, None, body), &any_body);
            judge_send(exchange, "pay_1", &any_body)
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
}
