//! Totals, the audit log, lists and worklists.

use tollgate_core::actor::Kind;
use tollgate_core::id::{BulkId, Item, ItemType};
use tollgate_core::ports::{
    Accounts, ActionResult, AuditWanted, BesideWanted, Boot, ByTime, Counted, DeadLetters, Found,
    FoundBy, ListKey, Lists, Need, NeedsYou, NewAudit, NewSeen, OwnedWanted, PageFrom, Records,
    RecordsWanted, SharedClock, StoreHealth, WorklistsAsked,
};
use tollgate_store::postgres::PostgresStore;

use super::fill;
use super::operations::{HOUR, author, bank, filled};
use crate::trouble::payments;

pub(super) async fn run_all(store: &PostgresStore) {
    let now = store.now().await.unwrap();
    let boot = Boot {
        id: "boot".into(),
        began: now,
    };
    store.vouch(Some(boot.clone())).await.unwrap();
    store.open_era(Some(boot)).await.unwrap();
    store.try_write().await.unwrap();
    let day = store.totals(&payments(), now - 24 * HOUR, now).await;
    assert!(!day.unwrap().is_empty());
    assert_eq!(store.depths(&payments()).await.unwrap().len(), 5);
    let entry = NewAudit {
        item: Some(filled(1)),
        ..NewAudit::default()
    };
    store.write_audit(entry).await.unwrap();
    let of_item = store.audit(Some(&filled(1)), 100).await.unwrap();
    assert_eq!(of_item.len(), 2);
    assert_eq!(store.audit(None, 100).await.unwrap().len(), 100);
    let by_sender = AuditWanted {
        actor: Some("sender".into()),
        action: Some("RETRY".into()),
        after: Some(250_000),
        limit: 100,
        ..AuditWanted::default()
    };
    let page = store.audit_log(by_sender).await.unwrap();
    assert_eq!((page.items.len(), page.next), (100, Some(249_900)));
    let by_a_person = AuditWanted {
        actor: Some("ops".into()),
        limit: 1,
        ..AuditWanted::default()
    };
    assert_eq!(store.audit_log(by_a_person).await.unwrap().items.len(), 1);
    let by_one = AuditWanted {
        actor: Some("sweeper".into()),
        limit: 100,
        ..AuditWanted::default()
    };
    assert_eq!(store.audit_log(by_one).await.unwrap().items.len(), 100);
    let of_people = AuditWanted {
        by: Some(Kind::People),
        limit: 1,
        ..AuditWanted::default()
    };
    assert_eq!(store.audit_log(of_people).await.unwrap().items.len(), 1);
    let of_action = AuditWanted {
        action: Some("ANSWER_DIFFERS".into()),
        limit: 100,
        ..AuditWanted::default()
    };
    let page = store.audit_log(of_action.clone()).await.unwrap();
    assert_eq!(page.items.len(), 100);
    let of_action = AuditWanted {
        from: Some(now - 200 * HOUR),
        to: Some(now - 50 * HOUR),
        ..of_action
    };
    assert_eq!(store.audit_log(of_action).await.unwrap().items.len(), 100);
    entries_to_and_fro(store).await;
    counts(store).await;
    lists(store).await;
}

/// The log the other way, by each of its indexes.
async fn entries_to_and_fro(store: &PostgresStore) {
    let newer = AuditWanted {
        before: Some(500_000),
        limit: 10,
        ..AuditWanted::default()
    };
    let wanted = [
        newer.clone(),
        AuditWanted {
            item: Some(filled(1)),
            ..newer.clone()
        },
        AuditWanted {
            action: Some("RETRY".into()),
            ..newer.clone()
        },
        AuditWanted {
            actor: Some("sender".into()),
            ..newer.clone()
        },
        AuditWanted {
            by: Some(Kind::People),
            ..newer
        },
    ];
    for wanted in wanted {
        store.audit_log(wanted).await.unwrap();
    }
}

/// How long each list is, as far as it is counted.
async fn counts(store: &PostgresStore) {
    let lists = [
        Counted::Dead(payments()),
        Counted::Imports(payments()),
        Counted::Jobs,
        Counted::StatusChecks,
        Counted::Audit,
        Counted::AuditOfItem(filled(1)),
        Counted::AuditOfAction("RETRY".into()),
        Counted::AuditOfActor("sender".into()),
        Counted::AuditOfPeople,
    ];
    for list in lists {
        let counted = store.counted(list.clone(), 1000).await.unwrap();
        assert!((1..=1000).contains(&counted), "{list:?}: {counted}");
    }
}

