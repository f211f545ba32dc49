//! What callers write by mistake or on purpose: each is refused with a sentence in their own words, and nothing of it
//! is done.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_contract::ROUTES;

use crate::fixture::http::{Response, exchange, get, post, put, send};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::eventually;

const JSON: &str = "content-type: application/json";
const LINES: &str = "content-type: application/x-ndjson";
const TABLE: &str = "content-type: text/csv";

fn refused(answer: &Response, field: &str, why: &str) {
    assert_eq!(answer.status, 400, "{}", answer.text);
    let said = answer.body["details"][field].as_str();
    let said = said.unwrap_or_else(|| panic!("{field}: {}", answer.text));
    assert!(said.contains(why), "{said}");
}

#[test]
fn a_field_given_twice_is_refused_wherever_it_stands() {
    let pair = pair("");
    let address = pair.server.address;
    let whole = payment("p1").to_string();
    let party = r#"{"account":"A-1","name":"Ann","account":"A-2"}"#;
    let nested = whole.replace(r#"{"account":"A-1","name":"Ann"}"#, party);
    let note = r#"{"metadata":{"a":[{"b":1,"b":2}]},"#;
    let bodies = [
        (
            "/payments",
            whole.replacen('{', r#"{"amount":"9999.00","#, 1),
            "amount",
        ),
        ("/payments", nested, "debtor.account"),
        ("/payments", whole.replacen('{', note, 1), "metadata.a[0].b"),
        (
            "/customers",
            r#"{"customerId":"c","customerId":"d"}"#.into(),
            "customerId",
        ),
        (
            "/invoices",
            r#"{"amount":{"value":"1","value":"2"}}"#.into(),
            "amount.value",
        ),
        (
            "/admin/rate-limit/config",
            r#"{"maxPerWindow":1,"maxPerWindow":2}"#.into(),
            "maxPerWindow",
        ),
        (
            "/payments/check-status",
            r#"{"paymentIds":[],"paymentIds":["p"]}"#.into(),
            "paymentIds",
        ),
    ];
    for (path, body, field) in bodies {
        let answer = send(address, "POST", path, JSON, &body).unwrap();
        refused(&answer, field, "is given twice");
    }
    assert_eq!(get(address, "/payments/p1").unwrap().status, 404);

    let line = whole.replacen('{', r#"{"amount":"9999.00","#, 1);
    let told = errors(&pair, LINES, &format!("{line}\n{}\n", payment("p2")));
    assert_eq!(told, ["1 amount: is given twice in the same object"]);
    let header = "paymentId,amount,currency,debtor.account,debtor.name,creditor.account,creditor.name,metadata";
    let row = r#"p3,1,USD,A-1,Ann,B-2,Bob,"{""a"":1,""a"":2}""#;
    let told = errors(&pair, TABLE, &format!("{header}\n{row}\n"));
    assert_eq!(
        told,
        ["2 line: has invalid metadata: a field a is given twice in the same object"]
    );
}

/// What is wrong with the lines of a file.
fn errors(pair: &Pair, kind: &str, file: &str) -> Vec<String> {
    let address = pair.server.address;
    let taken = send(address, "POST", "/payments/bulk", kind, file).unwrap();
    assert_eq!(taken.status, 202, "{}", taken.text);
    let at = format!("/payments/bulk/{}", taken.body["batchId"].as_str().unwrap());
    eventually(
        "the file is taken in",
        crate::fixture::footing::LONG,
        || {
            let told = get(address, &at).unwrap().body;
            (told["state"] == "DONE").then_some(())
        },
    );
    let told = get(address, &format!("{at}/errors")).unwrap().body;
    let lines = told["errors"].as_array().unwrap().iter();
    let of_line = |line: &Value| -> Vec<String> {
        let details: BTreeMap<String, String> =
            serde_json::from_value(line["details"].clone()).unwrap();
        let details = details.into_iter();
        details
            .map(|(field, what)| format!("{} {field}: {what}", line["line"]))
            .collect()
    };
    lines.flat_map(of_line).collect()
}

#[test]
fn nul_is_refused_wherever_it_stands() {
    let pair = pair("");
    let address = pair.server.address;
    for (method, path, _) in ROUTES {
        let path = path.replace('{', "a%00").replace(['}', '*'], "");
        for address_with_nul in [format!("{path}?x=%00"), format!("{path}?%00=1")] {
            let answer = send(address, method, &address_with_nul, JSON, "{}").unwrap();
            refused(&answer, "address", "NUL");
        }
        if path.contains("%00") {
            let answer = send(address, method, &path, JSON, "{}").unwrap();
            refused(&answer, "address", "NUL");
        }
    }
    let mut noted = payment("p1");
    noted["metadata"] = json!({"note": "a\0b"});
    refused(
        &post(address, "/payments", &noted).unwrap(),
        "metadata.note",
        "NUL",
    );
    let reason = json!({"reason": "a\0b"});
    let pause = "/admin/lanes/default/pause";
    refused(&post(address, pause, &reason).unwrap(), "reason", "NUL");
    let told = errors(&pair, LINES, &format!("{noted}\n"));
    assert_eq!(
        told,
        ["1 metadata.note: must not contain the character NUL"]
    );
    let calendar = put(address, "/admin/calendars/nyc", &json!({"zone": "UTC"})).unwrap();
    assert_eq!(calendar.status, 200, "{}", calendar.text);
    let days = "/admin/calendars/nyc/holidays";
    let text = "content-type: text/plain";
    let answer = send(address, "PUT", days, text, "2026-12-25 a\0b\n").unwrap();
    refused(&answer, "body", "NUL");
}

#[test]
fn codings_that_are_not_read_and_a_second_host_are_refused() {
    let pair = pair("");
    let address = pair.server.address;
    let body = payment("p1").to_string();
    for path in [
        "/payments",
        "/payments/bulk",
        "/customers",
        "/admin/rate-limit/config",
    ] {
        for coding in ["gzip", "br", "identity, gzip", "aes128gcm"] {
            let headers = format!("{JSON}\r\ncontent-encoding: {coding}");
            let answer = send(address, "POST", path, &headers, &body).unwrap();
            assert_eq!(answer.status, 415, "{path} {coding}: {}", answer.text);
            assert!(answer.text.contains("Content-Encoding"), "{}", answer.text);
        }
    }
    assert_eq!(get(address, "/payments/p1").unwrap().status, 404);
    let as_it_is = format!("{JSON}\r\ncontent-encoding: identity");
    let answer = send(address, "POST", "/payments", &as_it_is, &body).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.text);
    for second in ["localhost", "evil.example"] {
        let hosts = format!("host: localhost\r\nhost: {second}\r\nconnection: close");
        let answer = exchange(
            address,
            &format!("GET /admin/totals HTTP/1.1\r\n{hosts}\r\n\r\n"),
        );
        refused(&answer.unwrap(), "Host", "must be given once");
    }
}

/// Every operation that takes JSON: method, address, and the names of its fields.
fn operations() -> Vec<(String, String, Vec<String>)> {
    let document: Value = serde_json::from_str(tollgate_server::openapi_json()).unwrap();
    let mut operations = vec![];
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let Some(name) = schema["$ref"].as_str() else {
                continue;
            };
            let mut fields = vec![];
            names(&document, name, &mut fields);
            let path = path
                .replace("{item_type}", "PAYMENT")
                .replace("{lane}", "default");
            let path = path.replace("{name}", "nyc").replace("{id}", "p1");
            operations.push((method.to_uppercase(), path, fields));
        }
    }
    assert!(operations.len() > 20, "{operations:?}");
    operations
}

