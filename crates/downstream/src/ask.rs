//! One question to a bank for a person who wants to see the answer: asked outside of any payment's flow, and nothing
//! follows from it. It moves no money, so it needs no permit; with a lane it takes a turn there.

use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::gate::DEFAULT_TOLERANCE;
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{Request, TakeTurn};

use crate::http::HttpConnector;
use crate::judge::{Exchange, judge};

/// This much of a body is shown.
const SHOWN_CHARS: usize = 4_000;

/// What came back, and what it means by the description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskResult {
    /// None if no whole answer came.
    pub status: Option<u16>,
    pub body: String,
    /// In the words of a description.
    pub means: &'static str,
    /// Where the row is written that applied.
    pub line: Option<usize>,
    /// The bank's reference, if the row says where it stands.
    pub reference: Option<String>,
    /// Why it proves nothing, or why it is a no.
    pub why: Option<String>,
}

impl HttpConnector {
    /// Asks once: a connection first, then the turn. The error says why nothing was asked.
    pub async fn ask(
        &self,
        request: &Request,
        at: Timestamp,
        turn: Option<&dyn TakeTurn>,
    ) -> Result<AskResult, String> {
        let (endpoint, kind) = (&self.endpoint, AttemptKind::Probe);
        let within = endpoint.profile.timeout;
        for login in &endpoint.logins {
            login.ready().await?;
        }
        let lease = self.pool.lease(within).await;
        let mut lease = lease.map_err(|none| none.to_string())?;
        let by_then = Instant::now() + within;
        let (out, _) = endpoint.made(kind, request, at, by_then).await?;
        let connected = lease.connect_for(Instant::now()).await;
        connected.map_err(|none| none.to_string())?;
        let use_by = match turn {
            Some(turn) => {
                turn.take().await?;
                Instant::now() + DEFAULT_TOLERANCE
            }
            None => Instant::now() + within,
        };
        let exchange = lease.exchange(out, use_by, within).await;
        let exchange = exchange.map_err(|missed| missed.to_string())?;
        let (status, body) = match &exchange {
            Exchange::NotSent(why) => return Err(why.clone()),
            Exchange::Lost(_) => (None, String::new()),
            Exchange::Answered(answer) => (
                Some(answer.status),
                String::from_utf8_lossy(&answer.body).into_owned(),
            ),
        };
        let (description, marker) = (&endpoint.description, &endpoint.profile.recognised_by);
        let judged = judge(description, marker, kind, exchange, request);
        Ok(AskResult {
            status,
            body: body.chars().take(SHOWN_CHARS).collect(),
            means: judged.means,
            line: judged.line,
            reference: judged.reference,
            why: match judged.heard.outcome {
                Outcome::Done(_) => None,
                Outcome::Refused(why)
                | Outcome::Declined(why)
                | Outcome::Unknown(why)
                | Outcome::Retry { why, .. } => Some(why),
            },
        })
    }
}
