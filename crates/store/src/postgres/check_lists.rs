//! Status checks as people look through them: all of them, and the gateways of one.

use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    Bookmark, CheckLine, CheckPhase, GatewayView, Page, StoreResult, rows_needed,
};

use super::run::{Params, all};
use super::value::{Count, Us, word};

pub(super) async fn lines(
    c: &impl GenericClient,
    after: &Bookmark,
    limit: u32,
) -> StoreResult<Page<CheckLine, Bookmark>> {
    const LINES: &str = "SELECT check_id, phase, total, gateways, opened_at, ended_at,
                error IS NOT NULL
         FROM status_check WHERE (opened_at, check_id) < ($1, $2)
         ORDER BY opened_at DESC, check_id DESC LIMIT $3";
    let asked = rows_needed(limit, false);
    let params: Params<'_> = &[&after.rank, &after.id, &i64::from(asked)];
    let rows = all(c, LINES, params).await?;
    let rows = rows.iter().map(line_from).collect::<StoreResult<_>>()?;
    Ok(Page::of(rows, asked, limit, |_| true, CheckLine::bookmark))
}

fn line_from(row: &Row) -> StoreResult<CheckLine> {
    Ok(CheckLine {
        check: FlowId::new(row.get::<_, String>(0)),
        phase: word(row, 1, CheckPhase::parse)?,
        total: row.get::<_, Count>(2).0,
        gateways: row.get::<_, Count>(3).0,
        opened_at: row.get::<_, Us>(4).0,
        ended_at: row.get::<_, Option<Us>>(5).map(|us| us.0),
        failed: row.get(6),
    })
}

/// The chunks of gateway n are list n + 1.
pub(super) async fn gateways(
    c: &impl GenericClient,
    check: &FlowId,
    after: Option<u32>,
    limit: u32,
) -> StoreResult<Page<GatewayView, u32>> {
    const GATEWAYS: &str = "SELECT s.list_no - 1, count(*), count(s.outcome),
                count(*) FILTER (WHERE s.failed),
                (SELECT p.body FROM status_check_part p
                 WHERE p.check_id = $1 AND p.list_no = s.list_no AND p.part_no = 0)
         FROM status_check_part s WHERE s.check_id = $1 AND s.list_no > $2
         GROUP BY s.list_no ORDER BY s.list_no LIMIT $3";
    let asked = rows_needed(limit, false);
    let after = after.map_or(0, |gateway| i64::from(gateway) + 1);
    let params: Params<'_> = &[&check.as_str(), &after, &i64::from(asked)];
    let view = |row: Row| GatewayView {
        gateway: row.get::<_, Count>(0).0,
        chunks: row.get::<_, Count>(1).0,
        chunks_ended: row.get::<_, Count>(2).0,
        chunks_failed: row.get::<_, Count>(3).0,
        first_chunk_json: row.get(4),
    };
    let rows = all(c, GATEWAYS, params).await?;
    let rows = rows.into_iter().map(view).collect();
    Ok(Page::of(rows, asked, limit, |_| true, |view| view.gateway))
}
