//! Turns for calls that belong to no item: through the same gate, within a share of the lane. One
//! caller per lane asks at a time, the others of this node wait behind it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rust_decimal::Decimal;
use tokio::time::Instant;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{CallGiven, CallWanted, StoreResult, TakeTurn};

use crate::gate::Gate;
use crate::gate::clock_watch::Look;

/// How long the commit of a call's turn may take before the turn is due.
const LEAD: Duration = Duration::from_millis(20);
/// While the clock is not to be trusted, or the store is away.
const TROUBLE_PAUSE: Duration = Duration::from_millis(200);
/// How often a caller looks whether a closed lane has opened.
const CLOSED_PAUSE: Duration = Duration::from_millis(500);

impl Gate {
    /// Waits for a turn of a call and for its time; on return the caller sends, at once. Or says why
    /// there is none.
    pub async fn call_turn(
        &self,
        lane: &LaneName,
        share: Decimal,
        patience: Duration,
    ) -> Result<(), String> {
        let closed = Mutex::new(None);
        let waiting = async {
            let first = self.call_queue(lane);
            let _first = first.lock().await;
            self.next_call(lane, share, &closed).await;
        };
        if tokio::time::timeout(patience, waiting).await.is_ok() {
            return Ok(());
        }
        let closed = closed.into_inner().unwrap_or_else(PoisonError::into_inner);
        let why = || format!("no turn at lane {lane} within {patience:?}");
        Err(closed.map_or_else(why, |closed: String| format!("{}: {closed}", why())))
    }

    /// A lane that is closed may open while there is patience left; `closed` tells why it is.
    async fn next_call(&self, lane: &LaneName, share: Decimal, closed: &Mutex<Option<String>>) {
        loop {
            let asked = self.ask_for_call(lane, share).await;
            let why = match &asked {
                Ok(CallTurn::Closed(why)) => Some(why.clone()),
                Ok(CallTurn::Now | CallTurn::Again(_)) | Err(_) => None,
            };
            *closed.lock().unwrap_or_else(PoisonError::into_inner) = why;
            let pause = match asked {
                Ok(CallTurn::Now) => return,
                Ok(CallTurn::Closed(_)) => CLOSED_PAUSE,
                Ok(CallTurn::Again(pause)) => pause,
                Err(error) => {
                    tracing::warn!(%lane, %error, "no turn for a call");
                    TROUBLE_PAUSE
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// A turn that was missed, or void since the clock has jumped, stays in the log: it never holds
    /// fewer sends than the downstream saw.
    async fn ask_for_call(&self, lane: &LaneName, share: Decimal) -> StoreResult<CallTurn> {
        if let Some(why) = self.fenced() {
            return Ok(CallTurn::Closed(why));
        }
        let bearing = match self.watch.look(&*self.store).await? {
            Look::Good(bearing) => bearing,
            Look::Quiet(left) => return Ok(CallTurn::Again(left)),
            Look::Uncertain(_) => return Ok(CallTurn::Again(TROUBLE_PAUSE)),
        };
        let asked = Instant::now();
        let wanted = CallWanted {
            lane: lane.clone(),
            lead: LEAD,
            share,
        };
        let turn = self.store.take_call_turn(wanted).await?;
        let at = match turn.given {
            CallGiven::At(at) => at,
            CallGiven::AskAgainIn(pause) => return Ok(CallTurn::Again(pause)),
            CallGiven::Closed { why } => return Ok(CallTurn::Closed(why)),
        };
        if !self.watch.still_holds(bearing, asked, turn.now) {
            return Ok(CallTurn::Again(TROUBLE_PAUSE));
        }
        let local = bearing.sample.local(at);
        tokio::time::sleep_until(local).await;
        let is_good = local.elapsed() <= self.tolerance()
            && bearing.jumps == self.watch.jumps()
            && self.fenced().is_none();
        let counted = if is_good {
            "tollgate_turns_total"
        } else {
            "tollgate_turns_dropped_total"
        };
        metrics::counter!(counted, "lane" => lane.to_string()).increment(1);
        Ok(if is_good {
            CallTurn::Now
        } else {
            CallTurn::Again(Duration::ZERO)
        })
    }
}

/// The turn of one call at a lane, for whoever has a connection in hand.
#[derive(Debug)]
pub struct CallTurnAt<'a> {
    pub gate: &'a Gate,
    pub lane: &'a LaneName,
    pub share: Decimal,
    pub patience: Duration,
}

#[async_trait]
impl TakeTurn for CallTurnAt<'_> {
    async fn take(&self) -> Result<(), String> {
        let turn = self.gate.call_turn(self.lane, self.share, self.patience);
        turn.await
    }
}

enum CallTurn {
    Now,
    Again(Duration),
    Closed(String),
}
