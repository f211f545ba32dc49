//! Status checks as people look through them: all of them, and the gateways of one.

use rusqlite::{Connection, Row, params};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Bookmark, CheckLine, CheckPhase, GatewayView, Page, rows_needed};

use super::value::{Us, word};

pub(super) fn lines(
    c: &Connection,
    after: &Bookmark,
    limit: u32,
) -> rusqlite::Result<Page<CheckLine, Bookmark>> {
    let asked = rows_needed(limit, false);
    let rows = c
        .prepare_cached(
            "SELECT check_id, phase, total, gateways, opened_at, ended_at, error IS NOT NULL
             FROM status_check WHERE (opened_at, check_id) < (?1, ?2)
             ORDER BY opened_at DESC, check_id DESC LIMIT ?3",
        )?
        .query_map(params![after.rank, after.id, asked], line_from)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Page::of(rows, asked, limit, |_| true, CheckLine::bookmark))
}

fn line_from(row: &Row<'_>) -> rusqlite::Result<CheckLine> {
    Ok(CheckLine {
        check: FlowId::new(row.get::<_, String>(0)?),
        phase: word(row, 1, CheckPhase::parse)?,
        total: row.get(2)?,
        gateways: row.get(3)?,
        opened_at: row.get::<_, Us>(4)?.0,
        ended_at: row.get::<_, Option<Us>>(5)?.map(|us| us.0),
        failed: row.get(6)?,
    })
}

/// The chunks of gateway n are list n + 1.
pub(super) fn gateways(
    c: &Connection,
    check: &FlowId,
    after: Option<u32>,
    limit: u32,
) -> rusqlite::Result<Page<GatewayView, u32>> {
    let asked = rows_needed(limit, false);
    let after = after.map_or(0, |gateway| i64::from(gateway) + 1);
    let rows = c
        .prepare_cached(
            "SELECT s.list_no - 1, count(*), count(s.outcome), sum(s.failed),
                    (SELECT p.body FROM status_check_part p
                     WHERE p.check_id = ?1 AND p.list_no = s.list_no AND p.part_no = 0)
             FROM status_check_part s WHERE s.check_id = ?1 AND s.list_no > ?2
             GROUP BY s.list_no ORDER BY s.list_no LIMIT ?3",
        )?
        .query_map(params![check.as_str(), after, asked], |row| {
            Ok(GatewayView {
                gateway: row.get(0)?,
                chunks: row.get(1)?,
                chunks_ended: row.get(2)?,
                chunks_failed: row.get(3)?,
                first_chunk_json: row.get(4)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Page::of(rows, asked, limit, |_| true, |view| view.gateway))
}
