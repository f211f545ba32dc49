//! Bulks: uploads, their chunks as the work list, and how a chunk's end is counted once.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tollgate_core::id::{BulkId, ItemType};
use tollgate_core::ports::{
    Bookmark, BulkLine, BulkSum, BulkView, Bulks, ChunkEnd, ChunkId, ChunkToDo, Closed, KnownBulk,
    LineError, NewChunk, Page, RETRIES, StoreError, StoreResult,
};

use super::PostgresStore;
use super::bulk_views;
use super::run::{Params, execute, lock_name, one, optional};
use super::value::{Count, Us, storable};
use crate::telemetry::Lines;
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl Bulks for PostgresStore {
    async fn open_bulk(&self, bulk: &BulkId, item_type: &ItemType) -> StoreResult<bool> {
        const OPEN: &str = "INSERT INTO bulk (bulk_id, item_type, state, lines, chunks_left,
                 accepted, duplicate, rejected, opened_at, touched_at)
             SELECT $1, $2, 'UPLOADING', 0, 0, 0, 0, 0, t.at, t.at FROM (SELECT tg_now()) t (at)
             ON CONFLICT (bulk_id) DO NOTHING";
        let (bulk, item_type) = (bulk.clone(), item_type.clone());
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let params: Params<'_> = &[&bulk.as_str(), &item_type.as_str()];
                    Ok(execute(tx, OPEN, params).await? == 1)
                })
            })
            .await
    }

    async fn add_chunk(&self, bulk: &BulkId, chunk: NewChunk) -> StoreResult<bool> {
        let bulk = bulk.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { add_chunk(tx, &bulk, &chunk).await })
            })
            .await
    }

    async fn close_bulk(
        &self,
        bulk: &BulkId,
        key: Option<String>,
        digest: String,
    ) -> StoreResult<Closed> {
        let bulk = bulk.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { close(tx, &bulk, key.as_deref(), &digest).await })
            })
            .await
    }

    async fn bulk_by_key(&self, item_type: &ItemType, key: &str) -> StoreResult<Option<KnownBulk>> {
        let (item_type, key) = (item_type.clone(), key.to_owned());
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { by_key(&*c, item_type.as_str(), &key).await })
            })
            .await
    }

    async fn drop_upload(&self, bulk: &BulkId) -> StoreResult<()> {
        let bulk = bulk.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { discard(tx, &bulk).await })
            })
            .await
    }

    async fn sweep_uploads(&self, idle: Duration, most: u32) -> StoreResult<u64> {
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { sweep(tx, idle, most).await })
            })
            .await
    }

    async fn chunks_to_do(&self, item_type: &ItemType, limit: u32) -> StoreResult<Vec<ChunkToDo>> {
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { bulk_views::to_do(&*c, &item_type, limit).await })
            })
            .await
    }

    async fn chunk_failed(&self, chunk: &ChunkId, why: &str) -> StoreResult<Option<u32>> {
        let (chunk, why) = (chunk.clone(), storable(why).into_owned());
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { failed(tx, &chunk, &why).await })
            })
            .await
    }

    async fn chunk(&self, chunk: &ChunkId) -> StoreResult<Option<Vec<u8>>> {
        const TEXT: &str = "SELECT text FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2";
        let chunk = chunk.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let number = i64::from(chunk.number);
                    let row = optional(c, TEXT, &[&chunk.bulk.as_str(), &number]).await?;
                    Ok(row.map(|row| row.get(0)))
                })
            })
            .await
    }

    async fn finish_chunk(&self, chunk: &ChunkId, end: ChunkEnd) -> StoreResult<bool> {
        let (chunk, lines) = (chunk.clone(), Lines::of(&end));
        let finished = self
            .runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { finish(tx, &chunk, &end).await })
            })
            .await?;
        if finished {
            lines.count();
        }
        Ok(finished)
    }

    async fn bulk(&self, bulk: &BulkId) -> StoreResult<Option<BulkView>> {
        let bulk = bulk.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { bulk_views::view(&*c, &bulk).await })
            })
            .await
    }

    async fn bulks(
        &self,
        item_type: &ItemType,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<BulkLine, Bookmark>> {
        let item_type = item_type.clone();
        let after = after.unwrap_or(Bookmark::ABOVE_ALL);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { bulk_views::lines(&*c, &item_type, &after, limit).await })
            })
            .await
    }

    async fn bulk_errors(
        &self,
        bulk: &BulkId,
        after_line: u64,
        limit: u32,
    ) -> StoreResult<Vec<LineError>> {
        let bulk = bulk.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { bulk_views::errors(&*c, &bulk, after_line, limit).await })
            })
            .await
    }

    async fn bulks_running(&self, item_type: &ItemType) -> StoreResult<u64> {
        const RUNNING: &str =
            "SELECT count(*) FROM bulk WHERE item_type = $1 AND state = 'RUNNING'";
        let item_type = item_type.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let row = one(c, RUNNING, &[&item_type.as_str()]).await?;
                    Ok(row.get::<_, i64>(0).unsigned_abs())
                })
            })
            .await
    }
}

