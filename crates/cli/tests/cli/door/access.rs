//! Who may do what: every address with every kind of token, and whose name is in the audit trail.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_contract::{ROUTES, Role};

use crate::door::error_codes::assert_marked;
use crate::fixture::http::{Response, send};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::{BINARY, eventually};
use crate::fixture::tokens::{Token, auth, call, of_each_role, token};
use crate::pages::console::Reader;

/// Who is let in: anybody, and then each role: ingest, read, operate.
type Let = [bool; 1 + Role::ALL.len()];
const ANYBODY: Let = [true, true, true, true];
const ANY_ROLE: Let = [false, true, true, true];
const INGEST: Let = [false, true, false, true];
const READ: Let = [false, false, true, true];
const OPERATE: Let = [false, false, false, true];

/// Written by hand from docs/tour.md, "Security": each address, who is let in, and the answer to `{}`.
const MATRIX: &[(&str, &str, Let, u16)] = &[
    ("GET", "/health/live", ANYBODY, 200),
    ("GET", "/health/ready", ANYBODY, 200),
    ("GET", "/openapi.json", ANYBODY, 200),
    ("GET", "/docs", ANYBODY, 303),
    ("GET", "/docs/", ANYBODY, 200),
    ("GET", "/docs/{*rest}", ANYBODY, 200),
    ("GET", "/metrics", READ, 200),
    ("GET", "/q/metrics", READ, 200),
    ("POST", "/payments", INGEST, 400),
    ("GET", "/payments", READ, 200),
    ("POST", "/payments/bulk", INGEST, 415),
    ("GET", "/payments/bulk", READ, 200),
    ("GET", "/payments/bulk/{batch}", ANY_ROLE, 404),
    ("GET", "/payments/bulk/{batch}/errors", ANY_ROLE, 404),
    ("POST", "/payments/check-status", INGEST, 400),
    ("GET", "/payments/check-status", READ, 200),
    ("GET", "/payments/check-status/{workflow_id}", ANY_ROLE, 404),
    (
        "GET",
        "/payments/check-status/{workflow_id}/gateways",
        ANY_ROLE,
        404,
    ),
    ("GET", "/payments/{id}", ANY_ROLE, 404),
    ("POST", "/payments/{id}/cancel", OPERATE, 400),
    ("POST", "/payments/{id}/release", OPERATE, 400),
    ("POST", "/payments/{id}/reschedule", OPERATE, 400),
    ("POST", "/payments/{id}/reopen", OPERATE, 400),
    ("POST", "/customers", INGEST, 400),
    ("GET", "/customers", READ, 200),
    ("GET", "/customers/{id}", ANY_ROLE, 404),
    ("PUT", "/customers/{id}", OPERATE, 400),
    ("POST", "/invoices", INGEST, 400),
    ("GET", "/invoices", READ, 200),
    ("GET", "/invoices/{id}", ANY_ROLE, 404),
    ("GET", "/invoices/{id}/occurrences", ANY_ROLE, 404),
    ("POST", "/invoices/{id}/cancel", OPERATE, 400),
    ("POST", "/invoices/{id}/correct", OPERATE, 400),
    ("POST", "/invoices/{id}/reschedule", OPERATE, 404),
    ("POST", "/invoices/{id}/settle", OPERATE, 400),
    ("GET", "/billing/schedules/global", READ, 200),
    ("PUT", "/billing/schedules/global", OPERATE, 400),
    ("DELETE", "/billing/schedules/global", OPERATE, 409),
    ("GET", "/billing/schedules/customer/{id}", READ, 404),
    ("PUT", "/billing/schedules/customer/{id}", OPERATE, 400),
    ("DELETE", "/billing/schedules/customer/{id}", OPERATE, 404),
    ("GET", "/billing/schedules/invoice/{id}", READ, 404),
    ("PUT", "/billing/schedules/invoice/{id}", OPERATE, 400),
    ("DELETE", "/billing/schedules/invoice/{id}", OPERATE, 404),
    ("POST", "/billing/schedules/preview", READ, 400),
    ("GET", "/admin/rate-limit/config", READ, 200),
    ("POST", "/admin/rate-limit/config", OPERATE, 400),
    ("POST", "/admin/rate-limit/cache/flush", OPERATE, 204),
    ("GET", "/admin/rate-limit/windows", READ, 200),
    ("GET", "/admin/rate-limit/certificate", READ, 200),
    ("POST", "/admin/rate-limit/forecast", READ, 200),
    ("GET", "/admin/now", READ, 200),
    ("GET", "/admin/needs-you", READ, 200),
    ("POST", "/admin/needs-you/{kind}/seen", OPERATE, 400),
    ("GET", "/admin/held", READ, 200),
    ("GET", "/admin/nodes", READ, 200),
    ("POST", "/admin/lanes/{lane}/pause", OPERATE, 400),
    ("POST", "/admin/lanes/{lane}/resume", OPERATE, 400),
    ("POST", "/admin/lanes/{lane}/replan", OPERATE, 400),
    ("POST", "/admin/lanes/{lane}/adjust", OPERATE, 400),
    ("POST", "/admin/lanes/{lane}/reconcile", OPERATE, 200),
    ("GET", "/admin/lanes/{lane}/history", READ, 200),
    ("GET", "/admin/storms", READ, 200),
    ("POST", "/admin/storms/{storm}/reopen", OPERATE, 400),
    ("POST", "/admin/banks/{bank}/ask", OPERATE, 400),
    ("GET", "/admin/calendars", READ, 200),
    ("GET", "/admin/calendars/{name}", READ, 404),
    ("PUT", "/admin/calendars/{name}", OPERATE, 400),
    ("PUT", "/admin/calendars/{name}/holidays", OPERATE, 415),
    ("GET", "/admin/calendars/{name}/history", READ, 404),
    ("GET", "/admin/events", READ, 200),
    ("POST", "/admin/events/off", OPERATE, 400),
    ("GET", "/admin/feeds", READ, 200),
    ("POST", "/admin/feeds/{feed}/pause", OPERATE, 400),
    ("POST", "/admin/feeds/{feed}/resume", OPERATE, 400),
    ("POST", "/admin/feeds/{feed}/seek", OPERATE, 400),
    ("POST", "/admin/feeds/{feed}/forget", OPERATE, 400),
    ("GET", "/admin/in-doubt", READ, 200),
    ("POST", "/admin/in-doubt/ask", OPERATE, 200),
    ("GET", "/admin/in-doubt/{item_type}/{id}", READ, 404),
    (
        "POST",
        "/admin/in-doubt/{item_type}/{id}/resolve",
        OPERATE,
        400,
    ),
    ("GET", "/admin/totals", READ, 200),
    ("GET", "/admin/item-types", READ, 200),
    ("GET", "/admin/item-types/{item_type}", READ, 200),
    ("PUT", "/admin/item-types/{item_type}", OPERATE, 400),
    ("GET", "/admin/item-types/{item_type}/history", READ, 200),
    ("GET", "/admin/item-types/{item_type}/retention", READ, 200),
    (
        "PUT",
        "/admin/item-types/{item_type}/retention",
        OPERATE,
        400,
    ),
    ("GET", "/admin/dead-letters", READ, 200),
    (
        "POST",
        "/admin/dead-letters/{item_type}/{id}/replay",
        OPERATE,
        400,
    ),
    ("GET", "/admin/archive", READ, 200),
    ("GET", "/admin/archive/status", READ, 200),
    ("GET", "/admin/archive/{day}", READ, 400),
    ("GET", "/admin/archive/{day}/items", READ, 400),
    ("GET", "/admin/archive/{day}/audit", READ, 400),
    ("POST", "/admin/archive/run", OPERATE, 400),
    ("POST", "/admin/archive/{day}/verify", OPERATE, 400),
    ("POST", "/admin/archive/{day}/export", OPERATE, 400),
    ("POST", "/admin/archive/{day}/restore", OPERATE, 400),
    ("GET", "/admin/audit", READ, 200),
    ("POST", "/admin/jobs", OPERATE, 400),
    ("GET", "/admin/jobs", READ, 200),
    ("GET", "/admin/jobs/{job}", READ, 404),
    ("GET", "/admin/jobs/{job}/items", READ, 404),
    ("POST", "/admin/jobs/{job}/stop", OPERATE, 400),
    ("POST", "/admin/erasures", OPERATE, 400),
    ("GET", "/admin/erasures/{erasure}", OPERATE, 404),
    ("GET", "/admin/rules", READ, 200),
    ("POST", "/admin/rules/reload", OPERATE, 400),
    ("POST", "/admin/rules/dry-run", READ, 200),
];

