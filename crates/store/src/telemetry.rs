//! What both stores measure about giving slots. The names are those of the seeds.

use std::time::Instant;

use tollgate_core::Timestamp;
use tollgate_core::slot::Place;
use tollgate_core::window::Windows;

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