/// The bulk's row is held, so that an upload is added to or given up and never both.
async fn add_chunk(tx: &Transaction<'_>, bulk: &BulkId, chunk: &NewChunk) -> StoreResult<bool> {
    const IS_OPEN: &str =
        "SELECT 1 FROM bulk WHERE bulk_id = $1 AND state = 'UPLOADING' FOR UPDATE";
    const ADD: &str = "INSERT INTO bulk_chunk (bulk_id, chunk_no, text) VALUES ($1, $2, $3)
         ON CONFLICT (bulk_id, chunk_no) DO NOTHING";
    const COUNT: &str = "UPDATE bulk SET lines = lines + $2, chunks_left = chunks_left + 1,
                touched_at = tg_now()
         WHERE bulk_id = $1";
    let id = bulk.as_str();
    if optional(tx, IS_OPEN, &[&id]).await?.is_none() {
        return Ok(false);
    }
    let number = i64::from(chunk.number);
    if execute(tx, ADD, &[&id, &number, &chunk.text]).await? == 1 {
        execute(tx, COUNT, &[&id, &i64::from(chunk.lines)]).await?;
    }
    Ok(true)
}

/// Who closes under a key does so alone.
async fn close(
    tx: &Transaction<'_>,
    bulk: &BulkId,
    key: Option<&str>,
    digest: &str,
) -> StoreResult<Closed> {
    const FOUND: &str = "SELECT item_type, state FROM bulk WHERE bulk_id = $1 FOR UPDATE";
    const CLOSE: &str = "UPDATE bulk
         SET state = CASE WHEN chunks_left = 0 THEN 'DONE' ELSE 'RUNNING' END,
             idempotency_key = $2, digest = $3, started_at = t.at, touched_at = t.at,
             ended_at = CASE WHEN chunks_left = 0 THEN t.at END
         FROM (SELECT tg_now()) t (at) WHERE bulk_id = $1 AND state = 'UPLOADING'";
    if let Some(key) = key {
        lock_name(tx, &format!("tollgate/bulk/{key}")).await?;
    }
    let Some(row) = optional(tx, FOUND, &[&bulk.as_str()]).await? else {
        return Ok(Closed::Gone);
    };
    match row.get::<_, &str>(1) {
        "RUNNING" | "DONE" => return Ok(Closed::Running),
        "UPLOADING" => {}
        _ => return Ok(Closed::Gone),
    }
    if let Some(key) = key
        && let Some(known) = by_key(tx, row.get(0), key).await?
    {
        discard(tx, bulk).await?;
        return Ok(Closed::Known(known));
    }
    execute(tx, CLOSE, &[&bulk.as_str(), &key, &digest]).await?;
    Ok(Closed::Running)
}

async fn by_key(
    c: &impl GenericClient,
    item_type: &str,
    key: &str,
) -> StoreResult<Option<KnownBulk>> {
    const BY_KEY: &str =
        "SELECT bulk_id, digest FROM bulk WHERE item_type = $1 AND idempotency_key = $2";
    let row = optional(c, BY_KEY, &[&item_type, &key]).await?;
    Ok(row.map(|row| KnownBulk {
        bulk: BulkId::new(row.get::<_, String>(0)),
        digest: row.get(1),
    }))
}

async fn discard(tx: &Transaction<'_>, bulk: &BulkId) -> StoreResult<()> {
    const DISCARD: &str =
        "UPDATE bulk SET state = 'DISCARDED' WHERE bulk_id = $1 AND state = 'UPLOADING'";
    execute(tx, DISCARD, &[&bulk.as_str()]).await.map(drop)
}

async fn sweep(tx: &Transaction<'_>, idle: Duration, most: u32) -> StoreResult<u64> {
    const GIVE_UP: &str = "UPDATE bulk SET state = 'DISCARDED'
         WHERE state = 'UPLOADING' AND touched_at < (SELECT tg_now()) - $1";
    const REMOVE: &str = "DELETE FROM bulk_chunk k
         USING (SELECT c.bulk_id, c.chunk_no FROM bulk b
                CROSS JOIN LATERAL (SELECT bulk_id, chunk_no FROM bulk_chunk
                    WHERE bulk_id = b.bulk_id ORDER BY chunk_no LIMIT $1) c
                WHERE b.state = 'DISCARDED' LIMIT $1) gone
         WHERE k.bulk_id = gone.bulk_id AND k.chunk_no = gone.chunk_no";
    const FORGET: &str = "DELETE FROM bulk b WHERE b.state = 'DISCARDED'
         AND NOT EXISTS (SELECT 1 FROM bulk_chunk k WHERE k.bulk_id = b.bulk_id)";
    execute(tx, GIVE_UP, &[&micros(idle)]).await?;
    let removed = execute(tx, REMOVE, &[&i64::from(most)]).await?;
    execute(tx, FORGET, &[]).await?;
    Ok(removed)
}