fn names(document: &Value, reference: &str, found: &mut Vec<String>) {
    let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
    let parts = schema["allOf"].as_array().into_iter().flatten();
    for part in parts.chain([schema]) {
        if let Some(reference) = part["$ref"].as_str() {
            names(document, reference, found);
        }
        let properties = part["properties"].as_object().into_iter().flatten();
        found.extend(properties.map(|(name, _)| name.clone()));
    }
}

fn said_of(address: SocketAddr, method: &str, path: &str, body: &Value) -> Response {
    let answer = send(address, method, path, JSON, &body.to_string()).unwrap();
    assert!(
        answer.status < 500,
        "{method} {path} {body}: {}",
        answer.text
    );
    answer
}

#[test]
fn no_answer_about_a_wrong_type_speaks_of_anything_but_the_field() {
    let pair = pair("");
    let address = pair.server.address;
    let values = [
        json!(7),
        json!(-1),
        json!(1.5),
        json!(1e30),
        json!("x"),
        json!(true),
        json!([7]),
        json!({"x": 1}),
        json!(null),
    ];
    for (method, path, fields) in operations() {
        for field in &fields {
            for value in &values {
                let body = json!({field: value});
                let answer = said_of(address, &method, &path, &body);
                for ours in [
                    "expected",
                    "invalid type",
                    "u32",
                    "u64",
                    "i64",
                    "does not match its schema",
                ] {
                    let place = format!("{method} {path} {body}: {}", answer.text);
                    assert!(!answer.text.contains(ours), "{place}");
                }
            }
        }
        let all: BTreeMap<_, _> = fields
            .iter()
            .map(|field| (field, json!({"x": 1})))
            .collect();
        let answer = said_of(address, &method, &path, &json!(all));
        let details = answer.body["details"].as_object().unwrap();
        assert!(
            details.len() * 2 >= fields.len(),
            "{method} {path}: {}",
            answer.text
        );
    }
    let numbers = json!({"configName": "default", "maxPerWindow": "5", "windowSizeSecs": 0});
    let answer = post(address, "/admin/rate-limit/config", &numbers).unwrap();
    refused(
        &answer,
        "maxPerWindow",
        "must be a whole number from 1 to 4294967295",
    );
    refused(
        &answer,
        "windowSizeSecs",
        "must be a whole number from 1 to 86400",
    );
}

