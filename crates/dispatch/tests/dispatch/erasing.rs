//! The eraser on items that were moved out of the hot tables, on both stores.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tollgate_conformance::postgres::shared;
use tollgate_core::archive::ArchiveDay;
use tollgate_core::erasure::{BodyRules, ErasureStage, ErasureWish};
use tollgate_core::id::{BatchId, ErasureId, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Admission, Author, Claim, ErasureView, MoveWanted, NewItem, NewRecord, StartRecord, Started,
    StatusMove,
};
use tollgate_dispatch::Eraser;

use crate::town::Town;

const ACCOUNT: &str = "DE02120300000000202051";
const DAY: Duration = Duration::from_hours(24);

/// Bodies of these tests are an account, or the payment that they tell about.
const RULES: BodyRules = BodyRules {
    erase: |_, _| "{}".to_owned(),
    is_of: |_, body, account| body.contains(account),
    payment: |body| {
        let id = body.strip_prefix("{\"about\":\"")?.strip_suffix("\"}")?;
        Some(ItemId::new(id))
    },
};

#[tokio::test]
async fn what_was_archived_is_erased_and_its_id_stays_taken() {
    archived(Town::new(1000).await).await;
}

#[tokio::test]
async fn what_was_archived_is_erased_and_its_id_stays_taken_on_postgres() {
    let url = shared().database().await;
    archived(Town::on_postgres(&url, 1000).await).await;
}

async fn archived(town: Town) {
    end_some(&town, "PAYMENT", &[("a", &of(ACCOUNT)), ("b", &of("DE00"))]).await;
    end_some(
        &town,
        "NOTIFICATION",
        &[("n", &about("a")), ("m", &about("b"))],
    )
    .await;
    move_all(&town, &["PAYMENT", "NOTIFICATION"]).await;
    end_some(&town, "PAYMENT", &[("hot", &of(ACCOUNT))]).await;
    let first = erase(&town, "1").await;
    assert_eq!((first.items, first.archived), (1, 2), "{first:?}");
    for (kind, id, is_erased) in [
        ("PAYMENT", "a", true),
        ("PAYMENT", "b", false),
        ("NOTIFICATION", "n", true),
        ("NOTIFICATION", "m", false),
    ] {
        let item = Item::new(&ItemType::new(kind), &ItemId::new(id));
        let line = town.store.archived_item(&item).await.unwrap().unwrap();
        assert_eq!(line.body.as_deref() == Some("{}"), is_erased, "{item}");
        assert_eq!(line.erased_at.is_some(), is_erased, "{item}");
        assert_eq!(line.amount_minor, 100);
    }
    let payment = ItemType::new("PAYMENT");
    let again = town.store.admit(&payment, vec![new("a", &of(ACCOUNT))]);
    assert_eq!(again.await.unwrap(), [Admission::Erased]);
    let second = erase(&town, "2").await;
    assert_eq!((second.items, second.archived, second.texts), (0, 0, 0));
    // What was erased while it was hot is known as erased once it is moved.
    move_all(&town, &["PAYMENT"]).await;
    let again = town.store.admit(&payment, vec![new("hot", &of(ACCOUNT))]);
    assert_eq!(again.await.unwrap(), [Admission::Erased]);
    assert_eq!(erase(&town, "3").await.archived, 0);
}

fn of(account: &str) -> String {
    format!(r#"{{"debtor":{{"account":"{account}"}}}}"#)
}

fn about(id: &str) -> String {
    format!(r#"{{"about":"{id}"}}"#)
}

async fn erase(town: &Town, id: &str) -> ErasureView {
    let id = ErasureId::new(id);
    let wish = ErasureWish::Account(ACCOUNT.into());
    let author = Author::new("ann", "request 4711");
    assert!(town.store.start_erasure(&id, wish, author).await.unwrap());
    let (stop, stopped) = watch::channel(false);
    let eraser = tokio::spawn(Eraser::new(Arc::clone(&town.store), RULES, None).run(stopped));
    let ended = loop {
        let view = town.store.erasure(&id).await.unwrap().unwrap();
        if view.stage == ErasureStage::Done {
            break view;
        }
        tokio::task::yield_now().await;
    };
    stop.send(true).unwrap();
    eraser.await.unwrap();
    ended
}

fn new(id: &str, body: &str) -> NewItem {
    NewItem {
        id: ItemId::new(id),
        lane: LaneName::new("default"),
        requested: None,
        deadline: None,
        hold_if_late: false,
        record: NewRecord {
            owner: "o".into(),
            by_owner: false,
            status: "SCHEDULED".into(),
            money: Money {
                minor: 100,
                currency: Currency::from_code("EUR").unwrap(),
            },
            content_hash: "h".into(),
        },
        guards: vec![],
        body: body.to_owned(),
        init_flow: FlowId::new("init"),
    }
}

/// Admits, claims, starts and ends them.
async fn end_some(town: &Town, kind: &str, items: &[(&str, &str)]) {
    let kind = ItemType::new(kind);
    let new = items.iter().map(|(id, body)| new(id, body)).collect();
    town.store.admit(&kind, new).await.unwrap();
    let batch = BatchId::new(format!("BATCH-{}", items[0].0));
    let claim = Claim {
        item_type: kind.clone(),
        lane: LaneName::new("default"),
        batch: batch.clone(),
        ahead: DAY,
        stale_after: Duration::from_mins(2),
        limit: 100,
        credit_horizon: DAY,
    };
    let claimed = town.store.claim(claim).await.unwrap();
    assert_eq!(claimed.len(), items.len());
    let start = |id: &ItemId, fence, run| StartRecord {
        id: id.clone(),
        fence,
        flow: Item::new(&kind, id).exec_flow(run),
        started: Started::New,
    };
    let starts = claimed.iter().map(|it| start(&it.id, it.fence, it.run));
    let starts = town.store.record_starts(&kind, &batch, starts.collect(), 3);
    starts.await.unwrap();
    for (id, _) in items {
        let item = Item::new(&kind, &ItemId::new(*id));
        let done = StatusMove::new(&["SCHEDULED"], "PROCESSING");
        assert!(town.store.finish(&item, 1, done).await.unwrap());
    }
}

/// A day later.
async fn move_all(town: &Town, kinds: &[&str]) {
    town.time.advance(DAY);
    let today = ArchiveDay::of(town.store.now().await.unwrap());
    for kind in kinds.iter().copied().map(ItemType::new) {
        let prepared = town.store.prepare_days(&kind, today.before(5), today);
        prepared.await.unwrap();
        let wanted = MoveWanted {
            remembered: kind.as_str() == "PAYMENT",
            item_type: kind,
            ended_before: today.start(),
            after: None,
            at_most: 100,
        };
        assert!(town.store.move_ended(wanted).await.unwrap().moved > 0);
    }
}