async fn failed(tx: &Transaction<'_>, chunk: &ChunkId, why: &str) -> StoreResult<Option<u32>> {
    const TRIES: &str =
        "SELECT tries + 1 FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2 FOR UPDATE";
    const FAILED: &str = "UPDATE bulk_chunk SET tries = $3, last_error = $4, due_at = tg_now() + $5
         WHERE bulk_id = $1 AND chunk_no = $2";
    let (bulk, number) = (chunk.bulk.as_str(), i64::from(chunk.number));
    let Some(row) = optional(tx, TRIES, &[&bulk, &number]).await? else {
        return Ok(None);
    };
    let Count(tries) = row.get(0);
    let pause = micros(RETRIES.pause_after(tries));
    execute(
        tx,
        FAILED,
        &[&bulk, &number, &i64::from(tries), &why, &pause],
    )
    .await?;
    Ok(Some(tries))
}

/// The row of the chunk is the right to count it. The bulk's row comes next, so that the chunks of
/// a bulk end one after the other and the last one knows.
async fn finish(tx: &Transaction<'_>, chunk: &ChunkId, end: &ChunkEnd) -> StoreResult<bool> {
    const TAKE: &str = "DELETE FROM bulk_chunk WHERE bulk_id = $1 AND chunk_no = $2";
    const COUNT: &str = "UPDATE bulk SET accepted = accepted + $2, duplicate = duplicate + $3,
                rejected = rejected + $4, chunks_left = chunks_left - 1,
                state = CASE WHEN chunks_left = 1 THEN 'DONE' ELSE state END,
                ended_at = CASE WHEN chunks_left = 1 THEN tg_now() END
         WHERE bulk_id = $1";
    let bulk = chunk.bulk.as_str();
    if execute(tx, TAKE, &[&bulk, &i64::from(chunk.number)]).await? == 0 {
        return Ok(false);
    }
    let accepted = whole(end.accepted());
    let (duplicate, rejected) = (i64::from(end.duplicate), whole(end.rejected.len() as u64));
    execute(tx, COUNT, &[&bulk, &accepted, &duplicate, &rejected]).await?;
    write_errors(tx, bulk, &end.rejected).await?;
    add_sums(tx, bulk, &end.sums).await?;
    Ok(true)
}

async fn write_errors(tx: &Transaction<'_>, bulk: &str, errors: &[LineError]) -> StoreResult<()> {
    const ERRORS: &str = "INSERT INTO bulk_error (bulk_id, line_no, item_id, details)
         SELECT $1, e.line_no, e.item_id, e.details
         FROM unnest($2::bigint[], $3::text[], $4::text[]) AS e (line_no, item_id, details)";
    if errors.is_empty() {
        return Ok(());
    }
    let lines: Vec<i64> = errors.iter().map(|error| whole(error.line)).collect();
    let ids: Vec<_> = errors
        .iter()
        .map(|error| error.id.as_deref().map(storable))
        .collect();
    let details: Vec<String> = errors
        .iter()
        .map(|error| serde_json::to_string(&error.details))
        .collect::<Result<_, _>>()
        .map_err(|e| StoreError::Bug(e.to_string()))?;
    execute(tx, ERRORS, &[&bulk, &lines, &ids, &details])
        .await
        .map(drop)
}

async fn add_sums(tx: &Transaction<'_>, bulk: &str, sums: &[BulkSum]) -> StoreResult<()> {
    const SUM: &str = "INSERT INTO bulk_sum AS s (bulk_id, lane, currency, accepted, amount_minor,
                met, missed, first_slot, last_slot, first_deadline, last_deadline)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (bulk_id, lane, currency) DO UPDATE SET
             accepted = s.accepted + excluded.accepted,
             amount_minor = s.amount_minor + excluded.amount_minor,
             met = s.met + excluded.met, missed = s.missed + excluded.missed,
             first_slot = least(s.first_slot, excluded.first_slot),
             last_slot = greatest(s.last_slot, excluded.last_slot),
             first_deadline = least(s.first_deadline, excluded.first_deadline),
             last_deadline = greatest(s.last_deadline, excluded.last_deadline)";
    for sum in sums {
        let params: Params<'_> = &[
            &bulk,
            &sum.lane.as_str(),
            &sum.currency,
            &whole(sum.accepted),
            &sum.amount_minor,
            &whole(sum.met),
            &whole(sum.missed),
            &Us(sum.first_slot),
            &Us(sum.last_slot),
            &sum.deadlines.map(|(first, _)| Us(first)),
            &sum.deadlines.map(|(_, last)| Us(last)),
        ];
        execute(tx, SUM, params).await?;
    }
    Ok(())
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
