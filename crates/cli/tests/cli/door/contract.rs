//! The API against its own document: schemathesis reads what is served at `/openapi.json` and tries
//! everything that it allows and much that it does not.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use tollgate_conformance::postgres::Cluster;

use crate::fixture::http::get;
use crate::fixture::pair::{Pair, pair, pair_on, payment};

/// Test cases per operation and phase, at most; the seed is fixed so that a failure comes again.
const EXAMPLES: &str = "8";
const SEED: &str = "1";

/// The heaviest question is a forecast of ten million, in a debug build on a busy machine.
const PATIENCE_SECS: &str = "120";

/// No 5xx, and nothing that is not in the document: no status, no type, no header, no shape.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance";

/// Where `./dev setup` puts it.
fn schemathesis() -> PathBuf {
    let set_up = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../.dev/schemathesis/bin/schemathesis"
    );
    let path = std::env::var_os("TGTEST_SCHEMATHESIS_BIN").map_or(set_up.into(), PathBuf::from);
    assert!(
        path.exists(),
        "{} is not there; ./dev setup installs it",
        path.display()
    );
    path
}

fn keeps_to_its_document(address: SocketAddr, phases: &str) {
    let folder = tempfile::tempdir().unwrap();
    let told = Command::new(schemathesis())
        .current_dir(folder.path())
        .args(["run", &format!("http://{address}/openapi.json")])
        .args([
            "--checks",
            CHECKS,
            "--max-examples",
            EXAMPLES,
            "--seed",
            SEED,
        ])
        .args(["--phases", phases, "--no-color"])
        .args(["--suppress-health-check", "all", "--warnings", "off"])
        .args(["--request-timeout", PATIENCE_SECS])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{text}");
    let last = phases.rsplit(',').next().unwrap();
    let ran = text.to_lowercase().contains(&format!("{last} (in "));
    assert!(ran, "it did not run: {text}");
}

/// Something to find: a payment under the id that the document's examples name.
fn with_a_payment(pair: Pair) -> Pair {
    pair.pay(&payment("pay_001"));
    pair
}

/// What the document says, and every value at the edge of what it allows. In `./dev soak` also at random: after all
/// those changes of lanes and calendars the random forecasts of millions take minutes.
#[test]
fn the_api_keeps_to_its_document_on_sqlite() {
    let pair = with_a_payment(pair(""));
    let is_whole = std::env::var_os("TGTEST_CONTRACT").is_some();
    let phases = if is_whole {
        "examples,coverage,fuzzing"
    } else {
        "examples,coverage"
    };
    keeps_to_its_document(pair.server.address, phases);
}

/// At random. What the store is asked with is what differs: PostgreSQL takes no text with a zero in it, and
/// only numbers that fit.
#[test]
fn the_api_keeps_to_its_document_on_postgres() {
    let cluster = Cluster::start();
    let url = tokio::runtime::Runtime::new()
        .unwrap()
        .block_on(cluster.database());
    let pair = with_a_payment(pair_on(&url, ""));
    keeps_to_its_document(pair.server.address, "fuzzing");
}

#[test]
fn the_document_is_served_with_a_page_to_read_it_on() {
    let pair = pair("");
    let address = pair.server.address;
    let document = get(address, "/openapi.json").unwrap();
    assert_eq!(document.text, tollgate_server::openapi_json());
    assert!(document.head.contains("content-type: application/json"));
    let page = get(address, "/docs/").unwrap();
    assert_eq!(page.status, 200);
    let policy = "content-security-policy: default-src 'none'; script-src 'self';";
    assert!(page.head.contains(policy), "{}", page.head);
    assert!(
        !page.text.contains("<script>"),
        "none of its own: {}",
        page.text
    );
    let script = get(address, "/docs/swagger-initializer.js").unwrap();
    assert!(script.text.contains("/openapi.json"), "{}", script.text);
}
