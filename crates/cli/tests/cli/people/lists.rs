//! Lists that are complete: narrowed, exported, and found by one search field.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::files::bulk::later;
use crate::fixture::footing::take_in;
use crate::fixture::http::{get, post, send};
use crate::fixture::pair::pair;
use crate::fixture::tokens::{auth, token};
use crate::pages::console::Reader;

/// Three payments that wait, each with something of its own.
fn three(address: SocketAddr) {
    let table = [
        ("small", "5", "rent", "DE02120300000000202051"),
        ("large", "5000", "=1+1", "DE02500105170137075030"),
        ("other", "70", "rent", "DE02100500000054540402"),
    ];
    for (id, amount, reference, account) in table {
        let mut payment = later(id);
        payment["amount"] = json!(amount);
        payment["reference"] = json!(reference);
        payment["creditor"]["account"] = json!(account);
        take_in(address, &payment);
    }
}

fn ids(address: SocketAddr, query: &str) -> String {
    let answer = get(address, &format!("/payments{query}")).unwrap();
    assert_eq!(answer.status, 200, "{query}: {}", answer.text);
    assert_eq!(answer.body["complete"], true, "{query}");
    let lines = answer.body["payments"].as_array().unwrap().iter();
    let ids: Vec<&str> = lines
        .filter_map(|line| line["paymentId"].as_str())
        .collect();
    ids.join(" ")
}

#[test]
fn payments_are_narrowed_by_amount_time_account_and_reference() {
    let pair = pair("");
    let address = pair.server.address;
    three(address);
    let table = [
        ("", "other large small"),
        ("?order=id", "large other small"),
        ("?currency=USD&minAmount=70", "other large"),
        ("?currency=USD&minAmount=70&order=id", "large other"),
        ("?currency=USD&minAmount=70&maxAmount=100&limit=1", "other"),
        ("?currency=EUR", ""),
        ("?reference=rent", "other small"),
        ("?account=DE02500105170137075030", "large"),
        ("?account=A-1&lane=default", "other large small"),
        ("?account=A-1&reference=rent", "other small"),
        ("?account=DE02500105170137075030&reference=rent", ""),
        ("?held=true", ""),
        ("?held=false&status=SCHEDULED", "other large small"),
        ("?atRisk=true", ""),
        ("?acceptedFrom=2099-01-01T00:00:00Z", ""),
        ("?late=true", ""),
        ("?late=false&status=SCHEDULED", "other large small"),
    ];
    for (query, expected) in table {
        assert_eq!(ids(address, query), expected, "{query}");
    }
    let first = get(address, "/payments?reference=rent&limit=1&order=id");
    let first = first.unwrap().body;
    assert_eq!(first["next"], "other", "a full page goes on");
    let second = "?reference=rent&limit=1&after=other&order=id";
    assert_eq!(ids(address, second), "small");
    for missing in ["lane=elsewhere", "batch=none"] {
        let answer = get(address, &format!("/payments?{missing}")).unwrap();
        assert_eq!(answer.status, 404, "{missing}: {}", answer.text);
    }
    let wrong = get(address, "/payments?minAmount=1").unwrap();
    let said = wrong.body["details"]["minAmount"].to_string();
    assert!(said.contains("needs currency"), "{}", wrong.text);
}

#[test]
fn a_list_goes_to_and_fro_and_says_how_long_it_is() {
    let pair = pair("");
    let address = pair.server.address;
    three(address);
    let asked = |query: &str| get(address, &format!("/payments?{query}")).unwrap().body;
    let told = |body: &Value| body["payments"][0]["paymentId"].clone();
    for condition in ["", "&status=SCHEDULED", "&account=A-1"] {
        let first = asked(&format!("limit=1{condition}"));
        assert_eq!(
            (&first["count"], &first["atLeast"]),
            (&json!(3), &json!(false))
        );
        assert_eq!(
            (told(&first), &first["previous"]),
            (json!("other"), &json!(null))
        );
        let turn = |body: &Value, way: &str, token: &str| {
            let token = body[token].as_str().unwrap();
            asked(&format!("limit=1{condition}&{way}={token}"))
        };
        let second = turn(&first, "after", "next");
        let third = turn(&second, "after", "next");
        assert_eq!(
            (told(&second), told(&third)),
            (json!("large"), json!("small"))
        );
        assert_eq!(third["next"], json!(null), "{third}");
        let back = turn(&third, "before", "previous");
        assert_eq!(told(&back), "large");
        let start = turn(&back, "before", "previous");
        assert_eq!(
            (told(&start), &start["previous"]),
            (json!("other"), &json!(null))
        );
        assert_eq!(told(&turn(&start, "after", "next")), "large");
    }
    let wrong = [
        ("order=largest", "order"),
        ("after=other", "after"),
        ("before=1.a&after=1.a", "before"),
        ("before=1.a&order=id", "before"),
        ("atRisk=true&order=id", "atRisk"),
        ("status=LOST", "status"),
    ];
    for (query, field) in wrong {
        let answer = get(address, &format!("/payments?{query}")).unwrap();
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(answer.body["details"][field].is_string(), "{}", answer.text);
    }
    let reader = Reader::local(address);
    let page = reader.page("/console/payments?reference=rent").text;
    assert!(page.contains("2 payments, the newest first"), "{page}");
    let missing = reader.page("/console/no-such-page");
    assert_eq!(missing.status, 404);
    for part in [
        "this page does not exist",
        "<nav aria-label=\"Pages\">",
        "Needs you",
    ] {
        assert!(missing.text.contains(part), "{part}: {}", missing.text);
    }
    let unknown = reader.page("/console/payments/nobody");
    assert!(unknown.status == 404 && unknown.text.contains("Needs you"));
}

