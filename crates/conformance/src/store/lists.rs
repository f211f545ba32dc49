//! `Lists`: to and fro by time, and by what an index finds.

use tollgate_core::id::{Item, ItemId};
use tollgate_core::ports::{
    BesideWanted, CandidatesBy, CandidatesWanted, Found, FoundBy, ListKey, NewItem, NewRequest,
    RecordsWanted, RequestState, StatusMove,
};

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
    let Found::All(mut keys) = found.unwrap() else {
        panic!("there are no more than {at_most}");
    };
    keys.sort();
    keys.iter().map(|key| key.id.to_string()).collect()
}

async fn are_too_many(f: &dyn Fixture, by: FoundBy, at_most: u32) -> bool {
    let found = f.store().items_found(&payments(), by, at_most).await;
    found.unwrap() == Found::TooMany
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
    assert!(are_too_many(f, account("A-1"), 2).await);
    let reference = FoundBy::Reference("rent".into());
    assert_eq!(found(f, reference, 9).await, ["a", "c"]);
    let scheduled = FoundBy::Status("SCHEDULED".into());
    assert_eq!(found(f, scheduled.clone(), 9).await, ["a", "b", "c"]);
    assert!(are_too_many(f, scheduled, 2).await);
    assert!(found(f, FoundBy::Held, 9).await.is_empty());
}

/// A store need not list the ends of nearly all items: it finds them all if it can look at every item.
pub async fn usual_ends_are_found_among_few_items_and_along_the_list_of_many(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.dispatched(&["a", "b", "c", "d", "e"]).await;
    let done = StatusMove::new(&["SCHEDULED"], "PROCESSING");
    for id in ["b", "d"] {
        let ended = f.store().finish(&payment(id), 1, done.clone()).await;
        assert!(ended.unwrap());
    }
    let ended = FoundBy::Status("PROCESSING".into());
    assert_eq!(found(f, ended.clone(), 5).await, ["b", "d"]);
    let store = f.store();
    for at_most in [1, 2, 4] {
        match store.items_found(&payments(), ended.clone(), at_most).await {
            Ok(Found::All(keys)) => assert_eq!((keys.len(), at_most > 1), (2, true)),
            Ok(Found::TooMany) => assert_eq!(at_most, 1),
            Ok(Found::Unlisted) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let mut by_id = RecordsWanted {
        status: Some("PROCESSING".into()),
        ..RecordsWanted::all(payments(), 1)
    };
    let first = store.records(by_id.clone()).await.unwrap();
    by_id.after = first.next.clone();
    let second = store.records(by_id).await.unwrap();
    let ids = [&first, &second].map(|page| page.items[0].id.as_str());
    assert_eq!(ids, ["b", "d"]);
    let judged = store.with_status(&payments(), "PROCESSING", None, 9).await;
    assert_eq!(judged.unwrap().len(), 2);
    let wanted = CandidatesWanted {
        item_type: payments(),
        by: CandidatesBy::Status("PROCESSING".into()),
        after: Some(payment("b").id),
        limit: 9,
    };
    assert_eq!(store.candidates(wanted).await.unwrap().len(), 1);
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
    assert!(are_too_many(f, owner("ann"), 1).await);
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
