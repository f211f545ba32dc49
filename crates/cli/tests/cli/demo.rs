//! The demo, as the README's first command runs it, only smaller.

use std::process::Command;

use crate::served::BINARY;

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
        "took effect     300, twice 0",
    ] {
        assert!(report.contains(line), "{line:?} is missing from:\n{report}");
    }
    assert!(!report.contains("FAILED"), "{report}");
}
