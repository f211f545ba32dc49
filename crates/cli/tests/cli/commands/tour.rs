//! The tour works as written: every `sh` block of docs/tour.md, run by a shell against a sandbox.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::fixture::http::get;
use crate::fixture::served::{BINARY, serve_with};

/// Commands that talk to no server, and take no `--server`.
const LOCAL: &str = "config|token|completions";

#[test]
fn every_command_of_the_tour_works_and_leaves_nothing_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("t.db").display());
    let served = serve_with(&["--sandbox", "--listen", "127.0.0.1:0", "--store", &store]);
    let address = served.address;
    let script = script(&address.to_string());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder.path())
        .env("TOLLGATE", BINARY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    // curl says nothing of a refusal by its exit code.
    assert!(!said.contains("\"error\""), "{said}");
    assert!(said.contains("1000"), "the import was shown: {said}");

    let lanes = get(address, "/admin/rate-limit/config").unwrap().body;
    for lane in list(&lanes) {
        assert_eq!(lane["open"], true, "{lane}");
        assert_eq!(lane["calendar"], Value::Null, "{lane}");
    }
    let types = get(address, "/admin/item-types").unwrap().body;
    for item_type in list(&types) {
        assert_eq!(item_type["enabled"], true, "{item_type}");
    }
}

fn list(answer: &Value) -> &Vec<Value> {
    let list = answer.as_array().unwrap();
    assert!(!list.is_empty());
    list
}

/// The blocks one after the other, at another address than the one that the tour names.
fn script(address: &str) -> String {
    let tour = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tour.md");
    let tour = fs::read_to_string(tour).unwrap();
    let blocks: Vec<_> = tour.split("\n```sh\n").skip(1).collect();
    let blocks: Vec<_> = blocks
        .iter()
        .map(|rest| rest.split("\n```").next().unwrap())
        .collect();
    let commands = blocks.join("\n").replace("localhost:8090", address);
    assert!(commands.matches("\ntollgate ").count() > 30, "{commands}");
    for linux_only in ["date -u -d", "date -d", "sed -i", "grep -P", "readlink -f"] {
        assert!(!commands.contains(linux_only), "{linux_only}");
    }
    format!(
        "tollgate() {{ case \"$1\" in {LOCAL}) \"$TOLLGATE\" \"$@\" ;; \
         *) \"$TOLLGATE\" \"$@\" --server http://{address} ;; esac; }}\n\
         set -x\n{commands}"
    )
}