/// An address as a caller writes it.
fn filled(path: &str) -> String {
    let given = [
        ("{item_type}", "PAYMENT"),
        ("{lane}", "default"),
        ("{id}", "p1"),
        ("{kind}", "held"),
        ("{name}", "nyc"),
        ("{batch}", "none"),
        ("{job}", "none"),
        ("{erasure}", "none"),
        ("{feed}", "none"),
        ("{workflow_id}", "none"),
        ("{*rest}", "index.html"),
    ];
    let fill = |path: String, (part, value): (&str, &str)| path.replace(part, value);
    given.into_iter().fold(path.to_owned(), fill)
}

fn with(address: SocketAddr, token: Option<&str>, method: &str, path: &str) -> Response {
    let answer = call(address, token, method, &filled(path), "{}");
    assert_marked(&format!("{method} {path}"), &answer);
    answer
}

#[test]
fn the_matrix_has_every_address_of_the_service() {
    let ours = MATRIX.iter().map(|(method, path, _, _)| (*method, *path));
    let served = ROUTES.iter().map(|(method, path, _)| (*method, *path));
    assert_eq!(ours.collect::<BTreeSet<_>>(), served.collect());
}

#[test]
fn every_address_answers_every_kind_of_caller_as_documented() {
    let roles = of_each_role();
    let pair = pair(&auth(&roles.each_ref()));
    let address = pair.server.address;
    let hash = roles[2].entry.split('"').nth(5).unwrap();
    let strangers = [None, Some("tg_wrong"), Some(hash)];
    for (n, (method, path, let_in, status)) in MATRIX.iter().enumerate() {
        let place = format!("{method} {path}");
        // After ten wrong tokens each next one waits.
        let all = [8, 28, 48, 68].contains(&n);
        let strangers = &strangers[..if all { 3 } else { 1 }];
        for &stranger in strangers {
            let answer = with(address, stranger, method, path);
            let expected = if let_in[0] { *status } else { 401 };
            assert_eq!(answer.status, expected, "{place} with {stranger:?}");
            let challenged = answer.head.contains("www-authenticate: bearer");
            assert_eq!(challenged, answer.status == 401, "{place}");
        }
        for (role, let_in) in roles.iter().zip(&let_in[1..]) {
            let answer = with(address, Some(&role.text), method, path);
            let expected = if *let_in { *status } else { 403 };
            assert_eq!(answer.status, expected, "{place} with {}", role.entry);
            if answer.status == 403 {
                let said = answer.body["error"].as_str().unwrap();
                assert!(said.contains("operate"), "{place}: {said}");
            }
            assert!(answer.head.contains("x-content-type-options: nosniff"));
        }
        let unknown = with(address, Some(&roles[0].text), "PATCH", path);
        assert_eq!(unknown.status, 405, "{place}");
        assert!(unknown.head.contains("allow: "), "{place}");
    }
    assert_eq!(with(address, None, "GET", "/nothing").status, 401);
    let nothing = with(address, Some(&roles[0].text), "GET", "/nothing");
    assert_eq!(nothing.status, 404);
    let metrics = with(address, Some(&roles[1].text), "GET", "/metrics").text;
    for counted in [
        "wrong_tokens_total 8\n",
        "refused_total{status=\"401\"}",
        "refused_total{status=\"403\"}",
    ] {
        assert!(metrics.contains(counted), "{metrics}");
    }
    let log = pair.server.log().join("\n");
    assert!(log.contains("wrong tokens from one address"), "{log}");
    assert!(!log.contains("tg_wrong"), "{log}");
    // Those of the requests before may not have been taken leave of yet.
    eventually("one connection is left", Duration::from_secs(30), || {
        let metrics = with(address, Some(&roles[1].text), "GET", "/metrics").text;
        metrics
            .contains("tollgate_api_connections 1\n")
            .then_some(())
    });
}

