//! A database that was restored from a backup, as the handbook says, while a feed has read on: the positions are those of the
//! backup, and what was read since is read again. The judge is the bank's ledger.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::pair::{Pair, pair, paired_with};
use crate::fixture::served::{BINARY, Served, Setting, eventually_or};
use crate::topics::feed_input::at_0;
use crate::topics::feeds::{cluster, feed, record, wait_for_paid, wait_until};

const LONG: Duration = Duration::from_mins(1);
const LANE: &str = "/admin/lanes/default";

fn copy(from: &Path, to: &Path) {
    for end in ["", "-wal", "-shm"] {
        let named = |path: &Path| format!("{}{end}", path.display());
        let _ = std::fs::remove_file(named(to));
        if Path::new(&named(from)).exists() {
            std::fs::copy(named(from), named(to)).unwrap();
        }
    }
}

/// Stops, copies, starts again.
fn backed_up(setting: &Setting, _: &Bank, server: Served) -> Served {
    assert_eq!(server.stop(), Some(0));
    let folder = setting.folder.path();
    copy(&folder.join("t.db"), &folder.join("backup.db"));
    setting.start("127.0.0.1:0")
}

/// Killed, and restored: nothing can be sent before the lane is paused.
fn restored(setting: &Setting, bank: &Bank, server: Served) -> Served {
    server.kill();
    let folder = setting.folder.path();
    copy(&folder.join("backup.db"), &folder.join("t.db"));
    let config = setting.config("127.0.0.1:0");
    let text = std::fs::read_to_string(&config).unwrap();
    let nowhere = text.replace(&bank.url(), "https://127.0.0.1:9");
    std::fs::write(&config, nowhere).unwrap();
    let server = Served::start_with(&[], &config);
    change(&server, "pause");
    assert_eq!(server.stop(), Some(0));
    setting.start("127.0.0.1:0")
}

/// Pauses or resumes the lane.
fn change(server: &Served, what: &str) {
    let reason = json!({"reason": "restored"});
    let answer = post(server.address, &format!("{LANE}/{what}"), &reason).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text);
}

fn wait_for_status(pair: &Pair, id: &str, status: &str) {
    eventually_or(&format!("{id} is {status}"), LONG, || {
        let view = get(pair.server.address, &format!("/payments/{id}")).unwrap();
        let is_so = view.body["status"] == status;
        is_so.then_some(()).ok_or(view.text)
    });
}

/// A bank that recognises keys pays nothing twice.
#[test]
fn after_a_restore_records_are_read_again_and_nothing_is_lost_or_paid_twice() {
    let mut kafka = cluster();
    let pair = pair(&feed(&kafka));
    kafka.produce("payments", &[at_0(record("p0")), at_0(record("p1"))]);
    wait_for_paid(&pair, &["p0", "p1"]);
    let pair = pair.served_by(backed_up);
    kafka.produce("payments", &[at_0(record("p2")), at_0(record("p3"))]);
    wait_for_paid(&pair, &["p0", "p1", "p2", "p3"]);
    let arrivals = pair.bank.ledger().arrivals();

    let pair = pair.served_by(restored);
    let feed = wait_until(&pair, "all is read again", |feed| feed["records"] == 4);
    assert_eq!(feed["partitions"][0]["position"], 4);
    assert_eq!(pair.bank.ledger().arrivals(), arrivals, "nothing is sent");
    change(&pair.server, "resume");
    for id in ["p0", "p1", "p2", "p3"] {
        wait_for_status(&pair, id, "PROCESSING");
    }
    wait_for_paid(&pair, &["p0", "p1", "p2", "p3"]);
}

/// The bank is asked before anything is sent: by the payment's own flow where the backup knows of a send, and by a person, as
/// the handbook says, where the record was read again.
#[test]
fn after_a_restore_a_bank_without_keys_is_asked_first_and_pays_nothing_twice() {
    let mut kafka = cluster();
    let no_keys = BankOptions {
        honours_keys: false,
        ..BankOptions::default()
    };
    let extra = format!(
        "downstream.payments.honours_idempotency_key = false\n{}",
        feed(&kafka)
    );
    let pair = paired_with(no_keys, |bank| Setting::new(bank, &extra));
    // Paid, but the answer is lost, and the bank cannot be asked.
    pair.bank
        .set_faults("all of payment p1: reset".parse().unwrap());
    kafka.produce("payments", &[at_0(record("p0")), at_0(record("p1"))]);
    wait_for_status(&pair, "p0", "PROCESSING");
    wait_for_status(&pair, "p1", "IN_DOUBT");
    let pair = pair.served_by(backed_up);
    // Paid after the backup, and one that was read and not sent.
    kafka.produce("payments", &[at_0(record("p2"))]);
    wait_for_status(&pair, "p2", "PROCESSING");
    change(&pair.server, "pause");
    kafka.produce("payments", &[at_0(record("p3"))]);
    wait_for_status(&pair, "p3", "SCHEDULED");
    wait_for_paid(&pair, &["p0", "p1", "p2"]);

    let pair = pair.served_by(restored);
    pair.bank.set_faults("".parse().unwrap());
    wait_until(&pair, "all is read again", |feed| {
        feed["partitions"][0]["position"] == 4
    });
    for id in ["p2", "p3"] {
        wait_for_status(&pair, id, "SCHEDULED");
    }
    let effective = pair.bank.ledger().effective();
    assert_eq!(effective.values().sum::<u32>(), 3, "nothing is sent");
    let address = pair.server.address;
    let listed = get(address, "/payments?status=SCHEDULED").unwrap();
    for payment in listed.body["payments"].as_array().unwrap() {
        let id = payment["paymentId"].as_str().unwrap();
        let answer = asked(&pair, id);
        match answer["means"].as_str().unwrap() {
            "done" => {
                let why = json!({"reason": "paid before the restore"});
                let cancel = post(address, &format!("/payments/{id}/cancel"), &why).unwrap();
                assert_eq!((id, cancel.status), ("p2", 200), "{}", cancel.text);
            }
            other => assert_eq!((id, other), ("p3", "not known"), "{answer}"),
        }
    }
    change(&pair.server, "resume");
    wait_for_status(&pair, "p1", "PROCESSING");
    wait_for_status(&pair, "p3", "PROCESSING");
    wait_for_status(&pair, "p2", "CANCELLED");
    wait_for_paid(&pair, &["p0", "p1", "p2", "p3"]);
}

/// `tollgate bank probe --direct`: a paused lane gives no turns.
fn asked(pair: &Pair, id: &str) -> Value {
    let config = pair.setting.config("127.0.0.1:0");
    let output = Command::new(BINARY)
        .args(["bank", "probe", "default", id, "--direct", "--json"])
        .arg("--config")
        .arg(config)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}"))
}
