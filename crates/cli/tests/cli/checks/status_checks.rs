//! Status checks through the binary, judged by the sandbox's own book of calls.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres::shared;
use tollgate_sandbox::{Kind, ServiceCall, most_at_once};

use crate::checks::status_check_queries;
use crate::fixture::footing::{Footing, on_both_footings};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair, pair_on, payment};
use crate::fixture::served::{BINARY, eventually};

/// More than any check here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_mins(2);
/// Retries without the contract's seconds in between.
pub(crate) const QUICK: &str = "status_check.initial_interval_ms = 10\n\
     status_check.max_interval_ms = 20\n";

pub(crate) fn started(address: SocketAddr, ids: &[String]) -> String {
    let answer = post(
        address,
        "/payments/check-status",
        &json!({"paymentIds": ids}),
    )
    .unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(answer.body["status"], "STARTED");
    answer.body["workflowId"].as_str().unwrap().to_owned()
}

pub(crate) fn shown(address: SocketAddr, check: &str) -> Option<Value> {
    let answer = get(address, &format!("/payments/check-status/{check}")).ok()?;
    (answer.status == 200).then_some(answer.body)
}

pub(crate) fn ended(address: SocketAddr, check: &str) -> Value {
    eventually("the check ends", LONG, || {
        shown(address, check).filter(|told| told["status"] != "RUNNING")
    })
}

pub(crate) fn ids(gateway: &str, count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("{gateway}:{n}")).collect()
}

pub(crate) fn of_kind(calls: &[ServiceCall], kind: Kind) -> Vec<ServiceCall> {
    let mine = calls.iter().filter(|call| call.kind == kind);
    mine.cloned().collect()
}

/// Calls that all end before the next of these groups begins.
fn assert_one_after_the_other(groups: &[Vec<&ServiceCall>]) {
    for pair in groups.windows(2) {
        let last_end = pair[0].iter().map(|call| call.ended.unwrap()).max();
        let first_begin = pair[1].iter().map(|call| call.began).min();
        assert!(last_end <= first_begin, "{pair:?}");
    }
}

#[test]
fn a_check_answers_as_its_contract_writes_and_keeps_the_order_it_prescribes() {
    let pair = pair("status_check.max_parallel_es_queries = 4\n");
    let address = pair.server.address;
    let slow = "lookups: latency 40ms; notifies: latency 40ms; checks: latency 20ms; \
                lookups of payment lost: 404";
    pair.bank.set_faults(slow.parse().unwrap());
    let mut asked = ids("stripe", 7);
    asked.extend(ids("adyen", 3));
    asked.push("lost".to_owned());
    let mut with_duplicates = asked.clone();
    with_duplicates.extend(["stripe:1".to_owned(), "lost".to_owned()]);
    let check = started(address, &with_duplicates);
    let uuid = check.strip_prefix("payment-check-").unwrap();
    assert_eq!((uuid.len(), uuid.matches('-').count()), (36, 4), "{check}");
    let told = ended(address, &check);
    let expected = json!({
        "workflowId": check, "status": "COMPLETED",
        "progress": {"totalPayments": 11, "gatewaysIdentified": 2, "chunksTotal": 3,
            "chunksCompleted": 3, "chunksFailed": 0, "currentPhase": "COMPLETED"},
        "result": {
            "successful": {"adyen": ids("adyen", 3), "stripe": ids("stripe", 7)},
            "failed": {}, "gatewayLookupFailed": ["lost"],
        },
    });
    assert_eq!(told, expected);

    let calls = pair.bank.ledger().calls();
    let lookups = of_kind(&calls, Kind::Lookup);
    assert_eq!(lookups.len(), asked.len(), "each once, the 404 too");
    assert!(most_at_once(&lookups) <= 4);
    let batches: Vec<Vec<&ServiceCall>> = asked
        .chunks(4)
        .map(|batch| {
            let of = lookups
                .iter()
                .filter(|call| batch.contains(&call.payment_ids[0]));
            of.collect()
        })
        .collect();
    assert_one_after_the_other(&batches);
    let all_lookups: Vec<&ServiceCall> = lookups.iter().collect();
    let others = calls.iter().filter(|call| call.kind != Kind::Lookup);
    let others: Vec<ServiceCall> = others.cloned().collect();
    assert_one_after_the_other(&[all_lookups, others.iter().collect()]);
    assert_eq!(most_at_once(&others), 2, "gateways at once, each alone");
    for (gateway, count) in [("stripe", 7), ("adyen", 3)] {
        assert_chunk_by_chunk(&others, gateway, &ids(gateway, count));
    }
}