#[test]
fn without_tokens_everything_is_open_to_this_machine_and_to_no_page_from_elsewhere() {
    let pair = pair("");
    let address = pair.server.address;
    for (method, path, _, status) in MATRIX {
        let answer = with(address, None, method, path);
        assert_eq!(answer.status, *status, "{method} {path}");
    }
    let evil = "host: evil.example\r\nconnection: close";
    let request = format!("GET /admin/totals HTTP/1.1\r\n{evil}\r\n\r\n");
    let answer = crate::fixture::http::exchange(address, &request).unwrap();
    assert_eq!(answer.status, 403, "{}", answer.text);
    assert!(answer.text.contains("auth.tokens"), "{}", answer.text);
    let changes = MATRIX.iter().filter(|(method, ..)| *method != "GET");
    for (method, path, _, _) in changes {
        for site in [
            "sec-fetch-site: cross-site",
            "sec-fetch-site: same-site",
            "origin: http://evil.example",
        ] {
            let headers = format!("content-type: application/json\r\n{site}");
            let answer = send(address, method, &filled(path), &headers, "{}").unwrap();
            assert_eq!(
                answer.status, 403,
                "{method} {path} {site}: {}",
                answer.text
            );
        }
    }
    let ours = "content-type: application/json\r\nsec-fetch-site: same-origin";
    let answer = send(address, "POST", "/payments", ours, "{}").unwrap();
    assert_eq!(answer.status, 400, "{}", answer.text);
    let preflight = with(address, None, "OPTIONS", "/payments");
    assert_eq!(preflight.status, 405);
    assert!(!preflight.head.contains("access-control"));
}

