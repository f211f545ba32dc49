//! The demo, as the README's first command runs it, only smaller.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::fixture::http::get;
use crate::fixture::served::BINARY;

#[test]
fn the_demo_proves_itself_and_its_exit_code_says_so() {
    let output = Command::new(BINARY)
        .args(["demo", "--payments", "300", "--limit", "100", "--seed", "7"])
        .output()
        .unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{report}");
    for line in [
        "Rate certificate",
        "Control totals",
        "The bank's own ledger",
        "took effect     300, more than once 0",
    ] {
        assert!(report.contains(line), "{line:?} is missing from:\n{report}");
    }
    assert!(!report.contains("FAILED"), "{report}");
}

#[test]
fn a_demo_that_stays_keeps_its_console_open_until_it_is_ended() {
    let mut demo = Command::new(BINARY)
        .args(["demo", "--payments", "50", "--limit", "50", "--stay"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(demo.stderr.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    let watch = said.find_map(|line| Some(line.strip_prefix("watch it at http://")?.to_owned()));
    let address = watch.expect("it says where to watch").parse().unwrap();
    assert_eq!(get(address, "/").unwrap().status, 200, "during the storm");
    let stays = format!("the console stays open at http://{address}");
    assert!(said.any(|line| line.starts_with(&stays)));
    let page = get(address, "/console/payments?status=PROCESSING").unwrap();
    assert!(page.text.contains("pay_0000001"), "{}", page.text);
    let pid = demo.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(
        report.contains("took effect     50, more than once 0"),
        "{report}"
    );
}
