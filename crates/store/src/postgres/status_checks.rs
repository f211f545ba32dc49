//! Status checks and their parts.

use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    Bookmark, CheckEnd, CheckLine, CheckPhase, CheckView, EndedParts, GatewayView, Page, Part,
    PartList, StatusChecks, StoreResult,
};

use super::PostgresStore;
use super::check_lists;
use super::run::{Params, all, execute, one, optional};
use super::value::{Count, Us, storable, word};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl StatusChecks for PostgresStore {
    async fn open_check(
        &self,
        check: &FlowId,
        total: u32,
        lookups: Vec<String>,
    ) -> StoreResult<bool> {
        const OPEN: &str = "INSERT INTO status_check (check_id, phase, total, opened_at)
             VALUES ($1, 'ES_LOOKUP', $2, tg_now()) ON CONFLICT (check_id) DO NOTHING";
        let check = check.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let params: Params<'_> = &[&check.as_str(), &i64::from(total)];
                    let is_new = execute(tx, OPEN, params).await? == 1;
                    if is_new {
                        add(tx, &check, PartList::Lookups, 0, &lookups).await?;
                    }
                    Ok(is_new)
                })
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
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { add(tx, &check, list, from, &bodies).await })
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
        let check = check.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move {
                    let (from, limit) = (i64::from(from), i64::from(limit));
                    let params: Params<'_> = &[&check.as_str(), &list.number(), &from, &limit];
                    let part = |row: Row| Part {
                        number: row.get::<_, Count>(0).0,
                        body_json: row.get(1),
                        outcome_json: row.get(2),
                    };
                    Ok(all(c, PARTS, params).await?.into_iter().map(part).collect())
                })
            })
            .await
    }

    async fn end_parts(&self, check: &FlowId, ended: EndedParts) -> StoreResult<()> {
        const END: &str = "UPDATE status_check_part SET outcome = $5, failed = $6
             WHERE check_id = $1 AND list_no = $2 AND part_no >= $3 AND part_no < $4
               AND outcome IS NULL";
        let check = check.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let (from, to) = (i64::from(ended.from), i64::from(ended.to));
                    let (list, outcome) = (ended.list.number(), storable(&ended.outcome_json));
                    let params: Params<'_> =
                        &[&check.as_str(), &list, &from, &to, &outcome, &ended.failed];
                    execute(tx, END, params).await.map(drop)
                })
            })
            .await
    }

    async fn begin_gateways(&self, check: &FlowId, gateways: u32) -> StoreResult<()> {
        const BEGIN: &str = "UPDATE status_check SET phase = 'GATEWAY_PROCESSING', gateways = $2
             WHERE check_id = $1 AND phase = 'ES_LOOKUP' AND ended_at IS NULL";
        let check = check.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let params: Params<'_> = &[&check.as_str(), &i64::from(gateways)];
                    execute(tx, BEGIN, params).await.map(drop)
                })
            })
            .await
    }

    async fn begin_aggregation(&self, check: &FlowId) -> StoreResult<()> {
        const BEGIN: &str = "UPDATE status_check SET phase = 'AGGREGATING'
             WHERE check_id = $1 AND phase = 'GATEWAY_PROCESSING' AND ended_at IS NULL";
        let check = check.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { execute(tx, BEGIN, &[&check.as_str()]).await.map(drop) })
            })
            .await
    }

    async fn end_check(&self, check: &FlowId, end: CheckEnd) -> StoreResult<()> {
        const END: &str = "UPDATE status_check SET phase = coalesce($2, phase), result = $3,
                    error = $4, ended_at = tg_now()
             WHERE check_id = $1 AND ended_at IS NULL";
        let check = check.clone();
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move {
                    let (phase, result, error) = match &end {
                        CheckEnd::Completed { result_json } => {
                            (Some("COMPLETED"), Some(storable(result_json)), None)
                        }
                        CheckEnd::Failed { error } => (None, None, Some(storable(error))),
                    };
                    let params: Params<'_> = &[&check.as_str(), &phase, &result, &error];
                    execute(tx, END, params).await.map(drop)
                })
            })
            .await
    }

    async fn check(&self, check: &FlowId) -> StoreResult<Option<CheckView>> {
        let check = check.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { view(&*c, &check).await })
            })
            .await
    }

    async fn checks(
        &self,
        after: Option<Bookmark>,
        limit: u32,
    ) -> StoreResult<Page<CheckLine, Bookmark>> {
        let after = after.unwrap_or(Bookmark::ABOVE_ALL);
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { check_lists::lines(&*c, &after, limit).await })
            })
            .await
    }

    async fn check_gateways(
        &self,
        check: &FlowId,
        after: Option<u32>,
        limit: u32,
    ) -> StoreResult<Page<GatewayView, u32>> {
        let check = check.clone();
        self.runner
            .autocommit(Urgency::Normal, move |c| {
                Box::pin(async move { check_lists::gateways(&*c, &check, after, limit).await })
            })
            .await
    }

    async fn forget_checks(&self, older_than: Duration, most: u32) -> StoreResult<u64> {
        self.runner
            .in_transaction(Urgency::Normal, move |tx| {
                Box::pin(async move { forget(tx, older_than, most).await })
            })
            .await
    }
}

