//! Two banks behind one server: a payment's gateway says which of them pays, and nothing else does.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate_core::Timestamp;
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{BINARY, Served, Setting, eventually};
use crate::pages::pictures::clock;

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
    let extra = format!("sweep.interval_secs = 1\n{}", town.gateway("acme"));
    let setting = Setting::new(&town.main, &extra);
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
    lists_are_narrowed_to_a_gateway(server.address);
}

fn ids(address: SocketAddr, path: &str, list: &str, id: &str) -> Vec<String> {
    let answer = get(address, path).unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    assert_eq!(answer.body["complete"], true, "{path}");
    let lines = answer.body[list].as_array().unwrap().iter();
    let ids = lines.filter_map(|line| line[id].as_str());
    ids.map(str::to_owned).collect()
}

/// The payments, what is held, and what a job finds; a gateway that there is not is said, not searched for.
fn lists_are_narrowed_to_a_gateway(address: SocketAddr) {
    let reason = json!({"reason": "until they are late"});
    for lane in ["acme", "default"] {
        let paused = post(address, &format!("/admin/lanes/{lane}/pause"), &reason);
        assert_eq!(paused.unwrap().status, 200);
    }
    let soon = Timestamp::from_second(clock(address) + 8).unwrap();
    for (id, gateway) in [("h1", None), ("h2", Some("acme")), ("h3", Some("acme"))] {
        let mut late = through(id, gateway);
        late["deadline"] = json!(soon.to_string());
        late["onMissedDeadline"] = json!("hold");
        let taken = post(address, "/payments", &late).unwrap();
        assert_eq!(taken.status, 201, "{}", taken.text);
    }
    eventually("all three are held", Duration::from_mins(1), || {
        let held = get(address, "/admin/held").unwrap().body;
        (held["count"] == 3).then_some(())
    });
    let payments = |query: &str| {
        ids(
            address,
            &format!("/payments?{query}"),
            "payments",
            "paymentId",
        )
    };
    assert_eq!(payments("gateway=acme"), ["h3", "h2", "a2", "a1"]);
    assert_eq!(payments("gateway=acme&order=id"), ["a1", "a2", "h2", "h3"]);
    assert_eq!(payments("gateway=default&held=true"), ["h1"]);
    what_is_held_is_narrowed(address);
    let unknown = "unknown gateway \"acne\"; configured: default, acme";
    for path in [
        "/payments?gateway=acne",
        "/admin/held?gateway=acne&format=csv",
    ] {
        let answer = get(address, path).unwrap();
        assert_eq!(
            (answer.status, &answer.body["error"]),
            (404, &json!(unknown)),
            "{path}"
        );
    }
    let wish = json!({"act": "cancel", "filter": {"gateway": "acne"}, "dryRun": true});
    let answer = post(address, "/admin/jobs", &wish).unwrap();
    assert_eq!(
        (answer.status, &answer.body["error"]),
        (404, &json!(unknown))
    );
    let invoices = get(address, "/admin/held?type=INVOICE&gateway=acme").unwrap();
    assert_eq!(invoices.status, 400, "{}", invoices.text);
}

fn what_is_held_is_narrowed(address: SocketAddr) {
    let held = |query: &str| ids(address, &format!("/admin/held?{query}"), "items", "id");
    let mut both = held("gateway=acme");
    both.sort();
    assert_eq!(both, ["h2", "h3"]);
    assert_eq!(held("gateway=default"), ["h1"]);
    // What is done to all that the page shows is done to no other.
    let page = get(address, "/console/held?gateway=acme").unwrap();
    let carried = "<input type=\"hidden\" name=\"gateway\" value=\"acme\">";
    assert!(page.text.contains(carried), "{}", page.text);
    let first = get(address, "/admin/held?gateway=acme&limit=1&order=due").unwrap();
    let next = first.body["next"].as_str().unwrap().to_owned();
    let second = format!("/admin/held?gateway=acme&limit=1&order=due&after={next}");
    let second = get(address, &second).unwrap().body;
    assert_eq!(
        (&second["next"], &second["complete"]),
        (&json!(null), &json!(true))
    );
    assert_ne!(first.body["items"][0]["id"], second["items"][0]["id"]);
    let previous = second["previous"].as_str().unwrap();
    let back = format!("/admin/held?gateway=acme&limit=1&order=due&before={previous}");
    let back = get(address, &back).unwrap().body;
    assert_eq!(back["items"], first.body["items"]);
    let csv = get(address, "/admin/held?gateway=default&format=csv").unwrap();
    assert!(
        csv.text.contains("h1") && !csv.text.contains("h2"),
        "{}",
        csv.text
    );
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