/// Each chunk is announced, then its payments are asked about, one call at a time.
fn assert_chunk_by_chunk(calls: &[ServiceCall], gateway: &str, payments: &[String]) {
    let mine = calls
        .iter()
        .filter(|call| call.gateway.as_deref() == Some(gateway));
    let mine: Vec<&ServiceCall> = mine.collect();
    assert_eq!(most_at_once(mine.iter().copied()), 1, "{gateway}");
    let order: Vec<(Kind, Vec<String>)> = mine
        .iter()
        .map(|call| (call.kind, call.payment_ids.clone()))
        .collect();
    let expected: Vec<(Kind, Vec<String>)> = payments
        .chunks(5)
        .flat_map(|chunk| {
            let asked = chunk.iter().map(|id| (Kind::Check, vec![id.clone()]));
            std::iter::once((Kind::Notify, chunk.to_vec())).chain(asked)
        })
        .collect();
    assert_eq!(order, expected);
}

/// How often each payment was looked up or asked about, or the chunk that begins with it announced.
fn times(pair: &Pair, kind: Kind) -> BTreeMap<String, usize> {
    let mut times = BTreeMap::new();
    for call in of_kind(&pair.bank.ledger().calls(), kind) {
        let first = call.payment_ids.first().cloned();
        *times.entry(first.unwrap_or_default()).or_default() += 1;
    }
    times
}

on_both_footings!(a_check_of_two_gateways_comes_to_its_end);

fn a_check_of_two_gateways_comes_to_its_end(footing: &Footing) {
    let pair = footing.pair("");
    let asked = [ids("stripe", 7), ids("adyen", 2)].concat();
    let check = started(pair.server.address, &asked);
    let told = ended(pair.server.address, &check);
    let found = json!({"adyen": ids("adyen", 2), "stripe": ids("stripe", 7)});
    assert_eq!(told["result"]["successful"], found, "{told}");
    assert_eq!(told["progress"]["chunksCompleted"], 3, "{told}");
    assert_eq!(times(&pair, Kind::Check).len(), 9);
    if let Footing::Temporal(namespace) = footing {
        status_check_queries::assert_tells_its_progress(namespace, &check, &told["progress"]);
        status_check_queries::a_check_says_how_far_it_is_and_stops_its_gateways(&pair, namespace);
    }
}

#[test]
fn failures_stay_where_they_belong() {
    failures(&pair(QUICK));
}

#[test]
fn failures_stay_where_they_belong_on_postgresql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let url = runtime.block_on(shared().database());
    failures(&pair_on(&url, QUICK));
}

