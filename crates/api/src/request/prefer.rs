//! The header `Prefer`: how long a caller waits for an answer.

use std::time::Duration;

use axum::http::HeaderMap;

/// How long a caller waits for an answer if it does not say.
const DEFAULT_WAIT: Duration = Duration::from_secs(10);
const MAX_WAIT: Duration = Duration::from_mins(1);

/// `Prefer: respond-async` does not wait, `Prefer: wait=N` waits for up to N seconds.
pub(crate) fn wait(headers: &HeaderMap) -> Duration {
    let all = headers.get_all("prefer");
    let mut preferences = all
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','));
    let wait = preferences.find_map(|preference| match preference.trim() {
        "respond-async" => Some(Duration::ZERO),
        other => other
            .strip_prefix("wait=")?
            .parse()
            .ok()
            .map(Duration::from_secs),
    });
    wait.unwrap_or(DEFAULT_WAIT).min(MAX_WAIT)
}
