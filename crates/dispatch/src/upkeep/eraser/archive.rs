//! What was moved out of the hot tables: no index knows whose it is, so every line is looked at, day by day. A copy that a
//! move has left beside a hot item is found here, too.

use std::collections::HashSet;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tollgate_core::archive::{ArchiveDay, ArchivedItem, DayState, DayView};
use tollgate_core::erasure::{Erasable, ErasureStage, ErasureWish, erase_archived};
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::ports::{
    ErasureProgress, ErasureView, KnownAsked, KnownContent, NewAudit, StoreError, StoreResult,
};

use super::files::{Sought, Written, is_outdated};
use super::{Eraser, REST};

const PAYMENT: &str = "PAYMENT";
const NOTIFICATION: &str = "NOTIFICATION";
const DAYS_AT_ONCE: u32 = 100;
const LINES_AT_ONCE: u32 = 200;
/// A day that was dropped while its lines were erased is begun again from its file, so often at a time.
const MOST_DROPS: u32 = 10;

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

fn is_dropped(view: &DayView) -> bool {
    view.state == DayState::Dropped
}

/// Whether it is the line of this item, with its content.
fn is_unerased(line: &ArchivedItem, item: &Item) -> bool {
    line.id == item.id && line.content_hash.is_some()
}

/// What an erasure seeks in files as it does in lines.
struct OfErasure<'e>(&'e Eraser, &'e ErasureView);

#[async_trait]
impl Sought for OfErasure<'_> {
    async fn is_among(&self, items: &[ArchivedItem]) -> StoreResult<bool> {
        let Self(eraser, erasure) = self;
        let erased_payments = eraser.erased_payments(items).await?;
        let is_sought = |it: &ArchivedItem| eraser.is_sought(erasure, it, &erased_payments);
        Ok(items.iter().any(is_sought))
    }
}

struct OneItem<'i>(&'i Item);

#[async_trait]
impl Sought for OneItem<'_> {
    async fn is_among(&self, items: &[ArchivedItem]) -> StoreResult<bool> {
        Ok(items.iter().any(|line| is_unerased(line, self.0)))
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

    /// By its id the day is known; that of a copy beside a hot item, by its line.
    async fn archived_item(
        &self,
        erasure: &ErasureView,
        item: &Item,
        place: &mut Place,
    ) -> StoreResult<()> {
        let asked = KnownAsked {
            item: item.clone(),
            content_hash: String::new(),
        };
        let known = self.store.known(vec![asked]).await?;
        let day = match known.into_iter().next().flatten() {
            Some(known) => Some(known.day),
            None => {
                let copy = self.store.archived_item(item).await?;
                copy.map(|line| line.day())
            }
        };
        let mut written = None;
        if let Some(day) = day {
            let kind = &item.item_type;
            written = self.day(erasure, kind, day, Some(item), place).await?;
        }
        *place = Place::of_type(place.kind + 1);
        let written = written.unwrap_or(Written::No);
        self.note(erasure, place, 0, written).await
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
                let touched = self.day(erasure, &kind, day.day, None, place).await?;
                place.behind_the_day();
                // A later try names what was left out here a second time, unless it begins behind it.
                if let Some(written) = touched {
                    self.note(erasure, place, 0, written).await?;
                }
            }
        }
    }

    /// Erases what is sought of a day, or one item of it, wherever the day is by now: it may be dropped at any moment. None
    /// if there was nothing to be done.
    async fn day(
        &self,
        erasure: &ErasureView,
        kind: &ItemType,
        day: ArchiveDay,
        one: Option<&Item>,
        place: &mut Place,
    ) -> StoreResult<Option<Written>> {
        let mut touched = None;
        for _ in 0..MOST_DROPS {
            let view = self.store.archived_day(kind, day).await?;
            let in_file = view.as_ref().is_some_and(is_dropped);
            if in_file {
                touched = touched.or(Some(Written::No));
                // All of its lines come back, those before this place, too.
                place.after = None;
                if !self.is_back(erasure, kind, day, one).await? {
                    return Ok(touched);
                }
            }
            let is_whole = match one {
                Some(item) => self.line(erasure, item, place).await?,
                None => self.lines(erasure, kind, day, place).await?,
            };
            if !is_whole {
                continue;
            }
            if in_file {
                touched = Some(self.file_and_drop(erasure, kind, day).await?);
                if touched == Some(Written::Again) {
                    return Ok(touched);
                }
            } else if place.is_changed || view.as_ref().is_some_and(is_outdated) {
                let again = self.file_again(erasure, kind, day, place.is_changed);
                touched = Some(again.await?);
            }
            let view = self.store.archived_day(kind, day).await?;
            if !view.as_ref().is_some_and(is_dropped) {
                return Ok(touched);
            }
        }
        Err(StoreError::Unavailable(format!(
            "{kind} of {day} was dropped again and again while it was erased; the erasure tries again"
        )))
    }

    /// A day that is in a file only, if the file has something that is sought.
    async fn is_back(
        &self,
        erasure: &ErasureView,
        kind: &ItemType,
        day: ArchiveDay,
        one: Option<&Item>,
    ) -> StoreResult<bool> {
        match one {
            Some(item) => {
                let sought = OneItem(item);
                self.brought_back(erasure, kind, day, &sought).await
            }
            None => {
                let sought = OfErasure(self, erasure);
                self.brought_back(erasure, kind, day, &sought).await
            }
        }
    }

    /// False if its day was dropped meanwhile.
    async fn line(
        &self,
        erasure: &ErasureView,
        item: &Item,
        place: &mut Place,
    ) -> StoreResult<bool> {
        let found = self.store.archived_item(item).await?;
        let found = found.filter(|line| is_unerased(line, item));
        let Some(line) = found else {
            return Ok(true);
        };
        self.note_change(erasure, place).await?;
        let erased = self.erase_lines(erasure, vec![line]).await?;
        self.note(erasure, place, erased, Written::No).await?;
        Ok(erased > 0)
    }

    /// False if the day was dropped meanwhile.
    async fn lines(
        &self,
        erasure: &ErasureView,
        kind: &ItemType,
        day: ArchiveDay,
        place: &mut Place,
    ) -> StoreResult<bool> {
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
                return Ok(true);
            };
            let last = last.id.clone();
            let erased_payments = self.erased_payments(&items).await?;
            let is_sought = |it: &ArchivedItem| self.is_sought(erasure, it, &erased_payments);
            let sought: Vec<_> = items.into_iter().filter(is_sought).collect();
            if !sought.is_empty() {
                self.note_change(erasure, place).await?;
            }
            let wanted = sought.len() as u64;
            let erased = self.erase_lines(erasure, sought).await?;
            if erased < wanted {
                return Ok(false);
            }
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
    async fn erased_payments(&self, items: &[ArchivedItem]) -> StoreResult<HashSet<ItemId>> {
        let news = items
            .iter()
            .filter(|it| it.item_type.as_str() == NOTIFICATION);
        let payment = |item: &ArchivedItem| (self.rules.payment)(item.body.as_deref()?);
        let ids = news.filter_map(payment);
        let of = ItemType::new(PAYMENT);
        let items: Vec<Item> = ids.map(|id| Item::new(&of, &id)).collect();
        if items.is_empty() {
            return Ok(HashSet::new());
        }
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
