//! Status checks as people look through them: all of them, and the gateways of one.

use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    CheckLine, CheckPhase, GatewayView, Page, PageFrom, PageToken, StoreResult, rows_needed,
};

use crate::sql::{Row, Tx, params};

pub(super) async fn lines(
    tx: &Tx,
    from: PageFrom<PageToken>,
    limit: u32,
) -> StoreResult<Page<CheckLine, PageToken>> {
    const OLDER: &str = "SELECT check_id, phase, total, gateways, opened_at, ended_at,
                error IS NOT NULL AS failed
         FROM status_check WHERE (opened_at, check_id) < ($1, $2)
         ORDER BY opened_at DESC, check_id DESC LIMIT $3";
    const NEWER: &str = "SELECT check_id, phase, total, gateways, opened_at, ended_at,
                error IS NOT NULL AS failed
         FROM status_check WHERE (opened_at, check_id) > ($1, $2)
         ORDER BY opened_at, check_id LIMIT $3";
    let asked = rows_needed(limit, false);
    let (place, upwards) = from.clone().bounds(false);
    let sql = if upwards { NEWER } else { OLDER };
    let rows = tx.rows(sql, params![place.rank, place.id, asked]).await;
    let rows = rows.iter().map(line_from).collect::<StoreResult<_>>()?;
    Ok(Page::beside(
        rows,
        asked,
        limit,
        &from,
        CheckLine::page_token,
    ))
}

fn line_from(row: &Row) -> StoreResult<CheckLine> {
    Ok(CheckLine {
        check: row.get("check_id")?,
        phase: row.word("phase", CheckPhase::parse)?,
        total: row.get("total")?,
        gateways: row.get("gateways")?,
        opened_at: row.get("opened_at")?,
        ended_at: row.get("ended_at")?,
        failed: row.get("failed")?,
    })
}

/// The chunks of gateway n are list n + 1.
pub(super) async fn gateways(
    tx: &Tx,
    check: &FlowId,
    after: Option<u32>,
    limit: u32,
) -> StoreResult<Page<GatewayView, u32>> {
    const GATEWAYS: &str = "SELECT s.list_no - 1 AS gateway, count(*) AS chunks,
                count(s.outcome) AS ended, count(*) FILTER (WHERE s.failed) AS failed,
                (SELECT p.body FROM status_check_part p
                 WHERE p.check_id = $1 AND p.list_no = s.list_no AND p.part_no = 0) AS body
         FROM status_check_part s WHERE s.check_id = $1 AND s.list_no > $2
         GROUP BY s.list_no ORDER BY s.list_no LIMIT $3";
    let asked = rows_needed(limit, false);
    let after = after.map_or(0, |gateway| i64::from(gateway) + 1);
    let rows = tx.rows(GATEWAYS, params![check, after, asked]).await;
    let rows = rows.iter().map(gateway_from).collect::<StoreResult<_>>()?;
    Ok(Page::of(rows, asked, limit, |_| true, |view| view.gateway))
}

fn gateway_from(row: &Row) -> StoreResult<GatewayView> {
    Ok(GatewayView {
        gateway: row.get("gateway")?,
        chunks: row.get("chunks")?,
        chunks_ended: row.get("ended")?,
        chunks_failed: row.get("failed")?,
        first_chunk_json: row.get("body")?,
    })
}
