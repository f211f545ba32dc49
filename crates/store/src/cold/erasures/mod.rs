//! Erasures: their rows. What goes is in `items.rs`, `news.rs` and `texts.rs`.

mod items;
mod news;
mod texts;

pub(crate) use items::erase_settings;

use async_trait::async_trait;
use tollgate_core::erasure::{Erasable, EraseBody, ErasureStage, ErasureWish, LeftOut};
use tollgate_core::id::{ErasureId, Item};
use tollgate_core::ports::{
    Author, ErasureProgress, ErasureTrouble, ErasureView, Erasures, Purged, StoreError, StoreResult,
};

use crate::audit::Entry;
use crate::cold::audit::audit;
use crate::sql::{Row, Sql, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;

/// So many of what was left out are named.
const MOST_NAMED: usize = 100;

#[async_trait]
impl<D: Database> Erasures for StoreOn<D> {
    async fn erasure_candidates(
        &self,
        wish: &ErasureWish,
        after: Option<&Item>,
        limit: u32,
    ) -> StoreResult<Vec<Item>> {
        let (wish, after) = (wish.clone(), after.cloned());
        self.read(
            move |tx| async move { items::candidates(&tx, &wish, after.as_ref(), limit).await },
        )
        .await
    }

    async fn erasable(&self, items: Vec<Item>) -> StoreResult<Vec<Erasable>> {
        self.read(move |tx| async move {
            let mut found = vec![];
            for item in &items {
                let looked_at = items::look(&tx, item).await?;
                found.extend(looked_at.map(|it| it.erasable));
            }
            Ok(found)
        })
        .await
    }

    async fn start_erasure(
        &self,
        id: &ErasureId,
        wish: ErasureWish,
        author: Author,
    ) -> StoreResult<bool> {
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            start(&tx, &id, &wish, &author).await
        })
        .await
    }

    async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<ErasureView>> {
        let id = id.clone();
        self.read(move |tx| async move { view(&tx, &id).await })
            .await
    }

    async fn erasure_to_do(&self) -> StoreResult<Option<ErasureView>> {
        const TO_DO: &str = "SELECT erasure_id, account, item_type, item_id, stage, place, actor,
                 reason, items, archived, notifications, texts, files, left_out, first_left_out,
                 purged, trouble, troubled_since, started_at, ended_at
             FROM erasure WHERE ended_at IS NULL AND started_at > 0
             ORDER BY started_at, erasure_id LIMIT 1";
        self.read(move |tx| async move {
            let row = tx.row(TO_DO, params![]).await;
            row.map(|row| view_from(&row)).transpose()
        })
        .await
    }

    async fn erase_items(
        &self,
        id: &ErasureId,
        items: Vec<Item>,
        body: EraseBody,
    ) -> StoreResult<()> {
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let Some(mut erasure) = held(&tx, &id, ErasureStage::Items).await? else {
                return Ok(());
            };
            let found = items::erase_all(&tx, &erasure, &items, body).await?;
            erasure.items += found.erased;
            erasure.leave_out(found.left_out);
            if let Some(last) = items.last() {
                erasure.after = json(last)?;
            }
            note(&tx, &erasure).await
        })
        .await
    }

    async fn erase_customer(&self, id: &ErasureId) -> StoreResult<()> {
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let Some(mut erasure) = held(&tx, &id, ErasureStage::Customer).await? else {
                return Ok(());
            };
            erasure.texts += texts::customer(&tx, &erasure).await?;
            note(&tx, &erasure).await
        })
        .await
    }

    async fn erase_news(&self, id: &ErasureId, limit: u32, body: EraseBody) -> StoreResult<bool> {
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let Some(mut erasure) = held(&tx, &id, ErasureStage::Notifications).await? else {
                return Ok(false);
            };
            let page = news::page(&tx, &erasure, limit, body).await?;
            erasure.notifications += page.erased;
            let goes_on = page.last.is_some();
            erasure.after = page.last.unwrap_or_default();
            note(&tx, &erasure).await?;
            Ok(goes_on)
        })
        .await
    }

    /// Read apart from what is written: most pages have nothing to erase, and nobody waits for them.
    async fn erase_texts(&self, id: &ErasureId, limit: u32) -> StoreResult<bool> {
        let wanted = id.clone();
        let page = self.read(move |tx| async move {
            let erasure = view(&tx, &wanted).await?;
            let is_there = |it: &ErasureView| it.stage == ErasureStage::Texts;
            let Some(erasure) = erasure.filter(is_there) else {
                return Ok(None);
            };
            texts::page(&tx, &erasure, limit).await
        });
        let Some(page) = page.await? else {
            return Ok(false);
        };
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let Some(mut erasure) = held(&tx, &id, ErasureStage::Texts).await? else {
                return Ok(false);
            };
            if erasure.after != page.from {
                return Ok(true);
            }
            erasure.texts += page.write(&tx).await?;
            erasure.after = page.to;
            note(&tx, &erasure).await?;
            Ok(true)
        })
        .await
    }

    async fn note_erasure(&self, id: &ErasureId, progress: ErasureProgress) -> StoreResult<()> {
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let Some(mut erasure) = held(&tx, &id, progress.from).await? else {
                return Ok(());
            };
            if progress.to != progress.from {
                erasure.after.clear();
            }
            erasure.stage = progress.to;
            erasure.after = progress.after.unwrap_or(erasure.after);
            erasure.leave_out(progress.left_out);
            erasure.archived += progress.archived;
            erasure.files += progress.files;
            if erasure.stage == ErasureStage::Purge {
                forget_account(&tx, &id).await;
            }
            note(&tx, &erasure).await
        })
        .await
    }

    async fn note_erasure_trouble(&self, id: &ErasureId, why: &str) -> StoreResult<()> {
        const NOTE: &str = "UPDATE erasure
             SET trouble = $2, troubled_since = coalesce(troubled_since, tg_now())
             WHERE erasure_id = $1 AND ended_at IS NULL";
        let noted = params![id, why];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn erasures_in_trouble(&self, limit: u32) -> StoreResult<Vec<ErasureView>> {
        const IN_TROUBLE: &str = "SELECT erasure_id, account, item_type, item_id, stage, place,
                 actor, reason, items, archived, notifications, texts, files, left_out,
                 first_left_out, purged, trouble, troubled_since, started_at, ended_at
             FROM erasure WHERE ended_at IS NULL AND started_at > 0 AND trouble IS NOT NULL
             ORDER BY started_at, erasure_id LIMIT $1";
        let wanted = params![limit];
        self.read(move |tx| async move {
            let rows = tx.rows(IN_TROUBLE, wanted).await;
            rows.iter().map(view_from).collect()
        })
        .await
    }

    async fn purge(&self) -> StoreResult<Purged> {
        self.0.purge().await
    }

    async fn end_erasure(&self, id: &ErasureId, purged: Purged) -> StoreResult<()> {
        let id = id.clone();
        self.write(Urgency::Normal, move |tx| async move {
            end(&tx, &id, purged).await
        })
        .await
    }
}

