//! Two banks behind one server: a payment's gateway says which of them pays, and nothing else does.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate_sandbox::{Bank, BankOptions};

use crate::http::{get, post};
use crate::pair::payment;
use crate::served::{BINARY, Served, Setting, eventually};

const LANE: &str = "[lanes.acme]\nmax_per_window = 100\nwindow_size_secs = 4\n";

struct Town {
    runtime: Runtime,
    main: Bank,
    acme: Bank,
}

impl Town {
    fn open() -> Self {
        let runtime = Runtime::new().unwrap();
        let bank = || {
            let _inside = runtime.enter();
            Bank::start(BankOptions::default()).unwrap()
        };
        let (main, acme) = (bank(), bank());
        Self {
            runtime,
            main,
            acme,
        }
    }

    fn gateway(&self, lane: &str) -> String {
        let url = self.acme.url();
        format!("[downstream.gateways.acme]\nurl = \"{url}\"\nlane = \"{lane}\"\n{LANE}")
    }
}

fn through(id: &str, gateway: Option<&str>) -> Value {
    let mut payment = payment(id);
    if let Some(gateway) = gateway {
        payment["gateway"] = json!(gateway);
    }
    payment
}

fn paid(bank: &Bank) -> Vec<String> {
    let mut ids: Vec<_> = bank.ledger().effective().into_keys().collect();
    ids.sort();
    ids
}

#[test]
fn each_bank_pays_what_is_meant_for_it_and_an_unknown_gateway_is_refused() {
    let town = Town::open();
    let setting = Setting::new(&town.main, &town.gateway("acme"));
    let server = setting.start("127.0.0.1:0");

    let payments = [
        ("a1", Some("acme"), "acme"),
        ("d1", None, "default"),
        ("d2", Some("default"), "default"),
        ("a2", Some("acme"), "acme"),
    ];
    for (id, gateway, lane) in payments {
        let answer = post(server.address, "/payments", &through(id, gateway)).unwrap();
        assert_eq!(
            (answer.status, &answer.body["lane"]),
            (201, &json!(lane)),
            "{id}"
        );
    }
    let slip = post(server.address, "/payments", &through("slip", Some("acne"))).unwrap();
    assert_eq!(slip.status, 422, "{}", slip.body);
    assert_eq!(
        slip.body["details"]["gateway"],
        "unknown gateway \"acne\"; configured: default, acme"
    );
    for (id, ..) in payments {
        eventually("the payment ends", Duration::from_secs(20), || {
            let seen = get(server.address, &format!("/payments/{id}")).unwrap();
            (seen.body["status"] == "PROCESSING").then_some(())
        });
    }
    assert_eq!(paid(&town.acme), ["a1", "a2"]);
    assert_eq!(paid(&town.main), ["d1", "d2"]);
    let lanes = ["acme", "default"].map(|lane| {
        let certificate = get(
            server.address,
            &format!("/admin/rate-limit/certificate?lane={lane}"),
        );
        certificate.unwrap().body["sends"].clone()
    });
    assert_eq!(lanes, [json!(2), json!(2)], "each in its own lane");
}

#[test]
fn a_payment_stays_with_its_bank_when_the_gateway_leaves_the_configuration() {
    let town = Town::open();
    let with = Setting::new(&town.main, &town.gateway("default"));
    let server = with.start("127.0.0.1:0");
    let reason = json!({"reason": "drill"});
    let paused = post(server.address, "/admin/lanes/default/pause", &reason).unwrap();
    assert_eq!(paused.status, 200, "{}", paused.body);
    let answer = post(server.address, "/payments", &through("later", Some("acme"))).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    assert_eq!(server.stop(), Some(0));

    let store = format!("sqlite:{}", with.folder.path().join("t.db").display());
    let without = Setting::on(&store, &town.main, "");
    let server = without.start("127.0.0.1:0");
    let resumed = post(server.address, "/admin/lanes/default/resume", &reason).unwrap();
    assert_eq!(resumed.status, 200, "{}", resumed.body);
    let why = eventually("it is put back", Duration::from_secs(30), || {
        let seen = get(server.address, "/payments/later").unwrap().body;
        let text = seen.to_string();
        text.contains("no longer configured").then_some(text)
    });
    assert!(why.contains("\\\"acme\\\""), "{why}");
    assert_eq!((paid(&town.main).len(), paid(&town.acme).len()), (0, 0));
    drop(town.runtime);
}

#[test]
fn a_gateway_whose_lane_does_not_exist_stops_the_start_and_a_lane_is_created_once() {
    let town = Town::open();
    let setting = Setting::new(&town.main, &town.gateway("acme").replace(LANE, ""));
    let file = setting.config("127.0.0.1:0");
    let mut serve = Command::new(BINARY);
    let refused = serve
        .args(["serve", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success());
    assert!(
        said.contains("downstream.gateways.acme.lane: \"acme\" does not exist; add [lanes.acme]"),
        "{said}"
    );
    let store = format!("sqlite:{}", setting.folder.path().join("t.db").display());
    let setting = Setting::on(&store, &town.main, &town.gateway("acme"));
    let server = setting.start("127.0.0.1:0");
    let file = setting.folder.path().join("tollgate.toml");
    let change = json!({"configName": "acme", "maxPerWindow": 70, "reason": "an operator"});
    let changed = post(server.address, "/admin/rate-limit/config", &change).unwrap();
    assert!(changed.status < 300, "{}", changed.body);
    let url = format!("http://{}", server.address);
    let checked = Command::new(BINARY)
        .args(["config", "check", "--lanes", "--server", &url, "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(
        told.contains("lanes.acme: the file says 100 per 4 s"),
        "{told}"
    );
    assert_eq!(server.stop(), Some(0));
    let server = setting.start("127.0.0.1:0");
    let lanes = get(server.address, "/admin/rate-limit/config")
        .unwrap()
        .body;
    let acme = lanes
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["configName"] == "acme");
    assert_eq!(
        acme.unwrap()["maxPerWindow"],
        70,
        "what an operator has changed stays"
    );
}

#[test]
fn one_bank_with_two_budgets_is_worth_a_warning() {
    let town = Town::open();
    let url = town.main.url();
    let extra = format!("[downstream.gateways.acme]\nurl = \"{url}/\"\nlane = \"acme\"\n{LANE}");
    let setting = Setting::new(&town.main, &extra);
    let server = setting.start("127.0.0.1:0");
    let warned = server
        .said
        .iter()
        .find(|line| line.contains("not their sum"));
    let warned = warned.expect("two lanes to one URL are worth a warning");
    assert!(warned.contains("downstream.gateways.acme"), "{warned}");
}

#[test]
fn a_sandbox_gets_the_payments_of_every_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.toml");
    let store = folder.path().join("t.db");
    let text = format!(
        "store.url = \"sqlite:{}\"\n[downstream.payments]\nurl = \"https://real.invalid\"\nheaders = {{A = \"env:NO_SUCH_TOKEN\"}}\n[downstream.gateways.acme]\nurl = \"https://real.invalid\"\nlane = \"default\"\n",
        store.display()
    );
    std::fs::write(&file, text).unwrap();
    let server = Served::start_with(&["--sandbox", "--listen", "127.0.0.1:0"], &file);
    let answer = post(server.address, "/payments", &through("p", Some("acme"))).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    eventually("the sandbox pays", Duration::from_secs(20), || {
        let seen = get(server.address, "/payments/p").unwrap();
        (seen.body["status"] == "PROCESSING").then_some(())
    });
    let refused = Command::new(BINARY)
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(!refused.status.success(), "without it the token is missed");
}
