//! The first page, every second, for as long as somebody looks. However many look, it is drawn once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::unfold;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tollgate_contract::Needs;

use super::Console;
use super::call::Problem;
use super::now;
use super::session::Session;

const EVERY: Duration = Duration::from_secs(1);
/// A drawing is good for so long.
const FRESH: Duration = Duration::from_millis(900);

/// More live pages than this would take connections from those who hand payments in.
const MOST_WATCHERS: usize = 64;

pub(super) struct Live {
    /// The last drawing.
    last: Mutex<Option<(Instant, Arc<str>)>>,
    seats: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            last: Mutex::default(),
            seats: Arc::new(Semaphore::new(MOST_WATCHERS)),
        }
    }
}

impl Console {
    /// The first page's live part as it is now, or was less than a second ago.
    pub(super) async fn drawing(&self, session: &Session) -> Result<Arc<str>, Problem> {
        let mut last = self.live.last.lock().await;
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(text));
        }
        // An event is made of lines, and a carriage return would end one.
        let text = now::live(self, session).await?.replace('\r', " ");
        let text: Arc<str> = text.into();
        *last = Some((Instant::now(), Arc::clone(&text)));
        Ok(text)
    }
}

pub(super) async fn stream(State(console): State<Console>, session: Session) -> Response {
    if !session.may(Needs::Read) {
        return axum::http::StatusCode::FORBIDDEN.into_response();
    }
    let Ok(seat) = Arc::clone(&console.live.seats).try_acquire_owned() else {
        return axum::http::StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = unfold(
        (console, session, ticks, seat),
        async |(console, session, mut ticks, seat)| {
            let mut closing = console.closing.clone();
            tokio::select! {
                _ = ticks.tick() => {}
                // The browser comes back when the service does.
                _ = closing.wait_for(|closing| *closing) => return None,
            }
            if console.is_over(&session).await {
                return None;
            }
            let event = match console.drawing(&session).await {
                Ok(text) => Event::default().event("now").data(&*text),
                Err(problem) => Event::default()
                    .event("trouble")
                    .data(one_line(&problem.error)),
            };
            Some((Ok::<_, Infallible>(event), (console, session, ticks, seat)))
        },
    );
    // Or a proxy would hold them back until there are many.
    let unbuffered = [("x-accel-buffering", "no")];
    let events = Sse::new(events).keep_alive(KeepAlive::default());
    (unbuffered, events).into_response()
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
