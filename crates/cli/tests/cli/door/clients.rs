//! Clients generated from docs/openapi.json compile, and work against `tollgate serve --sandbox`: metadata,
//! errors and an upload included.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fixture::served::{Served, serve_with};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients");

/// Where `./dev clients` puts them.
fn tool(variable: &str, set_up: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os(variable).map_or(root.join(set_up), PathBuf::from);
    let path = path.canonicalize().unwrap_or(path);
    let shown = path.display();
    assert!(
        path.exists(),
        "{shown} is not there; ./dev clients installs it"
    );
    path
}

fn ran(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}\n{wrong}");
    said + &wrong
}

fn sandbox(folder: &Path) -> (Served, String) {
    let store = format!("sqlite:{}", folder.join("t.db").display());
    let served = serve_with(&["--sandbox", "--listen", "127.0.0.1:0", "--store", &store]);
    let base = format!("http://{}", served.address);
    (served, base)
}

#[test]
#[ignore = "needs Node and Python packages; ./dev clients runs it"]
fn a_python_client_is_generated_whole_and_works() {
    let generator = tool(
        "TGTEST_OPENAPI_PYTHON_CLIENT",
        ".dev/openapi-python-client/bin/openapi-python-client",
    );
    let folder = tempfile::tempdir().unwrap();
    let said = ran(Command::new(&generator)
        .current_dir(folder.path())
        .args([
            "generate",
            "--meta",
            "none",
            "--overwrite",
            "--path",
            DOCUMENT,
        ])
        .args(["--output-path", "tollgate_client"]));
    // Of each body it takes the octets, and says that it knows no other type.
    let left_out = said.lines().filter(|line| line.starts_with("WARNING"));
    let types = said.matches("Unsupported content type ").count();
    assert_eq!(left_out.count(), types, "it left something out: {said}");
    let (_served, base) = sandbox(folder.path());
    let smoke = Path::new(CLIENTS).join("smoke.py");
    let python = generator.with_file_name("python");
    let said = ran(Command::new(python)
        .current_dir(folder.path())
        .env("PYTHONPATH", folder.path())
        .args([smoke.as_os_str(), base.as_ref()]));
    assert!(said.contains("ok"), "{said}");
}

#[test]
#[ignore = "needs Node and Python packages; ./dev clients runs it"]
fn a_typescript_client_compiles_and_works() {
    let modules = tool("TGTEST_TYPESCRIPT", ".dev/typescript/node_modules");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| modules.join(".bin").join(name);
    std::os::unix::fs::symlink(&modules, folder.path().join("node_modules")).unwrap();
    std::fs::write(folder.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
    let smoke = Path::new(CLIENTS).join("smoke.mts");
    std::fs::copy(smoke, folder.path().join("smoke.mts")).unwrap();
    ran(Command::new(at("openapi-typescript"))
        .current_dir(folder.path())
        .args([DOCUMENT, "-o", "tollgate.d.ts"]));
    ran(Command::new(at("tsc"))
        .current_dir(folder.path())
        .args(["--strict", "--target", "es2022", "--module", "nodenext"])
        .args(["--types", "node", "smoke.mts"]));
    let (_served, base) = sandbox(folder.path());
    let said = ran(Command::new("node")
        .current_dir(folder.path())
        .args(["smoke.mjs", &base]));
    assert!(said.contains("ok"), "{said}");
}
