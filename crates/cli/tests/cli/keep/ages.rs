//! What is put in force while the service runs is compared with how long ended items stay hot, and so are other ages with
//! what is in force.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{Response, post, put};
use crate::fixture::served::{BINARY, Served, Setting};

const RULE: &str = "[[rules]]\nname = \"twice\"\nmessage = \"again\"\nduplicate_within_secs = ";

fn days(server: &Served, item_type: &str, hot_days: u32) -> Response {
    let path = format!("/admin/item-types/{item_type}/retention");
    let wanted = json!({"hotDays": hot_days, "reason": "a test"});
    put(server.address, &path, &wanted).unwrap()
}

fn reload(server: &Served) -> Response {
    let because = json!({"reason": "a test"});
    post(server.address, "/admin/rules/reload", &because).unwrap()
}

fn customer(server: &Served, id: &str, ladder: &Value) -> Response {
    let body = json!({"customerId": id, "currency": "DKK", "timeZone": "Europe/Copenhagen",
                      "ladder": ladder});
    post(server.address, "/customers", &body).unwrap()
}

fn refused(answer: &Response, floor: &str) {
    assert_eq!(answer.status, 400, "{}", answer.text);
    assert!(answer.text.contains(floor), "{}", answer.text);
}

fn accepted(answer: &Response) {
    assert!(answer.status < 300, "{}", answer.text);
}

#[test]
fn rules_and_retry_schedules_that_look_back_further_than_hot_days_are_refused_with_the_floor() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = {
        let _inside = runtime.enter();
        Bank::start(BankOptions::default()).unwrap()
    };
    let setting = Setting::new(&bank, "");
    let config = setting.config("127.0.0.1:0");
    let plain = std::fs::read_to_string(&config).unwrap();
    let ruled = |secs: u32| std::fs::write(&config, format!("{plain}\n{RULE}{secs}\n")).unwrap();
    let server = Served::start_with(&[], &config);
    accepted(&days(&server, "PAYMENT", 5));
    ruled(864_000);
    refused(
        &reload(&server),
        "hotDays of PAYMENT to be at least 10, not 5",
    );
    accepted(&days(&server, "PAYMENT", 12));
    accepted(&reload(&server));
    let floor = "at least 10, because of duplicate_within_secs of the rule twice";
    refused(&days(&server, "PAYMENT", 5), floor);
    ruled(86_400);
    accepted(&reload(&server));
    accepted(&days(&server, "PAYMENT", 5));

    let long = json!(["20d", "20d"]);
    let floor = "hotDays of INVOICE to be at least 40, not 30";
    refused(&customer(&server, "c_1", &long), floor);
    accepted(&days(&server, "INVOICE", 40));
    accepted(&customer(&server, "c_1", &long));
    let floor = "at least 40, because of the retry schedule of customer c_1";
    refused(&days(&server, "INVOICE", 39), floor);
    server.kill();

    // The ages that were changed while it ran are compared with the file that was changed since.
    ruled(864_000);
    let floor = "must be at least 10, because of duplicate_within_secs of the rule twice; not 5";
    refuses_to_start(&config, floor);
}

#[test]
fn a_customer_who_retries_for_longer_than_the_files_hot_days_stops_the_start() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = {
        let _inside = runtime.enter();
        Bank::start(BankOptions::default()).unwrap()
    };
    let setting = Setting::new(&bank, "invoices.ladder = [\"1d\"]\n");
    let config = setting.config("127.0.0.1:0");
    let server = Served::start_with(&[], &config);
    accepted(&customer(&server, "c_1", &json!(["20d"])));
    accepted(&customer(&server, "c_2", &json!(["9d"])));
    server.kill();
    let plain = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("{plain}\nretention.invoices.hot_days = 7\n"),
    )
    .unwrap();
    let floor = "retention.hot_days of invoices must be at least 20, because of the retry schedule of customer c_1; not 7";
    refuses_to_start(&config, floor);
}

fn refuses_to_start(config: &Path, why: &str) {
    let started = Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(config)
        .output()
        .unwrap();
    let said = String::from_utf8(started.stderr).unwrap();
    assert_eq!(started.status.code(), Some(1), "{said}");
    assert!(said.contains(why), "{said}");
}
