//! The operations of the archive, beside a million items of which half have ended.

use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayExport, DayStep};
use tollgate_core::id::{Item, ItemId};
use tollgate_core::ports::{
    Archive, Author, DayTroubles, KnownAsked, Lanes, MoveWanted, Old, Records, RestoredFor,
    SettingKind, Settings, SharedClock,
};
use tollgate_store::postgres::PostgresStore;

use super::operations::bank;
use crate::trouble::payments;

/// The oldest items of the fill ended a week ago.
pub(super) async fn run_all(store: &PostgresStore) {
    let (kind, now) = (payments(), store.now().await.unwrap());
    let today = ArchiveDay::of(now);
    store
        .prepare_days(&kind, today.before(9), today)
        .await
        .unwrap();
    let wanted = MoveWanted {
        item_type: kind.clone(),
        ended_before: today.before(2).start(),
        after: None,
        at_most: 200,
        remembered: true,
    };
    let said = store.move_ended(wanted).await.unwrap();
    assert_eq!((said.moved, said.looked_at), (200, 200));
    let day = store
        .archived_days(&kind, None, 10)
        .await
        .unwrap()
        .remove(0)
        .day;
    let lines = store.archived_lines(&kind, day, None, 5).await.unwrap();
    let line: ArchivedItem = serde_json::from_str(&lines[0]).unwrap();
    assert!(
        store
            .item(&line.item())
            .await
            .unwrap()
            .unwrap()
            .archived
            .is_some()
    );
    let asked = KnownAsked {
        item: line.item(),
        content_hash: "hash".into(),
    };
    assert!(store.known(vec![asked]).await.unwrap()[0].is_some());
    let never = Item::new(&kind, &ItemId::new("never"));
    assert!(store.archived_item(&never).await.unwrap().is_none());
    let erased = ArchivedItem {
        content_hash: None,
        ..line.clone()
    };
    let (kind_of, name) = (SettingKind::Proposal, line.item().to_string());
    let author = Author::new("ann", "because");
    let proposed = store.put_setting(kind_of, &name, "{}".into(), author);
    proposed.await.unwrap();
    for item in [erased, line.clone()] {
        assert_eq!(store.rewrite(vec![item]).await.unwrap(), 1);
    }
    let proof = store
        .certificate(&bank(), day.start(), day.end())
        .await
        .unwrap();
    assert!(proof.sends > 0);
    let found = store.turns_in(&bank(), day.start(), day.end()).await;
    assert!(found.unwrap().archive.is_some());
    let found = store.found_in(&kind, Some(day.start()), Some(now)).await;
    assert!(found.as_ref().unwrap().hot && found.unwrap().archive.is_some());
    days(store, day, &line).await;
    forgetting(store, today).await;
}

async fn days(store: &PostgresStore, day: ArchiveDay, line: &ArchivedItem) {
    let kind = payments();
    store.close_days(&kind, day.after(1)).await.unwrap();
    assert!(store.archived_day(&kind, day).await.unwrap().is_some());
    let export = DayExport {
        file: "f".into(),
        digest: "00".into(),
        at: day.end(),
    };
    let marked = store.mark_exported(&kind, day, export.clone());
    assert!(marked.await.unwrap());
    assert!(store.outdate_export(&kind, day).await.unwrap());
    let marked = store.mark_exported(&kind, day, export.clone());
    assert!(marked.await.unwrap());
    assert!(store.drop_day(&kind, day).await.unwrap());
    let checked = store.check_restore(&kind, day, vec![line.clone()], RestoredFor::Reading);
    checked.await.unwrap();
    for _ in 0..2 {
        let page = vec![line.clone()];
        store.restore_items(&kind, day, page, true).await.unwrap();
    }
    store.complete_day(&kind, day, Some(export)).await.unwrap();
    let after = ItemId::new("");
    let lines = store
        .archived_lines(&kind, day, Some(&after), 5)
        .await
        .unwrap();
    assert_eq!(lines.len(), 1);
    assert!(store.drop_day(&kind, day).await.unwrap());
}

async fn forgetting(store: &PostgresStore, today: ArchiveDay) {
    let kind = payments();
    let states = store.day_states(&kind).await.unwrap();
    assert!(!states.is_empty());
    let parts = store.store_parts().await.unwrap();
    assert!(parts.iter().any(|(name, _)| name == "item_queue"));
    let ready = store.days_ready(&kind, today.before(1)).await.unwrap();
    assert_eq!(ready, Some(2), "yesterday and today");
    let noted = store.note_day_trouble(&kind, today, DayStep::Export, "full");
    noted.await.unwrap();
    assert_eq!(store.day_troubles(10).await.unwrap().len(), 1);
    let ended = store.end_day_trouble(&kind, today, DayStep::Drop);
    assert!(ended.await.unwrap());
    let mut left = 1;
    while left > 0 {
        left = store.forget_known(&kind, today, 500).await.unwrap();
    }
    for what in Old::ALL {
        store
            .forget_old(what, today.before(60).start(), 10)
            .await
            .unwrap();
    }
    // Imports and jobs of the fill, one of each.
    for what in [Old::Imports, Old::Jobs] {
        let soon = today.after(9).start();
        assert!(store.forget_old(what, soon, 5000).await.unwrap() > 0);
    }
    store.move_calls(today.after(9).start(), 10).await.unwrap();
    store.clock_era().await.unwrap();
    let sizes = store.archive_sizes(&[kind]).await.unwrap();
    assert_eq!(sizes.oldest_hot.len(), 1);
}
