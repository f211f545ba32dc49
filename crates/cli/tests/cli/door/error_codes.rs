//! Errors as a client's code meets them: a stable code and the id of the request, in headers and body.

use serde_json::{Value, json};

use crate::fixture::http::{Response, get, post, post_raw, send};
use crate::fixture::pair::pair;

/// A value of the answer's head.
fn header<'a>(answer: &'a Response, name: &str) -> Option<&'a str> {
    let mut lines = answer.head.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// Every answer has an id, and every error a code; both are in the body, too, unless another contract
/// fixes that to the letter.
pub(crate) fn assert_marked(place: &str, answer: &Response) {
    let id = header(answer, "x-request-id");
    assert!(id.is_some_and(|id| !id.is_empty()), "{place}: no id");
    let code = header(answer, "tollgate-error-code");
    assert_eq!(code.is_some(), answer.status >= 400, "{place}: {answer:?}");
    let fixed = place.contains("/payments/check-status");
    let is_fixed = matches!(
        (answer.status, fixed, place.ends_with("/gateways")),
        (400 | 404, true, false)
    );
    if answer.status < 400 {
        return;
    }
    let (code, id) = (json!(code), json!(id));
    if is_fixed {
        assert_eq!(answer.body["code"], Value::Null, "{place}");
        assert_eq!(answer.body["requestId"], Value::Null, "{place}");
    } else {
        assert_eq!(answer.body["code"], code, "{place}: {}", answer.text);
        assert_eq!(answer.body["requestId"], id, "{place}: {}", answer.text);
    }
}

fn assert_code(place: &str, answer: &Response, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{place}: {}", answer.text);
    assert_marked(place, answer);
    assert_eq!(header(answer, "tollgate-error-code"), Some(code), "{place}");
}

fn payment(id: &str, amount: &str) -> Value {
    json!({
        "paymentId": id, "amount": amount, "currency": "USD",
        "debtor": {"account": "DE-1", "name": "Ann"},
        "creditor": {"account": "US-2", "name": "Bob"},
    })
}

#[test]
fn an_error_has_a_code_that_says_more_than_its_status() {
    let rule = "[[rules]]\nname = \"small\"\nrequire = \"amountMinor < 1000000\"\nmessage = \"too much\"\n";
    let pair = pair(rule);
    let at = pair.server.address;
    let say = |path: &str, body: Value| post(at, path, &body).unwrap();
    assert_eq!(say("/payments", payment("p1", "1.00")).status, 201);
    let other = say("/payments", payment("p1", "2.00"));
    assert_code("other content", &other, 409, "id_conflict");
    let invalid = say("/payments", payment("p2", "1.001"));
    assert_code("too many digits", &invalid, 400, "validation_failed");
    let refused = say("/payments", payment("p3", "10000.00"));
    assert_code("a rule", &refused, 422, "refused_by_rule");
    let no_json = post_raw(at, "/payments", "application/json", "{").unwrap();
    assert_code("no JSON", &no_json, 400, "invalid_request");
    let no_type = post_raw(at, "/payments", "text/plain", "{}").unwrap();
    assert_code("no type", &no_type, 415, "unsupported_media_type");
    let large = "x".repeat(70_000);
    let large = post_raw(at, "/payments", "application/json", &large).unwrap();
    assert_code("large", &large, 413, "body_too_large");
    let long = get(at, &format!("/payments/{}", "x".repeat(5000))).unwrap();
    assert_code("long", &long, 414, "url_too_long");
    let global = send(
        at,
        "DELETE",
        "/billing/schedules/global?reason=x",
        "a: b",
        "",
    )
    .unwrap();
    assert_code("in use", &global, 409, "conflict");
    let method = send(at, "PATCH", "/payments", "a: b", "").unwrap();
    assert_code("method", &method, 405, "method_not_allowed");
    let says = method.body["error"].as_str().unwrap();
    assert!(says.starts_with("method not allowed; allowed: "), "{says}");
    assert_code("path", &get(at, "/nothing").unwrap(), 404, "not_found");
}

#[test]
fn a_clients_own_request_id_is_kept_and_a_bad_one_is_replaced() {
    let pair = pair("");
    let at = pair.server.address;
    let asked = |id: &str| {
        let header = format!("x-request-id: {id}");
        send(at, "GET", "/payments/none", &header, "").unwrap()
    };
    let kept = asked("shop-7.a:b");
    assert_eq!(kept.body["requestId"], "shop-7.a:b");
    let replaced = asked("a b");
    assert_marked("a bad id", &replaced);
    assert_ne!(replaced.body["requestId"], "a b");
    let good = send(at, "GET", "/health/live", "x-request-id: h1", "").unwrap();
    assert_eq!(header(&good, "x-request-id"), Some("h1"));
}

#[test]
fn the_two_answers_that_another_contract_fixes_are_to_the_letter() {
    let pair = pair("");
    let at = pair.server.address;
    let path = "/payments/check-status";
    let empty = post(at, path, &json!({"paymentIds": []})).unwrap();
    let fixed =
        json!({"error": "Validation failed", "details": {"paymentIds": "must not be empty"}});
    assert_eq!(empty.body, fixed);
    assert_code(path, &empty, 400, "validation_failed");
    let unknown = get(at, &format!("{path}/none")).unwrap();
    let fixed =
        json!({"workflowId": "none", "status": "NOT_FOUND", "progress": null, "result": null});
    assert_eq!(unknown.body, fixed);
    assert_code(path, &unknown, 404, "not_found");
}
