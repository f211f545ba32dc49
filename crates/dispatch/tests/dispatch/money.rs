//! One payment after the other through senders that die, and the checker of what came of it. Its
//! only judge of money is the bank's ledger.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::id::{BatchId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{
    Claim, Connector, ItemView, Lanes, Profile, Queue, Request, StatusMove, StoreResult,
};
use tollgate_dispatch::{Gate, GateOptions, Job, Moves, Sender, Sent};
use tollgate_downstream::{HttpConnector, HttpOptions};
use tollgate_sandbox::{Bank, BankOptions, Entry, Kind};

use crate::cutting::{CutWait, Cutting, Edge};
use crate::town::{Town, item, item_type};

/// A payment that has not ended after so many lives never will.
const MAX_LIVES: usize = 16;
pub(crate) const TIMEOUT: Duration = Duration::from_millis(150);
pub(crate) const SETTLE: Duration = Duration::from_mins(1);

pub(crate) struct Street {
    pub(crate) town: Town,
    pub(crate) bank: Bank,
    pub(crate) honours_keys: bool,
}

impl Street {
    pub(crate) async fn new(faults: &str, honours_keys: bool) -> Self {
        let options = BankOptions {
            honours_keys,
            faults: faults.parse().unwrap(),
            ..BankOptions::default()
        };
        Self {
            town: Town::new(2000).await,
            bank: Bank::start(options).unwrap(),
            honours_keys,
        }
    }

    pub(crate) fn connector(&self) -> Arc<HttpConnector> {
        let profile = Profile {
            honours_idempotency_key: self.honours_keys,
            key_retention: Duration::from_hours(1),
            settle: SETTLE,
            timeout: TIMEOUT,
            means_not_done: vec![429],
        };
        let options = HttpOptions {
            name: "bank".into(),
            url: self.bank.url(),
            lane: LaneName::new("default"),
            profile,
            max_connections: 16,
        };
        Arc::new(HttpConnector::new(options).unwrap())
    }

    /// As after a start: nothing is remembered but what the store holds.
    pub(crate) fn sender(&self) -> Sender {
        self.sender_with(self.connector())
    }

    fn sender_with(&self, connector: Arc<dyn Connector>) -> Sender {
        let gate = Gate::new(self.town.store.clone(), GateOptions::default());
        Sender::new(self.town.store.clone(), Arc::new(gate), connector)
    }

    /// Makes the item due by the store's clock, lifts a pause as a person would, and claims it.
    pub(crate) async fn claimed(&self, id: &str) -> ItemView {
        let view = self.town.item(id).await;
        if view.queue_status != QueueStatus::Ready {
            return view;
        }
        let lane = LaneName::new("default");
        let in_force = self.town.store.lane(&lane).await.unwrap().unwrap();
        let pause = in_force.lane.pause.as_ref();
        if pause.is_some_and(|pause| pause.until.is_none()) {
            let resumed = LaneChange {
                pause: Some(None),
                ..LaneChange::default()
            };
            self.town.change("default", resumed).await;
        }
        let due = in_force
            .closed_until
            .map_or(view.due, |until| until.max(view.due));
        let wait = due.duration_since(self.now().await);
        if !wait.is_negative() {
            self.town.time.advance(wait.unsigned_abs());
        }
        let claim = Claim {
            item_type: item_type(),
            lane,
            batch: BatchId::new("BATCH-1"),
            ahead: Duration::from_secs(6),
            stale_after: Duration::from_hours(1000),
            limit: 100,
            credit_horizon: Duration::from_secs(8),
        };
        self.town.store.claim(claim).await.unwrap();
        self.town.item(id).await
    }

    async fn now(&self) -> tollgate_core::Timestamp {
        use tollgate_core::ports::SharedClock;
        self.town.store.read_clock().await.unwrap().now
    }

