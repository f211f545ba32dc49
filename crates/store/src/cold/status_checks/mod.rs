//! Status checks and their chunks; `lists.rs` is what people look through.

mod lists;

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    CheckEnd, CheckLine, CheckPhase, CheckView, EndedParts, GatewayView, Page, PageFrom, PageToken,
    Part, PartList, StatusChecks, StoreResult,
};

use crate::sql::{Params, Row, Tx, params};
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl<D: Database> StatusChecks for StoreOn<D> {
    async fn open_check(
        &self,
        check: &FlowId,
        total: u32,
        lookups: Vec<String>,
    ) -> StoreResult<bool> {
        const OPEN: &str = "INSERT INTO status_check (check_id, phase, total, opened_at)
             VALUES ($1, 'ES_LOOKUP', $2, tg_now()) ON CONFLICT (check_id) DO NOTHING";
        let check = check.clone();
        self.write(Urgency::Normal, move |tx| async move {
            let opened = tx.execute(OPEN, params![&check, total]).await == 1;
            if opened {
                add(&tx, &check, PartList::Lookups, 0, lookups).await;
            }
            Ok(opened)
        })
        .await
    }

    async fn add_parts(
        &self,
        check: &FlowId,
        list: PartList,
        from: u32,
        bodies: Vec<String>,
    ) -> StoreResult<()> {
        let check = check.clone();
        self.write(Urgency::Normal, move |tx| async move {
            add(&tx, &check, list, from, bodies).await;
            Ok(())
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
        const PARTS: &str = "SELECT part_no, body, outcome FROM status_check_part
             WHERE check_id = $1 AND list_no = $2 AND part_no >= $3 ORDER BY part_no LIMIT $4";
        let wanted = params![check, list.number(), from, limit];
        self.read(move |tx| async move {
            let part = |row: &Row| {
                Ok(Part {
                    number: row.get("part_no")?,
                    body_json: row.get("body")?,
                    outcome_json: row.get("outcome")?,
                })
            };
            tx.rows(PARTS, wanted).await.iter().map(part).collect()
        })
        .await
    }

    async fn end_parts(&self, check: &FlowId, ended: EndedParts) -> StoreResult<()> {
        const END: &str = "UPDATE status_check_part SET outcome = $5, failed = $6
             WHERE check_id = $1 AND list_no = $2 AND part_no >= $3 AND part_no < $4
               AND outcome IS NULL";
        let EndedParts { from, to, .. } = ended;
        let list = ended.list.number();
        let end = params![check, list, from, to, ended.outcome_json, ended.failed];
        self.move_on(END, end).await
    }

    async fn begin_gateways(&self, check: &FlowId, gateways: u32) -> StoreResult<()> {
        const BEGIN: &str = "UPDATE status_check SET phase = 'GATEWAY_PROCESSING', gateways = $2
             WHERE check_id = $1 AND phase = 'ES_LOOKUP' AND ended_at IS NULL";
        self.move_on(BEGIN, params![check, gateways]).await
    }

    async fn begin_aggregation(&self, check: &FlowId) -> StoreResult<()> {
        const BEGIN: &str = "UPDATE status_check SET phase = 'AGGREGATING'
             WHERE check_id = $1 AND phase = 'GATEWAY_PROCESSING' AND ended_at IS NULL";
        self.move_on(BEGIN, params![check]).await
    }

    async fn end_check(&self, check: &FlowId, end: CheckEnd) -> StoreResult<()> {
        const END: &str = "UPDATE status_check SET phase = coalesce($2, phase), result = $3,
                    error = $4, ended_at = tg_now()
             WHERE check_id = $1 AND ended_at IS NULL";
        let (phase, result, error) = match end {
            CheckEnd::Completed { result_json } => (Some("COMPLETED"), Some(result_json), None),
            CheckEnd::Failed { error } => (None, None, Some(error)),
        };
        let end = params![check, phase, result, error];
        self.move_on(END, end).await
    }

    async fn check(&self, check: &FlowId) -> StoreResult<Option<CheckView>> {
        let check = check.clone();
        self.read(move |tx| async move { view(&tx, &check).await })
            .await
    }

    async fn checks(
        &self,
        from: PageFrom<PageToken>,
        limit: u32,
    ) -> StoreResult<Page<CheckLine, PageToken>> {
        self.read(move |tx| async move { lists::lines(&tx, from, limit).await })
            .await
    }

    async fn check_gateways(
        &self,
        check: &FlowId,
        after: Option<u32>,
        limit: u32,
    ) -> StoreResult<Page<GatewayView, u32>> {
        let check = check.clone();
        self.read(move |tx| async move { lists::gateways(&tx, &check, after, limit).await })
            .await
    }

    async fn forget_checks(&self, older_than: Duration, most: u32) -> StoreResult<u64> {
        self.write(Urgency::Normal, move |tx| async move {
            forget(&tx, older_than, most).await
        })
        .await
    }
}

impl<D: Database> StoreOn<D> {
    async fn move_on(&self, sql: &'static str, params: Params) -> StoreResult<()> {
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(sql, params).await;
            Ok(())
        })
        .await
    }
}

