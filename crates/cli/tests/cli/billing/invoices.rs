//! Invoices over HTTP and with the commands, from their customer to their end.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_sandbox::Bank;

use crate::fixture::footing::{Footing, on_both_footings};
use crate::fixture::http::{get, post, put, send};
use crate::fixture::pair::{Pair, pair};
use crate::fixture::served::eventually;

const PATIENCE: Duration = Duration::from_mins(1);

fn customer() -> Value {
    json!({"customerId": "c_1", "currency": "DKK", "timeZone": "Europe/Copenhagen"})
}

pub(crate) fn invoice(id: &str) -> Value {
    json!({"invoiceId": id, "customerId": "c_1", "amount": {"value": "100.00", "currency": "DKK"}, "schedule": null})
}

pub(crate) fn with_customer(pair: Pair) -> Pair {
    let created = post(pair.server.address, "/customers", &customer()).unwrap();
    assert_eq!(created.status, 201, "{}", created.body);
    pair
}

fn status(address: SocketAddr, id: &str) -> String {
    let shown = get(address, &format!("/invoices/{id}")).unwrap().body;
    shown["status"].as_str().unwrap_or_default().to_owned()
}

/// An invoice that is due at once, on whatever engine, as it is shown after its end.
pub(crate) fn charged_once(address: SocketAddr, provider: &Bank) -> Value {
    assert_eq!(
        post(address, "/customers", &customer()).unwrap().status,
        201
    );
    let mut due = invoice("inv_1");
    due["schedule"] = json!({"cron": "* * * * * *"});
    assert_eq!(post(address, "/invoices", &due).unwrap().status, 201);
    eventually("it is paid", PATIENCE, || {
        (status(address, "inv_1") == "PAID").then_some(())
    });
    let charged = provider.ledger().effective();
    assert_eq!(charged.get("invoice/inv_1"), Some(&1));
    get(address, "/invoices/inv_1").unwrap().body
}

fn until_paid(pair: &Pair, id: &str) {
    eventually("it is paid", PATIENCE, || {
        (status(pair.server.address, id) == "PAID").then_some(())
    });
}

on_both_footings!(an_invoice_goes_from_its_customer_to_paid_and_tells_everything);

