//! The disk under a SQLite store: nothing can be written, then it can again; a damaged file; a start
//! where nothing can be written. A limit on the size of files stands for a full disk, since it can be
//! set for one process, and lifted while that runs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{BINARY, Served, Setting, eventually};

const SOON: Duration = Duration::from_secs(30);

/// A server that is told of the limit instead of being killed by it; the shell becomes the server.
fn serve(config: &Path, wrapped: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.args(wrapped).args([BINARY, "serve", "--config"]);
    command.arg(config);
    command
}

/// The soft limit alone, so that it can be lifted again without any right.
fn limit_files(server: &Served, bytes: &str) {
    let (pid, size) = (server.pid().to_string(), format!("--fsize={bytes}:"));
    let set = Command::new("prlimit")
        .args(["--pid", &pid, &size])
        .status();
    assert!(set.unwrap().success(), "prlimit {size}");
}

fn ready(server: &Served, status: u16) {
    let what = format!("/health/ready is {status}");
    eventually(&what, SOON, || {
        let answer = get(server.address, "/health/ready").ok()?;
        (answer.status == status).then_some(())
    });
}

fn bank_and_setting(runtime: &tokio::runtime::Runtime) -> (Bank, Setting) {
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let setting = Setting::new(&bank, "");
    (bank, setting)
}

fn posted(server: &Served, id: &str) -> u16 {
    post(server.address, "/payments", &payment(id)).map_or(0, |answer| answer.status)
}

#[test]
fn while_nothing_can_be_written_it_is_not_ready_and_then_it_goes_on() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (bank, setting) = bank_and_setting(&runtime);
    let server = Served::start_by(&mut serve(&setting.config("127.0.0.1:0"), &[]));
    ready(&server, 200);
    assert_eq!(posted(&server, "before"), 201);
    eventually("it is paid", SOON, || {
        (bank.ledger().effective().get("before") == Some(&1)).then_some(())
    });
    limit_files(&server, "1");
    ready(&server, 503);
    assert_eq!(
        posted(&server, "during"),
        503,
        "what cannot be kept is not taken"
    );
    let live = get(server.address, "/health/live").unwrap();
    assert_eq!(live.status, 200, "the process stays");
    limit_files(&server, "unlimited");
    ready(&server, 200);
    for id in ["during", "after"] {
        assert_eq!(posted(&server, id), 201, "{id}");
    }
    eventually("all are paid", SOON, || {
        (bank.ledger().effective().len() == 3).then_some(())
    });
    assert!(bank.ledger().effective().values().all(|times| *times == 1));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_damaged_file_ends_the_process_with_one_sentence() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_bank, setting) = bank_and_setting(&runtime);
    let server = setting.start("127.0.0.1:0");
    assert_eq!(posted(&server, "before"), 201);
    assert_eq!(server.stop(), Some(0));

    let server = setting.start("127.0.0.1:0");
    // All but the heads of the database and of its log.
    for (name, head) in [("t.db", 4096), ("t.db-wal", 32)] {
        let file = setting.folder.path().join(name);
        let length = usize::try_from(std::fs::metadata(&file).unwrap().len()).unwrap();
        let damaged = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        let rubbish = vec![0xAB; length - head];
        std::os::unix::fs::FileExt::write_all_at(&damaged, &rubbish, head as u64).unwrap();
    }
    // Nobody asks: what the dispatcher reads after the next write is enough.
    let (code, log) = server.ended();
    assert_eq!(code, Some(1), "{log:?}");
    let said: Vec<_> = log
        .iter()
        .filter(|line| line.starts_with("tollgate: "))
        .collect();
    assert_eq!(said.len(), 1, "{log:?}");
    assert!(said[0].contains("t.db: "), "{said:?}");
    assert!(
        said[0].contains("the file is damaged. Restore a backup"),
        "{said:?}"
    );
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
}

#[test]
fn a_start_where_nothing_can_be_written_is_one_sentence() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_bank, setting) = bank_and_setting(&runtime);
    let config = setting.config("127.0.0.1:0");
    // No room for a new file; then a start that comes as far as its first write, behind the log that
    // a killed server has left.
    let refused = || {
        let started = serve(&config, &["prlimit", "--fsize=65536:"])
            .env("RUST_LOG", "off")
            .output()
            .unwrap();
        let said = String::from_utf8(started.stderr).unwrap();
        assert_eq!(started.status.code(), Some(1), "{said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    };
    let said = refused();
    assert!(said.contains("t.db"), "{said}");
    let _ = std::fs::remove_file(setting.folder.path().join("t.db"));
    setting.start("127.0.0.1:0").kill();
    let said = refused();
    assert!(
        said.contains("the store cannot be used right now: disk I/O error"),
        "{said}"
    );
}
