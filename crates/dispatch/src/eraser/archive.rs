//! What was moved out of the hot tables: no index knows whose it is, so every line is looked at, day by day. A copy that a
//! move has left beside a hot item is found here, too.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, ArchivedItem};
use tollgate_core::erasure::{ErasureStage, ErasureWish, erase_archived};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    ErasureProgress, ErasureView, KnownAsked, KnownContent, NewAudit, StoreError, StoreResult,
};

use super::{Eraser, REST, no_wish};

/// Notifications come last: they are judged by which payments were erased.
const TYPES: [&str; 3] = ["PAYMENT", "INVOICE", "NOTIFICATION"];
const NOTIFICATION: usize = 2;
const DAYS_AT_ONCE: u32 = 100;
const LINES_AT_ONCE: u32 = 200;

/// Where it stands: behind an item of a day of a type.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Place {
    kind: usize,
    day: Option<ArchiveDay>,
    after: Option<ItemId>,
}

impl Eraser {
    pub(super) async fn archive(&self, erasure: &ErasureView) -> StoreResult<()> {
        let mut place: Place = match erasure.after.as_str() {
            "" => Place::default(),
            text => serde_json::from_str(text)
                .map_err(|e| StoreError::Bug(format!("the place of {}: {e}", erasure.id)))?,
        };
        let wish = erasure.wish.as_ref().ok_or_else(|| no_wish(erasure))?;
        if let (ErasureWish::Item(item), 0, None) = (wish, place.kind, place.day) {
            self.archived_item(erasure, item).await?;
        }
        let first = match wish {
            ErasureWish::Account(_) => 0,
            ErasureWish::Item(_) => NOTIFICATION,
        };
        for kind in place.kind.max(first)..TYPES.len() {
            if kind != place.kind {
                place = Place {
                    kind,
                    ..Place::default()
                };
            }
            self.days(erasure, &mut place).await?;
        }
        Ok(())
    }

    async fn archived_item(&self, erasure: &ErasureView, item: &Item) -> StoreResult<()> {
        let found = self.store.archived_item(item).await?;
        let found = found.filter(|it| it.content_hash.is_some());
        let erased = self
            .erase_lines(erasure, found.into_iter().collect())
            .await?;
        self.note_place(erasure, &Place::default(), erased).await
    }

    async fn days(&self, erasure: &ErasureView, place: &mut Place) -> StoreResult<()> {
        let kind = ItemType::new(TYPES[place.kind]);
        loop {
            // A day that was begun is gone on with.
            let after = place.day.map(|day| match &place.after {
                Some(_) => day.before(1),
                None => day,
            });
            let days = self.store.archived_days(&kind, after, DAYS_AT_ONCE).await?;
            if days.is_empty() {
                return Ok(());
            }
            for day in days {
                if place.day != Some(day.day) {
                    (place.day, place.after) = (Some(day.day), None);
                }
                self.lines(erasure, &kind, day.day, place).await?;
                place.after = None;
            }
        }
    }

    async fn lines(
        &self,
        erasure: &ErasureView,
        kind: &ItemType,
        day: ArchiveDay,
        place: &mut Place,
    ) -> StoreResult<()> {
        loop {
            let after = place.after.as_ref();
            let lines = self.store.archived_lines(kind, day, after, LINES_AT_ONCE);
            let lines = lines.await?;
            let read = |line: &String| {
                serde_json::from_str::<ArchivedItem>(line)
                    .map_err(|e| StoreError::Bug(format!("a line of {kind} on {day}: {e}")))
            };
            let items = lines.iter().map(read);
            let items = items.collect::<StoreResult<Vec<ArchivedItem>>>()?;
            let Some(last) = items.last() else {
                return Ok(());
            };
            place.after = Some(last.id.clone());
            let sought = self.sought(erasure, kind, items).await?;
            let erased = self.erase_lines(erasure, sought).await?;
            self.note_place(erasure, place, erased).await?;
            tokio::time::sleep(REST).await;
        }
    }

    /// Those that are to be erased.
    async fn sought(
        &self,
        erasure: &ErasureView,
        kind: &ItemType,
        items: Vec<ArchivedItem>,
    ) -> StoreResult<Vec<ArchivedItem>> {
        let body = |item: &ArchivedItem| item.body.clone().unwrap_or_default();
        if kind.as_str() == TYPES[NOTIFICATION] {
            let of = |item: &ArchivedItem| (self.rules.payment)(&body(item));
            let payments: Vec<Option<ItemId>> = items.iter().map(of).collect();
            let erased = self.erased_payments(&payments).await?;
            let both = items.into_iter().zip(payments);
            let about = both.filter(|(item, payment)| {
                let is_whole = (self.rules.erase)(kind, &body(item)) != body(item);
                is_whole && payment.as_ref().is_some_and(|it| erased.contains(it))
            });
            return Ok(about.map(|(item, _)| item).collect());
        }
        let Some(ErasureWish::Account(account)) = &erasure.wish else {
            return Ok(vec![]);
        };
        let is_of = |item: &ArchivedItem| {
            item.content_hash.is_some() && (self.rules.is_of)(kind, &body(item), account)
        };
        Ok(items.into_iter().filter(is_of).collect())
    }

    /// Which of these payments were erased, be they hot or in the archive.
    async fn erased_payments(&self, ids: &[Option<ItemId>]) -> StoreResult<HashSet<ItemId>> {
        let kind = ItemType::new(TYPES[0]);
        let named = ids.iter().flatten().map(|id| Item::new(&kind, id));
        let items: Vec<Item> = named.collect();
        let hot = self.store.erasable(items.clone()).await?;
        let hot = hot.into_iter().filter(|it| it.is_erased());
        let mut erased: HashSet<ItemId> = hot.map(|it| it.item.id).collect();
        let asked = items.iter().map(|item| KnownAsked {
            item: item.clone(),
            content_hash: String::new(),
        });
        let known = self.store.known(asked.collect()).await?;
        for (item, known) in items.into_iter().zip(known) {
            if known.is_some_and(|it| it.content == KnownContent::Erased) {
                erased.insert(item.id);
            }
        }
        Ok(erased)
    }

    /// The entry in the audit log comes first: after a crash it is there twice rather than not at all.
    async fn erase_lines(
        &self,
        erasure: &ErasureView,
        mut items: Vec<ArchivedItem>,
    ) -> StoreResult<u64> {
        if items.is_empty() {
            return Ok(0);
        }
        let now: Timestamp = self.store.now().await?;
        for item in &mut items {
            let entry = NewAudit {
                item: Some(item.item()),
                action: "ERASED".to_owned(),
                actor: erasure.author.actor.clone(),
                detail: format!("{}: {}", erasure.id, erasure.author.reason),
            };
            self.store.write_audit(entry).await?;
            erase_archived(item, now, self.rules.erase);
        }
        self.store.rewrite(items).await
    }

    async fn note_place(
        &self,
        erasure: &ErasureView,
        place: &Place,
        archived: u64,
    ) -> StoreResult<()> {
        let after = serde_json::to_string(place)
            .map_err(|e| StoreError::Bug(format!("the place of {}: {e}", erasure.id)))?;
        let progress = ErasureProgress {
            from: ErasureStage::Archive,
            to: ErasureStage::Archive,
            after,
            archived,
            files: 0,
        };
        self.store.note_erasure(&erasure.id, progress).await
    }
}
