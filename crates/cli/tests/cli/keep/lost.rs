//! A database that has lost lines of a day: its export is the only copy, is not overwritten, and brings them back.

use std::process::Command;

use super::archive::{Scene, act, reaches, says, view};
use super::day::DAY;
use crate::fixture::footing::LONG;
use crate::fixture::http::{Response, get};
use crate::fixture::served::{BINARY, Served, eventually_or};

/// Once the first round of the server has left the folder.
pub(super) fn acted(server: &Served, what: &str) -> Response {
    eventually_or(what, LONG, || {
        let answer = act(server, &format!("{DAY}/{what}")).unwrap();
        if answer
            .text
            .contains("another export, verification or restore")
        {
            return Err(answer.text);
        }
        Ok(answer)
    })
}

#[test]
fn a_day_that_lost_its_lines_keeps_its_file_and_is_restored_from_it() {
    let scene = Scene::new(None);
    let before = scene.lines();
    let server = scene.start(7);
    let exported = reaches(&server, "EXPORTED");
    server.kill();
    let files = scene.files();
    std::fs::remove_file(scene.setting.folder.path().join("t-archive-2024-02.db")).unwrap();
    let server = scene.start(7);
    let refused = acted(&server, "export");
    assert_eq!(refused.status, 409, "{}", refused.text);
    says(
        &refused,
        &["has 0 of 700 items", "tollgate archive restore 2024-02-29"],
    );
    server.kill();

    // The round before a drop does not overwrite it either.
    let server = scene.start(0);
    let address = format!("http://{}", server.address);
    let run = ["archive", "run", "--reason", "a test", "--server", &address];
    eventually_or("a round of its own", LONG, || {
        let ran = Command::new(BINARY).args(run).output().unwrap();
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(said.contains("0 days dropped"), "{said}");
        // While the first round of the server is at work, nothing is known to be wrong.
        match ran.status.code() {
            Some(3) => Ok(()),
            Some(0) if said.contains("was skipped") => Err(said),
            code => panic!("{code:?}: {said}"),
        }
    });
    assert_eq!(scene.files(), files);
    assert_eq!(scene.zcat(), before);
    server.kill();

    let server = scene.start(7);
    let answer = acted(&server, "restore");
    assert_eq!(answer.status, 200, "{}", answer.text);
    let restored = view(&server);
    assert_eq!(restored["state"], "EXPORTED");
    assert_eq!(restored["totals"], exported["totals"]);
    assert_eq!(restored["sha256"], exported["sha256"]);
    let verified = acted(&server, "verify");
    assert_eq!(verified.status, 200, "{}", verified.text);
    let back = get(server.address, "/payments/p0042").unwrap();
    assert_eq!(back.status, 200, "{}", back.text);
    server.kill();
    assert_eq!(scene.lines(), before, "all of it is back");
}
