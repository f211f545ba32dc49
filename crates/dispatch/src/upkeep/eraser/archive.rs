//! What was moved out of the hot tables: no index knows whose it is, so every line is looked at, day by day. A copy that a
//! move has left beside a hot item is found here, too.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayState, DayView};
use tollgate_core::erasure::{Erasable, ErasureStage, ErasureWish, erase_archived};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    AuditWanted, ErasureProgress, ErasureView, KnownAsked, KnownContent, NewAudit, StoreError,
    StoreResult,
};

use super::files::{Written, is_outdated};
use super::{Eraser, REST};

const PAYMENT: &str = "PAYMENT";
const NOTIFICATION: &str = "NOTIFICATION";
const DAYS_AT_ONCE: u32 = 100;
const LINES_AT_ONCE: u32 = 200;
const ENTRIES_AT_ONCE: u32 = 1000;

/// Where it stands: behind an item of a day of a type, or behind the day.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Place {
    kind: usize,
    day: Option<ArchiveDay>,
    after: Option<ItemId>,
    /// Noted before the first line of the day is erased: what is not in its file any more is not found in its lines.
    #[serde(default)]
    is_changed: bool,
}

impl Place {
    fn of_type(kind: usize) -> Self {
        Self {
            kind,
            ..Self::default()
        }
    }

    /// Lines of the day were looked at or changed, and it is not done.
    fn is_inside(&self) -> bool {
        self.after.is_some() || self.is_changed
    }

    fn behind_the_day(&mut self) {
        (self.after, self.is_changed) = (None, false);
    }
}

/// Which are sought in the archive.
fn types(stage: ErasureStage) -> &'static [&'static str] {
    if stage == ErasureStage::ArchivedNotifications {
        &[NOTIFICATION]
    } else {
        &[PAYMENT, "INVOICE"]
    }
}

impl Eraser {
    pub(super) async fn archive(&self, erasure: &ErasureView) -> StoreResult<()> {
        let mut place: Place = match erasure.after.as_str() {
            "" => Place::default(),
            text => serde_json::from_str(text)
                .map_err(|e| StoreError::Bug(format!("the place of {}: {e}", erasure.id)))?,
        };
        for (kind, name) in types(erasure.stage).iter().enumerate().skip(place.kind) {
            if kind != place.kind {
                place = Place::of_type(kind);
            }
            match &erasure.wish {
                Some(ErasureWish::Item(item)) if *name != NOTIFICATION => {
                    if item.item_type.as_str() == *name {
                        self.archived_item(erasure, item, &mut place).await?;
                    }
                }
                _ => self.days(erasure, &mut place).await?,
            }
        }
        Ok(())
    }

    /// By its id the day is known.
    async fn archived_item(
        &self,
        erasure: &ErasureView,
        item: &Item,
        place: &mut Place,
    ) -> StoreResult<()> {
        let kind = &item.item_type;
        let asked = KnownAsked {
            item: item.clone(),
            content_hash: String::new(),
        };
        let known = self.store.known(vec![asked]).await?;
        let known = known.into_iter().next().flatten();
        let dropped = known.filter(|it| it.state == DayState::Dropped);
        let is_it = |line: &ArchivedItem| line.id == item.id && line.content_hash.is_some();
        let mut is_back = false;
        if let Some(known) = &dropped {
            is_back = self.brought_back(erasure, kind, known.day, &is_it).await?;
        }
        let found = self.store.archived_item(item).await?;
        let day = found.as_ref().map(ArchivedItem::day);
        let found = found.filter(is_it);
        if found.is_some() {
            self.note_change(erasure, place).await?;
        }
        let erased = self
            .erase_lines(erasure, found.into_iter().collect())
            .await?;
        let written = match day {
            Some(day) if is_back => self.file_and_drop(erasure, kind, day).await?,
            Some(day) => {
                self.file_again(erasure, kind, day, place.is_changed)
                    .await?
            }
            None => Written::No,
        };
        *place = Place::of_type(place.kind + 1);
        self.note(erasure, place, erased, written).await
    }

    async fn days(&self, erasure: &ErasureView, place: &mut Place) -> StoreResult<()> {
        let Some(kind) = types(erasure.stage).get(place.kind) else {
            return Ok(());
        };
        let kind = ItemType::new(*kind);
        loop {
            // A day that was begun is gone on with.
            let is_inside = place.is_inside();
            let after = place
                .day
                .map(|day| if is_inside { day.before(1) } else { day });
            let days = self.store.archived_days(&kind, after, DAYS_AT_ONCE).await?;
            if days.is_empty() {
                return Ok(());
            }
            for day in days {
                if place.day != Some(day.day) {
                    place.behind_the_day();
                    place.day = Some(day.day);
                }
                self.day(erasure, &day, place).await?;
            }
        }
    }

