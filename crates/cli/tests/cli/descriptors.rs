//! A machine that runs out of file descriptors has a problem of its own: its bank is healthy, and is not held to
//! have failed. The judge is the bank's ledger.

use std::process::Command;

use serde_json::json;

use crate::footing::LONG;
use crate::http::{get, post};
use crate::pair::{paired, payment};
use crate::served::{BINARY, Served, Setting, eventually};

/// All the process may have. The API may take 8 of them.
const DESCRIPTORS: u32 = 140;
const PAYMENTS: usize = 240;
/// Each payment needs its connection for a second: two hundred at a time would be wanted.
const FAULTS: &str = "sends: latency 1s";

#[test]
fn running_out_of_descriptors_is_not_held_against_the_bank() {
    let pair = paired(|bank| Setting::new(bank, "http.max_connections = 8\n"));
    let address = pair.server.address;
    let limit = json!({"configName": "default", "maxPerWindow": 800, "windowSizeSecs": 4,
                       "maxPerSecond": 200, "reason": "many at a time"});
    assert_eq!(
        post(address, "/admin/rate-limit/config", &limit)
            .unwrap()
            .status,
        200
    );
    let because = json!({"reason": "all at once"});
    let act = |server: &Served, act: &str| {
        let path = format!("/admin/lanes/default/{act}");
        let answer = post(server.address, &path, &because).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
    };
    act(&pair.server, "pause");
    for n in 0..PAYMENTS {
        let taken = post(address, "/payments", &payment(&format!("p{n}"))).unwrap();
        assert_eq!(taken.status, 201, "{}", taken.body);
    }
    pair.bank.set_faults(FAULTS.parse().unwrap());
    pair.server.signal("-KILL");

    let config = pair.setting.config("127.0.0.1:0");
    let mut command = Command::new("bash");
    let limited = format!("ulimit -n {DESCRIPTORS} && exec \"$0\" serve --config \"$1\"");
    command.args(["-c", &limited, BINARY]).arg(config);
    let server = Served::start_by(&mut command);
    act(&server, "resume");
    eventually("it runs out", LONG, || {
        let ran_out = |n| {
            why_not_running(&server, n)?
                .contains("this machine has no more")
                .then_some(())
        };
        (0..PAYMENTS).find_map(ran_out)
    });
    let ledger = pair.bank.ledger();
    eventually("all are paid", LONG * 2, || {
        (ledger.effective().len() == PAYMENTS).then_some(())
    });
    assert_eq!(ledger.doubles(), Vec::<String>::new());
    assert_eq!(
        ledger.arrivals(),
        PAYMENTS,
        "none was sent again or asked about"
    );
    let closed = get(server.address, "/admin/audit?action=LANE_CLOSED").unwrap();
    assert_eq!(closed.body["entries"], json!([]), "{}", closed.body);
}

/// Nothing while nobody can be asked: that needs a descriptor, too.
fn why_not_running(server: &Served, number: usize) -> Option<String> {
    let shown = get(server.address, &format!("/payments/p{number}")).ok()?;
    Some(shown.body["whyNotRunning"].as_str()?.to_owned())
}
