//! A machine that runs out of file descriptors has a problem of its own: its bank is healthy, and is not held to
//! have failed. The judge is the bank's ledger.

use std::process::Command;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::footing::{LONG, take_in};
use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{BINARY, Served, Setting, eventually};

/// All the process may have. The API may take 8 of them.
const DESCRIPTORS: u32 = 140;
const PAYMENTS: usize = 180;
/// Each payment needs its connection for so long that one would be wanted for nearly every payment.
const FAULTS: &str = "sends: latency 3s";

#[test]
fn running_out_of_descriptors_is_not_held_against_the_bank() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions {
        faults: FAULTS.parse().unwrap(),
        ..BankOptions::default()
    })
    .unwrap();
    let setting = Setting::new(&bank, "http.max_connections = 8\n");
    let mut command = Command::new("bash");
    let limited = format!("ulimit -n {DESCRIPTORS} && exec \"$0\" serve --config \"$1\"");
    command.args(["-c", &limited, BINARY]);
    let server = Served::start_by(command.arg(setting.config("127.0.0.1:0")));
    let act = |path: &str, wish: Value| {
        let answer = post(server.address, path, &wish).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    act(
        "/admin/rate-limit/config",
        json!({"configName": "default", "maxPerWindow": 800, "windowSizeSecs": 4, "maxPerSecond": 200}),
    );
    let because = json!({"reason": "all at once"});
    act("/admin/lanes/default/pause", because.clone());
    for n in 0..PAYMENTS {
        take_in(server.address, &payment(&format!("p{n}")));
    }
    act("/admin/lanes/default/resume", because);
    eventually("it runs out", LONG, || {
        // A caller needs one, too.
        let _ = get(server.address, "/health/live");
        let ran_out = |line: &String| line.contains("Too many open files");
        server.log().iter().any(ran_out).then_some(())
    });
    let ledger = bank.ledger();
    eventually("all are paid", LONG * 2, || {
        (ledger.effective().len() == PAYMENTS).then_some(())
    });
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
    assert_eq!(
        ledger.arrivals(),
        PAYMENTS,
        "none was sent again or asked about"
    );
    let closed = get(server.address, "/admin/audit?action=LANE_CLOSED").unwrap();
    assert_eq!(closed.body["entries"], json!([]), "{}", closed.body);
}
