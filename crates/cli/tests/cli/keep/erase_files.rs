//! `tollgate erase` of a person whose payments are in an exported file only: the file is written again without them, and
//! everything else in it is as it was.

use serde_json::{Value, json};
use tollgate_conformance::postgres::dump;
use tollgate_core::archive::ArchivedItem;

use super::archive::{Scene, act, done, reaches};
use super::day::{COUNT, DAY, items};
use super::erase::{around, files_of, is_in, tollgate};
use super::trouble::{asked, comes_to_count, needed, status};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{Served, eventually_or};

pub(super) const ACCOUNT: &str = "DE02120300000000202051";
const NAME: &str = "Annemarie-Testfall";
/// Hers: on the first, a middle and the last page.
pub(super) const HERS: [usize; 3] = [3, 350, 699];
/// Another person's, erased by its id.
const ANOTHERS: usize = 5;

#[test]
fn a_person_is_erased_from_a_day_that_is_in_files_only() {
    erased_from_a_file(None);
}

#[test]
fn a_person_is_erased_from_a_day_that_is_in_files_only_on_postgresql() {
    erased_from_a_file(Some(database()));
}

fn erased_from_a_file(url: Option<String>) {
    let scene = Scene::with(url, &with_her());
    let server = scene.start(0);
    reaches(&server, "EXPORTED");
    assert_eq!(done(&server, "run")["dropped"], 1);
    let before = reaches(&server, "DROPPED");
    let (lines, file) = (scene.zcat(), scene.files()[0].clone());
    assert_eq!(about_her(&lines), HERS.len());

    let first = erase(&server, &["--account", ACCOUNT]);
    assert_eq!(counted(&first), [0, 3, 1, 0], "{first}");
    let after = reaches(&server, "DROPPED");
    assert_eq!(after["totals"], before["totals"], "totals stay");
    assert_ne!(after["file"], file, "it is named after its content");
    assert_eq!(after["file"], scene.files()[0]);
    assert_eq!(
        scene.files().len(),
        2,
        "the old file is gone: {:?}",
        scene.files()
    );
    only_what_was_hers_has_changed(&lines, &scene.zcat());

    let second = erase(&server, &["--account", ACCOUNT]);
    assert_eq!(
        counted(&second),
        [0, 0, 0, 0],
        "a second finds nothing: {second}"
    );
    let another = erase(&server, &["--item", &id_of(ANOTHERS)]);
    assert_eq!(counted(&another), [0, 1, 1, 0], "{another}");
    let verified = done(&server, &format!("{DAY}/verify"));
    assert_eq!(verified["files"][0]["lines"], COUNT, "{verified}");
    repeats_and_shown(&server);
    server.kill();
    nothing_of_her_is_left(&scene);
}

#[test]
fn an_erasure_that_cannot_reach_the_files_says_why_until_it_can() {
    const KIND: &str = "erasures-stuck";
    const GAUGE: &str = "tollgate_erasures_in_trouble";
    let scene = Scene::with(None, &with_her());
    let server = scene.start(0);
    reaches(&server, "EXPORTED");
    assert_eq!(done(&server, "run")["dropped"], 1);
    let preview = tollgate(server.address, &["--account", ACCOUNT]);
    // As a disk that is not mounted.
    let (folder, aside) = (
        scene.folder.path(),
        scene.folder.path().with_extension("aside"),
    );
    std::fs::rename(folder, &aside).unwrap();
    std::fs::write(folder, "a note").unwrap();
    let wish = json!({"account": ACCOUNT, "digest": preview["digest"], "reason": "request 4711"});
    let started = post(server.address, "/admin/erasures", &wish).unwrap();
    assert_eq!(started.status, 202, "{}", started.text);
    let id = started.body["erasureId"].as_str().unwrap();
    let path = format!("/admin/erasures/{id}");
    let stuck = eventually_or("it says why it waits", LONG, || {
        let shown = asked(&server, &path);
        let has_why = shown["trouble"].is_string();
        if has_why {
            Ok(shown)
        } else {
            Err(shown.to_string())
        }
    });
    let why = stuck["trouble"].as_str().unwrap();
    assert!(why.contains("Not a directory"), "{stuck}");
    assert_eq!(stuck["stage"], "ARCHIVE", "{stuck}");
    assert_ne!(stuck["troubledSince"], Value::Null);
    let sentence = needed(&server, KIND).unwrap();
    assert_eq!(sentence, format!("{id} waits: {why}"));
    let (code, said) = status(&server);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains(&sentence), "{said}");
    comes_to_count(&server, GAUGE, "1");

    std::fs::remove_file(folder).unwrap();
    std::fs::rename(&aside, folder).unwrap();
    let ended = eventually_or("it goes on", LONG, || {
        let shown = asked(&server, &path);
        let has_ended = shown["stage"] == "DONE";
        if has_ended {
            Ok(shown)
        } else {
            Err(shown.to_string())
        }
    });
    assert_eq!(
        (&ended["trouble"], &ended["files"]),
        (&Value::Null, &json!(1))
    );
    comes_to_count(&server, GAUGE, "0");
    assert_eq!(needed(&server, KIND), None);
}

