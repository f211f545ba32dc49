//! The first page, every second, for as long as somebody looks. However many look, it is drawn once.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::unfold;
use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::Console;
use super::call::Problem;
use super::now;
use super::session::Session;
use crate::api::Needs;

const EVERY: Duration = Duration::from_secs(1);
/// A drawing is good for so long.
const FRESH: Duration = Duration::from_millis(900);

/// The last drawing.
#[derive(Default)]
pub(super) struct Live(Mutex<Option<(Instant, Arc<str>)>>);

impl Console {
    async fn drawing(&self, session: &Session) -> Result<Arc<str>, Problem> {
        let mut last = self.live.0.lock().await;
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
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let events = unfold(
        (console, session, ticks),
        async |(console, session, mut ticks)| {
            let mut closing = console.closing.clone();
            tokio::select! {
                _ = ticks.tick() => {}
                // The browser comes back when the service does.
                _ = closing.wait_for(|closing| *closing) => return None,
            }
            let event = match console.drawing(&session).await {
                Ok(text) => Event::default().event("now").data(&*text),
                Err(problem) => Event::default()
                    .event("trouble")
                    .data(one_line(&problem.error)),
            };
            Some((Ok::<_, Infallible>(event), (console, session, ticks)))
        },
    );
    Sse::new(events)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}