async fn add(
    tx: &Transaction<'_>,
    check: &FlowId,
    list: PartList,
    from: u32,
    bodies: &[String],
) -> StoreResult<()> {
    const ADD: &str = "INSERT INTO status_check_part (check_id, list_no, part_no, body)
         SELECT $1, $2, $3 + n - 1, body FROM unnest($4::text[]) WITH ORDINALITY AS w (body, n)
         ON CONFLICT (check_id, list_no, part_no) DO NOTHING";
    let params: Params<'_> = &[&check.as_str(), &list.number(), &i64::from(from), &bodies];
    execute(tx, ADD, params).await.map(drop)
}

/// The check's row comes first: what has ended by its word has ended in the counts too.
async fn view(c: &impl GenericClient, check: &FlowId) -> StoreResult<Option<CheckView>> {
    const COUNTS: &str = "SELECT count(*), count(outcome), count(*) FILTER (WHERE failed)
         FROM status_check_part WHERE check_id = $1 AND list_no > 0";
    const CHECK: &str = "SELECT phase, total, gateways, opened_at, result, error
         FROM status_check WHERE check_id = $1";
    let Some(row) = optional(c, CHECK, &[&check.as_str()]).await? else {
        return Ok(None);
    };
    let counts = one(c, COUNTS, &[&check.as_str()]).await?;
    let count = |column: usize| counts.get::<_, Count>(column).0;
    let completed: Option<String> = row.get(4);
    let failed: Option<String> = row.get(5);
    let completed = completed.map(|result_json| CheckEnd::Completed { result_json });
    Ok(Some(CheckView {
        phase: word(&row, 0, CheckPhase::parse)?,
        total: row.get::<_, Count>(1).0,
        gateways: row.get::<_, Count>(2).0,
        chunks: count(0),
        chunks_ended: count(1),
        chunks_failed: count(2),
        opened_at: row.get::<_, Us>(3).0,
        end: completed.or(failed.map(|error| CheckEnd::Failed { error })),
    }))
}

async fn forget(tx: &Transaction<'_>, older_than: Duration, most: u32) -> StoreResult<u64> {
    const OLDEST: &str = "SELECT check_id FROM status_check
         WHERE opened_at < (SELECT tg_now()) - $1 ORDER BY opened_at LIMIT 1 FOR UPDATE";
    const PARTS: &str = "DELETE FROM status_check_part WHERE ctid = ANY (ARRAY (
             SELECT ctid FROM status_check_part WHERE check_id = $1 LIMIT $2))";
    const CHECK: &str = "DELETE FROM status_check WHERE check_id = $1";
    let Some(row) = optional(tx, OLDEST, &[&micros(older_than)]).await? else {
        return Ok(0);
    };
    let check: String = row.get(0);
    let parts = execute(tx, PARTS, &[&check, &i64::from(most)]).await?;
    if parts == u64::from(most) {
        return Ok(parts);
    }
    execute(tx, CHECK, &[&check]).await?;
    Ok(parts + 1)
}