#[test]
fn an_export_has_every_row_no_formula_and_accounts_by_role() {
    let (ann, eve) = (token("ann", "operate"), token("eve", "read"));
    let pair = pair(&auth(&[&ann, &eve]));
    let address = pair.server.address;
    let read = |token: &str, path: &str| {
        let headers = format!("authorization: Bearer {token}");
        send(address, "GET", path, &headers, "").unwrap()
    };
    let mut payment = later("p1");
    payment["reference"] = json!("=HYPERLINK(\"http://x\",\"y\")");
    payment["creditor"]["account"] = json!("DE02120300000000202051");
    let bearer = format!(
        "authorization: Bearer {}\r\ncontent-type: application/json",
        ann.text
    );
    let taken = send(address, "POST", "/payments", &bearer, &payment.to_string()).unwrap();
    assert!(matches!(taken.status, 200 | 201), "{}", taken.text);
    let whole = read(&ann.text, "/payments?format=csv");
    assert!(
        whole.head.contains("content-type: text/csv"),
        "{}",
        whole.head
    );
    assert!(whole.head.contains("filename=\"payments.csv\""));
    let csv = &whole.text;
    assert!(
        csv.contains("DE02120300000000202051") && csv.contains("\"'=HYPERLINK("),
        "{csv}"
    );
    let masked = read(&eve.text, "/payments?format=csv").text;
    assert!(
        masked.contains("****2051") && !masked.contains("DE0212"),
        "{masked}"
    );
    let ndjson = read(&eve.text, "/payments?format=ndjson&status=SCHEDULED").text;
    let row = ndjson.lines().find(|line| line.starts_with('{')).unwrap();
    let row: Value = serde_json::from_str(row).unwrap();
    assert_eq!(
        (&row["paymentId"], &row["creditorAccount"]),
        (&json!("p1"), &json!("****2051"))
    );
    let refused = read(&eve.text, "/payments?format=xml");
    assert_eq!(refused.status, 400, "{}", refused.text);
    let missing = read(&eve.text, "/payments?format=csv&lane=elsewhere");
    assert_eq!(
        missing.status, 404,
        "told before the first row: {}",
        missing.text
    );
}

#[test]
fn the_audit_log_is_asked_by_action_by_people_and_by_time() {
    let pair = pair("");
    let address = pair.server.address;
    three(address);
    let reason = json!({"reason": "the customer called"});
    let cancelled = post(address, "/payments/other/cancel", &reason).unwrap();
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    let entries = |query: &str| {
        let answer = get(address, &format!("/admin/audit?{query}")).unwrap();
        assert_eq!(answer.status, 200, "{query}: {}", answer.text);
        assert_eq!(answer.body["complete"], true);
        answer.body["entries"].as_array().unwrap().clone()
    };
    let people = entries("by=people&limit=1000");
    assert!(
        people.iter().all(|entry| entry["actor"] == "local"),
        "{people:?}"
    );
    assert_eq!(entries("by=people&action=CANCELLED").len(), 1);
    assert_eq!(entries("by=machine&action=CANCELLED").len(), 0);
    let at = people[0]["at"].as_str().unwrap();
    assert_eq!(entries(&format!("action=CANCELLED&from={at}")).len(), 1);
    assert_eq!(entries(&format!("action=CANCELLED&to={at}")).len(), 0);
    assert_eq!(get(address, "/admin/audit?by=cats").unwrap().status, 400);
    let csv = get(address, "/admin/audit?action=CANCELLED&format=csv")
        .unwrap()
        .text;
    assert!(
        csv.contains("PAYMENT/other") && csv.contains("the customer called"),
        "{csv}"
    );
    let told = pair
        .tollgate(&["audit", "--by", "people", "--action", "CANCELLED"])
        .unwrap();
    assert!(told.contains("PAYMENT/other"), "{told}");
}

#[test]
fn one_field_finds_an_id_a_reference_or_an_account() {
    let pair = pair("");
    let address = pair.server.address;
    three(address);
    let reader = Reader::local(address);
    let table = [
        ("small", "/console/payments/small"),
        (" PAYMENT%2Fsmall ", "/console/payments/small"),
        ("default", "/console/lanes/default"),
        ("rent", "/console/payments?reference=rent"),
        ("A-1", "/console/payments?account=a-1"),
        ("nowhere", "/console/payments?reference=nowhere"),
    ];
    for (sought, there) in table {
        let found = reader.page(&format!("/console/search?q={}", sought.replace(' ', "+")));
        assert_eq!(found.status, 303, "{sought}: {}", found.text);
        let location = format!("location: {there}\r\n");
        assert!(found.head.contains(&location), "{sought}: {}", found.head);
    }
    let page = reader.page("/console/payments?reference=rent").text;
    assert!(
        page.contains("small") && !page.contains("/console/payments/large"),
        "{page}"
    );
    let file = "/console/export/payments?reference=rent";
    assert!(page.contains(file), "{page}");
    let csv = reader
        .page("/console/export/payments?reference=rent&format=csv")
        .text;
    assert!(csv.contains("small") && !csv.contains("large"), "{csv}");
    assert_eq!(reader.page("/console/export/secrets").status, 404);
}
