//! Two databases with one folder of exports: the second is refused, and the files of the first stay.

use tollgate_core::id::ItemId;

use super::archive::{Scene, done, reaches, says, view};
use super::day::{DAY, items};
use super::lost::acted;
use crate::fixture::served::Served;

#[test]
fn a_second_database_overwrites_no_export_of_the_first() {
    let first = Scene::new(None);
    let server = first.start(7);
    reaches(&server, "EXPORTED");
    server.kill();
    let (files, lines) = (first.files(), first.zcat());

    let mut others = items();
    for item in &mut others {
        item.id = ItemId::new(format!("other-{}", item.id));
    }
    let second = Scene::with(None, &others);
    let config = second.config(7);
    let text = std::fs::read_to_string(&config).unwrap();
    let [own, shared] = [&second, &first].map(|it| it.folder.path().display().to_string());
    std::fs::write(&config, text.replace(&own, &shared)).unwrap();
    let server = Served::start_with(&[], &config);
    let refused = acted(&server, "export");
    assert_eq!(refused.status, 409, "{}", refused.text);
    says(&refused, &["by another database", "a folder of its own"]);
    assert_eq!(done(&server, "run")["exported"], 0);
    assert_eq!(view(&server)["state"], "CLOSED");
    server.kill();
    assert_eq!((first.files(), first.zcat()), (files, lines));
}

#[test]
fn a_file_that_cannot_be_read_or_is_damaged_stays_and_our_own_goes() {
    let scene = Scene::new(None);
    let named = |digest: &str| format!("PAYMENT-{DAY}-{digest}.ndjson.gz");
    let path = |digest: &str| scene.folder.path().join(named(digest));
    let [unread, damaged, own] = ["000000000001", "000000000002", "000000000003"];
    // It leads to itself: whatever a reader does, the disk answers with an error.
    std::os::unix::fs::symlink(path(unread), path(unread)).unwrap();
    std::fs::write(path(damaged), "not what it was").unwrap();
    let server = scene.start(7);
    let exported = reaches(&server, "EXPORTED");
    let file = exported["file"].as_str().unwrap();
    std::fs::copy(scene.folder.path().join(file), path(own)).unwrap();
    let again = acted(&server, "export");
    assert_eq!(again.status, 200, "{}", again.text);
    let files = scene.files();
    assert!(files.contains(&named(unread)), "{files:?}");
    assert!(files.contains(&named(damaged)), "{files:?}");
    assert!(!files.contains(&named(own)), "it has our items: {files:?}");
}