fn failures(pair: &Pair) {
    let address = pair.server.address;
    let faults = "lookups of payment gone: 500; lookups of payment html: garbage;\
        lookups of payment empty: empty; lookups of payment away: reset; lookups of payment no: 403;\
        lookup 1 of payment stripe:1: 503; notifies of payment stripe:6: 500;\
        notifies of payment paypal:1: 400; checks of payment stripe:2: 400;\
        checks of payment stripe:3: 500; checks 1-2 of payment stripe:4: reset;\
        checks of payment stripe:11: garbage";
    pair.bank.set_faults(faults.parse().unwrap());
    let ledger = pair.bank.ledger();
    ledger.put_document("payments", "nameless", json!({"amount": 5}));
    ledger.put_document("payments", "long", json!({"gatewayName": "x".repeat(200)}));
    ledger.put_document("payments", "odd", json!({"gatewayName": "é\r\nX-Evil: 1"}));
    let lost = ["gone", "html", "empty", "away", "no", "nameless", "long"];
    let mut asked = ids("stripe", 11);
    asked.extend(ids("paypal", 2));
    asked.extend(lost.map(str::to_owned));
    asked.push("odd".to_owned());
    let told = ended(address, &started(address, &asked));
    assert_eq!(told["status"], "COMPLETED", "{told}");
    let progress = json!({"totalPayments": 21, "gatewaysIdentified": 3, "chunksTotal": 5,
        "chunksCompleted": 5, "chunksFailed": 4, "currentPhase": "COMPLETED"});
    assert_eq!(told["progress"], progress);
    let result = &told["result"];
    assert_eq!(result["gatewayLookupFailed"], json!(lost));
    let worked = json!({"stripe": ["stripe:1", "stripe:4", "stripe:5", "stripe:11"]});
    assert_eq!(
        result["successful"], worked,
        "asked about, whatever the answer says"
    );
    let down = "IdbFacadeException: status 500: Gateway unavailable (GATEWAY_ERROR)";
    let unknown = "status 500: Payment not found in gateway (PAYMENT_NOT_FOUND)";
    let refused = "status 400: Payment not found in gateway (PAYMENT_NOT_FOUND)";
    let stripe = json!([
        {"chunkIndex": 0, "paymentIds": ["stripe:2"], "stage": "PGI",
         "error": format!("PgiGatewayException: {refused}")},
        {"chunkIndex": 0, "paymentIds": ["stripe:3"], "stage": "PGI",
         "error": format!("PgiGatewayException: {unknown}")},
        {"chunkIndex": 1, "paymentIds": asked[5..10], "stage": "IDB", "error": down},
    ]);
    assert_eq!(result["failed"]["stripe"], stripe);
    assert_eq!(result["failed"]["paypal"][0]["stage"], "IDB");
    let odd = &result["failed"]["é\r\nX-Evil: 1"][0];
    assert!(odd["error"].as_str().unwrap().contains("header"), "{odd}");
    assert_tries(pair);
    assert_counted_and_logged(pair);
}

