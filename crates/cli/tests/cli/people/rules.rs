//! Rules and routes as operators meet them: at the start, reloaded while running, and tried.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{Response, get, post};
use crate::fixture::pair::{Pair, pair, payment};
use crate::fixture::served::{BINARY, Served, Setting, eventually};

const EUROS: &str =
    "[[rules]]\nname = \"euros\"\nrequire = \"currency == 'EUR'\"\nmessage = \"only euros\"\n";
const DUPLICATES: &str =
    "[[rules]]\nname = \"twins\"\nduplicate_within_secs = 3600\nmessage = \"paid already\"\n";
const DAILY: &str = "[[rules]]\nname = \"daily\"\ndaily_total = \"300\"\ncurrency = \"USD\"\nzone = \"Asia/Tokyo\"\nmessage = \"enough\"\n";

impl Pair {
    /// Adds to the configuration file; nobody has read it yet.
    pub(crate) fn write_config(&self, more: &str) {
        let path = self.setting.folder.path().join("tollgate.toml");
        let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(more.as_bytes()).unwrap();
    }

    fn unwrite_config(&self, what: &str) {
        let path = self.setting.folder.path().join("tollgate.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(what), "{text}");
        std::fs::write(&path, text.replace(what, "")).unwrap();
    }

    fn reload(&self, reason: &str) -> Result<String, String> {
        self.tollgate(&["rules", "reload", "--reason", reason])
    }

    fn post(&self, id: &str) -> Response {
        post(self.server.address, "/payments", &payment(id)).unwrap()
    }

    fn refusal(&self, id: &str) -> Value {
        let answer = self.post(id);
        assert_eq!(answer.status, 422, "{}", answer.body);
        answer.body["details"].clone()
    }

    fn written(&self, name: &str, text: &str) -> String {
        let path = self.setting.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

#[test]
fn a_reload_is_in_force_for_the_next_payment_and_told_with_its_author() {
    let pair = pair("");
    assert_eq!(pair.post("p1").status, 201);
    pair.write_config(EUROS);
    assert_eq!(pair.post("p2").status, 201, "nobody has read it yet");
    let told = pair.reload("the bank's wish").unwrap();
    assert!(
        told.contains("version 1 is in force: 1 rules, 0 routes"),
        "{told}"
    );
    let refusal = pair.refusal("p3");
    assert_eq!(refusal, json!({"euros": "only euros"}));
    assert_eq!(
        pair.refusal("p3"),
        refusal,
        "the same again, the same answer"
    );
    assert_eq!(pair.post("p1").status, 200, "what is known stays known");
    let again = pair.reload("to be sure").unwrap();
    assert!(again.contains("version 1 stays in force"), "{again}");

    pair.unwrite_config(EUROS);
    pair.reload("a mistake").unwrap();
    assert_eq!(pair.post("p4").status, 201);
    assert_eq!(
        pair.refusal("p3"),
        refusal,
        "a refusal is an answer for good"
    );
    let shown = get(pair.server.address, "/admin/rules").unwrap().body;
    assert_eq!(
        (&shown["version"], &shown["rules"]),
        (&json!(2), &json!([]))
    );
    let history = shown["history"].as_array().unwrap();
    let reasons: Vec<&str> = history
        .iter()
        .map(|v| v["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["a mistake", "the bank's wish"]);
    let told = pair.tollgate(&["rules", "show"]).unwrap();
    assert!(told.contains("the bank's wish"), "{told}");
    let none = told.contains("No rules") && told.contains("No routes");
    assert!(none && !told.contains("requires"), "{told}");
    let metrics = get(pair.server.address, "/metrics").unwrap().text;
    assert!(
        metrics.contains("tollgate_rule_refusals_total{rule=\"euros\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_wrong_rule_keeps_the_old_ones_and_says_where_it_is_wrong() {
    let pair = pair(EUROS);
    pair.write_config("[[rules]]\nname = \"bad\"\nrequire = \"currency ==\"\nmessage = \"m\"\n");
    let told = pair.reload("try").unwrap_err();
    assert!(
        told.contains("rules[1] \"bad\"") && told.contains("line 1, column"),
        "{told}"
    );
    assert_eq!(pair.refusal("p1"), json!({"euros": "only euros"}));
    pair.write_config("[[rules]]\nname = 7\n");
    let told = pair.reload("try").unwrap_err();
    assert!(told.contains("name"), "{told}");
    let body = json!({"reason": " "});
    let answer = post(pair.server.address, "/admin/rules/reload", &body).unwrap();
    assert_eq!(answer.status, 400, "{}", answer.body);
}

#[test]
fn duplicates_and_daily_totals_are_refused_by_name() {
    let pair = pair(&format!("{DUPLICATES}{DAILY}"));
    assert_eq!(pair.post("p1").status, 201);
    assert_eq!(pair.refusal("p2"), json!({"twins": "paid already"}));
    let with = |id: &str| {
        let mut payment = payment(id);
        payment["reference"] = json!(id);
        post(pair.server.address, "/payments", &payment).unwrap()
    };
    assert_eq!(with("p3").status, 201, "251 of 300");
    let third = with("p4");
    assert_eq!(
        (third.status, &third.body["details"]),
        (422, &json!({"daily": "enough"}))
    );
}

#[test]
fn the_routing_table_chooses_the_bank_of_a_payment_that_names_none() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let (main, acme) = (
        Bank::start(BankOptions::default()).unwrap(),
        Bank::start(BankOptions::default()).unwrap(),
    );
    let url = acme.url();
    let extra = format!(
        "[[routes]]\ngateway = \"acme\"\ncurrency = \"USD\"\nmin_amount = \"100\"\n[downstream.gateways.acme]\nurl = \"{url}\"\nlane = \"default\"\n"
    );
    let setting = Setting::new(&main, &extra);
    let server = setting.start("127.0.0.1:0");
    let pay = |id: &str, amount: &str, gateway: Value| {
        let mut payment = payment(id);
        payment["amount"] = json!(amount);
        payment["gateway"] = gateway;
        let answer = post(server.address, "/payments", &payment).unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
    };
    pay("small", "99.99", Value::Null);
    pay("large", "100", Value::Null);
    pay("named", "100", json!("default"));
    let paid = |bank: &Bank| {
        let mut ids: Vec<_> = bank.ledger().effective().into_keys().collect();
        ids.sort();
        ids
    };
    eventually("three are paid", Duration::from_secs(30), || {
        (paid(&main).len() + paid(&acme).len() >= 3).then_some(())
    });
    assert_eq!(paid(&acme), ["large"]);
    assert_eq!(paid(&main), ["named", "small"]);
}

#[test]
fn a_dry_run_tells_what_would_become_of_payments_and_leaves_no_trace() {
    let pair = pair("");
    let reason = json!({"reason": "drill"});
    post(pair.server.address, "/admin/lanes/default/pause", &reason).unwrap();
    assert_eq!(pair.post("waits").status, 201);
    let rules = pair.written("rules.toml", &format!("{EUROS}{DUPLICATES}"));
    let told = pair.tollgate(&["rules", "try", &rules]).unwrap();
    assert!(
        told.contains("1 payments: 0 accepted, 1 refused, 0 invalid"),
        "{told}"
    );
    assert!(
        told.contains("waits") && told.contains("only euros"),
        "{told}"
    );

    let mut euros = payment("a");
    euros["currency"] = json!("EUR");
    let mut duplicate = euros.clone();
    duplicate["paymentId"] = json!("b");
    let sample = json!([euros, duplicate, payment("c"), {"paymentId": "d"}]);
    let sample = pair.written("payments.json", &sample.to_string());
    let told = pair.tollgate(&["rules", "try", &rules, "--payments", &sample, "--json"]);
    let told: Value = serde_json::from_str(&told.unwrap()).unwrap();
    let verdicts: Vec<_> = told["results"].as_array().unwrap().iter().collect();
    let verdicts: Vec<_> = verdicts
        .iter()
        .map(|one| one["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["ACCEPTED", "REFUSED", "REFUSED", "INVALID"]);
    assert_eq!(told["refusedByRule"], json!({"euros": 1, "twins": 1}));
    let trace = get(pair.server.address, "/admin/rules").unwrap().body;
    assert_eq!(trace["version"], 0);
    assert_eq!(get(pair.server.address, "/payments/a").unwrap().status, 404);

    let wrong = pair.written("wrong.toml", "[[routes]]\ngateway = \"acme\"\n");
    let told = pair.tollgate(&["rules", "try", &wrong]).unwrap_err();
    assert!(
        told.contains("routes[0]") && told.contains("\"acme\""),
        "{told}"
    );
}

#[test]
fn rules_that_would_hold_many_payments_ask_first_and_a_release_lets_one_pass() {
    let pair = pair("");
    let reason = json!({"reason": "drill"});
    post(pair.server.address, "/admin/lanes/default/pause", &reason).unwrap();
    let waiting = (0..101).map(|n| payment(&format!("p{n:03}")).to_string());
    let file = pair.written("many.jsonl", &waiting.collect::<Vec<_>>().join("\n"));
    pair.tollgate(&["import", &file]).unwrap();
    let rules = pair.written("rules.toml", EUROS);
    let told = pair.tollgate(&["rules", "try", &rules]).unwrap();
    assert!(
        told.contains("101 will be held and 0 rejected (euros 101)"),
        "{told}"
    );
    pair.write_config(EUROS);
    let told = pair.reload("new law").unwrap_err();
    assert!(told.contains("would hold 101 and reject 0"), "{told}");
    assert_eq!(
        get(pair.server.address, "/admin/rules").unwrap().body["version"],
        0
    );
    let confirmed = ["rules", "reload", "--reason", "new law", "--confirm"];
    let told = pair.tollgate(&confirmed).unwrap();
    assert!(told.contains("101 will be held"), "{told}");
    post(pair.server.address, "/admin/lanes/default/resume", &reason).unwrap();
    let seen = |id: &str| {
        get(pair.server.address, &format!("/payments/{id}"))
            .unwrap()
            .body
    };
    eventually("one is held", Duration::from_secs(30), || {
        (seen("p000")["queueStatus"] == "HELD").then_some(())
    });
    let why = seen("p000")["whyNotRunning"].to_string();
    assert!(why.contains("only euros"), "{why}");
    pair.tollgate(&["payments", "release", "p000", "--reason", "agreed"])
        .unwrap();
    eventually("it is paid", Duration::from_secs(30), || {
        pair.bank
            .ledger()
            .effective()
            .contains_key("p000")
            .then_some(())
    });
    assert_eq!(pair.bank.ledger().effective().len(), 1, "no other");
}

#[test]
fn a_start_with_rules_that_would_hold_many_payments_wants_a_confirmation() {
    let mut pair = pair("");
    let reason = json!({"reason": "drill"});
    post(pair.server.address, "/admin/lanes/default/pause", &reason).unwrap();
    let waiting = (0..101).map(|n| payment(&format!("p{n:03}")).to_string());
    let file = pair.written("many.jsonl", &waiting.collect::<Vec<_>>().join("\n"));
    pair.tollgate(&["import", &file]).unwrap();
    pair.write_config(EUROS);
    pair.server.signal("-TERM");
    let config = pair.setting.folder.path().join("tollgate.toml");
    let refused = eventually("the first server has ended", Duration::from_mins(1), || {
        let mut start = Command::new(BINARY);
        let start = start.args(["serve", "--config"]).arg(&config);
        let said = start.output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let is_locked = !text.contains("would hold");
        (!is_locked).then_some((said.status.success(), text))
    });
    assert!(!refused.0, "{}", refused.1);
    let told = "would hold 101 and reject 0 waiting payments; start with --confirm-rules";
    assert!(refused.1.contains(told), "{}", refused.1);
    pair.server = Served::start_with(&["--confirm-rules"], &config);
    let rules = get(pair.server.address, "/admin/rules").unwrap();
    assert_eq!(rules.body["version"], 1, "{}", rules.text);
}

/// What `config check` says about a configuration.
pub(crate) fn checked(folder: &std::path::Path, text: &str) -> (bool, String) {
    let file = folder.join("t.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(BINARY)
        .args(["config", "check", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    (output.status.success(), said)
}

#[test]
fn a_check_lists_every_problem_and_a_start_stops_at_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let (good, said) = checked(folder.path(), &format!("{EUROS}{DUPLICATES}{DAILY}"));
    assert!(good && said.contains("is valid"), "{said}");
    let wrong = "gate.margin = 0.9\n[[rules]]\nname = \"a\"\nrequire = \"amount > 5\"\nmessage = \"m\"\n[[rules]]\nname = \"b\"\nmessage = \"m\"\n[[routes]]\ngateway = \"acme\"\n[[routes]]\ngateway = \"default\"\n[[routes]]\ngateway = \"default\"\ncurrency = \"EUR\"\n";
    let (good, said) = checked(folder.path(), wrong);
    let lines: Vec<&str> = said.lines().collect();
    assert!(!good && lines.len() == 5, "{said}");
    let places = [
        "gate.margin",
        "rules[0] \"a\"",
        "rules[1] \"b\"",
        "routes[0]",
        "routes[2]",
    ];
    for (line, place) in lines.iter().zip(places) {
        assert!(line.starts_with(place), "{line}");
    }
    let (good, said) = checked(folder.path(), "colour = \"red\"\n");
    assert!(!good && said.contains("colour"), "{said}");

    let file = folder.path().join("t.toml");
    std::fs::write(&file, wrong.replace("gate.margin = 0.9\n", "")).unwrap();
    let output = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert_eq!(said.trim().lines().count(), 1, "one sentence, not: {said}");
    assert!(
        said.contains("rules[0] \"a\": require has an unknown name \"amount\""),
        "{said}"
    );
    assert!(said.contains("and 3 more"), "{said}");
}