#[test]
fn an_address_for_other_machines_is_served_with_tokens_behind_a_proxy() {
    let ann = token("ann", "read");
    let text = format!("tls.ended_by_proxy = true\n{}", auth(&[&ann]));
    let pair = pair("");
    let setting = crate::fixture::served::Setting::new(&pair.bank, &text);
    let server = setting.start("0.0.0.0:0");
    assert_eq!(
        with(server.address, None, "GET", "/admin/totals").status,
        401
    );
    let answer = with(server.address, Some(&ann.text), "GET", "/admin/totals");
    assert_eq!(answer.status, 200);
    assert!(
        answer.head.contains("strict-transport-security: max-age="),
        "{}",
        answer.head
    );
    let page = call(server.address, None, "GET", "/console/sign-in", "{}");
    assert!(
        page.head.contains("strict-transport-security: max-age="),
        "{}",
        page.head
    );
    let plain = with(pair.server.address, None, "GET", "/health/live");
    assert!(!plain.head.contains("strict-transport"), "{}", plain.head);
}

/// Runs a command as the owner of a token.
fn tollgate(address: SocketAddr, token: &Token, words: &[&str]) -> Result<String, String> {
    let output = Command::new(BINARY)
        .args(words)
        .args(["--server", &format!("http://{address}")])
        .env("TOLLGATE_TOKEN", &token.text)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        return Ok(text(output.stdout));
    }
    Err(text(output.stderr))
}

#[test]
fn the_commands_show_their_token_and_its_name_is_the_actor() {
    let (ann, eve) = (token("ann", "operate"), token("eve", "read"));
    let pair = pair(&auth(&[&ann, &eve]));
    let address = pair.server.address;
    let pause = ["lanes", "pause", "default", "--reason", "drill"];
    let refused = tollgate(address, &eve, &pause).unwrap_err();
    assert!(
        refused.contains("the role operate; \"eve\" has"),
        "{refused}"
    );
    tollgate(address, &ann, &pause).unwrap();
    let listed = tollgate(address, &eve, &["lanes", "list"]).unwrap();
    assert!(listed.contains("is paused by ann: drill"), "{listed}");

    let file = pair.setting.folder.path().join("token");
    std::fs::write(&file, format!("{}\n", ann.text)).unwrap();
    let nobody = Token {
        text: String::new(),
        entry: String::new(),
    };
    let resume = ["lanes", "resume", "default", "--reason", "over"];
    let refused = tollgate(address, &nobody, &resume).unwrap_err();
    assert!(
        refused.contains("TOLLGATE_TOKEN or --token-file"),
        "{refused}"
    );
    let by_file = [&resume[..], &["--token-file", file.to_str().unwrap()]].concat();
    tollgate(address, &nobody, &by_file).unwrap();
    let wrong = [&resume[..], &["--token-file", "/nowhere/token"]].concat();
    let said = tollgate(address, &nobody, &wrong).unwrap_err();
    assert!(said.contains("/nowhere/token cannot be read"), "{said}");
}

/// A payment whose accounts a bank repeats when it refuses it.
fn known(id: &str) -> Value {
    let mut payment = payment(id);
    payment["debtor"]["account"] = json!("DE02120300000000202051");
    payment["reference"] = json!("invoice 42");
    payment
}