fn assert_counted_and_logged(pair: &Pair) {
    let metrics = get(pair.server.address, "/metrics").unwrap().text;
    let failed = |service: &str, count: u32| {
        format!("tollgate_status_check_failed_calls_total{{service=\"{service}\"}} {count}\n")
    };
    for line in [
        "tollgate_status_checks_started_total 1\n",
        "tollgate_status_checks_ended_total{end=\"completed\"} 1\n",
        &failed("idb_facade", 5),
        &failed("pgi_gateway", 6),
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    assert!(metrics.contains("failed_calls_total{service=\"elasticsearch\"}"));
    eventually("the log says all of it", LONG, || {
        let log = pair.server.log();
        let says = |words: &[&str]| {
            let line = |line: &String| words.iter().all(|words| line.contains(words));
            log.iter().any(line)
        };
        let all = says(&["a status check has started", "payments=21"])
            && says(&["has looked up its payments", "gateways=3", "chunks=5"])
            && says(&["has queried every gateway"])
            && says(&["a status check has completed", "failed=4"])
            && says(&[
                "a call of a status check failed",
                "payment=\"gone\"",
                "attempt=3",
            ]);
        all.then_some(())
    });
}

/// Only what may pass is tried again, three times in all.
fn assert_tries(pair: &Pair) {
    let (lookups, checks) = (times(pair, Kind::Lookup), times(pair, Kind::Check));
    let tries = |times: &BTreeMap<String, usize>, id: &str| times.get(id).copied().unwrap_or(0);
    for (id, expected) in [
        ("gone", 3),
        ("away", 3),
        ("no", 1),
        ("html", 1),
        ("stripe:1", 2),
    ] {
        assert_eq!(tries(&lookups, id), expected, "{id}");
    }
    for (id, expected) in [
        ("stripe:2", 1),
        ("stripe:3", 3),
        ("stripe:4", 3),
        ("stripe:6", 0),
    ] {
        assert_eq!(tries(&checks, id), expected, "{id}");
    }
    let notifies = times(pair, Kind::Notify);
    for (id, expected) in [
        ("stripe:6", 3),
        ("paypal:1", 1),
        ("odd", 0),
        ("stripe:11", 1),
    ] {
        assert_eq!(tries(&notifies, id), expected, "{id}");
    }
}

#[test]
fn whatever_is_wrong_with_a_request_is_told_as_documented() {
    let pair = pair("");
    let address = pair.server.address;
    let asked = |body: &Value| post(address, "/payments/check-status", body).unwrap();
    let empty = asked(&json!({"paymentIds": []}));
    assert_eq!(empty.status, 400);
    let documented =
        json!({"error": "Validation failed", "details": {"paymentIds": "must not be empty"}});
    assert_eq!(empty.body, documented);
    let table = [
        json!({}),
        json!({"paymentIds": vec!["p"; 10_001]}),
        json!({"paymentIds": [" "]}),
        json!({"paymentIds": [7]}),
        json!({"paymentIds": "p"}),
        json!({"paymentIds": ["p"], "config": {}}),
        json!([]),
    ];
    for body in table {
        let answer = asked(&body);
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(answer.body["error"], "Validation failed");
    }
    let raw = |kind: &str, body: &str| post_raw(address, "/payments/check-status", kind, body);
    assert_eq!(raw("application/json", "{").unwrap().status, 400);
    assert_eq!(raw("text/plain", "{}").unwrap().status, 415);
    let huge = format!("{{\"paymentIds\": [\"{}\"]}}", "x".repeat(4 << 20));
    // The answer may be lost while the client still sends.
    if let Ok(answer) = raw("application/json", &huge) {
        assert_eq!(answer.status, 413, "{}", answer.text);
        assert!(answer.text.contains("3 MiB"), "{}", answer.text);
    }
    let none = "payment-check-550e8400-e29b-41d4-a716-446655440000";
    for id in [none, "payment-check-invalid-id", "init-payment-p"] {
        let unknown = get(address, &format!("/payments/check-status/{id}")).unwrap();
        assert_eq!(unknown.status, 404);
        let documented =
            json!({"workflowId": id, "status": "NOT_FOUND", "progress": null, "result": null});
        assert_eq!(unknown.body, documented);
    }
    assert_eq!(pair.bank.ledger().calls(), [], "nobody was asked anything");
}

#[test]
fn calls_about_a_gateway_with_a_lane_take_turns_in_it_within_their_share() {
    let bank = "downstream.gateways.acme.url = \"http://127.0.0.1:9\"\n\
                downstream.gateways.acme.lane = \"acme\"\n\
                lanes.acme = {max_per_window = 100, window_size_secs = 4, max_per_second = 50}\n";
    let pair = pair(bank);
    let address = pair.server.address;
    let mut asked = ids("acme", 8);
    asked.extend(ids("other", 3));
    let told = ended(address, &started(address, &asked));
    assert_eq!(told["progress"]["chunksFailed"], 0, "{told}");
    let calls = pair.bank.ledger().calls();
    let mine = |call: &&ServiceCall| call.gateway.as_deref() == Some("acme");
    let mut begins: Vec<Duration> = calls.iter().filter(mine).map(|call| call.began).collect();
    begins.sort();
    assert_eq!(begins.len(), 2 + 8);
    let proof = get(address, "/admin/rate-limit/certificate?lane=acme").unwrap();
    let sends = proof.body["sends"].as_u64().unwrap();
    // A turn that was missed on a busy machine stays in the log.
    assert!(sends >= 10, "{}", proof.text);
    assert_eq!(proof.body["holds"], true, "{}", proof.text);
    let took = begins.last().unwrap().saturating_sub(begins[0]);
    // A fifth of fifty a second: ten calls are nine distances of a tenth of a second.
    assert!(took >= Duration::from_millis(800), "{took:?}");
}

#[test]
fn the_command_waits_shows_what_failed_and_says_so_in_its_code() {
    let pair = pair(QUICK);
    let server = format!("http://{}", pair.server.address);
    let run = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        let output = command
            .arg("check-status")
            .args(args)
            .args(["--server", &server]);
        let output = output.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, out, talk) = run(&["stripe:1", "adyen:1"]);
    assert_eq!(code, Some(0), "{out}{talk}");
    assert!(out.contains("COMPLETED, 2 payments"), "{out}");
    pair.bank.set_faults(
        "checks of payment stripe:2: 400; lookups of payment x: 404"
            .parse()
            .unwrap(),
    );
    let file = pair.setting.folder.path().join("ids.txt");
    std::fs::write(&file, "stripe:1\n\n  stripe:2\r\nx\n").unwrap();
    let (code, out, _) = run(&["--file", file.to_str().unwrap()]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("stripe:2") && out.contains("PGI"), "{out}");
    assert!(out.contains("could not be looked up"), "{out}");
    let (code, out, _) = run(&["stripe:2", "--json"]);
    assert_eq!(code, Some(1), "{out}");
    let answer: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(answer["result"]["failed"]["stripe"][0]["stage"], "PGI");
    for bad in [vec!["a b"], vec!["--file", "/nowhere/ids"], vec![]] {
        let (code, out, talk) = run(&bad);
        assert_eq!(code, Some(2), "{bad:?}: {talk}");
        assert!(out.is_empty() && !talk.is_empty());
    }
}

