//! Tells the downstream's own 4xx from a stranger's: a load balancer without a backend, a proxy, a gateway
//! with a wrong route. A stranger knows nothing about the item, so that its answer proves nothing. Pure.

use http::header::CONTENT_TYPE;
use serde_json::{Map, Value};
use tollgate_core::excerpt::excerpt;
use tollgate_core::marker::Marker;

use crate::judge::Answer;

/// How much of a stranger's body is kept with the attempt, and of its content type.
const EXCERPT_CHARS: usize = 200;
const TYPE_CHARS: usize = 60;

/// What the description promises about a status is believed of whoever says when to come back: a limiter in front
/// of the downstream has passed nothing on. `by_contract`: what the description itself says.
pub(crate) fn is_own(
    answer: &Answer,
    marker: &Marker,
    promised: bool,
    by_contract: impl FnOnce() -> bool,
) -> bool {
    if promised && answer.retry_after().is_some() {
        return true;
    }
    match marker {
        Marker::Contract => by_contract(),
        Marker::Header { name, value } => {
            let mut found = answer.headers.get_all(name).iter();
            found.any(|it| value.as_ref().is_none_or(|value| it == value))
        }
        Marker::ContentType(kind) => content_type(answer).is_some_and(|it| it == *kind),
        Marker::Field(field) => json_object(answer)
            .is_some_and(|object| object.get(field).is_some_and(|it| !it.is_null())),
        Marker::AnyBody => true,
    }
}

fn json_object(answer: &Answer) -> Option<Map<String, Value>> {
    serde_json::from_slice(&answer.body).ok()
}

/// In lower case and without parameters.
fn content_type(answer: &Answer) -> Option<String> {
    let value = answer.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default().trim();
    Some(kind.to_ascii_lowercase())
}

/// Why nothing is sent any more, without a word of the body: it may repeat an account.
pub(crate) fn why_it_stops(answer: &Answer) -> String {
    format!(
        "{}: check the bank's URL and the proxies on the way, or set recognised_by; then resume the lane",
        described(answer)
    )
}

/// For the attempt: what was answered instead.
pub(crate) fn what_it_said(answer: &Answer) -> String {
    let body = String::from_utf8_lossy(&answer.body);
    let body = excerpt(body.trim(), EXCERPT_CHARS);
    if body.is_empty() {
        format!("{}, without a body", described(answer))
    } else {
        format!("{}: {body}", described(answer))
    }
}

fn described(answer: &Answer) -> String {
    let kind = content_type(answer).filter(|kind| !kind.is_empty());
    let kind = kind.map_or_else(
        || "no content type".to_owned(),
        |kind| excerpt(&kind, TYPE_CHARS),
    );
    format!(
        "status {} ({kind}) is not recognisably the bank's answer",
        answer.status
    )
}

#[cfg(test)]
mod tests {
    use tollgate_core::outcome::AttemptKind;
    use tollgate_core::ports::Health;

    use super::*;
    use crate::description::{Description, Subject};
    use crate::judge::{Exchange, judge};

    fn is_stranger(answer: Answer, marker: &str) -> bool {
        let invoices = Description::invoices().promising_not_done(&[429, 503]);
        let (marker, request) = (Marker::parse(marker).unwrap(), Subject::Invoices.sample());
        let exchange = Exchange::Answered(answer);
        let kind = AttemptKind::Send;
        let judged = judge(&invoices.unwrap(), &marker, kind, exchange, &request);
        let said = judged.heard.outcome.detail();
        assert_ne!(judged.heard.health, Health::Untold);
        said.contains("is not recognisably the bank's answer")
    }

