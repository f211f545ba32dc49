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

    use tollgate_core::marker::Marker;

    use super::*;
    use crate::stranger::tell_apart;

    fn profile() -> Profile {
        Profile {
            honours_idempotency_key: true,
            key_retention: Duration::from_hours(24),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        }
    }
    fn answered(status: u16, body: &str) -> Exchange {
        let exchange = Exchange::Answered(Answer::new(status, body));
        let names = [("invoiceId", "inv_1"), ("key", "invoice-inv_1-1")];
        tell_apart(exchange, &profile(), &names)
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
        let lost = judge_charge(Exchange::Lost("reset".into()), &profile());
        assert_eq!(lost, Outcome::Unknown("reset".into()));
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
        assert_eq!(sent(200, &body).detail().chars().count(), REASON_CHARS);
    }
}