#[test]
fn accounts_are_told_whole_to_those_who_operate_and_masked_to_the_others() {
    let roles = of_each_role();
    let one_refusal = "downstream.payments.streak = 1\n";
    let pair = pair(&format!("{one_refusal}{}", auth(&roles.each_ref())));
    let address = pair.server.address;
    let body = known("p1").to_string();
    let [ingest, read, operate] = roles.each_ref().map(|role| Some(role.text.as_str()));
    let taken = call(address, operate, "POST", "/payments", &body);
    assert_eq!(taken.status, 201, "{}", taken.text);
    let shown = |token, path: &str| call(address, token, "GET", path, "");
    eventually("it is paid", Duration::from_mins(1), || {
        let told = shown(operate, "/payments/p1").body;
        (told["status"] == "PROCESSING").then_some(())
    });
    let paths = ["/payments/p1", "/admin/in-doubt/PAYMENT/p1"];
    for (token, account, other) in [
        (ingest, "****2051", "****2"),
        (read, "****2051", "****2"),
        (operate, "DE02120300000000202051", "B-2"),
    ] {
        // The worklist is not for those who hand in.
        for path in &paths[..if token == ingest { 1 } else { 2 }] {
            let told = shown(token, path).body;
            assert_eq!(told["debtor"], json!({"account": account, "name": "Ann"}));
            assert_eq!(told["creditor"], json!({"account": other, "name": "Bob"}));
            assert_eq!(told["reference"], "invoice 42");
            assert_eq!(told["gateway"], "default");
            assert_eq!(told["executeAt"], Value::Null);
            let attempt = &told["attempts"][0];
            assert_eq!(attempt["idempotencyKey"], "payment-p1");
            let answer = attempt["answer"].as_str().unwrap();
            assert!(answer.contains("p1"), "{told}");
            let is_whole = told.to_string().contains("DE02120300000000202051");
            assert_eq!(is_whole, token == operate, "{told}");
        }
    }
    let pages = [(read, false), (operate, true)];
    for (token, is_whole) in pages {
        let reader = Reader::signed_in(address, token.unwrap());
        let page = reader.page("/console/payments/p1").text;
        assert!(
            page.contains("invoice 42") && page.contains("2051"),
            "{page}"
        );
        assert_eq!(page.contains("DE0212"), is_whole, "{page}");
    }
    let log = pair.server.log().join("\n");
    let metrics = shown(read, "/metrics").text;
    assert!(
        !log.contains("DE0212") && !metrics.contains("DE0212"),
        "{log}"
    );
    a_storm_repeats_no_account(&pair, operate.unwrap(), read.unwrap());
}

/// The bank's refusal names the payment, and this one is called like its account. What the lane then tells about its
/// pause is read by everybody.
fn a_storm_repeats_no_account(pair: &Pair, operate: &str, read: &str) {
    let address = pair.server.address;
    pair.bank.set_faults("sends: 422".parse().unwrap());
    let refused = known("DE02120300000000202051").to_string();
    let taken = call(address, Some(operate), "POST", "/payments", &refused);
    assert_eq!(taken.status, 201, "{}", taken.text);
    let shown = |path: &str| call(address, Some(read), "GET", path, "");
    eventually("the lane pauses itself", Duration::from_mins(1), || {
        let storms = shown("/admin/storms").body;
        storms["storms"].get(0).map(drop)
    });
    let waits = known("p2").to_string();
    let taken = call(address, Some(operate), "POST", "/payments", &waits);
    assert_eq!(taken.status, 201, "{}", taken.text);
    for path in [
        "/admin/storms",
        "/admin/rate-limit/config",
        "/admin/now",
        "/admin/audit?action=LANE_PAUSED",
        "/payments/p2",
        "/console/lanes/default",
    ] {
        let told = match path.strip_prefix("/console") {
            Some(_) => Reader::signed_in(address, read).page(path).text,
            None => shown(path).text,
        };
        assert!(
            told.contains("storm") || path == "/admin/now",
            "{path}: {told}"
        );
        assert!(!told.contains("DE0212"), "{path}: {told}");
    }
}

