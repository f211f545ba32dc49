//! The console's pages of status checks, invoices, what is in doubt and imports, each as its readers go
//! through it.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_core::Timestamp;

use crate::checks::status_checks::{LONG, QUICK};
use crate::fixture::http::{Response, get, post, send};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::eventually;
use crate::fixture::tokens::{auth, token};
use crate::pages::console::{Reader, header};

/// What somebody may write wherever a text is asked for.
const NASTY: &str = "<script>alert(1)</script>";
const NASTY_IN_A_FORM: &str = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";

fn assert_whole(page: &Response, path: &str) {
    assert_eq!(page.status, 200, "{path}: {}", page.text);
    assert!(!page.text.contains(NASTY), "{path}: {}", page.text);
}

/// Where an act leads its reader.
fn led(answer: &Response) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text);
    header(answer, "location").to_owned()
}

/// Whether these come in this order on a page.
fn in_order(page: &str, texts: &[&str]) -> bool {
    let places = texts.iter().map(|text| page.find(text));
    let places: Option<Vec<usize>> = places.collect();
    places.is_some_and(|places| places.is_sorted())
}

#[test]
fn a_status_check_is_begun_by_pasting_ids_and_tells_how_far_each_gateway_is() {
    let pair = pair(QUICK);
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let empty = reader.page("/console/status-checks");
    assert!(empty.text.contains("No status checks, or"));
    let faults = "lookups of payment lost: 404; checks of payment stripe:2: 400";
    pair.bank.set_faults(faults.parse().unwrap());
    let ledger = pair.bank.ledger();
    ledger.put_document("payments", "odd", json!({"gatewayName": NASTY}));

    let (path, csrf) = ("/console/status-checks", reader.csrf());
    let none = reader.form(path, &format!("csrf={csrf}&ids=%20"));
    assert_eq!(none.status, 400);
    assert!(none.text.contains("paymentIds"), "{}", none.text);
    let ids = "stripe:1%0D%0Astripe:2,+adyen:1%0D%0Alost+odd";
    let begun = led(&reader.form(path, &format!("csrf={csrf}&ids={ids}")));
    assert!(begun.starts_with("/console/status-checks/payment-check-"));
    let page = eventually("it has ended", LONG, || {
        let page = reader.page(&begun);
        assert_whole(&page, &begun);
        page.text.contains("COMPLETED").then_some(page.text)
    });
    for part in ["By gateway", "<bdi>adyen</bdi>", "Failed", "PGI"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let lookups = "No gateway found for</h2><p class=\"why\"><bdi>lost</bdi>";
    assert!(page.contains(lookups), "{page}");
    let (id, _) = begun.rsplit_once('?').unwrap();
    let listed = reader.page(path).text;
    assert!(listed.contains(&format!("<a href=\"{id}\">")), "{listed}");
    let unknown = reader.page("/console/status-checks/none");
    assert_eq!(unknown.status, 404);
    assert!(unknown.text.contains("there is no status check none"));
    pages_of_checks(address);
}

/// The list goes on where a page has ended.
fn pages_of_checks(address: SocketAddr) {
    let wish = json!({"paymentIds": ["stripe:1"]});
    assert_eq!(
        post(address, "/payments/check-status", &wish)
            .unwrap()
            .status,
        202
    );
    let page = |asked: &str| {
        let path = format!("/payments/check-status?limit=1{asked}");
        get(address, &path).unwrap().body
    };
    let first = page("");
    let second = page(&format!("&after={}", first["next"].as_str().unwrap()));
    assert_ne!(
        first["checks"][0]["workflowId"],
        second["checks"][0]["workflowId"]
    );
    assert_eq!(second["checks"][0]["totalPayments"], 5);
    assert_eq!(second["next"], Value::Null);
    let wrong = get(address, "/payments/check-status?after=yesterday").unwrap();
    assert_eq!(wrong.status, 400, "{}", wrong.text);
}

#[test]
fn whoever_hands_in_sees_single_ones_and_no_list() {
    let roles = ["ingest", "read"].map(|role| token(role, role));
    let pair = pair(&auth(&roles.each_ref()));
    let [hands_in, reads] = roles
        .each_ref()
        .map(|role| Reader::signed_in(pair.server.address, &role.text));
    let forms = [
        (
            "/console/status-checks",
            "Start status check",
            "No status checks",
        ),
        ("/console/imports", "multipart/form-data", "No imports yet"),
        ("/console/invoices", "Find", "There are none."),
    ];
    for (path, form, list) in forms {
        let page = hands_in.page(path).text;
        assert!(
            page.contains(form) && !page.contains(list),
            "{path}: {page}"
        );
        assert!(reads.page(path).text.contains(list), "{path}");
    }
    let schedules = hands_in.page("/console/schedules");
    assert_eq!(schedules.status, 403);
    let read = reads.page("/console/schedules?cron=0+0+1+*+*").text;
    assert!(read.contains("Next times"), "{read}");
    assert!(!read.contains("Save"), "{read}");
}

fn with_invoice(pair: &Pair) {
    let address = pair.server.address;
    let customer = json!({"customerId": "c_1", "currency": "DKK", "timeZone": "UTC"});
    let invoice = json!({"invoiceId": "inv_1", "customerId": "c_1",
                         "amount": {"value": "100.00", "currency": "DKK"}, "schedule": null});
    for (path, body) in [("/customers", customer), ("/invoices", invoice)] {
        let made = post(address, path, &body).unwrap();
        assert_eq!(made.status, 201, "{}", made.text);
    }
}

#[test]
fn an_invoice_tells_when_its_schedule_comes_and_is_charged_when_a_person_says_so() {
    let pair = pair("");
    let reader = Reader::local(pair.server.address);
    let empty = reader.page("/console/invoices");
    assert!(empty.text.contains("There are none."), "{}", empty.text);
    with_invoice(&pair);
    let listed = reader.page("/console/invoices?status=PENDING").text;
    assert!(listed.contains("/console/invoices/inv_1"), "{listed}");
    assert!(listed.contains("100.00 DKK"), "{listed}");
    let path = "/console/invoices/inv_1";
    let page = reader.page(path).text;
    assert_eq!(page.matches("-01 00:00:00 UTC</li>").count(), 5, "{page}");

    let csrf = reader.csrf();
    let act = format!("{path}/reschedule");
    let silent = reader.form(&act, &format!("csrf={csrf}&reason=+"));
    assert_eq!(silent.status, 400, "{}", silent.text);
    let fields = format!("csrf={csrf}&at=2020-01-01T00:00:00Z&reason={NASTY_IN_A_FORM}");
    assert_eq!(
        led(&reader.form(&act, &fields)),
        "/console/invoices/inv_1?done=moved"
    );
    let page = eventually("it is paid", LONG, || {
        let page = reader.page(path);
        assert_whole(&page, path);
        page.text.contains(">PAID<").then_some(page.text)
    });
    for part in ["Checks before a charge", "Attempts", "DONE"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<h2>Act</h2>"), "it is not charged again");
    let totals = reader.page("/console/totals?type=INVOICE").text;
    assert!(totals.contains("?status=PAID\">PAID</a>"), "{totals}");
    assert!(totals.contains("<tfoot><tr><th>all</th>"), "{totals}");
    assert!(!reader.page("/console/totals").text.contains("PAID"));
}

#[test]
fn a_schedule_is_seen_before_it_is_saved_and_not_over_somebody_elses_change() {
    let pair = pair("");
    let reader = Reader::local(pair.server.address);
    with_invoice(&pair);
    let path = "/console/schedules";
    let now = reader.page(path).text;
    assert_eq!(now.matches("-01 00:00:00 UTC</li>").count(), 5, "{now}");
    let asked = "cron=30+4+2+*+*&zone=UTC&calendar=";
    let then = reader.page(&format!("{path}?{asked}")).text;
    assert_eq!(then.matches("-02 04:30:00 UTC</li>").count(), 5, "{then}");
    let unsaved = reader.page(path).text;
    assert!(!unsaved.contains("04:30:00"), "nothing is saved by looking");

    let fields = format!(
        "csrf={}&customer=&invoice=&version=0&{asked}&reason={NASTY_IN_A_FORM}",
        reader.csrf()
    );
    assert_eq!(
        led(&reader.form(path, &fields)),
        "/console/schedules?done=scheduled"
    );
    let saved = reader.page(path);
    assert_whole(&saved, path);
    assert_eq!(saved.text.matches("-02 04:30:00 UTC</li>").count(), 5);
    let stale = reader.form(path, &fields);
    assert_eq!(stale.status, 409, "{}", stale.text);
    let wrong = reader.page(&format!("{path}?cron={NASTY_IN_A_FORM}"));
    assert_eq!(wrong.status, 400);
    assert!(!wrong.text.contains(NASTY), "{}", wrong.text);

    let of_customer = format!("{path}?customer=c_1");
    assert!(
        reader
            .page(&of_customer)
            .text
            .contains("No schedule of its own")
    );
    let own = fields.replace("customer=&", "customer=c_1&");
    assert_eq!(
        led(&reader.form(path, &own)),
        "/console/schedules?customer=c_1&done=scheduled"
    );
    let invoice = reader.page("/console/invoices/inv_1").text;
    assert!(invoice.contains("-02 04:30:00 UTC</li>"), "{invoice}");
    assert_eq!(reader.page(&format!("{path}?customer=nobody")).status, 404);
}

/// The bank does the work and hangs up without an answer, then says nothing useful when asked.
const SILENT: &str = "sends: reset after; probes: 500";

#[test]
fn what_is_in_doubt_is_worked_through_newest_oldest_or_largest_first_and_asked_about() {
    let pair = pair("downstream.payments.honours_idempotency_key = false\n");
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let empty = reader.page("/console/in-doubt").text;
    assert!(empty.contains("Nothing is in doubt."), "{empty}");
    pair.bank.set_faults(SILENT.parse().unwrap());
    let mut large = payment("a-large");
    large["amount"] = json!("900.00");
    for (id, body) in [("z-old", payment("z-old")), ("a-large", large)] {
        pair.pay(&body);
        eventually("it is in doubt", LONG, || {
            (pair.shown(id)["status"] == "IN_DOUBT").then_some(())
        });
    }
    let newest = reader.page("/console/in-doubt").text;
    assert!(
        in_order(&newest, &["<bdi>a-large", "<bdi>z-old"]),
        "{newest}"
    );
    let oldest = reader.page("/console/in-doubt?order=oldest").text;
    assert!(
        in_order(&oldest, &["<bdi>z-old", "<bdi>a-large"]),
        "{oldest}"
    );
    assert!(oldest.contains("largest in USD first"), "{oldest}");
    let largest = reader
        .page("/console/in-doubt?order=largest&currency=USD")
        .text;
    assert!(
        in_order(&largest, &["<bdi>a-large", "<bdi>z-old"]),
        "{largest}"
    );
    let invoices = reader.page("/console/in-doubt?type=INVOICE").text;
    assert!(invoices.contains("Nothing is in doubt."), "{invoices}");
    let now = eventually("the first page tells it", LONG, || {
        let page = reader.page("/").text;
        page.contains("In doubt: 2</a>").then_some(page)
    });
    assert!(now.contains("1025.50 USD"), "{now}");

    let fields = format!("csrf={}&id=z-old", reader.csrf());
    let asked = eventually("the bank is asked", LONG, || {
        let answer = reader.form("/console/ask", &fields);
        (answer.status == 303).then(|| led(&answer))
    });
    assert_eq!(asked, "/console/in-doubt?done=unproved");
    assert!(reader.page(&asked).text.contains("The banks were asked."));
    let of_a_day = format!("csrf={}&date=2020-01-01&zone=", reader.csrf());
    let nothing = led(&reader.form("/console/ask", &of_a_day));
    assert_eq!(nothing, "/console/in-doubt?done=nothing");
    let unnamed = get(address, "/admin/in-doubt?order=largest").unwrap();
    assert_eq!(unnamed.status, 400, "{}", unnamed.text);
    assert!(unnamed.body["details"]["currency"].is_string());
}

#[test]
fn dead_letters_have_a_tab_for_each_type() {
    let pair = pair("");
    let reader = Reader::local(pair.server.address);
    for item_type in ["PAYMENT", "INVOICE", "NOTIFICATION"] {
        let page = reader.page(&format!("/console/dead-letters?type={item_type}"));
        let here = format!("aria-current=\"true\">{item_type}</a>");
        assert!(page.text.contains(&here), "{}", page.text);
    }
    assert_eq!(reader.page("/console/dead-letters?type=LETTER").status, 404);
}

#[test]
fn an_import_needs_its_proof_before_the_file_and_is_then_in_the_list() {
    let pair = pair("");
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let csrf = reader.csrf();
    let proof = |csrf: &str| {
        format!("--x\r\ncontent-disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n")
    };
    let file = format!(
        "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f.ndjson\"\r\n\r\n{}\n\r\n",
        payment("good")
    );
    let kind = "content-type: multipart/form-data; boundary=x";
    let upload = |body: String, headers: &str| {
        let headers = format!("{kind}{headers}");
        let body = format!("{body}--x--\r\n");
        send(address, "POST", "/console/imports", &headers, &body).unwrap()
    };
    let ours = proof(&csrf);
    let refused = [
        upload(file.clone(), ""),
        upload(format!("{file}{ours}"), ""),
        upload(format!("{}{file}", proof("00")), ""),
        upload(format!("{}{file}", proof(&csrf.repeat(2))), ""),
        upload(format!("{ours}{file}"), "\r\nsec-fetch-site: cross-site"),
    ];
    for answer in refused {
        assert_eq!(answer.status, 403, "{}", answer.text);
    }
    let none = reader.page("/console/imports").text;
    assert!(none.contains("No imports yet."), "{none}");
    assert_eq!(upload(ours.clone(), "").status, 400, "no file");
    let taken = led(&upload(format!("{ours}{file}"), ""));
    let listed = eventually("it is done", LONG, || {
        let page = reader.page("/console/imports").text;
        page.contains("<td>DONE</td>").then_some(page)
    });
    assert!(
        listed.contains(&format!("<a href=\"{taken}\">")),
        "{listed}"
    );
    assert!(
        listed.contains("<progress max=\"1\" value=\"1\">"),
        "{listed}"
    );
    let told = get(address, "/payments/bulk?limit=1").unwrap().body;
    assert_eq!(told["batches"][0]["accepted"], 1, "{told}");
    assert_eq!(told["next"], Value::Null, "{told}");
}

#[test]
fn deadlines_that_the_plan_misses_are_told_on_the_first_page() {
    let pair = pair("");
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let slow = json!({"configName": "default", "maxPerWindow": 1, "windowSizeSecs": 60,
                      "maxPerSecond": 1, "reason": "a slow bank"});
    let changed = post(address, "/admin/rate-limit/config", &slow).unwrap();
    assert_eq!(changed.status, 200, "{}", changed.text);
    let now = get(address, "/admin/now").unwrap().body;
    let now: Timestamp = now["now"].as_str().unwrap().parse().unwrap();
    let hour = now + Duration::from_hours(1);
    for id in ["p1", "p2", "p3"] {
        let mut due = payment(id);
        due["executeAt"] = json!(hour.to_string());
        due["deadline"] = json!((hour + Duration::from_secs(59)).to_string());
        pair.pay(&due);
    }
    let page = eventually("it is told", LONG, || {
        let page = reader.page("/").text;
        page.contains("deadlines at risk</dt><dd class=\"bad\">")
            .then_some(page)
    });
    let told = get(address, "/admin/now").unwrap().body;
    let late = &told["lanes"][0]["late"];
    assert!(late.as_u64().is_some_and(|late| late > 0), "{told} {page}");
}