/// Both are sent once and never answered for; one of them took effect.
const SILENT: &str = "sends of payment done: reset after; sends of payment undone: reset before;\
     probes: 500";

#[test]
fn all_in_doubt_of_today_are_asked_about_and_only_evidence_ends_a_doubt() {
    let keys = "downstream.payments.honours_idempotency_key = false";
    let pair = pair(&format!("{keys}\nin_doubt.ask = \"services\"\n"));
    let address = pair.server.address;
    pair.bank.set_faults(SILENT.parse().unwrap());
    let status = |id: &str| {
        let told = get(address, &format!("/payments/{id}")).unwrap();
        told.body["status"].as_str().unwrap_or_default().to_owned()
    };
    for id in ["done", "undone"] {
        let made = post(address, "/payments", &payment(id)).unwrap();
        assert_eq!(made.status, 201, "{}", made.text);
        eventually("it is in doubt", LONG, || {
            (status(id) == "IN_DOUBT").then_some(())
        });
    }
    let ask = |body: Value| post(address, "/admin/in-doubt/ask", &body).unwrap();
    let other_day = ask(json!({"date": "2020-01-01", "zone": "Europe/Berlin"}));
    assert_eq!(
        (other_day.status, &other_day.body["payments"]),
        (200, &json!(0))
    );
    assert_eq!(ask(json!({"date": "today"})).status, 400);
    // Not noted while the bank itself is being asked: then it is asked for again.
    eventually("the doubt is over", LONG, || {
        let asked = ask(json!({}));
        if asked.status == 202 {
            for check in asked.body["workflowIds"].as_array().unwrap() {
                ended(address, check.as_str().unwrap());
            }
        }
        (status("done") == "PROCESSING").then_some(())
    });
    assert_eq!(status("undone"), "IN_DOUBT", "pending proves nothing");
    let told = get(address, "/payments/done").unwrap();
    assert!(
        told.text
            .contains("status-check found that it was executed"),
        "{}",
        told.text
    );
    let effective = pair.bank.ledger().effective();
    assert_eq!(effective.get("done"), Some(&1));
    assert_eq!(effective.get("undone"), None);
    let server = format!("http://{address}");
    let command = ["in-doubt", "ask", "--today", "--server", &server];
    let output = Command::new(BINARY).args(command).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && out.starts_with("payments asked about: 1\n"),
        "{out}"
    );
}
