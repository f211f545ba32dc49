//! Status checks and their parts.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    Bookmark, CheckEnd, CheckLine, CheckPhase, CheckView, EndedParts, GatewayView, Page, Part,
    PartList, StatusChecks, StoreResult,
};

use super::SqliteStore;
use super::check_lists;
use super::value::{Us, word};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl StatusChecks for SqliteStore {
    async fn open_check(
        &self,
        check: &FlowId,
        total: u32,
        lookups: Vec<String>,
    ) -> StoreResult<bool> {
        let (check, clock) = (check.clone(), self.clock.clone());
        let write = move |c: &Connection| -> rusqlite::Result<bool> {
            let opened = c
                .prepare_cached(
                    "INSERT INTO status_check (check_id, phase, total, opened_at)
                     VALUES (?1, 'ES_LOOKUP', ?2, ?3) ON CONFLICT (check_id) DO NOTHING",
                )?
                .execute(params![check.as_str(), total, clock.now_us()])?;
            if opened == 1 {
                add(c, &check, PartList::Lookups, 0, &lookups)?;
            }
            Ok(opened == 1)
        };
        self.writer.write(Urgency::Normal, write).await
    }

    async fn add_parts(
        &self,
        check: &FlowId,
        list: PartList,
        from: u32,
        bodies: Vec<String>,
    ) -> StoreResult<()> {
        let check = check.clone();
        self.writer
            .write(Urgency::Normal, move |c| {
                add(c, &check, list, from, &bodies)
            })
            .await
    }

    async fn parts(
        &self,
        check: &FlowId,
        list: PartList,
        from: u32,
        limit: u32,
    ) -> StoreResult<Vec<Part>> {
        let check = check.clone();
        let read = move |c: &Connection| {
            c.prepare_cached(
                "SELECT part_no, body, outcome FROM status_check_part
                 WHERE check_id = ?1 AND list_no = ?2 AND part_no >= ?3 ORDER BY part_no LIMIT ?4",
            )?
            .query_map(params![check.as_str(), list.number(), from, limit], |row| {
                Ok(Part {
                    number: row.get(0)?,
                    body_json: row.get(1)?,
                    outcome_json: row.get(2)?,
                })
            })?
            .collect()
        };
        self.readers.read(read).await
    }

    async fn end_parts(&self, check: &FlowId, ended: EndedParts) -> StoreResult<()> {
        let check = check.clone();
        self.writer
            .write(Urgency::Normal, move |c| {
                c.prepare_cached(
                    "UPDATE status_check_part SET outcome = ?5, failed = ?6
                 WHERE check_id = ?1 AND list_no = ?2 AND part_no >= ?3 AND part_no < ?4
                   AND outcome IS NULL",
                )?
                .execute(params![
                    check.as_str(),
                    ended.list.number(),
                    ended.from,
                    ended.to,
                    ended.outcome_json,
                    ended.failed
                ])
                .map(drop)
            })
            .await
    }

    async fn begin_gateways(&self, check: &FlowId, gateways: u32) -> StoreResult<()> {
        let check = check.clone();
        self.writer
            .write(Urgency::Normal, move |c| {
                c.prepare_cached(
                    "UPDATE status_check SET phase = 'GATEWAY_PROCESSING', gateways = ?2
                 WHERE check_id = ?1 AND phase = 'ES_LOOKUP' AND ended_at IS NULL",
                )?
                .execute(params![check.as_str(), gateways])
                .map(drop)
            })
            .await
    }

    async fn begin_aggregation(&self, check: &FlowId) -> StoreResult<()> {
        let check = check.clone();
        self.writer
            .write(Urgency::Normal, move |c| {
                c.prepare_cached(
                    "UPDATE status_check SET phase = 'AGGREGATING'
                 WHERE check_id = ?1 AND phase = 'GATEWAY_PROCESSING' AND ended_at IS NULL",
                )?
                .execute([check.as_str()])
                .map(drop)
            })
            .await
    }

    async fn end_check(&self, check: &FlowId, end: CheckEnd) -> StoreResult<()> {
        let (check, clock) = (check.clone(), self.clock.clone());
        self.writer
            .write(Urgency::Normal, move |c| {
                let (phase, result, error) = match &end {
                    CheckEnd::Completed { result_json } => {
                        (Some("COMPLETED"), Some(result_json.as_str()), None)
                    }
                    CheckEnd::Failed { error } => (None, None, Some(error.as_str())),
                };
                c.prepare_cached(
                    "UPDATE status_check SET phase = coalesce(?2, phase), result = ?3, error = ?4,
                        ended_at = ?5
                 WHERE check_id = ?1 AND ended_at IS NULL",
                )?
                .execute(params![
                    check.as_str(),
                    phase,
                    result,
                    error,
                    clock.now_us()
                ])
                .map(drop)
            })
            .await
    }

    async fn check(&self, check: &FlowId) -> StoreResult<Option<CheckView>> {
        let check = check.clone();
        self.readers.read(move |c| view(c, &check)).await
    }

    async fn checks(
        &self,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<CheckLine, Bookmark>> {
        let after = after.unwrap_or(Bookmark::ABOVE_ALL);
        self.readers
            .read(move |c| check_lists::lines(c, &after, limit))
            .await
    }

    async fn check_gateways(
        &self,
        check: &FlowId,
        after: Option<u32>,
        limit: u32,
    ) -> StoreResult<Page<GatewayView, u32>> {
        let check = check.clone();
        self.readers
            .read(move |c| check_lists::gateways(c, &check, after, limit))
            .await
    }

    async fn forget_checks(&self, older_than: Duration, most: u32) -> StoreResult<u64> {
        let before = self.clock.now_us().saturating_sub(micros(older_than));
        self.writer
            .write(Urgency::Normal, move |c| forget(c, before, most))
            .await
    }
}

fn add(
    c: &Connection,
    check: &FlowId,
    list: PartList,
    from: u32,
    bodies: &[String],
) -> rusqlite::Result<()> {
    let mut insert = c.prepare_cached(
        "INSERT INTO status_check_part (check_id, list_no, part_no, body)
         VALUES (?1, ?2, ?3, ?4) ON CONFLICT (check_id, list_no, part_no) DO NOTHING",
    )?;
    for (number, body) in (from..).zip(bodies) {
        insert.execute(params![check.as_str(), list.number(), number, body])?;
    }
    Ok(())
}

fn view(c: &Connection, check: &FlowId) -> rusqlite::Result<Option<CheckView>> {
    let counts: (u32, u32, u32) = c
        .prepare_cached(
            "SELECT count(*), count(outcome), coalesce(sum(failed), 0) FROM status_check_part
             WHERE check_id = ?1 AND list_no > 0",
        )?
        .query_row([check.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
    c.prepare_cached(
        "SELECT phase, total, gateways, opened_at, result, error FROM status_check
         WHERE check_id = ?1",
    )?
    .query_row([check.as_str()], |row| {
        let completed = row.get::<_, Option<String>>(4)?;
        let failed = row.get::<_, Option<String>>(5)?;
        let completed = completed.map(|result_json| CheckEnd::Completed { result_json });
        let (total, gateways, opened_at) = (row.get(1)?, row.get(2)?, row.get::<_, Us>(3)?.0);
        Ok(CheckView {
            phase: word(row, 0, CheckPhase::parse)?,
            total,
            gateways,
            chunks: counts.0,
            chunks_ended: counts.1,
            chunks_failed: counts.2,
            opened_at,
            end: completed.or(failed.map(|error| CheckEnd::Failed { error })),
        })
    })
    .optional()
}

fn forget(c: &Connection, before: i64, most: u32) -> rusqlite::Result<u64> {
    let oldest: Option<String> = c
        .prepare_cached(
            "SELECT check_id FROM status_check WHERE opened_at < ?1 ORDER BY opened_at LIMIT 1",
        )?
        .query_row([before], |row| row.get(0))
        .optional()?;
    let Some(check) = oldest else {
        return Ok(0);
    };
    let parts = c
        .prepare_cached(
            "DELETE FROM status_check_part WHERE rowid IN (
                 SELECT rowid FROM status_check_part WHERE check_id = ?1 LIMIT ?2)",
        )?
        .execute(params![check, most])?;
    if parts == most as usize {
        return Ok(parts as u64);
    }
    c.prepare_cached("DELETE FROM status_check WHERE check_id = ?1")?
        .execute([&check])?;
    Ok(parts as u64 + 1)
}