    /// What load balancers, proxies and gateways answer, as they do.
    fn strangers(status: u16) -> [Answer; 8] {
        let answer = |kind: &str, body: &str| Answer::new(status, body).with("content-type", kind);
        [
            Answer::new(status, ""),
            answer("text/plain; charset=utf-8", "default backend - 404"),
            answer("text/html", "<html><h1>404 Not Found</h1>nginx</html>"),
            answer("application/json", r#""no Route matched""#),
            answer("application/json", r#"["inv_1"]"#),
            answer("application/json", r#"{"invoiceId":"inv_1""#),
            answer("application/json", "null"),
            answer("application/json", "\u{feff}{}"),
        ]
    }

    #[test]
    fn by_default_a_404_names_the_item_and_another_4xx_is_a_json_object() {
        for status in 400..=499 {
            for answer in strangers(status) {
                let said = format!("{answer:?}");
                assert!(is_stranger(answer, "contract"), "{said}");
            }
            let nameless = [
                "{}",
                r#"{"message":"no Route matched with those values"}"#,
                r#"{"invoiceId":"inv_2"}"#,
                r#"{"invoiceId":["inv_1"]}"#,
                r#"{"error":{"invoiceId":"inv_1"}}"#,
                r#"{"paymentId":"inv_1"}"#,
                r#"{"path":"/charge/invoice-inv_1-1"}"#,
            ];
            for body in nameless {
                let told = is_stranger(Answer::new(status, body), "contract");
                assert_eq!(told, matches!(status, 404 | 410), "{status} {body}");
            }
            let named = [
                r#"{"invoiceId":"inv_1"}"#,
                r#" {"error":"no such customer","key":"invoice-inv_1-1"}"#,
            ];
            for body in named {
                assert!(
                    !is_stranger(Answer::new(status, body), "contract"),
                    "{body}"
                );
            }
        }
    }

    #[test]
    fn a_marker_of_the_profile_stands_in_place_of_the_default() {
        type Row = (&'static str, fn() -> Answer, bool);
        fn named() -> Answer {
            Answer::new(404, r#"{"invoiceId":"inv_1","code":"E1","nothing":null}"#)
        }
        let problem = || named().with("content-type", "Application/Problem+JSON; v=1");
        let bank = || Answer::new(404, "").with("x-bank", "core-7");
        let table: [Row; 13] = [
            ("header:X-Bank", bank, true),
            ("header:X-Bank=core-7", bank, true),
            ("header:X-Bank=core-8", bank, false),
            ("header:X-Bank", named, false),
            ("content-type:application/problem+json", problem, true),
            ("content-type:application/json", problem, false),
            ("content-type:application/problem+json", named, false),
            ("field:code", named, true),
            ("field:nothing", named, false),
            ("field:paymentId", named, false),
            ("field:code", bank, false),
            ("any body", named, true),
            ("any body", bank, true),
        ];
        for (marker, answer, own) in table {
            assert_eq!(
                is_stranger(answer(), marker),
                !own,
                "{marker} {:?}",
                answer()
            );
        }
    }

    #[test]
    fn only_a_4xx_can_be_a_strangers_and_a_promised_status_with_a_time_is_none() {
        for status in (200..=399).chain(500..=599) {
            assert!(
                !is_stranger(Answer::new(status, ""), "contract"),
                "{status}"
            );
        }
        let limiter = |status| Answer::new(status, "slow down").retrying_after(Some("1"));
        assert!(!is_stranger(limiter(429), "contract"));
        assert!(is_stranger(Answer::new(429, "slow down"), "contract"));
        assert!(
            is_stranger(limiter(423), "contract"),
            "nobody promised that"
        );
    }

    #[test]
    fn an_operator_reads_who_answered_and_only_the_attempt_keeps_the_body() {
        let answer = Answer::new(404, " default\nbackend ").with("content-type", "text/plain");
        let who = "status 404 (text/plain) is not recognisably the bank's answer";
        assert_eq!(what_it_said(&answer), format!("{who}: default backend"));
        let why = why_it_stops(&answer);
        assert!(why.starts_with(who) && !why.contains("backend"), "{why}");
        let silent = what_it_said(&Answer::new(410, ""));
        assert!(silent.ends_with("answer, without a body"), "{silent}");
        let long = Answer::new(404, "é".repeat(5_000)).with("content-type", &"x".repeat(5_000));
        assert!(what_it_said(&long).chars().count() < 400);
    }
}