async fn lists(store: &PostgresStore) {
    let all = RecordsWanted::all(payments(), 100);
    let file = Some(BulkId::new(fill::bulk(300_000)));
    for (status, lane, bulk) in [
        (None, None, None),
        (Some("PROCESSING"), None, None),
        (Some("CANCELLED"), None, None),
        (None, Some(bank()), None),
        (Some("PROCESSING"), None, file),
    ] {
        let wanted = RecordsWanted {
            status: status.map(str::to_owned),
            lane,
            bulk,
            after: Some(filled(300_000).id),
            ..all.clone()
        };
        let page = store.records(wanted).await.unwrap();
        assert_eq!(page.items.len(), 100);
        assert!(page.next.is_some());
    }
    by_time(store).await;
    let of_owner = RecordsWanted {
        owner: Some(fill::debtor(0)),
        limit: 10,
        ..all
    };
    assert_eq!(store.records(of_owner).await.unwrap().items.len(), 10);
    let owned = OwnedWanted {
        item_type: payments(),
        owner: fill::debtor(0),
        statuses: vec!["SCHEDULED".to_owned(), "IN_DOUBT".to_owned()],
        limit: 1000,
    };
    assert!(store.owned(owned).await.unwrap().len() > 10);
    worklists(store).await;
    let (kind, from) = (payments(), PageFrom::Start);
    let dead = store.dead_letters(&kind, from, 10).await.unwrap();
    assert_eq!(dead.items.len(), 10);
    let on = store
        .dead_letters(&kind, dead.next.into(), 10)
        .await
        .unwrap();
    let back = PageFrom::Before(on.previous.unwrap());
    let back = store.dead_letters(&kind, back, 10).await.unwrap();
    assert_eq!(back.items, dead.items);
    let item = Item::new(&payments(), &dead.items[0].id);
    let replayed = store.replay(&item, author()).await.unwrap();
    assert_eq!(replayed, ActionResult::Yes);
}

async fn worklists(store: &PostgresStore) {
    let notifications = ItemType::new("NOTIFICATION");
    let asked = WorklistsAsked {
        money: vec![payments()],
        payments: payments(),
        notifications,
    };
    let told = store.worklists(asked).await.unwrap();
    assert!(told.held.count > 90 && told.dead.count > 90);
    for order in [ByTime::Newest, ByTime::Oldest] {
        let page = store.held(&payments(), order, PageFrom::Start, 10).await;
        assert_eq!(page.unwrap().items.len(), 10);
    }
    let seen = NewSeen { count: 3, mark: 0 };
    store.mark_seen(Need::Held, seen, author()).await.unwrap();
    for left in [2, 0] {
        store.lower_seen(Need::Held, left).await.unwrap();
    }
}

/// Lists to and fro by time, and by what an index finds.
async fn by_time(store: &PostgresStore) {
    let wanted = |place: Option<ListKey>, newer| BesideWanted {
        item_type: payments(),
        place,
        newer,
        from: None,
        to: None,
        limit: 1000,
    };
    let newest = store.items_beside(wanted(None, false)).await.unwrap();
    assert_eq!(newest.len(), 1000);
    let last = newest.last().cloned();
    let older = store.items_beside(wanted(last.clone(), false)).await;
    assert_eq!(older.unwrap().len(), 1000);
    let newer = store.items_beside(wanted(last, true)).await.unwrap();
    assert_eq!(newer.len(), 999);
    let items: Vec<Item> = newest
        .iter()
        .map(|key| Item::new(&payments(), &key.id))
        .collect();
    assert_eq!(store.record_lines(&items).await.unwrap().len(), 1000);
    for newer in [false, true] {
        let place = newest.first().cloned();
        store
            .requests_beside(wanted(place, newer), None)
            .await
            .unwrap();
    }
    let by = [
        (FoundBy::Status("DEAD".into()), 0),
        (FoundBy::Held, 1),
        (FoundBy::Account("D77".into()), 100),
        (FoundBy::Account("C77".into()), 1),
        (FoundBy::Reference("R77".into()), 10),
        (FoundBy::Owner(fill::debtor(0)), 10),
    ];
    for (by, least) in by {
        match store.items_found(&payments(), by.clone(), 1000).await {
            Ok(Found::All(keys)) => assert!(keys.len() >= least, "{by:?}"),
            other => panic!("{by:?}: {other:?}"),
        }
    }
    // The newest are not sent yet, so that an end of nearly all items is not found without the others.
    for (status, answer) in [
        ("SCHEDULED", Found::TooMany),
        ("CANCELLED", Found::TooMany),
        ("PROCESSING", Found::Unlisted),
    ] {
        let by = FoundBy::Status(status.into());
        assert_eq!(store.items_found(&payments(), by, 1000).await, Ok(answer));
    }
}