    async fn day(
        &self,
        erasure: &ErasureView,
        view: &DayView,
        place: &mut Place,
    ) -> StoreResult<()> {
        let (kind, day) = (&view.item_type, view.day);
        let written = if view.state == DayState::Dropped {
            let sought = self.sought_in_files(erasure, kind).await?;
            let is_sought = |line: &ArchivedItem| self.is_sought(erasure, line, &sought);
            if self.brought_back(erasure, kind, day, &is_sought).await? {
                self.lines(erasure, kind, day, place).await?;
                self.file_and_drop(erasure, kind, day).await?
            } else {
                Written::No
            }
        } else {
            self.lines(erasure, kind, day, place).await?;
            if !place.is_changed && !is_outdated(view) {
                place.behind_the_day();
                return Ok(());
            }
            self.file_again(erasure, kind, day, place.is_changed)
                .await?
        };
        // A later try names what was left out here a second time, unless it begins behind it.
        place.behind_the_day();
        self.note(erasure, place, 0, written).await
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
            let last = last.id.clone();
            let erased_payments = self.erased_payments(kind, &items).await?;
            let is_sought = |it: &ArchivedItem| self.is_sought(erasure, it, &erased_payments);
            let sought: Vec<_> = items.into_iter().filter(is_sought).collect();
            if !sought.is_empty() {
                self.note_change(erasure, place).await?;
            }
            let erased = self.erase_lines(erasure, sought).await?;
            place.after = Some(last);
            self.note(erasure, place, erased, Written::No).await?;
            tokio::time::sleep(REST).await;
        }
    }

    /// Notifications are sought by the payments that were erased, others by their own bodies.
    fn is_sought(
        &self,
        erasure: &ErasureView,
        item: &ArchivedItem,
        erased_payments: &HashSet<ItemId>,
    ) -> bool {
        let (kind, body) = (&item.item_type, item.body.as_deref().unwrap_or_default());
        if kind.as_str() == NOTIFICATION {
            let payment = (self.rules.payment)(body);
            let is_about = payment.is_some_and(|it| erased_payments.contains(&it));
            return is_about && (self.rules.erase)(kind, body) != body;
        }
        match &erasure.wish {
            Some(ErasureWish::Account(account)) => {
                item.content_hash.is_some() && (self.rules.is_of)(kind, body, account)
            }
            Some(ErasureWish::Item(_)) | None => false,
        }
    }

    /// Which payments of these notifications were erased, be they hot or in the archive.
    async fn erased_payments(
        &self,
        kind: &ItemType,
        items: &[ArchivedItem],
    ) -> StoreResult<HashSet<ItemId>> {
        if kind.as_str() != NOTIFICATION {
            return Ok(HashSet::new());
        }
        let payment = |item: &ArchivedItem| (self.rules.payment)(item.body.as_deref()?);
        let ids = items.iter().filter_map(payment);
        let of = ItemType::new(PAYMENT);
        let items: Vec<Item> = ids.map(|id| Item::new(&of, &id)).collect();
        let hot = self.store.erasable(items.clone()).await?;
        let hot = hot.into_iter().filter(Erasable::is_erased);
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

    /// Files are read without asking the store about each line: the payments that this erasure has erased, by its own
    /// entries in the audit log.
    async fn sought_in_files(
        &self,
        erasure: &ErasureView,
        kind: &ItemType,
    ) -> StoreResult<HashSet<ItemId>> {
        let mut erased = HashSet::new();
        if kind.as_str() != NOTIFICATION || self.files.is_none() {
            return Ok(erased);
        }
        let mut after = None;
        loop {
            let wanted = AuditWanted {
                action: Some("ERASED".to_owned()),
                after,
                limit: ENTRIES_AT_ONCE,
                ..AuditWanted::default()
            };
            let page = self.store.audit_log(wanted).await?;
            let is_old = page.items.iter().any(|it| it.at < erasure.started_at);
            let mine = page.items.into_iter().filter(|entry| {
                let (id, rest) = entry.detail.split_once(':').unwrap_or_default();
                id == erasure.id.as_str() && !rest.is_empty()
            });
            let payments = mine.filter_map(|entry| entry.item);
            let payments = payments.filter(|item| item.item_type.as_str() == PAYMENT);
            erased.extend(payments.map(|item| item.id));
            after = page.next;
            if after.is_none() || is_old {
                return Ok(erased);
            }
        }
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
        let now = self.store.now().await?;
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

    /// Before lines are erased: a day whose file is older than its lines is not told by the lines.
    async fn note_change(&self, erasure: &ErasureView, place: &mut Place) -> StoreResult<()> {
        if place.is_changed {
            return Ok(());
        }
        place.is_changed = true;
        self.note(erasure, place, 0, Written::No).await
    }

    async fn note(
        &self,
        erasure: &ErasureView,
        place: &Place,
        archived: u64,
        written: Written,
    ) -> StoreResult<()> {
        let after = serde_json::to_string(place)
            .map_err(|e| StoreError::Bug(format!("the place of {}: {e}", erasure.id)))?;
        let progress = ErasureProgress {
            after: Some(after),
            archived,
            files: u64::from(written == Written::Again),
            ..ErasureProgress::within(erasure.stage)
        };
        self.store.note_erasure(&erasure.id, progress).await
    }
}
