//! An erasure in a day that is in the database and in a file, killed with -9 between what it knows of ids, its lines and
//! its file: the next start finds each of them.

use serde_json::json;
use tollgate_core::id::{Item, ItemId};
use tollgate_core::ports::{KnownAsked, KnownContent};

use super::archive::{Scene, act, done, reaches};
use super::day::{DAY, payments};
use super::erase::tollgate;
use super::erase_files::{ACCOUNT, HERS, id_of, nothing_of_her_is_left, with_her};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{Served, eventually_or};

/// So long the day stays, although it is old.
const STAYS: u32 = 7;

#[test]
fn kill_9_between_ids_lines_and_file_leaves_nothing_of_a_person() {
    killed_between(None);
}

#[test]
fn kill_9_between_ids_lines_and_file_leaves_nothing_of_a_person_on_postgresql() {
    killed_between(Some(database()));
}

fn killed_between(url: Option<String>) {
    let scene = Scene::with(url, &with_her());
    let server = scene.start(0);
    reaches(&server, "EXPORTED");
    assert_eq!(done(&server, "run")["dropped"], 1);
    done(&server, &format!("{DAY}/restore"));
    server.kill();

    let environment = [("TGTEST_DIE_AT", "erase-known")];
    let server = Served::start_in(&environment, &scene.config(STAYS));
    let preview = tollgate(server.address, &["--account", ACCOUNT]);
    let wish = json!({"account": ACCOUNT, "digest": preview["digest"], "reason": "request 4711"});
    let started = post(server.address, "/admin/erasures", &wish).unwrap();
    assert_eq!(started.status, 202, "{}", started.text);
    assert_eq!(server.ended().0, None, "killed");
    // Lines of the first page are committed, and the file has them as they were.
    scene.dies_at("erase-lines", STAYS);

    let server = scene.start(STAYS);
    let erasure = started.body["erasureId"].as_str().unwrap();
    let ended = eventually_or("it goes on and ends", LONG, || {
        let shown = get(server.address, &format!("/admin/erasures/{erasure}")).unwrap();
        let is_done = shown.body["stage"] == "DONE";
        is_done.then_some(shown.body).ok_or(shown.text)
    });
    assert_eq!((&ended["files"], &ended["leftOut"]), (&json!(1), &json!(0)));
    for number in HERS {
        let again = post(server.address, "/payments", &payment(&id_of(number))).unwrap();
        let said = (again.status, &again.body["code"]);
        assert_eq!(said, (409, &json!("erased")), "{}", again.text);
    }
    let verified = act(&server, &format!("{DAY}/verify")).unwrap();
    assert_eq!(verified.body["files"][0]["comparedWithDatabase"], true);
    server.kill();
    let known = scene.in_store(async |store| {
        let asked = HERS.map(|number| KnownAsked {
            item: Item::new(&payments(), &ItemId::new(id_of(number))),
            content_hash: String::new(),
        });
        store.known(asked.to_vec()).await.unwrap()
    });
    for known in known {
        assert_eq!(known.map(|it| it.content), Some(KnownContent::Erased));
    }
    nothing_of_her_is_left(&scene);
}
