//! Files of invoices, and invoices that people put right.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use crate::billing::invoices::{invoice, with_customer};
use crate::fixture::cable::{Cable, State};
use crate::fixture::footing::LONG;
use crate::fixture::http::{get, post};
use crate::fixture::pair::pair;
use crate::fixture::served::{BINARY, eventually};

#[test]
fn a_file_of_invoices_is_taken_in_and_what_is_refused_is_told_by_its_line() {
    let pair = with_customer(pair(""));
    let file = pair.setting.folder.path().join("invoices.ndjson");
    let lines = [invoice("inv_2").to_string(), invoice("inv_3").to_string()].join("\n");
    std::fs::write(&file, lines).unwrap();
    let file = file.to_str().unwrap();
    let told = pair.tollgate(&["invoices", "import", file]).unwrap();
    assert!(told.contains("2 invoices created"), "{told}");
    let told = pair.tollgate(&["invoices", "import", file]).unwrap();
    assert!(
        told.contains("0 invoices created, 2 already existed"),
        "{told}"
    );
    let mut other = invoice("inv_5");
    other["amount"]["value"] = json!("1.00");
    let lines = format!("\u{feff}{}\n{other}\n", invoice("inv_5"));
    std::fs::write(file, lines).unwrap();
    let told = left_over(file, &format!("http://{}", pair.server.address));
    assert!(
        told.contains("line 2") && told.contains("different content"),
        "{told}"
    );
    let shown = get(pair.server.address, "/invoices/inv_5").unwrap().body;
    assert_eq!(shown["amount"]["value"], "100.00", "the first line wins");
    std::fs::write(file, "{\"invoiceId\":\"inv_4\"}\n").unwrap();
    assert!(pair.tollgate(&["invoices", "import", file]).is_err());
    let told = left_over(file, "http://127.0.0.1:1");
    assert!(told.contains("stopped at line 1"), "{told}");
}

/// What an import says that does not take in all of its file.
fn left_over(file: &str, server: &str) -> String {
    let words = ["invoices", "import", file, "--server", server];
    let output = Command::new(BINARY).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stdout).unwrap()
}

/// More than are taken in before the connection is cut.
const LINES: usize = 500;

#[test]
fn an_import_whose_server_is_lost_stops_with_one_sentence_and_goes_on_when_repeated() {
    let pair = with_customer(pair(""));
    let address = pair.server.address;
    let file = pair.setting.folder.path().join("invoices.ndjson");
    let lines = (0..LINES).map(|n| invoice(&format!("inv_{n:04}")).to_string());
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let file = file.to_str().unwrap();
    let cable = Cable::to(address.to_string());
    let server = format!("http://{}", cable.address);
    let told = std::thread::scope(|scope| {
        let import = scope.spawn(|| left_over(file, &server));
        eventually("some are taken in", LONG, || {
            let some = get(address, "/invoices?customer=c_1&limit=30")
                .unwrap()
                .body;
            (some["invoices"].as_array().unwrap().len() == 30).then_some(())
        });
        cable.set(State::Cut);
        import.join().unwrap()
    });
    let lines: Vec<&str> = told.lines().collect();
    let [counted, stopped, remedy] = lines[..] else {
        panic!("not three lines: {told}")
    };
    let created = |line: &str| -> usize { line.split(' ').next().unwrap().parse().unwrap() };
    assert!(created(counted) < LINES, "{told}");
    let at = stopped.strip_prefix("stopped at line ").unwrap();
    assert!(at.contains(&cable.address.to_string()), "{told}");
    assert_eq!(remedy, "import the same file again to continue");
    let told = pair.tollgate(&["invoices", "import", file]).unwrap();
    let (new, known) = told.split_once(" invoices created, ").unwrap();
    assert!(created(known) >= created(counted), "{told}");
    assert_eq!(created(new) + created(known), LINES, "{told}");
}

#[test]
fn an_invoice_is_corrected_cancelled_and_settled_over_the_api_and_by_commands() {
    let pair = with_customer(pair(""));
    let address = pair.server.address;
    for id in ["inv_1", "inv_2", "inv_3"] {
        assert_eq!(
            post(address, "/invoices", &invoice(id)).unwrap().status,
            201
        );
    }
    let correction = ["invoices", "correct", "inv_1", "--amount", "90"];
    let correction = [&correction[..], &["--currency", "DKK", "--reason", "r"]].concat();
    let told = pair.tollgate(&correction).unwrap();
    assert!(
        told.contains("90.00 DKK") && told.contains("90.00 instead of 100.00: r"),
        "{told}"
    );
    let repeat = post(address, "/invoices", &invoice("inv_1")).unwrap();
    assert_eq!(
        (repeat.status, &repeat.body["amount"]["value"]),
        (200, &json!("90.00"))
    );
    let wrong = json!({"amount": {"value": "-1", "currency": "DKK"}, "reason": "r"});
    let answer = post(address, "/invoices/inv_1/correct", &wrong).unwrap();
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(
        answer.body["details"]["amount.value"].is_string(),
        "{}",
        answer.body
    );
    let told = pair
        .tollgate(&["invoices", "cancel", "inv_2", "--reason", "r"])
        .unwrap();
    assert!(told.contains("CANCELLED"), "{told}");
    let settle = [
        "invoices",
        "settle",
        "inv_3",
        "--reference",
        "TRX-1",
        "--reason",
        "r",
    ];
    assert!(pair.tollgate(&settle).unwrap().contains("PAID"));
    let shown = get(address, "/invoices/inv_3").unwrap().body;
    assert_eq!(shown["settledBy"]["reference"], "TRX-1");
    let again = json!({"reference": "TRX-2", "reason": "r"});
    let answer = post(address, "/invoices/inv_3/settle", &again).unwrap();
    assert_eq!(answer.status, 409, "{}", answer.body);
    they_are_listed_by_customer(address);
}

fn they_are_listed_by_customer(address: SocketAddr) {
    let mine = get(address, "/invoices?customer=c_1&limit=2&order=id");
    let mine = mine.unwrap().body;
    let ids = |page: &Value| -> Vec<String> {
        let all = page["invoices"].as_array().unwrap().iter();
        all.map(|it| it["invoiceId"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        (ids(&mine), &mine["next"]),
        (vec!["inv_1".into(), "inv_2".into()], &json!("inv_2"))
    );
    let rest = "/invoices?customer=c_1&after=inv_2&status=PAID&order=id";
    assert_eq!(ids(&get(address, rest).unwrap().body), ["inv_3"]);
    let newest = get(address, "/invoices?customer=c_1").unwrap().body;
    assert_eq!(ids(&newest), ["inv_3", "inv_2", "inv_1"]);
    assert_eq!(newest["count"], 3);
    let settled = get(address, "/invoices?customer=c_1&status=PAID").unwrap();
    assert_eq!(
        (ids(&settled.body), &settled.body["count"]),
        (vec!["inv_3".into()], &json!(1))
    );
    let missing = get(address, "/invoices?customer=c_2").unwrap();
    assert_eq!(missing.status, 404, "{}", missing.text);
    assert_eq!(get(address, "/invoices?customer=%20").unwrap().status, 400);
}
