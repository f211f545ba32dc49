//! What an exchange about a charge proves, by the invoices' contract. Pure. A 2xx says in one field
//! whether it was charged; everything else means what it means for payments.

use serde::Deserialize;
use tollgate_core::excerpt::excerpt;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::Profile;

use crate::judge::{Answer, Exchange, judge_probe_by, judge_send_by};

pub(crate) fn judge_charge(exchange: Exchange, profile: &Profile) -> Outcome {
    judge_send_by(exchange, profile, charged)
}

/// The question names the key, so its answer is about what was sent under that key and nothing else.
pub(crate) fn judge_charge_probe(exchange: Exchange) -> Outcome {
    judge_probe_by(exchange, charged)
}

/// The one field an answer must have. A body that names it twice does not parse.
#[derive(Deserialize)]
struct Charged {
    charged: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// How much of a provider's reason is kept.
const REASON_CHARS: usize = 200;

fn charged(answer: Answer) -> Outcome {
    let status = answer.status;
    let unclear = || Outcome::Unknown(format!("status {status} without \"charged\" in JSON"));
    let Ok(text) = String::from_utf8(answer.body) else {
        return unclear();
    };
    // serde would also read a struct from an array, which names nothing.
    if !text.trim_start().starts_with('{') {
        return unclear();
    }
    match serde_json::from_str::<Charged>(&text) {
        Ok(said) if said.charged => Outcome::Done(text),
        // "Accepted, not charged yet" is not a no.
        Ok(_) if !matches!(status, 200 | 201) => unclear(),
        Ok(said) => Outcome::Declined(said.reason.map_or_else(
            || "the provider has declined the charge".to_owned(),
            |reason| excerpt(&reason, REASON_CHARS),
        )),
        Err(_) => unclear(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn profile() -> Profile {
        Profile {
            honours_idempotency_key: true,
            key_retention: Duration::from_hours(24),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: vec![429],
            asks_by_key: false,
        }
    }
    fn answered(status: u16, body: &str) -> Exchange {
        Exchange::Answered(Answer {
            status,
            retry_after: None,
            body: body.into(),
        })
    }
    fn sent(status: u16, body: &str) -> Outcome {
        judge_charge(answered(status, body), &profile())
    }
    fn asked(status: u16, body: &str) -> Outcome {
        judge_charge_probe(answered(status, body))
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
            assert_eq!(silent, declined("the provider has declined the charge"));
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

    #[test]
    fn an_unknown_customer_and_a_wrong_currency_are_refused() {
        for status in [404, 409, 422] {
            let said = sent(status, "no such customer");
            let why = format!("status {status}: no such customer");
            assert_eq!(said, Outcome::Refused(why));
        }
        assert!(matches!(sent(500, ""), Outcome::Unknown(_)));
        assert!(matches!(sent(429, ""), Outcome::Retry { .. }));
        assert!(matches!(sent(401, ""), Outcome::Retry { .. }));
        let lost = judge_charge(Exchange::Lost("reset".into()), &profile());
        assert_eq!(lost, Outcome::Unknown("reset".into()));
    }

    #[test]
    fn a_question_believes_a_404_and_no_other_refusal() {
        assert!(matches!(asked(404, ""), Outcome::Retry { .. }));
        for status in [201, 400, 409, 429, 500] {
            let outcome = asked(status, r#"{"charged":true}"#);
            assert!(matches!(outcome, Outcome::Unknown(_)), "{status}");
        }
    }

    #[test]
    fn a_reason_is_bounded() {
        let body = format!(r#"{{"charged":false,"reason":"{}"}}"#, "é".repeat(5000));
        assert_eq!(sent(200, &body).detail().chars().count(), REASON_CHARS);
    }
}
