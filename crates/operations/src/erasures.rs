//! Erasures before they begin: what a wish finds now, and a person's confirmation by its digest. Nothing is written
//! until then, since a preview that is kept would be one more place that names the person. A service works them off
//! (`dispatch/src/upkeep/eraser`).

use std::sync::Arc;

use sha2::{Digest, Sha256};
use tollgate_config::{Config, EngineAt, StoreAt};
use tollgate_core::Timestamp;
use tollgate_core::erasure::{ErasureWish, LeftOut};
use tollgate_core::id::{ErasureId, Item};
use tollgate_core::ports::{Author, ErasureView, Purged, Store, StoreResult};

/// So many items are looked at for a preview. The erasure itself has no bound.
const MOST_PREVIEWED: usize = 10_000;
const LOOKED_UP_AT_ONCE: u32 = 500;
/// So many items, and so many that are left out, are shown.
const MOST_SHOWN: usize = 20;

#[derive(Debug, Default)]
pub struct Preview {
    pub digest: String,
    pub count: u64,
    pub first: Vec<Item>,
    pub left_out: u64,
    pub first_left_out: Vec<LeftOut>,
    /// There are more items than were looked at.
    pub is_cut: bool,
}

pub async fn preview(store: &Arc<dyn Store>, wish: &ErasureWish) -> StoreResult<Preview> {
    let mut preview = Preview::default();
    let mut digest = Sha256::new_with_prefix(format!("{wish:?}"));
    let (mut after, mut looked_at) = (None, 0);
    loop {
        let found = store
            .erasure_candidates(wish, after.as_ref(), LOOKED_UP_AT_ONCE)
            .await?;
        let Some(last) = found.last().cloned() else {
            break;
        };
        if looked_at >= MOST_PREVIEWED {
            preview.is_cut = true;
            break;
        }
        looked_at += found.len();
        for item in store.erasable(found).await? {
            match item.refusal() {
                None => {
                    digest.update(item.item.to_string());
                    digest.update([0]);
                    preview.take(item.item);
                }
                Some(reason) => preview.leave_out(item.item, reason),
            }
        }
        after = Some(last);
    }
    if let (ErasureWish::Item(item), 0, 0) = (wish, preview.count, preview.left_out) {
        let archived = store.archived_item(item).await?;
        if archived.is_some_and(|it| it.content_hash.is_some()) {
            digest.update(item.to_string());
            preview.take(item.clone());
        }
    }
    preview.digest = hex::encode(digest.finalize());
    Ok(preview)
}

impl Preview {
    fn take(&mut self, item: Item) {
        self.count += 1;
        if self.first.len() < MOST_SHOWN {
            self.first.push(item);
        }
    }

    fn leave_out(&mut self, item: Item, reason: String) {
        self.left_out += 1;
        if self.first_left_out.len() < MOST_SHOWN {
            self.first_left_out.push(LeftOut { item, reason });
        }
    }
}

/// Starts what was previewed; none if the request now finds other items.
pub async fn confirm(
    store: &Arc<dyn Store>,
    wish: ErasureWish,
    digest: &str,
    author: Author,
) -> StoreResult<Option<ErasureView>> {
    // The same confirmation came twice.
    let running = store.erasure_to_do().await?;
    if let Some(running) = running.filter(|it| it.wish.as_ref() == Some(&wish)) {
        return Ok(Some(running));
    }
    if preview(store, &wish).await?.digest != digest {
        return Ok(None);
    }
    loop {
        let id = id_at(store.now().await?);
        // Another may have begun in the same microsecond.
        let started = store.start_erasure(&id, wish.clone(), author.clone());
        if started.await? {
            return store.erasure(&id).await;
        }
    }
}

/// `erasure-20261116-170000-000123`: when it was started. Nothing of what it erases.
fn id_at(now: Timestamp) -> ErasureId {
    let within = now.as_microsecond().rem_euclid(1_000_000);
    let began = now.strftime("%Y%m%d-%H%M%S");
    ErasureId::new(format!("erasure-{began}-{within:06}"))
}

/// A place that an erasure does not reach, and what ends the data there.
#[derive(Debug, Clone)]
pub struct Outside {
    pub place: &'static str,
    pub ends: String,
    /// Only after an erasure that ended like this.
    only_after: Option<Purged>,
}

impl Outside {
    fn new(place: &'static str, ends: impl Into<String>) -> Self {
        Self {
            place,
            ends: ends.into(),
            only_after: None,
        }
    }

    pub fn is_left_after(&self, purged: Option<Purged>) -> bool {
        self.only_after.is_none() || purged.is_none() || self.only_after == purged
    }
}

/// What an operator has to end, with this configuration.
pub fn outside(config: &Config) -> Vec<Outside> {
    let mut all = vec![
        Outside::new(
            "backups of the database, and copies of exported files",
            "delete them, or wait for the end of their retention; after a restore, erase again",
        ),
        Outside::new(
            "items that have not been archived yet and contain the account in an unusual spelling (found: as given, without separators, in capitals, in small letters, in groups of four)",
            "erase again with that spelling, or after the items have been archived: in the archive, every spelling is found",
        ),
        Outside::new(
            "texts that contain the person's name but not the account, such as the reason of a lane's change",
            "read them with: tollgate audit --by people",
        ),
    ];
    match config.store.at() {
        Ok(StoreAt::Postgres(_)) => all.extend([
            Outside::new(
                "PostgreSQL: dead row versions and index entries",
                "autovacuum removes them; to remove them now: VACUUM item_body, item_queue, attempt, audit_log, flow, request, bulk_error, erasure;",
            ),
            Outside::new(
                "PostgreSQL: write-ahead log and replication slots",
                "segments are reused after a checkpoint (CHECKPOINT;); archived segments are deleted by your own retention",
            ),
        ]),
        Ok(StoreAt::Sqlite(path)) => all.push(Outside {
            only_after: Some(Purged::TooLarge),
            ..Outside::new(
                "SQLite: free space within a database file of more than 64 MiB",
                format!(
                    "stop Tollgate, then: sqlite3 {} 'VACUUM; PRAGMA wal_checkpoint(TRUNCATE);'",
                    path.display()
                ),
            )
        }),
        Err(_) => {}
    }
    if let Ok(EngineAt::Temporal { namespace, .. }) = config.engine.at() {
        all.push(Outside::new(
            "Temporal: histories of ended workflows",
            format!(
                "deleted after the retention of the namespace: temporal operator namespace describe {namespace}"
            ),
        ));
    }
    if !config.feeds.is_empty() {
        all.push(Outside::new(
            "Kafka: records of the topics that feeds read",
            "deleted after the retention of the topic (retention.ms)",
        ));
    }
    all
}
