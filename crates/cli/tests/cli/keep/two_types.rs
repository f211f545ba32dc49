//! A day of which one item type is in files only and another in the database: what is asked of the day without a type is
//! done where it can be done, and an answer never says that something was done where nothing was.

use serde_json::json;
use tollgate_core::id::ItemType;

use super::archive::{Scene, done, reaches, says};
use super::day::{DAY, items, paid, payments};
use super::lost::acted;
use crate::fixture::footing::LONG;
use crate::fixture::http::get;
use crate::fixture::served::{Served, eventually};

fn log(server: &Served, action: &str) -> usize {
    let acts = get(server.address, "/admin/audit?limit=100").unwrap().text;
    acts.matches(action).count()
}

fn is_in_trouble(server: &Served) -> bool {
    let answer = get(
        server.address,
        &format!("/admin/archive/{DAY}?itemType=INVOICE"),
    )
    .unwrap();
    !answer.body["days"][0]["trouble"].is_null()
}

#[test]
fn a_day_is_exported_and_restored_type_by_type() {
    let scene = Scene::empty(None, tempfile::tempdir().unwrap());
    scene.put(&payments(), &items()[..3]);
    let server = scene.start(0);
    reaches(&server, "EXPORTED");
    assert_eq!(done(&server, "run")["dropped"], 1);
    server.kill();
    let amount = json!({"value": "100.00", "currency": "DKK"});
    let invoice = json!({"invoiceId": "inv_1", "customerId": "c_1", "amount": amount});
    scene.put(&ItemType::new("INVOICE"), &[paid(&invoice)]);

    // The kernel's own full disk: the new day stays closed.
    let part = format!(".INVOICE-{DAY}.ndjson.gz.part");
    let part = scene.folder.path().join(part);
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let server = scene.start(7);
    eventually("the invoice's day is in trouble", LONG, || {
        is_in_trouble(&server).then_some(())
    });
    let closed = acted(&server, "restore?itemType=INVOICE");
    assert_eq!(closed.status, 409, "{}", closed.text);
    says(
        &closed,
        &["INVOICE-2024-02-29 is in the database; nothing was restored"],
    );
    assert!(is_in_trouble(&server), "no file was looked at");
    assert_eq!(log(&server, "ARCHIVE_RESTORED"), 0);
    std::fs::remove_file(&part).unwrap();

    let exported = acted(&server, "export");
    assert_eq!(
        exported.status, 200,
        "payments are in a file: {}",
        exported.text
    );
    let days = exported.body["days"].as_array().unwrap();
    let states = days.iter().map(|day| (&day["itemType"], &day["state"]));
    let expected = [("PAYMENT", "DROPPED"), ("INVOICE", "EXPORTED")];
    for state in expected.map(|(of, state)| (json!(of), json!(state))) {
        assert!(
            states.clone().any(|it| it == (&state.0, &state.1)),
            "{}",
            exported.text
        );
    }

    // The payments come back; the invoice never left.
    let restored = acted(&server, "restore");
    assert_eq!(restored.status, 200, "{}", restored.text);
    assert_eq!(log(&server, "ARCHIVE_RESTORED"), 1);
    let again = acted(&server, "restore");
    assert_eq!(again.status, 409, "{}", again.text);
    let every = "PAYMENT-2024-02-29 is in the database with every item of its file";
    says(
        &again,
        &[every, "INVOICE-2024-02-29", "nothing was restored"],
    );
    assert_eq!(log(&server, "ARCHIVE_RESTORED"), 1);
}