/// The day, with her among others.
pub(super) fn with_her() -> Vec<ArchivedItem> {
    let mut items = items();
    for number in HERS {
        let body = items[number].body.take().unwrap();
        let body = body.replace("\"A-1\"", &format!("\"{ACCOUNT}\""));
        items[number].body = Some(body.replace("\"Ann\"", &format!("\"{NAME}\"")));
    }
    items
}

pub(super) fn id_of(number: usize) -> String {
    format!("p{number:04}")
}

fn about_her(lines: &[String]) -> usize {
    let is_hers = |line: &&String| line.contains(ACCOUNT) && line.contains(NAME);
    lines.iter().filter(is_hers).count()
}

/// A preview, then the same with its digest.
fn erase(server: &Served, wish: &[&str]) -> Value {
    let preview = tollgate(server.address, wish);
    let digest = preview["digest"].as_str().unwrap();
    let confirmed = ["--digest", digest, "--reason", "request 4711"];
    let ended = tollgate(server.address, &[wish, &confirmed].concat());
    assert_eq!(ended["stage"], "DONE", "{ended}");
    ended
}

fn counted(erasure: &Value) -> [u64; 4] {
    ["items", "archived", "files", "leftOut"].map(|it| erasure[it].as_u64().unwrap())
}

fn only_what_was_hers_has_changed(before: &[String], after: &[String]) {
    assert_eq!(before.len(), after.len());
    for (number, (before, after)) in before.iter().zip(after).enumerate() {
        if !HERS.contains(&number) {
            assert_eq!(before, after);
            continue;
        }
        assert!(!after.contains(ACCOUNT) && !after.contains(NAME), "{after}");
        let [before, after] = [before, after].map(|it| serde_json::from_str::<Value>(it).unwrap());
        for kept in [
            "id",
            "status",
            "currency",
            "amountMinor",
            "createdAt",
            "finishedAt",
        ] {
            assert_eq!(before[kept], after[kept], "{kept}");
        }
        assert_eq!(after["contentHash"], Value::Null);
    }
}

fn repeats_and_shown(server: &Served) {
    let repeated = post(server.address, "/payments", &payment(&id_of(HERS[0]))).unwrap();
    assert_eq!(
        (repeated.status, &repeated.body["code"]),
        (409, &json!("erased")),
        "{}",
        repeated.text
    );
    let restored = act(server, &format!("{DAY}/restore")).unwrap();
    assert_eq!(restored.status, 200, "{}", restored.text);
    let shown = get(server.address, &format!("/payments/{}", id_of(HERS[1]))).unwrap();
    let erased = json!({"account": "[erased]", "name": "[erased]"});
    assert_eq!(shown.body["debtor"], erased, "{}", shown.text);
}

/// Every byte of the store, and every line of every file.
pub(super) fn nothing_of_her_is_left(scene: &Scene) {
    assert_eq!(about_her(&scene.zcat()), 0);
    let bytes = match &scene.url {
        None => files_of(scene.setting.folder.path()),
        Some(url) => dump(url).into_bytes(),
    };
    for word in [ACCOUNT, NAME] {
        let left = is_in(&bytes, word);
        assert!(!left, "{word} is still there: {}", around(&bytes, word));
    }
}
