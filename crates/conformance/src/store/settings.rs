//! `Settings`: every version stays readable, with its author.

use futures::future::join_all;
use tollgate_core::ports::{Author, Setting, SettingKind};

use super::fixture::{Fixture, MINUTE};

async fn put(f: &dyn Fixture, name: &str, body: &str) -> Setting {
    let author = Author::new("maria", format!("wants {body}"));
    f.store()
        .put_setting(SettingKind::ItemType, name, body.into(), author)
        .await
        .unwrap()
}

pub async fn the_version_in_force_is_the_newest(f: &dyn Fixture) {
    let current = async || f.store().setting(SettingKind::ItemType, "PAYMENT").await;
    assert_eq!(current().await.unwrap(), None);
    let before = f.now().await;
    let first = put(f, "PAYMENT", "{\"a\":1}").await;
    assert_eq!((first.version, first.body_json.as_str()), (1, "{\"a\":1}"));
    assert_eq!(first.author, Author::new("maria", "wants {\"a\":1}"));
    assert!(first.created_at >= before);
    let second = put(f, "PAYMENT", "{\"a\":2}").await;
    assert_eq!(second.version, 2);
    assert_eq!(current().await.unwrap(), Some(second.clone()));
    f.restart().await;
    assert_eq!(current().await.unwrap(), Some(second));
}

pub async fn old_versions_stay_readable_newest_first(f: &dyn Fixture) {
    let mut written = vec![];
    for body in ["1", "2", "3"] {
        written.insert(0, put(f, "PAYMENT", body).await);
        f.advance(MINUTE).await;
    }
    let store = f.store();
    let history = |limit| store.setting_history(SettingKind::ItemType, "PAYMENT", limit);
    assert_eq!(history(10).await.unwrap(), written);
    assert_eq!(history(2).await.unwrap(), written[..2]);
}

pub async fn settings_of_other_names_and_kinds_never_meet(f: &dyn Fixture) {
    put(f, "PAYMENT", "1").await;
    let other = put(f, "INVOICE", "2").await;
    assert_eq!(other.version, 1);
    let lane = f.store().setting(SettingKind::Lane, "PAYMENT").await;
    assert_eq!(lane.unwrap(), None);
    assert_eq!(
        f.store().lanes().await.unwrap(),
        [],
        "an item type is no lane"
    );
}

pub async fn a_setting_leaves_an_audit_entry_with_its_author(f: &dyn Fixture) {
    put(f, "PAYMENT", "{\"enabled\":false}").await;
    let entry = f.store().audit(None, 1).await.unwrap().remove(0);
    assert_eq!((entry.actor.as_str(), entry.item), ("maria", None));
    for part in ["PAYMENT", "version 1", "enabled", "wants"] {
        assert!(
            entry.detail.contains(part),
            "{part} is not in {}",
            entry.detail
        );
    }
}

pub async fn settings_written_at_once_become_versions_one_after_the_other(f: &dyn Fixture) {
    let bodies: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let written = join_all(bodies.iter().map(|body| put(f, "PAYMENT", body))).await;
    let store = f.store();
    let history = store.setting_history(SettingKind::ItemType, "PAYMENT", 100);
    let history = history.await.unwrap();
    assert_eq!(history.len(), 20);
    for setting in &written {
        assert!(
            history.contains(setting),
            "an answer of another: {setting:?}"
        );
    }
    let versions: Vec<i64> = history.iter().map(|s| s.version).collect();
    assert_eq!(versions, (1..=20).rev().collect::<Vec<_>>());
}

async fn replace(f: &dyn Fixture, version: i64, body: &str) -> Option<Setting> {
    let (store, author) = (f.store(), Author::new("maria", "because"));
    let kind = SettingKind::ItemType;
    let replaced = store.replace_setting(kind, "PAYMENT", version, body.into(), author);
    replaced.await.unwrap()
}

pub async fn a_setting_is_replaced_only_while_it_is_the_version_in_force(f: &dyn Fixture) {
    assert_eq!(replace(f, 1, "0").await, None, "there is none yet");
    assert_eq!(replace(f, 0, "1").await.unwrap().version, 1);
    assert_eq!(replace(f, 0, "2").await, None, "there is one by now");
    let second = replace(f, 1, "2").await.unwrap();
    assert_eq!((second.version, second.body_json.as_str()), (2, "2"));
    assert_eq!(replace(f, 1, "3").await, None, "somebody came first");
    let current = f.store().setting(SettingKind::ItemType, "PAYMENT").await;
    assert_eq!(current.unwrap(), Some(second), "and nothing was written");
    assert_eq!(f.store().audit(None, 10).await.unwrap().len(), 2);
}

pub async fn of_many_that_replace_one_version_at_once_one_succeeds(f: &dyn Fixture) {
    put(f, "PAYMENT", "1").await;
    let bodies: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let written = join_all(bodies.iter().map(|body| replace(f, 1, body))).await;
    assert_eq!(written.iter().flatten().count(), 1);
}

pub async fn settings_of_a_kind_are_listed_page_by_page_as_they_are_in_force(f: &dyn Fixture) {
    let mut in_force = vec![];
    for name in ["a", "b", "c", "d", "e"] {
        put(f, name, "1").await;
        in_force.push((name.to_owned(), put(f, name, "2").await));
    }
    let other = Author::new("maria", "because");
    let store = f.store();
    let kind = SettingKind::Customer;
    let put = store.put_setting(kind, "bb", "3".into(), other);
    put.await.unwrap();
    for limit in 1..=6 {
        let (mut listed, mut after): (Vec<_>, Option<String>) = (vec![], None);
        loop {
            let page = store.settings(SettingKind::ItemType, after.as_deref(), limit);
            let page = page.await.unwrap();
            assert!(page.items.len() <= limit as usize);
            listed.extend(page.items.into_iter().map(|one| (one.name, one.setting)));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(listed, in_force, "{limit} at a time");
    }
    let none = store.settings(SettingKind::Rules, None, 9).await.unwrap();
    assert!(none.items.is_empty() && none.next.is_none());
}
