//! Erasures: every table that may name an account is read in pages by its key.

use tollgate_core::erasure::{ErasureStage, ErasureWish};
use tollgate_core::id::{ErasureId, Item, ItemId, ItemType};
use tollgate_core::ports::{ErasureProgress, Erasures, Purged};
use tollgate_store::postgres::PostgresStore;

use super::operations::author;

/// What `fill.rs` has put into one row of each table, and how many tables of texts there are.
pub(super) const ACCOUNT: &str = "PLANTED-0123456789";
const TABLES: usize = 15;
/// Rows that are read at once.
const PAGE: u32 = 500;

pub(super) async fn run_all(store: &PostgresStore) {
    let wish = ErasureWish::Account(ACCOUNT.to_owned());
    let found = store.erasure_candidates(&wish, None, PAGE).await.unwrap();
    let names: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["INVOICE/a-planted"], "invoices come first");
    let payments = store.erasure_candidates(&wish, found.last(), PAGE).await;
    let payments = payments.unwrap();
    let names: Vec<String> = payments.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["PAYMENT/a-planted"]);
    let requests = ["a-refused", "a-cancelled"].map(|id| item("PAYMENT", id));
    let all = [found, payments, requests.to_vec()].concat();
    assert_eq!(store.erasable(all.clone()).await.unwrap().len(), 4);
    let id = ErasureId::new("erasure-1");
    assert!(store.start_erasure(&id, wish, author()).await.unwrap());
    assert_eq!(store.erasure_to_do().await.unwrap().unwrap().id, id);
    store.note_erasure_trouble(&id, "a disk").await.unwrap();
    let stuck = store.erasures_in_trouble(PAGE).await.unwrap();
    assert_eq!(stuck.len(), 1);
    store
        .erase_items(&id, all, |_, _| "{}".into())
        .await
        .unwrap();
    let view = store.erasure(&id).await.unwrap().unwrap();
    assert_eq!((view.items, view.left_out), (4, 0), "{view:?}");
    to(store, &id, ErasureStage::Items, ErasureStage::Customer, "").await;
    store.erase_customer(&id).await.unwrap();
    let (customer, news) = (ErasureStage::Customer, ErasureStage::Notifications);
    to(store, &id, customer, news, "").await;
    assert!(
        store
            .erase_news(&id, PAGE, |_, _| "{}".into())
            .await
            .unwrap()
    );
    to(store, &id, news, ErasureStage::Texts, "").await;
    texts(store, &id).await;
    to(store, &id, ErasureStage::Texts, ErasureStage::Purge, "").await;
    assert_eq!(store.purge().await.unwrap(), Purged::Later);
    store.end_erasure(&id, Purged::Later).await.unwrap();
    let ended = store.erasure(&id).await.unwrap().unwrap();
    assert_eq!((ended.wish, ended.notifications), (None, 1));
    assert!(ended.ended_at.is_some());
}

/// The first page of each table, in which the planted row lies.
async fn texts(store: &PostgresStore, id: &ErasureId) {
    let stage = ErasureStage::Texts;
    for table in 0..TABLES {
        let place = format!("{{\"table\":{table},\"key\":\"\",\"number\":{}}}", i64::MIN);
        to(store, id, stage, stage, &place).await;
        let before = store.erasure(id).await.unwrap().unwrap().texts;
        assert!(store.erase_texts(id, PAGE).await.unwrap());
        let after = store.erasure(id).await.unwrap().unwrap().texts;
        assert_eq!(after, before + 1, "table {table}");
    }
    let behind = format!("{{\"table\":{TABLES},\"key\":\"\",\"number\":0}}");
    to(store, id, stage, stage, &behind).await;
    assert!(!store.erase_texts(id, PAGE).await.unwrap());
}

async fn to(
    store: &PostgresStore,
    id: &ErasureId,
    from: ErasureStage,
    to: ErasureStage,
    after: &str,
) {
    let progress = ErasureProgress {
        after: Some(after.to_owned()),
        ..ErasureProgress::to(from, to)
    };
    store.note_erasure(id, progress).await.unwrap();
}

fn item(kind: &str, id: &str) -> Item {
    Item::new(&ItemType::new(kind), &ItemId::new(id))
}