#[test]
fn texts_about_a_payment_show_its_accounts_to_those_who_operate_only() {
    let roles = ["read", "operate"].map(|role| token(&format!("a-{role}"), role));
    let pair = pair(&auth(&roles.each_ref()));
    let address = pair.server.address;
    let [read, operate] = roles.each_ref().map(|role| Some(role.text.as_str()));
    let quiet = json!({"reason": "it waits"}).to_string();
    let paused = call(
        address,
        operate,
        "POST",
        "/admin/lanes/default/pause",
        &quiet,
    );
    assert_eq!(paused.status, 200, "{}", paused.text);
    let body = known("p1").to_string();
    let taken = call(address, operate, "POST", "/payments", &body);
    assert_eq!(taken.status, 201, "{}", taken.text);
    let why = json!({"reason": "DE02 1203 0000 0000 2020 51 was closed, and so was de02120300000000202051"});
    let cancelled = call(
        address,
        operate,
        "POST",
        "/payments/p1/cancel",
        &why.to_string(),
    );
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    let whole = why["reason"].as_str().unwrap();
    for (token, told) in [
        (read, "****2051 was closed, and so was ****2051"),
        (operate, whole),
    ] {
        for path in [
            "/admin/audit",
            "/admin/audit?item=PAYMENT/p1",
            "/admin/audit?format=csv",
            "/admin/audit?format=ndjson",
            "/payments/p1",
        ] {
            let answer = call(address, token, "GET", path, "").text;
            assert!(answer.contains(told), "{path}: {answer}");
            let is_whole = answer.to_uppercase().contains("DE02");
            assert_eq!(is_whole, token == operate, "{path}: {answer}");
        }
        let reader = Reader::signed_in(address, token.unwrap());
        let page = reader.page("/console/audit").text;
        assert!(page.contains(told), "{page}");
    }
}

/// Sends nothing twice and says nothing when asked: whatever it got stays in doubt.
const SILENT: &str = "sends: reset after; probes: 500";

#[test]
fn two_persons_are_two_tokens_whatever_they_say_they_are_called() {
    let (ann, bob) = (token("ann", "operate"), token("bob", "operate"));
    let keys = "downstream.payments.honours_idempotency_key = false\n";
    let two = "in_doubt.two_persons = true\n";
    let pair = pair(&format!("{keys}{two}{}", auth(&[&ann, &bob])));
    let address = pair.server.address;
    pair.bank.set_faults(SILENT.parse().unwrap());
    let answer = call(
        address,
        Some(&ann.text),
        "POST",
        "/payments",
        &payment("p1").to_string(),
    );
    assert_eq!(answer.status, 201, "{}", answer.text);
    let status = || with(address, Some(&ann.text), "GET", "/payments/{id}").body["status"].clone();
    eventually("it is in doubt", Duration::from_secs(20), || {
        (status() == "IN_DOUBT").then_some(())
    });
    let resolve = |token: &Token, actor: Option<&str>| {
        let body =
            json!({"outcome": "done", "sends": 1, "reason": "asked", "actor": actor}).to_string();
        let path = "/admin/in-doubt/PAYMENT/p1/resolve";
        // Tried until no question is under way.
        eventually("it is answered", Duration::from_secs(20), || {
            let answer = call(address, Some(&token.text), "POST", path, &body);
            (!answer.text.contains("try again in a moment")).then_some(answer)
        })
    };
    let pretends = resolve(&ann, Some("bob"));
    assert_eq!(pretends.status, 400, "{}", pretends.text);
    assert!(
        pretends.text.contains("must be the token's name"),
        "{}",
        pretends.text
    );
    assert_eq!(resolve(&ann, None).status, 202);
    assert_eq!(resolve(&ann, Some("ann")).status, 202, "one person, twice");
    let done = resolve(&bob, None);
    assert_eq!(done.status, 200, "{}", done.text);
    let by_both = "resolved by bob: done: asked (proposed by ann: asked)";
    assert!(done.text.contains(by_both), "{}", done.text);
}

#[test]
fn a_token_that_cannot_be_made_is_told_and_each_is_another() {
    let (one, two) = (token("ann", "read"), token("ann", "read"));
    assert_ne!(one.text, two.text);
    assert!(
        one.text.starts_with("tg_") && one.text.len() == 67,
        "{}",
        one.text
    );
    assert!(!one.entry.contains(&one.text[3..]));
    for (name, role, why) in [
        ("a b", "read", "must be 1 to 64"),
        ("sender", "read", "a component of Tollgate"),
        ("ann", "admin", "use ingest, read or operate"),
    ] {
        let output = Command::new(BINARY)
            .args(["token", "create", "--name", name, "--role", role])
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(why), "{said}");
        assert!(output.stdout.is_empty());
    }
}