async fn start(tx: &Tx, id: &ErasureId, wish: &ErasureWish, author: &Author) -> StoreResult<bool> {
    const START: &str =
        "INSERT INTO erasure (erasure_id, account, item_type, item_id, stage, place,
             actor, reason, items, archived, notifications, texts, files, left_out, first_left_out,
             started_at)
         VALUES ($1, $2, $3, $4, $5, '', $6, $7, 0, 0, 0, 0, 0, 0, '[]', tg_now())
         ON CONFLICT DO NOTHING";
    let (account, item) = match wish {
        ErasureWish::Account(account) => (Some(account), None),
        ErasureWish::Item(item) => (None, Some(item)),
    };
    let started = params![
        id,
        account,
        item.map(|item| &item.item_type),
        item.map(|item| &item.id),
        ErasureStage::Items.as_str(),
        &author.actor,
        &author.reason,
    ];
    if tx.execute(START, started).await == 0 {
        return Ok(false);
    }
    // Neither the account nor a part or hash of it: it could be found again by trying (docs/decisions/0064).
    let what = item.map_or_else(|| "by account".to_owned(), ToString::to_string);
    let detail = format!("{id}: {what}: {}", author.reason);
    write_audit(tx, "ERASURE_STARTED", &author.actor, &detail).await;
    Ok(true)
}

/// Before what was deleted is overwritten.
async fn forget_account(tx: &Tx, id: &ErasureId) {
    const FORGET: &str = "UPDATE erasure SET account = NULL WHERE erasure_id = $1";
    tx.execute(FORGET, params![id]).await;
}

async fn end(tx: &Tx, id: &ErasureId, purged: Purged) -> StoreResult<()> {
    const END: &str = "UPDATE erasure SET stage = $2, place = '', purged = $3, trouble = NULL,
             troubled_since = NULL, ended_at = tg_now()
         WHERE erasure_id = $1";
    let Some(erasure) = held(tx, id, ErasureStage::Purge).await? else {
        return Ok(());
    };
    let done = ErasureStage::Done.as_str();
    tx.execute(END, params![id, done, purged.as_str()]).await;
    let detail = format!(
        "{id}: {} items, {} archived, {} notifications, {} texts, {} files; {} left out",
        erasure.items,
        erasure.archived,
        erasure.notifications,
        erasure.texts,
        erasure.files,
        erasure.left_out
    );
    write_audit(tx, "ERASURE_ENDED", &erasure.author.actor, &detail).await;
    Ok(())
}