    /// Lives one after the other until the payment has ended; the first dies at an edge. Whether
    /// it came there.
    pub(crate) async fn pay(&self, id: &str, edge: Edge) -> bool {
        let mut was_cut = false;
        for life in 0..MAX_LIVES {
            let view = self.claimed(id).await;
            if has_ended(&view) {
                break;
            }
            let edge = if life == 0 { edge } else { Edge::Never };
            was_cut |= self.live(&job(id, view.run), edge).await.is_none();
        }
        was_cut
    }

    /// One life of a sender, with nothing but what the store holds; `None` if it died.
    async fn live(&self, job: &Job, edge: Edge) -> Option<StoreResult<Sent>> {
        let reached = Arc::new(Notify::new());
        let cutting = Cutting {
            inner: self.connector(),
            at: edge,
            ledger: self.bank.ledger().clone(),
            reached: Arc::clone(&reached),
        };
        let sender = self.sender_with(Arc::new(cutting));
        let left = match edge {
            Edge::Wait(n) => n,
            _ => usize::MAX,
        };
        let inner = Box::pin(sender.send(job));
        tokio::select! {
            sent = CutWait { inner, left } => sent,
            () = reached.notified() => None,
        }
    }

    /// The step is run again after its end, as when its record was lost: nothing may be sent.
    pub(crate) async fn repeat(&self, id: &str) {
        let (sends, view) = (self.sends(id).len(), self.town.item(id).await);
        let again = self.sender().send(&job(id, view.run)).await.unwrap();
        assert!(!matches!(again, Sent::Requeued(_)), "{again:?}");
        assert_eq!(self.sends(id).len(), sends, "a repeated step has sent");
    }

    pub(crate) fn sends(&self, id: &str) -> Vec<Entry> {
        let mine = |e: &Entry| e.kind == Kind::Send && e.payment_id.as_deref() == Some(id);
        let entries = self.bank.ledger().entries();
        entries.into_iter().filter(mine).collect()
    }

    /// What is wrong with a payment, by the bank's ledger; nothing if all is well.
    pub(crate) async fn check(&self, id: &str) -> Vec<String> {
        let view = self.town.item(id).await;
        let effects = self.bank.ledger().effective().get(id).copied();
        let effects = effects.unwrap_or(0);
        let mut wrong = vec![];
        if effects > 1 {
            wrong.push(format!("{id}: double: took effect {effects} times"));
        }
        let agrees = match view.status.as_str() {
            "ACCEPTED" => effects == 1,
            "REJECTED" => effects == 0 && view.finished_at.is_some(),
            "IN_DOUBT" => true,
            _ => false,
        };
        if !agrees {
            let (status, queue) = (&view.status, view.queue_status);
            let told = format!("{status} ({queue:?}) with {effects} effects");
            wrong.push(format!("{id}: lost: {told}"));
        }
        let sends = self.sends(id).len();
        let is_send = |kind| kind == tollgate_core::outcome::AttemptKind::Send;
        let logged = view.attempts.iter().filter(|a| is_send(a.kind)).count();
        if logged < sends {
            wrong.push(format!(
                "{id}: unlogged: {sends} sends, {logged} in the log"
            ));
        }
        wrong
    }
}

fn has_ended(view: &ItemView) -> bool {
    view.finished_at.is_some() || view.status == "ACCEPTED"
}

pub(crate) fn job(id: &str, run: u32) -> Job {
    let body = serde_json::json!({
        "paymentId": id, "amount": "1.00", "currency": "EUR", "debtor": {}, "creditor": {},
    });
    Job {
        item: item(id),
        run,
        request: Request {
            reference: id.into(),
            idempotency_key: format!("thing-{id}"),
            body_json: body.to_string(),
        },
        moves: Moves {
            done: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "ACCEPTED"),
            refused: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "REJECTED"),
            in_doubt: StatusMove::new(&["SCHEDULED"], "IN_DOUBT"),
        },
    }
}
