//! Bad days of the folder of exports, and retentions that cannot be: one sentence each, and nothing is lost.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::archive::{Scene, act, done, read, says, view};
use super::day::DAY;
use crate::fixture::http::{get, post, put};
use crate::fixture::pair::payment;
use crate::fixture::served::{BINARY, Served};

#[test]
#[expect(clippy::too_many_lines, reason = "each bad day of a folder")]
fn a_bad_day_of_the_folder_is_told_in_one_sentence_and_loses_nothing() {
    let scene = Scene::new(None);
    let before = scene.lines();
    // The kernel's own full disk, under the name that is written first.
    let part = scene
        .folder
        .path()
        .join(format!(".PAYMENT-{DAY}.ndjson.gz.part"));
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let server = scene.start(7);
    let refused = act(&server, &format!("{DAY}/export")).unwrap();
    assert_eq!(refused.status, 503, "{}", refused.text);
    says(
        &refused,
        &[
            "No space left on device",
            "free space in retention.export_dir",
        ],
    );
    std::fs::remove_file(&part).unwrap();
    done(&server, &format!("{DAY}/export"));
    let file = scene.folder.path().join(&scene.files()[0]);
    let (bytes, manifest) = (read(&file), read(&scene.manifest()));
    let text = String::from_utf8(manifest.clone()).unwrap();

    let edits = [
        (
            "\"count\": 630",
            "\"count\": 631",
            "other totals than the store",
        ),
        (
            "\"lines\": 700",
            "\"lines\": 699",
            "lines 700 instead of 699",
        ),
        (
            "\"schemaVersion\": 1",
            "\"schemaVersion\": 9",
            "schema version 9",
        ),
        ("\"sha256\": \"", "\"sha256\": \"0", "it was edited"),
    ];
    for (from, to, told) in edits {
        std::fs::write(scene.manifest(), text.replacen(from, to, 1)).unwrap();
        mismatch(&server, told);
    }
    std::fs::remove_file(scene.manifest()).unwrap();
    mismatch(
        &server,
        "manifest.json is missing; the database has the whole day",
    );
    std::fs::write(scene.manifest(), &manifest).unwrap();
    std::fs::remove_file(&file).unwrap();
    mismatch(
        &server,
        "is missing; the database has the whole day, so write it again (tollgate archive export 2024-02-29)",
    );
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    mismatch(&server, "is damaged");
    let mut longer = bytes.clone();
    longer.push(0);
    std::fs::write(&file, &longer).unwrap();
    mismatch(&server, "differs from its manifest: sha256");

    // The database has the day, so an export puts it right.
    done(&server, &format!("{DAY}/export"));
    assert!(read(&file) == bytes, "equal lines make equal files");
    done(&server, &format!("{DAY}/verify"));
    for (address, told) in [
        ("2024-02-30/export", "YYYY-MM-DD"),
        (
            &*format!("{DAY}/export?itemType=NOTHING"),
            "must be one of PAYMENT",
        ),
    ] {
        let refused = act(&server, address).unwrap();
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains(told), "{}", refused.text);
    }
    let nothing = act(&server, "2024-03-01/restore").unwrap();
    assert_eq!(nothing.status, 404, "{}", nothing.text);
    a_file_in_the_place_of_the_folder(&scene, &server);
    retentions_that_are_too_short(&server);
    server.kill();
    assert_eq!(scene.lines(), before);
    a_restore_into_a_store_that_has_an_id(&scene);
}

/// As a disk that is gone: nothing can be written or read there, and the day stays where it is.
fn a_file_in_the_place_of_the_folder(scene: &Scene, server: &Served) {
    let (folder, aside) = (
        scene.folder.path(),
        scene.folder.path().with_extension("aside"),
    );
    std::fs::rename(folder, &aside).unwrap();
    std::fs::write(folder, "a note").unwrap();
    for what in ["export", "verify"] {
        let refused = act(server, &format!("{DAY}/{what}")).unwrap();
        assert_eq!(refused.status, 503, "{what}: {}", refused.text);
        says(&refused, &["Not a directory"]);
    }
    assert_eq!(view(server)["state"], "EXPORTED");
    std::fs::remove_file(folder).unwrap();
    std::fs::rename(&aside, folder).unwrap();
    done(server, &format!("{DAY}/verify"));
}