#[test]
fn an_empty_or_a_huge_reason_is_refused_alike_by_everything_that_takes_one() {
    let pair = pair("");
    let address = pair.server.address;
    let reasons = [
        (String::new(), "must not be empty"),
        (" \n".to_owned(), "must not be empty"),
        ("x".repeat(501), "must have at most 500 characters"),
        (
            "\u{1b}[31m".to_owned(),
            "must not contain control characters",
        ),
    ];
    let mut asked = 0;
    for (method, path, fields) in operations() {
        if !fields.iter().any(|field| field == "reason") {
            continue;
        }
        asked += 1;
        for (reason, why) in &reasons {
            // Whatever else it needs, so that only the reason is wrong.
            let mut body = json!({"reason": reason});
            let others = json!({
                "configName": "default", "zone": "UTC", "cron": "0 0 1 * *", "outcome": "done", "sends": 1,
                "executeAt": "2026-11-16T16:00:00Z", "currency": "USD", "timeZone": "UTC",
                "amount": {"value": "1.00", "currency": "USD"}, "reference": "TRX-1",
                "partition": 0, "offset": 0, "act": "reschedule", "filter": {"held": true}, "account": "DE1",
            });
            for field in &fields {
                if let Some(value) = others.get(field) {
                    body[field] = value.clone();
                }
            }
            let answer = said_of(address, &method, &path, &body);
            let said = &answer.body["details"]["reason"];
            assert_eq!(said, why, "{method} {path} {body}: {}", answer.text);
        }
    }
    assert!(asked >= 14, "{asked}");
    let long = "x".repeat(501);
    for (method, path, kind) in [
        ("DELETE", "/billing/schedules/global", JSON),
        (
            "PUT",
            "/admin/calendars/nyc/holidays",
            "content-type: text/plain",
        ),
    ] {
        let calendar = json!({"zone": "UTC"});
        assert_eq!(
            put(address, "/admin/calendars/nyc", &calendar)
                .unwrap()
                .status,
            200
        );
        for (reason, why) in [
            ("", "must not be empty"),
            (&*long, "at most 500 characters"),
        ] {
            let path = format!("{path}?reason={reason}");
            let answer = send(address, method, &path, kind, "").unwrap();
            refused(&answer, "reason", why);
        }
    }
}
