//! `tollgate sandbox`: the fake bank alone, as a drill uses it, and its flags when they are wrong.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::http::{Response, get, post, send};
use crate::fixture::served::{BINARY, eventually, serve_with};

/// A bank in a process of its own.
struct Drill {
    child: Child,
    address: SocketAddr,
}

impl Drill {
    fn start(flags: &[&str]) -> Self {
        let child = Command::new(BINARY)
            .args(["sandbox", "--listen", "127.0.0.1:0"])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Owned before anything can fail, so that no bank is left behind.
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut drill = Self {
            child,
            address: nowhere,
        };
        let mut line = String::new();
        let mut stdout = BufReader::new(drill.child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("http://").map(str::parse);
        let address = address.unwrap_or_else(|| panic!("no address: {line:?}"));
        drill.address = address.unwrap();
        drill
    }

    fn pay(&self, id: &str) -> std::io::Result<Response> {
        let head = format!("content-type: application/json\r\nidempotency-key: payment-{id}");
        let order = json!({"paymentId": id, "amount": "1.50", "currency": "EUR",
                           "debtor": {"account": "A"}, "creditor": {"account": "B"}});
        send(self.address, "POST", "/payments", &head, &order.to_string())
    }

    fn ledger(&self) -> Value {
        get(self.address, "/sandbox/ledger").unwrap().body
    }

    /// SIGTERM; its exit code, and what it had said.
    fn stop(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        (code, said)
    }
}

impl Drop for Drill {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_drill_posts_reads_the_ledger_changes_the_faults_and_begins_anew() {
    let drill = Drill::start(&["--faults", "send 2: 500 after; send 3: reset before"]);
    assert_eq!(drill.pay("p1").unwrap().status, 200);
    assert_eq!(drill.pay("p2").unwrap().status, 500);
    assert!(drill.pay("p3").is_err(), "a reset is no answer");
    let ledger = drill.ledger();
    let counts = [
        &ledger["arrivals"],
        &ledger["effective"],
        &ledger["doubles"],
    ];
    assert_eq!(counts, [3, 2, 0]);
    assert_eq!(
        ledger["byCurrency"],
        json!({"EUR": {"count": 2, "sum": "3.00"}})
    );
    let page = get(
        drill.address,
        "/sandbox/ledger?entries=true&after=1&limit=1",
    )
    .unwrap();
    assert_eq!(
        (&page.body["paymentId"], &page.body["effect"]),
        (&json!("p2"), &json!("took"))
    );

    let put = |spec| send(drill.address, "PUT", "/sandbox/faults", "x: y", spec).unwrap();
    assert_eq!(put("sends: 401").status, 200);
    assert_eq!(drill.pay("p4").unwrap().status, 401);
    assert_eq!(put("sends: explode").status, 400);
    assert_eq!(drill.pay("p4").unwrap().status, 401);
    assert_eq!(put("").status, 200);
    let cleared = send(drill.address, "DELETE", "/sandbox/ledger", "x: y", "").unwrap();
    assert_eq!(
        (cleared.status, &drill.ledger()["arrivals"]),
        (204, &json!(0))
    );
    assert_eq!(drill.pay("p1").unwrap().status, 200);

    let address = drill.address;
    let (code, said) = drill.stop();
    assert_eq!(code, Some(0));
    assert!(
        said.contains(&format!("URL=http://{address} tollgate serve")),
        "{said}"
    );
    assert!(
        said.contains("1 arrivals, 1 payments took effect"),
        "{said}"
    );
}

#[test]
fn its_flags_are_the_faults_they_are_short_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.txt");
    std::fs::write(&file, "# a drill\nsend 9: stall\n").unwrap();
    let file = file.to_str().unwrap();
    let flags = [
        "--faults",
        file,
        "--latency-ms",
        "5",
        "--forget-keys-after",
        "0",
        "--settle",
        "60",
    ];
    let drill = Drill::start(&[&flags[..], &["--limit", "4", "--seed", "7"]].concat());
    let head = send(drill.address, "GET", "/sandbox/faults", "x: y", "").unwrap();
    let shown =
        "sends 9: stall after\nall: latency 5ms\nsends: forget-key 0ms\nsends: settle 60000ms\n";
    assert_eq!(head.text, shown);
    for _ in 0..2 {
        assert_eq!(drill.pay("p1").unwrap().status, 200);
    }
    assert_eq!(
        drill.ledger()["doubledPayments"],
        json!(["p1"]),
        "the key was forgotten"
    );
    assert_eq!(
        get(drill.address, "/payments/p1").unwrap().status,
        404,
        "not settled"
    );
    let over_limit = || {
        drill
            .pay("p2")
            .is_ok_and(|answer| answer.status == 429)
            .then_some(())
    };
    eventually("the limit refuses", Duration::from_secs(30), over_limit);
}

#[test]
fn a_bank_with_bad_flags_does_not_start_and_says_which() {
    let taken = Drill::start(&[]);
    let address = taken.address.to_string();
    let table: [(&[&str], &str); 9] = [
        (
            &["--faults", "sends: explode"],
            "--faults: line 1, \"sends: explode\": fault:",
        ),
        (
            &["--faults", "/nowhere/faults.txt"],
            "--faults: \"/nowhere/faults.txt\" is neither",
        ),
        (&["--limit", "0"], "--limit"),
        (&["--limit", "x"], "--limit"),
        (&["--seed", "x"], "--seed"),
        (&["--latency-ms", "1.5"], "--latency-ms"),
        (&["--settle", "86401"], "--settle"),
        (&["--forget-keys-after", "soon"], "--forget-keys-after"),
        (&["--listen", &address], &address),
    ];
    for (flags, part) in table {
        let mut all = vec!["sandbox"];
        if flags[0] != "--listen" {
            all.extend(["--listen", "127.0.0.1:0"]);
        }
        all.extend(flags);
        let said = refused(&all);
        assert!(said.contains(part), "{flags:?}: {said}");
    }
    let said = refused(&["serve", "--sandbox-faults", "sends: stall"]);
    assert!(said.contains("--sandbox"), "{said}");
}

/// A start that must end by itself, in failure; what it said.
fn refused(args: &[&str]) -> String {
    let mut child = Command::new(BINARY)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let patience = 1_500; // looks, 20 ms apart
    let ended = (0..patience).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        child.try_wait().unwrap()
    });
    let _ = child.kill();
    let _ = child.wait();
    assert!(
        ended.is_some_and(|status| !status.success()),
        "{args:?}: {ended:?}"
    );
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    said
}

#[test]
fn serve_with_a_sandbox_takes_its_faults_and_the_payment_ends_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("t.db").display());
    let flags = [
        "--sandbox",
        "--sandbox-faults",
        "send 1 of each payment: reset after",
    ];
    let served = serve_with(&[
        "--listen",
        "127.0.0.1:0",
        "--store",
        &store,
        flags[0],
        flags[1],
        flags[2],
    ]);
    let payment = json!({"paymentId": "p1", "amount": "1.50", "currency": "EUR",
                         "debtor": {"account": "A", "name": "Ann"},
                         "creditor": {"account": "B", "name": "Bob"}});
    assert_eq!(
        post(served.address, "/payments", &payment).unwrap().status,
        201
    );
    let ended = eventually("the payment ends", Duration::from_mins(1), || {
        let payment = get(served.address, "/payments/p1").ok()?.body;
        (payment["status"] == "PROCESSING").then_some(payment)
    });
    let attempts = ended["attempts"].as_array().unwrap();
    assert!(attempts.len() > 1, "the first answer was lost: {ended}");
}