fn retentions_that_are_too_short(server: &Served) {
    let path = "/admin/item-types/PAYMENT/retention";
    for (change, field, floor) in [
        (json!({"hotDays": 0}), "hotDays", "from 1 to 36500"),
        (json!({"archiveDays": 0}), "archiveDays", "from 1 to 36500"),
        (json!({"archiveDays": 29}), "archiveDays", "hotDays (30)"),
        (json!({"knownYears": 1}), "knownYears", "between 2 and"),
    ] {
        let mut change = change;
        change["reason"] = json!("to save space");
        let refused = put(server.address, path, &change).unwrap();
        assert_eq!(refused.status, 400, "{}", refused.text);
        let why = refused.body["details"][field].as_str().unwrap();
        assert!(why.contains(floor), "{why}");
    }
    let ages = get(server.address, path).unwrap().body;
    assert_eq!(
        (&ages["hotDays"], &ages["version"]),
        (&json!(30), &json!(0))
    );
}

fn a_restore_into_a_store_that_has_an_id(scene: &Scene) {
    let folder = tempfile::tempdir().unwrap();
    for name in scene.files() {
        std::fs::copy(scene.folder.path().join(&name), folder.path().join(&name)).unwrap();
    }
    let other = Scene::empty(None, folder);
    let server = other.start(7);
    let taken = post(server.address, "/payments", &payment("p0600")).unwrap();
    assert_eq!(taken.status, 201, "{}", taken.text);
    let refused = act(&server, &format!("{DAY}/restore")).unwrap();
    assert_eq!(refused.status, 409, "{}", refused.text);
    says(&refused, &["PAYMENT/p0600", "nothing was overwritten"]);
    let shown = get(server.address, "/payments/p0600").unwrap();
    assert_eq!(shown.status, 200, "{}", shown.text);
    // The first page, which has no conflict, was not written.
    let taken = post(server.address, "/payments", &payment("p0000")).unwrap();
    assert_eq!(taken.status, 201, "{}", taken.text);
}

fn start_refused(config: &Path) -> String {
    let started = Command::new(BINARY)
        .args(["serve", "--config"])
        .arg(config)
        .output()
        .unwrap();
    assert_eq!(started.status.code(), Some(1));
    String::from_utf8(started.stderr).unwrap()
}

#[test]
fn without_its_folder_or_with_a_retention_of_0_a_server_does_not_start() {
    let scene = Scene::new(None);
    let folder = scene.folder.path().display().to_string();
    let config = scene.config(7);
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(&folder, "/nowhere/at/all")).unwrap();
    let said = start_refused(&config);
    assert!(
        said.contains("retention.export_dir: /nowhere/at/all does not exist"),
        "{said}"
    );
    for (key, told) in [
        ("hot_days", "must be between 1 and"),
        ("known_years", "must be between 2 and"),
    ] {
        let none = format!("retention.{key} = 0\n{text}");
        std::fs::write(&config, none).unwrap();
        let refused = start_refused(&config);
        let sentence = format!("retention.{key} of payments {told}");
        assert!(refused.contains(&sentence), "{refused}");
    }
    std::fs::write(&config, text.replace(&folder, "")).unwrap();
    let server = Served::start_with(&[], &config);
    let refused = act(&server, &format!("{DAY}/export")).unwrap();
    assert_eq!(refused.status, 409, "{}", refused.text);
    says(&refused, &["retention.export_dir is not set"]);
    assert_eq!(view(&server)["state"], "CLOSED");
}

fn mismatch(server: &Served, told: &str) {
    let refused = act(server, &format!("{DAY}/verify")).unwrap();
    assert_eq!(refused.status, 409, "{told}: {}", refused.text);
    assert_eq!(refused.body["code"], "archive_mismatch", "{}", refused.text);
    says(&refused, &[told]);
}
