//! `Lists`: to and fro by time, and by what an index finds.

use tollgate_core::id::{Item, ItemId};
use tollgate_core::ports::{BesideWanted, FoundBy, ListKey, NewItem, NewRequest, RequestState};

use super::fixture::{Fixture, new_item, ops, payment, payments, plan, usd};
use super::planning::{secs, withdrawn};

fn beside(place: Option<&ListKey>, newer: bool, limit: u32) -> BesideWanted {
    BesideWanted {
        item_type: payments(),
        place: place.cloned(),
        newer,
        from: None,
        to: None,
        limit,
    }
}

fn ids(keys: &[ListKey]) -> Vec<&str> {
    keys.iter().map(|key| key.id.as_str()).collect()
}

async fn found(f: &dyn Fixture, by: FoundBy, at_most: u32) -> Vec<String> {
    let found = f.store().items_found(&payments(), by, at_most).await;
    let mut found = found.unwrap();
    found.sort();
    found.iter().map(|key| key.id.to_string()).collect()
}

pub async fn items_are_listed_by_when_they_were_accepted_to_and_fro(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    for id in ["c", "a", "b", "d"] {
        f.place(vec![new_item(id)]).await;
        f.advance(std::time::Duration::from_mins(2)).await;
    }
    let store = f.store();
    let all = store.items_beside(beside(None, false, 9)).await.unwrap();
    assert_eq!(ids(&all), ["d", "b", "a", "c"]);
    let older = beside(Some(&all[1]), false, 9);
    let older = store.items_beside(older).await.unwrap();
    assert_eq!(ids(&older), ["a", "c"]);
    let newer = beside(Some(&all[3]), true, 2);
    let newer = store.items_beside(newer).await.unwrap();
    assert_eq!(ids(&newer), ["a", "b"], "the nearest first");
    let within = BesideWanted {
        from: Some(all[2].at),
        to: Some(all[1].at - secs(60)),
        ..beside(None, false, 9)
    };
    let within = store.items_beside(within).await.unwrap();
    assert!(ids(&within).contains(&"a") && !ids(&within).contains(&"d"));
    assert!(!ids(&within).contains(&"c"));
    let key = ListKey::at_page_token(&all[0].page_token());
    assert_eq!(key.as_ref(), Some(&all[0]));
    let items: Vec<Item> = ["b", "nobody", "a"].map(payment).to_vec();
    let mut lines = store.record_lines(&items).await.unwrap();
    lines.sort_by(|one, other| one.id.cmp(&other.id));
    let told: Vec<_> = lines.iter().map(|line| line.id.as_str()).collect();
    assert_eq!(told, ["a", "b"]);
    assert_eq!((lines[0].money, lines[0].run), (usd(100), 1));
    assert!(store.record_lines(&[]).await.unwrap().is_empty());
}

pub async fn items_are_found_by_status_account_and_reference(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let with = |id: &str, debtor: &str, creditor: &str, reference: &str| NewItem {
        body: format!(
            "{{\"debtor\":{{\"account\":\"{debtor}\"}},\"creditor\":{{\"account\":\"{creditor}\"}},\"reference\":{reference}}}"
        ),
        ..new_item(id)
    };
    f.place(vec![
        with("a", "A-1", "B-1", "\"rent\""),
        with("b", "B-1", "A-1", "null"),
        with("c", "A-1", "A-1", "\"rent\""),
        new_item("d"),
    ])
    .await;
    f.store()
        .cancel(&payment("d"), withdrawn(), ops())
        .await
        .unwrap();
    let account = |it: &str| FoundBy::Account(it.into());
    assert_eq!(found(f, account("A-1"), 9).await, ["a", "b", "c"]);
    assert_eq!(found(f, account("B-1"), 9).await, ["a", "b"]);
    assert!(found(f, account("B-"), 9).await.is_empty());
    assert!(found(f, account("A-1"), 1).await.len() <= 2, "bounded");
    let reference = FoundBy::Reference("rent".into());
    assert_eq!(found(f, reference, 9).await, ["a", "c"]);
    let scheduled = FoundBy::Status("SCHEDULED".into());
    assert_eq!(found(f, scheduled.clone(), 9).await, ["a", "b", "c"]);
    assert_eq!(found(f, scheduled, 2).await.len(), 2);
    assert!(found(f, FoundBy::Held, 9).await.is_empty());
}

pub async fn items_are_found_by_whom_they_belong_to(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let of = |id: &str, owner: &str, by_owner: bool| {
        let mut item = new_item(id);
        owner.clone_into(&mut item.record.owner);
        item.record.by_owner = by_owner;
        item
    };
    let items = [
        ("a", "ann", true),
        ("b", "bob", true),
        ("c", "ann", true),
        ("d", "ann", false),
    ];
    f.place(items.map(|(id, owner, by)| of(id, owner, by)).to_vec())
        .await;
    let owner = |name: &str| FoundBy::Owner(name.into());
    assert_eq!(found(f, owner("ann"), 9).await, ["a", "c"]);
    assert_eq!(found(f, owner("ann"), 1).await.len(), 1);
    assert!(found(f, owner("an"), 9).await.is_empty());
}

pub async fn requests_are_listed_by_time_among_the_items(f: &dyn Fixture) {
    for id in ["b", "a", "c"] {
        let request = NewRequest {
            item: payment(id),
            content_hash: id.into(),
            money: usd(100),
            document: "{}".into(),
            again: false,
        };
        f.store().accept(request).await.unwrap();
        f.advance(std::time::Duration::from_secs(1)).await;
    }
    let store = f.store();
    store.withdraw(&payment("a"), ops()).await.unwrap();
    let told = async |wanted: BesideWanted, state: Option<RequestState>| -> Vec<String> {
        let found = store.requests_beside(wanted, state).await.unwrap();
        found.iter().map(|it| it.id.to_string()).collect()
    };
    assert_eq!(told(beside(None, false, 9), None).await, ["c", "a", "b"]);
    let waiting = Some(RequestState::Waiting);
    assert_eq!(told(beside(None, false, 9), waiting).await, ["c", "b"]);
    let all = store.requests_beside(beside(None, false, 9), None).await;
    let first = &all.unwrap()[2];
    let place = ListKey {
        at: first.accepted_at,
        id: ItemId::new(first.id.as_str()),
    };
    assert_eq!(told(beside(Some(&place), true, 9), None).await, ["a", "c"]);
}