async fn add(tx: &Tx, check: &FlowId, list: PartList, from: u32, bodies: Vec<String>) {
    const ADD: &str = "INSERT INTO status_check_part (check_id, list_no, part_no, body)
         VALUES ($1, $2, $3, $4) ON CONFLICT (check_id, list_no, part_no) DO NOTHING";
    let parts = (from..).zip(bodies);
    let parts = parts.map(|(number, body)| params![check, list.number(), number, body]);
    tx.execute_each(ADD, parts.collect()).await;
}

/// The check's row comes first: what has ended by its word has ended in the counts too.
async fn view(tx: &Tx, check: &FlowId) -> StoreResult<Option<CheckView>> {
    const COUNTS: &str = "SELECT count(*) AS chunks, count(outcome) AS ended,
                count(*) FILTER (WHERE failed) AS failed
         FROM status_check_part WHERE check_id = $1 AND list_no > 0";
    const CHECK: &str = "SELECT phase, total, gateways, opened_at, result, error
         FROM status_check WHERE check_id = $1";
    let Some(row) = tx.row(CHECK, params![check]).await else {
        return Ok(None);
    };
    let counts = tx.one(COUNTS, params![check]).await?;
    let completed: Option<String> = row.get("result")?;
    let failed: Option<String> = row.get("error")?;
    let completed = completed.map(|result_json| CheckEnd::Completed { result_json });
    Ok(Some(CheckView {
        phase: row.word("phase", CheckPhase::parse)?,
        total: row.get("total")?,
        gateways: row.get("gateways")?,
        chunks: counts.get("chunks")?,
        chunks_ended: counts.get("ended")?,
        chunks_failed: counts.get("failed")?,
        opened_at: row.get("opened_at")?,
        end: completed.or(failed.map(|error| CheckEnd::Failed { error })),
    }))
}

/// The oldest check, a limited number of its parts at a time.
async fn forget(tx: &Tx, older_than: Duration, most: u32) -> StoreResult<u64> {
    const OLDEST: &str = "SELECT check_id FROM status_check
         WHERE opened_at < $1 ORDER BY opened_at LIMIT 1";
    const PARTS: &str = "DELETE FROM status_check_part WHERE check_id = $1
         AND (list_no, part_no) IN (SELECT list_no, part_no FROM status_check_part
              WHERE check_id = $1 ORDER BY list_no, part_no LIMIT $2)";
    const CHECK: &str = "DELETE FROM status_check WHERE check_id = $1";
    let before = tx.now().await?.as_microsecond() - micros(older_than);
    let Some(row) = tx.locked_row(OLDEST, params![before]).await else {
        return Ok(0);
    };
    let check: FlowId = row.get("check_id")?;
    let parts = tx.execute(PARTS, params![&check, most]).await;
    if parts == u64::from(most) {
        return Ok(parts);
    }
    tx.execute(CHECK, params![&check]).await;
    Ok(parts + 1)
}
