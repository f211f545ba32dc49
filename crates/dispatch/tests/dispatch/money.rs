//! One payment after the other through senders that die, and the checker of what came of it. Its
//! only judge of money is the bank's ledger.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::sync::Notify;
use tollgate_core::Timestamp;
use tollgate_core::id::{BatchId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LaneChange;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::marker::Marker;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{
    Claim, Connector, ItemView, Profile, Request, StatusMove, StoreResult, Then,
};
use tollgate_dispatch::{Gate, GateOptions, Job, Moves, Sender, Sent};
use tollgate_downstream::{
    Access, Description, HttpConnector, HttpOptions, LoginOptions, OAuthOptions, SecretSource,
};
use tollgate_sandbox::{Bank, BankOptions, Dialect, Entry, Kind};

use crate::cutting::{CutWait, Cutting, Edge, SURE};
use crate::town::{Town, item, item_type};

/// A payment that has not ended after so many lives never will.
const MAX_LIVES: usize = 24;
/// A lane that is closed for longer never opens.
const CLAIMED_WITHIN: Duration = Duration::from_secs(20);
/// So much of a pause is kept.
const PAUSE: Duration = Duration::from_millis(50);
pub(crate) const TIMEOUT: Duration = Duration::from_millis(150);
/// Real time: a clock that a test moves on has jumped, and then evidence takes this long again.
pub(crate) const SETTLE: Duration = Duration::from_millis(300);

pub(crate) struct Street {
    pub(crate) town: Town,
    pub(crate) bank: Bank,
    /// Where the bank is reached.
    pub(crate) url: String,
    pub(crate) profile: Profile,
    pub(crate) speaks: Dialect,
}

static STRIPE: LazyLock<Description> = LazyLock::new(|| shipped("stripe-transfers"));
static PAYPAL: LazyLock<Description> = LazyLock::new(|| shipped("paypal-payouts"));

fn shipped(name: &str) -> Description {
    Description::read(Description::shipped(name).unwrap()).unwrap()
}

fn secret(text: &'static str) -> SecretSource {
    SecretSource::new(move || Ok(text.to_owned()))
}

/// What a bank promises that honours keys for an hour, or none at all.
pub(crate) fn promises(honours_idempotency_key: bool) -> Profile {
    Profile {
        honours_idempotency_key,
        key_retention: Duration::from_hours(1),
        settle: SETTLE,
        timeout: TIMEOUT,
        means_not_done: vec![429],
        recognised_by: Marker::Contract,
        asks_by_key: false,
    }
}

impl Street {
    pub(crate) async fn new(faults: &str, honours_keys: bool) -> Self {
        Self::of(Town::new(2000).await, faults, promises(honours_keys))
    }

    pub(crate) fn of(town: Town, faults: &str, profile: Profile) -> Self {
        let honours_keys = profile.honours_idempotency_key;
        Self::speaking(Dialect::Contract, honours_keys, town, faults, profile)
    }

    /// To one that speaks PayPal, and whose tokens live so long.
    pub(crate) fn with_tokens_for(tokens_live: Duration, town: Town) -> Self {
        let speaks = Dialect::Paypal;
        let options = BankOptions {
            speaks,
            tokens_live,
            ..BankOptions::default()
        };
        let bank = Bank::start(options).unwrap();
        Self {
            town,
            url: bank.url(),
            bank,
            profile: promises(true),
            speaks,
        }
    }

    /// To a bank that speaks another language, by its shipped description.
    pub(crate) fn speaking(
        speaks: Dialect,
        honours_keys: bool,
        town: Town,
        faults: &str,
        profile: Profile,
    ) -> Self {
        let options = BankOptions {
            honours_keys,
            speaks,
            faults: faults.parse().unwrap(),
            ..BankOptions::default()
        };
        let bank = Bank::start(options).unwrap();
        Self {
            town,
            url: bank.url(),
            bank,
            profile,
            speaks,
        }
    }

    pub(crate) fn connector(&self) -> Arc<HttpConnector> {
        let options = HttpOptions {
            name: "bank".into(),
            url: self.url.clone(),
            lane: LaneName::new("default"),
            profile: self.profile.clone(),
            max_connections: 16,
        };
        let mut access = Access::default();
        let described = match self.speaks {
            Dialect::Contract => return Arc::new(HttpConnector::new(options).unwrap()),
            Dialect::Stripe => {
                access.log_in(LoginOptions::Header {
                    name: "authorization".into(),
                    prefix: "Bearer ".into(),
                    secret: secret("sk_test_1"),
                });
                STRIPE.clone()
            }
            Dialect::Paypal => {
                access.log_in(LoginOptions::OAuth(OAuthOptions {
                    token_url: format!("{}/v1/oauth2/token", self.url),
                    client_id: secret("me"),
                    client_secret: secret("hunter2"),
                    scope: None,
                    in_body: false,
                    expires_in: None,
                    root_certificates: None,
                }));
                PAYPAL.clone()
            }
        };
        Arc::new(HttpConnector::describing(described, options, &access).unwrap())
    }

    /// As after a start: nothing is remembered but what the store holds.
    pub(crate) fn sender(&self) -> Sender {
        self.sender_with(self.connector())
    }

    pub(crate) fn sender_with(&self, connector: Arc<dyn Connector>) -> Sender {
        let gate = Gate::new(self.town.store.clone(), GateOptions::default());
        Sender::new(self.town.store.clone(), Arc::new(gate), connector)
    }

    /// Lifts a pause as a person would, waits for a lane that is closed and for evidence that
    /// takes its time, though only a little for other pauses, and claims the item.
    pub(crate) async fn claimed(&self, id: &str) -> ItemView {
        let claimed = async {
            loop {
                let view = self.town.item(id).await;
                if view.queue_status != QueueStatus::Ready {
                    return view;
                }
                self.resume().await;
                self.wait_for(&view).await;
                let ahead = Duration::from_hours(100);
                self.town.store.claim(claim(ahead)).await.unwrap();
            }
        };
        let claimed = tokio::time::timeout(CLAIMED_WITHIN, claimed).await;
        claimed.unwrap_or_else(|_| panic!("{id} cannot be claimed"))
    }

    async fn resume(&self) {
        let lane = self.lane().await;
        let pause = lane.lane.pause.as_ref();
        if pause.is_some_and(|pause| pause.until.is_none()) {
            let resumed = LaneChange {
                pause: Some(None),
                ..LaneChange::default()
            };
            self.town.change("default", resumed).await;
        }
    }

    async fn wait_for(&self, view: &ItemView) {
        let now = self.town.store.now().await.unwrap();
        let until = |time: Timestamp| Duration::try_from(time.duration_since(now));
        let closed = self.lane().await.closed_until.map(until);
        let closed = closed.and_then(Result::ok).unwrap_or_default();
        let asked = view.attempts.last().map(|last| last.kind) == Some(AttemptKind::Probe);
        let at_most = if asked { self.profile.settle } else { PAUSE };
        let pause = until(view.due).unwrap_or_default().min(at_most);
        tokio::time::sleep(closed.max(pause)).await;
    }

    pub(crate) async fn lane(&self) -> LaneInForce {
        let lane = self.town.store.lane(&LaneName::new("default")).await;
        lane.unwrap().unwrap()
    }

    /// Lives one after the other until the payment has ended; the first dies at this edge.
    pub(crate) async fn pay(&self, id: &str, first: Edge) {
        let mut edge = first;
        for _ in 0..MAX_LIVES {
            let view = self.claimed(id).await;
            if has_ended(&view) {
                return;
            }
            self.live(&job(id, view.run), edge).await;
            edge = Edge::Never;
        }
        let view = self.town.item(id).await;
        assert!(has_ended(&view), "{MAX_LIVES} lives of {id}: {view:#?}");
    }

    /// One life that does not die, unless the payment has ended. Whether it has.
    pub(crate) async fn ends(&self, id: &str) -> bool {
        let view = self.claimed(id).await;
        if has_ended(&view) {
            return true;
        }
        let lived = self.live(&job(id, view.run), Edge::Never).await;
        lived.expect("it does not die").unwrap();
        false
    }

    /// Lives until one dies at the edge, unless the payment ends before. Whether it did. A life that
    /// goes back to the queue has missed its turn, on a machine that is busy, or found the lane closed.
    pub(crate) async fn dies(&self, id: &str, edge: Edge) -> bool {
        for _ in 0..MAX_LIVES {
            let view = self.claimed(id).await;
            if has_ended(&view) {
                return false;
            }
            match self.live(&job(id, view.run), edge).await {
                None => return true,
                Some(Ok(Sent::Requeued(_))) if SURE.contains(&edge) => {}
                Some(_) => return false,
            }
        }
        false
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
        let is_send = |e: &Entry| e.kind == Kind::Send;
        self.arrivals(id).into_iter().filter(is_send).collect()
    }

    fn arrivals(&self, id: &str) -> Vec<Entry> {
        let mine = |e: &Entry| e.payment_id.as_deref() == Some(id);
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
            wrong.push(format!(
                "{id}: MONEY: paid twice: took effect {effects} times"
            ));
        }
        let agrees = match view.status.as_str() {
            "ACCEPTED" => effects == 1,
            "REJECTED" => effects == 0 && view.finished_at.is_some(),
            "IN_DOUBT" => true,
            _ => false,
        };
        if !agrees {
            let (status, queue) = (&view.status, view.queue_status);
            // What waits in the queue and was not paid has had too few lives; it is not lost.
            let waits = view.finished_at.is_none() && effects == 0;
            let what = if waits { "not ended" } else { "MONEY: lost" };
            wrong.push(format!(
                "{id}: {what}: {status} ({queue:?}) with {effects} effects"
            ));
        }
        let sends = self.sends(id).len();
        let is_send = |kind| kind == AttemptKind::Send;
        let logged = view.attempts.iter().filter(|a| is_send(a.kind)).count();
        if logged < sends {
            wrong.push(format!(
                "{id}: unlogged: {sends} sends, {logged} in the log"
            ));
        }
        if !wrong.is_empty() {
            wrong.push(format!("{:#?} {:#?}", self.arrivals(id), view.attempts));
        }
        wrong
    }
}

