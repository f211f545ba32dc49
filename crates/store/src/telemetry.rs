//! What both stores measure: giving slots, under their usual names, and the lines of bulks; and the spans of statements.

use std::time::Instant;

use tollgate_core::Timestamp;
use tollgate_core::ports::ChunkEnd;
use tollgate_core::slot::Place;
use tollgate_core::window::Windows;
use tracing::Span;

/// So much of a statement is shown in its span.
const SHOWN: usize = 120;

/// Around one statement, so that a slow one is visible in the trace of its payment. It shows the text, which has
/// parameters in the place of data.
pub(crate) fn statement(sql: &str) -> Span {
    tracing::debug_span!("statement", sql = shown(sql))
}

fn shown(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().collect();
    words.join(" ").chars().take(SHOWN).collect()
}

/// Times one admission of one or many items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admission(Instant);

impl Admission {
    #[expect(
        clippy::disallowed_methods,
        reason = "measures a stretch of time and decides nothing"
    )]
    pub(crate) fn begun() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn ended(self) {
        metrics::histogram!("rate_limiter_slot_assignment_duration_seconds")
            .record(self.0.elapsed().as_secs_f64());
    }
}

/// How far from its wish an item was placed, or that it could not be.
pub(crate) fn placed(windows: &Windows, from: Timestamp, place: Option<&Place>) {
    match place {
        Some(place) => {
            let passed = windows.windows_between(from, place.window);
            let passed = u32::try_from(passed).unwrap_or(u32::MAX);
            metrics::histogram!("rate_limiter_window_lookahead_depth").record(passed);
        }
        None => metrics::counter!("rate_limiter_slot_assignment_failures_total").increment(1),
    }
}

/// The lines of a chunk, by what became of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines([(&'static str, u64); 3]);

impl Lines {
    pub(crate) fn of(end: &ChunkEnd) -> Self {
        let rejected = u64::try_from(end.rejected.len()).unwrap_or(u64::MAX);
        Self([
            ("accepted", end.accepted()),
            ("duplicate", end.duplicate.into()),
            ("rejected", rejected),
        ])
    }

    /// After the commit that counts them.
    pub(crate) fn count(self) {
        for (result, lines) in self.0 {
            metrics::counter!("tollgate_bulk_lines_total", "result" => result).increment(lines);
        }
    }
}