async fn write_audit(tx: &Tx, action: &str, actor: &str, detail: &str) {
    let entry = Entry {
        action,
        actor,
        detail,
        ..Entry::default()
    };
    audit(tx, &entry).await;
}

/// One that runs and is in this stage, held: two runners do not hurt. From here on SQLite overwrites what it deletes.
async fn held(tx: &Tx, id: &ErasureId, stage: ErasureStage) -> StoreResult<Option<ErasureView>> {
    const HELD: &str =
        "SELECT erasure_id, account, item_type, item_id, stage, place, actor, reason,
             items, archived, notifications, texts, files, left_out, first_left_out, purged,
             trouble, troubled_since, started_at, ended_at
         FROM erasure WHERE erasure_id = $1 AND stage = $2 AND ended_at IS NULL";
    const OVERWRITE: Sql = Sql::each("PRAGMA secure_delete = ON", "SELECT 1 AS one");
    tx.rows(OVERWRITE, params![]).await;
    let row = tx.locked_row(HELD, params![id, stage.as_str()]).await;
    row.map(|row| view_from(&row)).transpose()
}

async fn view(tx: &Tx, id: &ErasureId) -> StoreResult<Option<ErasureView>> {
    const VIEW: &str =
        "SELECT erasure_id, account, item_type, item_id, stage, place, actor, reason,
             items, archived, notifications, texts, files, left_out, first_left_out, purged,
             trouble, troubled_since, started_at, ended_at
         FROM erasure WHERE erasure_id = $1";
    let row = tx.row(VIEW, params![id]).await;
    row.map(|row| view_from(&row)).transpose()
}

async fn note(tx: &Tx, erasure: &ErasureView) -> StoreResult<()> {
    // A piece that is repeated leaves the place as it is, and has not come further.
    const NOTE: &str = "UPDATE erasure SET stage = $2, place = $3, items = $4, archived = $5,
                notifications = $6, texts = $7, files = $8, left_out = $9, first_left_out = $10,
                trouble = CASE WHEN stage = $2 AND place = $3 THEN trouble END,
                troubled_since = CASE WHEN stage = $2 AND place = $3 THEN troubled_since END
         WHERE erasure_id = $1";
    let noted = params![
        &erasure.id,
        erasure.stage.as_str(),
        &erasure.after,
        erasure.items,
        erasure.archived,
        erasure.notifications,
        erasure.texts,
        erasure.files,
        erasure.left_out,
        json(&erasure.first_left_out)?,
    ];
    tx.execute(NOTE, noted).await;
    Ok(())
}

trait LeaveOut {
    fn leave_out(&mut self, left_out: Vec<LeftOut>);
}

impl LeaveOut for ErasureView {
    fn leave_out(&mut self, left_out: Vec<LeftOut>) {
        self.left_out += left_out.len() as u64;
        let room = MOST_NAMED.saturating_sub(self.first_left_out.len());
        self.first_left_out.extend(left_out.into_iter().take(room));
    }
}

fn view_from(row: &Row) -> StoreResult<ErasureView> {
    let (account, kind): (Option<String>, _) = (row.get("account")?, row.get("item_type")?);
    let wish = match (account, kind, row.get("item_id")?) {
        (Some(account), ..) => Some(ErasureWish::Account(account)),
        (None, Some(kind), Some(id)) => Some(ErasureWish::Item(Item::new(&kind, &id))),
        (None, ..) => None,
    };
    let purged: Option<String> = row.get("purged")?;
    let (why, since): (Option<String>, _) = (row.get("trouble")?, row.get("troubled_since")?);
    let trouble = why.zip(since);
    Ok(ErasureView {
        id: row.get("erasure_id")?,
        wish,
        stage: row.word("stage", ErasureStage::parse)?,
        after: row.get("place")?,
        author: Author {
            actor: row.get("actor")?,
            reason: row.get("reason")?,
        },
        items: row.get("items")?,
        archived: row.get("archived")?,
        notifications: row.get("notifications")?,
        texts: row.get("texts")?,
        files: row.get("files")?,
        left_out: row.get("left_out")?,
        first_left_out: row.json("first_left_out")?,
        purged: purged.as_deref().and_then(Purged::parse),
        trouble: trouble.map(|(why, since)| ErasureTrouble { why, since }),
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
    })
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> StoreResult<String> {
    serde_json::to_string(value).map_err(|e| StoreError::Bug(format!("an erasure: {e}")))
}