fn an_invoice_goes_from_its_customer_to_paid_and_tells_everything(footing: &Footing) {
    let pair = with_customer(footing.pair(""));
    let address = pair.server.address;
    assert_eq!(
        post(address, "/customers", &customer()).unwrap().status,
        200
    );
    let mut other = customer();
    other["currency"] = json!("EUR");
    assert_eq!(post(address, "/customers", &other).unwrap().status, 409);

    let created = post(address, "/invoices", &invoice("inv_1")).unwrap();
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(created.body["status"], "PENDING");
    assert_eq!(
        created.body["amount"],
        json!({"value": "100.00", "currency": "DKK"})
    );
    let again = post(address, "/invoices", &invoice("inv_1")).unwrap();
    assert_eq!((again.status, &again.body), (200, &created.body));
    let mut changed = invoice("inv_1");
    changed["amount"]["value"] = json!("100.01");
    assert_eq!(post(address, "/invoices", &changed).unwrap().status, 409);

    let moved = post(
        address,
        "/invoices/inv_1/reschedule",
        &json!({"at": "2020-01-01T00:00:00Z"}),
    );
    assert_eq!(moved.unwrap().status, 200);
    until_paid(&pair, "inv_1");
    let shown = get(address, "/invoices/inv_1").unwrap().body;
    assert_eq!(shown["attempts"][0]["outcome"], "DONE", "{shown}");
    let checked = &shown["checks"][0];
    assert_eq!(
        (&checked["check"], &checked["verdict"]),
        (&json!("all"), &json!("continue"))
    );
    let told = shown["timeline"].to_string();
    for part in [
        "accepted",
        "rescheduled by local",
        "checked by all: continue: ",
        "sent to the provider",
        "the provider confirmed it",
        "ended",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let ledger = pair.bank.ledger();
    assert_eq!(ledger.effective().get("invoice/inv_1"), Some(&1));
    let keys: Vec<_> = ledger
        .entries()
        .into_iter()
        .filter_map(|entry| entry.key)
        .collect();
    assert_eq!(keys, ["invoice-inv_1-1"]);

    let refused = post(address, "/invoices/inv_1/reschedule", &json!({})).unwrap();
    assert_eq!(refused.status, 409);
    assert!(
        refused.body["error"].as_str().unwrap().contains("PAID"),
        "{}",
        refused.body
    );
    let totals = get(address, "/admin/totals").unwrap().body;
    assert_eq!(totals["invoices"][0]["status"], "PAID", "{totals}");
    let metrics = get(address, "/metrics").unwrap().text;
    assert!(
        metrics.contains("tollgate_invoice_checks_total{check=\"all\",verdict=\"continue\"} 1")
    );
}

#[test]
fn every_bad_input_is_refused_by_the_name_of_its_field() {
    let pair = with_customer(pair(""));
    let address = pair.server.address;
    let with = |field: &str, value: Value| {
        let mut body = invoice("inv_1");
        body[field] = value;
        body
    };
    let amount =
        |value: &str, currency: &str| with("amount", json!({"value": value, "currency": currency}));
    let invoices = [
        (amount("0", "DKK"), "amount.value"),
        (amount("-1.00", "DKK"), "amount.value"),
        (amount("1.00", "EUR"), "amount.currency"),
        (with("customerId", json!("c_9")), "customerId"),
        (
            with("schedule", schedule("0 0 31 2 *", "UTC")),
            "schedule.cron",
        ),
        (
            with("schedule", schedule("0 0 1 * *", "Mars/Base")),
            "schedule.timeZone",
        ),
        (with("colour", json!("red")), "colour"),
    ];
    for (body, field) in invoices {
        let answer = post(address, "/invoices", &body).unwrap();
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        assert!(
            answer.body["details"][field].is_string(),
            "{field}: {}",
            answer.body
        );
    }
}

#[test]
fn an_invoice_whose_schedule_fires_every_second_is_taken_in_with_a_warning() {
    let pair = with_customer(pair(""));
    let address = pair.server.address;
    let mut rapid = invoice("inv_1");
    rapid["schedule"] = json!({"cron": "* * * * * *"});
    let first = post(address, "/invoices", &rapid).unwrap();
    assert_eq!(first.status, 201, "{}", first.body);
    let warning = first.body["warning"].as_str().unwrap();
    assert!(warning.contains("once an hour"), "{warning}");
    let again = post(address, "/invoices", &rapid).unwrap();
    assert_eq!(
        (again.status, &again.body["warning"]),
        (200, &first.body["warning"])
    );
    let plain = post(address, "/invoices", &invoice("inv_2")).unwrap();
    assert_eq!((plain.status, plain.body.get("warning")), (201, None));
}

#[test]
fn customers_are_listed_page_by_page_and_changed_by_people() {
    let pair = with_customer(pair(""));
    let address = pair.server.address;
    for n in 2..=5 {
        let mut other = customer();
        other["customerId"] = json!(format!("c_{n}"));
        assert_eq!(post(address, "/customers", &other).unwrap().status, 201);
    }
    let page = |query: &str| {
        let page = get(address, &format!("/customers?{query}")).unwrap();
        assert_eq!(page.status, 200, "{}", page.body);
        let customers = page.body["customers"].as_array().unwrap().iter();
        let ids: Vec<_> = customers.map(|one| one["customerId"].clone()).collect();
        (json!(ids), page.body["next"].clone())
    };
    assert_eq!(
        page("limit=3"),
        (json!(["c_1", "c_2", "c_3"]), json!("c_3"))
    );
    let rest = (json!(["c_4", "c_5"]), Value::Null);
    assert_eq!(page("limit=3&after=c_3"), rest);
    assert_eq!(get(address, "/customers?limit=0").unwrap().status, 400);

    let change = |id: &str, body: Value| put(address, &format!("/customers/{id}"), &body).unwrap();
    let to = |currency: &str, zone: &str| json!({"currency": currency, "timeZone": zone, "reason": "moved"});
    assert_eq!(change("c_9", to("DKK", "UTC")).status, 404);
    let wrong = change("c_1", to("KRONER", "Nowhere"));
    assert_eq!(wrong.status, 400);
    for field in ["currency", "timeZone"] {
        assert!(wrong.body["details"][field].is_string(), "{}", wrong.body);
    }
    let changed = change("c_1", to("EUR", "Asia/Tokyo"));
    assert_eq!(changed.status, 200, "{}", changed.body);
    let shown = get(address, "/customers/c_1").unwrap().body;
    assert_eq!(shown, changed.body);
    assert_eq!(
        (&shown["currency"], &shown["timeZone"]),
        (&json!("EUR"), &json!("Asia/Tokyo"))
    );

    // Its invoices would be in another currency than it pays in.
    let mut owed = invoice("inv_1");
    owed["amount"]["currency"] = json!("EUR");
    assert_eq!(post(address, "/invoices", &owed).unwrap().status, 201);
    let refused = change("c_1", to("DKK", "Asia/Tokyo"));
    assert_eq!(refused.status, 409, "{}", refused.body);
    let why = refused.body["error"].as_str().unwrap();
    assert!(
        why.starts_with("currency: ") && why.contains("1 outstanding invoice in EUR"),
        "{why}"
    );
    assert_eq!(
        change("c_1", to("EUR", "UTC")).status,
        200,
        "the zone alone"
    );
}

fn schedule(cron: &str, zone: &str) -> Value {
    json!({"cron": cron, "timeZone": zone, "calendar": null})
}

#[test]
fn every_bad_schedule_is_refused_by_the_name_of_its_field() {
    let pair = pair("");
    let address = pair.server.address;
    let schedules = [
        (schedule("0 0 31 2 *", "UTC"), "cron"),
        (schedule("every day", "UTC"), "cron"),
        (schedule("0 0 1 * *", "Nowhere"), "timeZone"),
        (json!({"cron": "0 0 1 * *", "calendar": "none"}), "calendar"),
    ];
    for (body, field) in schedules {
        let answer = put(address, "/billing/schedules/global", &body).unwrap();
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        assert!(
            answer.body["details"][field].is_string(),
            "{field}: {}",
            answer.body
        );
    }
    let unknown = put(
        address,
        "/billing/schedules/customer/c_9",
        &schedule("0 0 1 * *", "UTC"),
    )
    .unwrap();
    assert_eq!(unknown.status, 404);
    let rapid = post(
        address,
        "/billing/schedules/preview",
        &json!({"cron": "* * * * * *"}),
    )
    .unwrap();
    assert_eq!(rapid.status, 200);
    assert!(
        rapid.body["warning"]
            .as_str()
            .unwrap()
            .contains("once an hour")
    );
    assert_eq!(rapid.body["nextOccurrences"].as_array().unwrap().len(), 5);
    let saved = put(
        address,
        "/billing/schedules/global",
        &json!({"cron": "* * * * * *"}),
    )
    .unwrap();
    assert_eq!(saved.status, 200, "{}", saved.body);
    assert_eq!(saved.body["warning"], rapid.body["warning"]);
    let deleted = send(
        address,
        "DELETE",
        "/billing/schedules/global",
        "accept: */*",
        "",
    )
    .unwrap();
    assert_eq!(deleted.status, 409);
    assert!(
        deleted.body["error"]
            .as_str()
            .unwrap()
            .contains("schedule: "),
        "{}",
        deleted.body
    );
}

#[test]
fn a_schedule_in_use_is_not_deleted_and_who_uses_it_is_told() {
    let pair = with_customer(pair(""));
    let address = pair.server.address;
    let path = "/billing/schedules/customer/c_1";
    let delete = |query: &str| {
        let path = format!("{path}{query}");
        send(address, "DELETE", &path, "accept: */*", "").unwrap()
    };
    assert_eq!(delete("").status, 404, "there is none");
    let put = put(address, path, &schedule("0 0 1 * *", "UTC")).unwrap();
    assert_eq!(put.status, 200, "{}", put.body);
    for id in ["inv_1", "inv_2"] {
        assert_eq!(
            post(address, "/invoices", &invoice(id)).unwrap().status,
            201
        );
    }
    let refused = delete("");
    assert_eq!(refused.status, 409, "{}", refused.body);
    let why = refused.body["error"].as_str().unwrap();
    for part in [
        "schedule: ",
        "2 outstanding invoices",
        "replace it",
        "force",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    assert_eq!(delete("?force=perhaps").status, 400);
    assert_eq!(delete("?force=true&reason=monthly").status, 204);
}

#[test]
fn the_commands_do_what_the_api_does() {
    let pair = pair("");
    let run = |words: &[&str]| pair.tollgate(words).unwrap();
    run(&[
        "customers",
        "create",
        "c_1",
        "--currency",
        "DKK",
        "--time-zone",
        "Europe/Copenhagen",
        "--ladder",
        "1d,3d",
    ]);
    assert!(run(&["customers", "show", "c_1"]).contains("Europe/Copenhagen"));
    let words = ["customers", "change", "c_1", "--reason", "moved"];
    let moved = run(&[&words[..], &["--time-zone", "Asia/Tokyo"]].concat());
    for part in ["Asia/Tokyo", "DKK", "3d"] {
        assert!(moved.contains(part), "{part}: {moved}");
    }
    assert!(run(&["customers", "list"]).contains("Asia/Tokyo"));
    let daily = run(&[
        "schedules",
        "put",
        "30 6 * * *",
        "--customer",
        "c_1",
        "--reason",
        "daily",
    ]);
    assert!(
        daily.contains("30 6 * * *") && daily.contains("Next"),
        "{daily}"
    );
    run(&[
        "invoices",
        "create",
        "inv_1",
        "--customer",
        "c_1",
        "--amount",
        "10",
        "--currency",
        "DKK",
    ]);
    assert!(run(&["invoices", "list"]).contains("inv_1"));
    run(&[
        "invoices",
        "reschedule",
        "inv_1",
        "--at",
        "2020-01-01T00:00:00Z",
        "--reason",
        "now",
    ]);
    until_paid(&pair, "inv_1");
    assert!(run(&["invoices", "show", "inv_1"]).contains("checked by all"));
    assert!(run(&["schedules", "show", "--customer", "c_1"]).contains("30 6 * * *"));
    assert!(
        run(&[
            "schedules",
            "delete",
            "--customer",
            "c_1",
            "--reason",
            "monthly again"
        ])
        .contains("deleted")
    );
    assert!(run(&["schedules", "show"]).contains("0 0 1 * *"));
    assert!(run(&["totals"]).contains("Invoices"));
}

#[test]
fn an_invoice_in_doubt_is_worked_through_by_a_person() {
    let keys = "downstream.invoices.honours_idempotency_key = false\n";
    let pair = with_customer(pair(keys));
    let address = pair.server.address;
    pair.bank
        .set_faults("sends: reset after; probes: 500".parse().unwrap());
    let mut due = invoice("inv_1");
    due["schedule"] = json!({"cron": "* * * * * *"});
    assert_eq!(post(address, "/invoices", &due).unwrap().status, 201);
    eventually("it is in doubt", PATIENCE, || {
        (status(address, "inv_1") == "IN_DOUBT").then_some(())
    });
    let busy = post(address, "/invoices/inv_1/reschedule", &json!({})).unwrap();
    assert_eq!(busy.status, 409, "{}", busy.body);
    let listed = pair.tollgate(&["in-doubt", "list"]).unwrap();
    assert!(
        listed.contains("inv_1") && listed.contains("100.00"),
        "{listed}"
    );
    let words = [
        "in-doubt",
        "resolve",
        "inv_1",
        "--type",
        "INVOICE",
        "--outcome",
        "done",
        "--sends",
        "1",
        "--reason",
        "asked",
    ];
    let told = eventually("it is resolved", PATIENCE, || match pair.tollgate(&words) {
        Err(why) if why.contains("try again in a moment") => None,
        told => Some(told.unwrap()),
    });
    assert!(told.contains("PAID"), "{told}");
    assert_eq!(
        pair.bank.ledger().effective().get("invoice/inv_1"),
        Some(&1)
    );
}
