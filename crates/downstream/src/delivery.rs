//! What an exchange with a receiver of webhooks proves, by the Standard Webhooks contract. Pure.
//! Receivers know a repeat by its id, so an answer that was lost is no reason not to send again.

use tollgate_core::outcome::{Outcome, Quiet};

use crate::judge::{Exchange, quiet_for};

/// "Gone": the receiver wants nothing more.
const GONE: u16 = 410;

pub(crate) fn judge_delivery(exchange: Exchange) -> Outcome {
    let answer = match exchange {
        Exchange::NotSent(why) => {
            return Outcome::retry(format!("failed before the first byte: {why}"));
        }
        Exchange::Lost(why) => return Outcome::Unknown(why),
        Exchange::Answered(answer) => answer,
    };
    let status = answer.status;
    let retry_after = answer.retry_after();
    let retry_after = retry_after.as_deref();
    let why = format!("status {status}");
    match status {
        200..=299 => Outcome::Done(why),
        GONE => Outcome::Refused(format!("{why}: the receiver has unsubscribed")),
        429 | 503 if status == 429 || retry_after.is_some() => Outcome::Retry {
            why,
            quiet: Quiet::For(quiet_for(retry_after)),
        },
        // It may have come through to whoever failed behind it.
        500..=599 => Outcome::Unknown(why),
        _ => Outcome::retry(why),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::judge::Answer;

    fn answered(status: u16, retry_after: Option<&str>) -> Outcome {
        let answer = Answer::new(status, "whatever");
        judge_delivery(Exchange::Answered(answer.retrying_after(retry_after)))
    }

    fn quiet(status: u16, secs: u64) -> Outcome {
        Outcome::Retry {
            why: format!("status {status}"),
            quiet: Quiet::For(Duration::from_secs(secs)),
        }
    }

    #[test]
    fn every_status_has_its_meaning() {
        for status in 100..=599 {
            let why = format!("status {status}");
            let expected = match status {
                200..=299 => Outcome::Done(why),
                410 => Outcome::Refused(format!("{why}: the receiver has unsubscribed")),
                429 => quiet(429, 1),
                500..=599 => Outcome::Unknown(why),
                _ => Outcome::retry(why),
            };
            assert_eq!(answered(status, None), expected);
        }
    }

    #[test]
    fn a_receiver_that_says_when_is_left_alone_until_then() {
        assert_eq!(answered(429, Some("7")), quiet(429, 7));
        assert_eq!(answered(503, Some("7")), quiet(503, 7));
        assert_eq!(answered(503, Some("99999999")), quiet(503, 60), "bounded");
        let other = answered(500, Some("7"));
        assert_eq!(other, Outcome::Unknown("status 500".into()));
    }

    #[test]
    fn what_never_went_out_is_not_in_doubt_and_what_may_have_is() {
        let unsent = judge_delivery(Exchange::NotSent("closed".into()));
        let why = "failed before the first byte: closed";
        assert_eq!(unsent, Outcome::retry(why));
        let lost = judge_delivery(Exchange::Lost("reset".into()));
        assert_eq!(lost, Outcome::Unknown("reset".into()));
    }
}