pub(crate) fn claim(ahead: Duration) -> Claim {
    Claim {
        item_type: item_type(),
        lane: LaneName::new("default"),
        batch: BatchId::new("BATCH-1"),
        ahead,
        stale_after: Duration::from_hours(1000),
        limit: 100,
        credit_horizon: Duration::from_secs(8),
    }
}

fn has_ended(view: &ItemView) -> bool {
    view.finished_at.is_some() || view.status == "ACCEPTED"
}

pub(crate) fn job(id: &str, run: u32) -> Job {
    let body = serde_json::json!({
        "paymentId": id, "amount": "1.00", "currency": "EUR",
        "debtor": {"account": "A", "name": "Ann"}, "creditor": {"account": "B", "name": "Bob"},
    });
    Job {
        item: item(id),
        run,
        request: Request {
            reference: id.into(),
            idempotency_key: format!("thing-{id}"),
            body_json: body.to_string(),
            sent_by: None,
        },
        moves: Moves {
            done: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "ACCEPTED"),
            refused: StatusMove::new(&["SCHEDULED", "IN_DOUBT"], "REJECTED"),
            in_doubt: StatusMove::new(&["SCHEDULED"], "IN_DOUBT"),
            not_done: StatusMove::new(&["IN_DOUBT"], "SCHEDULED"),
        },
        accounts: vec![],
        refused_then: Then::Finish,
        if_done: None,
    }
}
