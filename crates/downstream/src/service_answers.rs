//! What an answer of a status check's service means, by its contract. Pure.

use serde_json::Value;
use tollgate_core::excerpt::excerpt;
use tollgate_core::ports::{CallError, GatewayAnswer};

use crate::judge::Answer;

/// How much of a service's own words is kept.
const EXCERPT_CHARS: usize = 200;

/// Who has the payment, by Elasticsearch's document.
pub(crate) fn found(answer: &Answer) -> Result<String, CallError> {
    if answer.status == 404 {
        return Err(CallError::NotFound);
    }
    worked(answer)?;
    let document: Value = serde_json::from_slice(&answer.body)
        .map_err(|_| CallError::Refused("status 200, but the body is not JSON".to_owned()))?;
    if document["found"] == false {
        return Err(CallError::NotFound);
    }
    let name = document["_source"]["gatewayName"].as_str();
    let name = name.filter(|name| !name.trim().is_empty());
    let nameless = || CallError::Refused("the document has no gatewayName".to_owned());
    name.map(str::to_owned).ok_or_else(nameless)
}

/// 2xx, whatever else it says; only a server error may pass.
pub(crate) fn worked(answer: &Answer) -> Result<(), CallError> {
    match answer.status {
        200..=299 => Ok(()),
        500..=599 => Err(CallError::Failed(reason(answer))),
        _ => Err(CallError::Refused(reason(answer))),
    }
}

/// Evidence needs the very payment and the very word; that the call worked needs neither.
pub(crate) fn asked(answer: &Answer, payment_id: &str) -> Result<GatewayAnswer, CallError> {
    worked(answer)?;
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let completed = said["paymentId"] == payment_id && said["status"] == "completed";
    let reference = said["gatewayReference"].as_str();
    Ok(GatewayAnswer {
        completed,
        reference: reference.map(first),
    })
}

/// The status, and the service's `error` and `code` if it gave them.
fn reason(answer: &Answer) -> String {
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let status = answer.status;
    match (said["error"].as_str(), said["code"].as_str()) {
        (Some(error), Some(code)) => {
            format!("status {status}: {} ({})", first(error), first(code))
        }
        (Some(error), None) => format!("status {status}: {}", first(error)),
        (None, _) => format!("status {status}"),
    }
}

fn first(text: &str) -> String {
    excerpt(text, EXCERPT_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer::new(status, body)
    }
    fn refused(why: &str) -> CallError {
        CallError::Refused(why.to_owned())
    }
    fn failed(why: &str) -> CallError {
        CallError::Failed(why.to_owned())
    }

    #[test]
    fn a_document_that_names_no_gateway_is_none() {
        let good = r#"{"_id":"p","found":true,"_source":{"gatewayName":"stripe","amount":5}}"#;
        let plain = r#"{"_id":"p","_source":{"gatewayName":"stripe"}}"#;
        for body in [good, plain] {
            assert_eq!(found(&answer(200, body)), Ok("stripe".to_owned()));
        }
        let nameless = "the document has no gatewayName";
        let table = [
            (200, "", refused("status 200, but the body is not JSON")),
            (
                200,
                "<html></html>",
                refused("status 200, but the body is not JSON"),
            ),
            (200, "null", refused(nameless)),
            (200, "[]", refused(nameless)),
            (200, r#"{"_source":{}}"#, refused(nameless)),
            (200, r#"{"_source":{"gatewayName":7}}"#, refused(nameless)),
            (200, r#"{"_source":{"gatewayName":" "}}"#, refused(nameless)),
            (200, r#"{"found":false}"#, CallError::NotFound),
            (404, r#"{"_id":"p","found":false}"#, CallError::NotFound),
            (404, "<html></html>", CallError::NotFound),
            (400, "{}", refused("status 400")),
            (429, "", refused("status 429")),
            (302, "", refused("status 302")),
            (500, "", failed("status 500")),
            (503, r#"{"error":{"type":"x"}}"#, failed("status 503")),
        ];
        for (status, body, expected) in table {
            assert_eq!(found(&answer(status, body)), Err(expected), "{body}");
        }
    }

    #[test]
    fn a_facade_that_was_told_is_known_by_its_status_alone() {
        let error = r#"{"error":"Gateway unavailable","code":"GATEWAY_ERROR"}"#;
        for body in [r#"{"status":"accepted","processedCount":3}"#, "", "<html>"] {
            assert_eq!(worked(&answer(200, body)), Ok(()));
        }
        let down = failed("status 500: Gateway unavailable (GATEWAY_ERROR)");
        assert_eq!(worked(&answer(500, error)), Err(down));
        let no = refused("status 400: Gateway unavailable (GATEWAY_ERROR)");
        assert_eq!(worked(&answer(400, error)), Err(no));
    }

    #[test]
    fn only_the_very_payment_and_the_very_word_are_evidence() {
        let table = [
            (r#"{"paymentId":"p","status":"completed"}"#, true),
            (r#"{"paymentId":"p","status":"COMPLETED"}"#, false),
            (r#"{"paymentId":"p","status":"pending"}"#, false),
            (r#"{"paymentId":"q","status":"completed"}"#, false),
            (r#"{"status":"completed"}"#, false),
            (r#"["p","completed"]"#, false),
            ("<html>", false),
            ("", false),
        ];
        for (body, completed) in table {
            let said = asked(&answer(200, body), "p").unwrap();
            assert_eq!(said.completed, completed, "{body}");
        }
        let named = r#"{"paymentId":"p","status":"completed","gatewayReference":"ch_1"}"#;
        let said = asked(&answer(200, named), "p").unwrap();
        assert_eq!(said.reference.as_deref(), Some("ch_1"));
        let unknown = r#"{"error":"Payment not found in gateway","code":"PAYMENT_NOT_FOUND"}"#;
        let why = failed("status 500: Payment not found in gateway (PAYMENT_NOT_FOUND)");
        assert_eq!(asked(&answer(500, unknown), "p"), Err(why));
    }

    #[test]
    fn a_services_words_are_bounded_and_on_one_line() {
        let long = format!(r#"{{"error":"a\r\nb{}"}}"#, "x".repeat(5000));
        let Err(CallError::Failed(why)) = worked(&answer(500, &long)) else {
            panic!("a 500 worked");
        };
        assert!(
            why.starts_with("status 500: a  bxx") && why.len() < 250,
            "{why}"
        );
    }
}
