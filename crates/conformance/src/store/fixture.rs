//! What a case is given: a store whose time it can move, and short ways to bring items to where
//! a promise begins. Only ports are used here.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::gate::HORIZON;
use tollgate_core::id::{AttemptId, BatchId, FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::lane::{Lane, LaneChange};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::money::{Currency, Money};
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{
    Admission, Author, Claim, Claimed, IN_DOUBT, ItemView, NewItem, NewRecord, NewTurn, Page,
    PageFrom, PageToken, Placed, Settlement, StartRecord, Started, StatusMove, Store, Then, Turn,
    TurnBlock, TurnsWanted, WindowUse,
};
use tollgate_core::{SignedDuration, Timestamp};

pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
/// How long a case lets a claim live.
pub(super) const STALE: Duration = Duration::from_mins(2);
/// How late a turn may be used.
pub(super) const TOLERANCE: Duration = Duration::from_millis(8);
/// The dispatcher's and the sweeper's patience.
pub(super) const MAX_RETRIES: u32 = 3;

/// A fresh, empty store for one case.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The store, seen from one node; a backend with many nodes may hand out another each time.
    fn store(&self) -> Arc<dyn Store>;

    /// Moves the store's time on, for all nodes.
    async fn advance(&self, by: Duration);

    /// Sets the store's clock back, for all nodes.
    async fn turn_back(&self, by: Duration);

    /// Ends every node and starts again on the same data. The case holds no store meanwhile.
    async fn restart(&self);

    /// Another store of the same kind, with nothing in it.
    async fn another(&self) -> Box<dyn Fixture>;

    /// Damage that no port can do, as a statement that every backend understands.
    async fn damage(&self, sql: &str);

    /// What an operator gets who types a statement into the database's own shell: rows of text, or an error.
    async fn typed(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String>;
}

pub(super) fn payments() -> ItemType {
    ItemType::new("PAYMENT")
}
pub(super) fn bank() -> LaneName {
    LaneName::new("bank")
}
pub(super) fn payment(id: &str) -> Item {
    Item::new(&payments(), &ItemId::new(id))
}
pub(super) fn ops() -> Author {
    Author::new("ops", "because")
}

/// How a record moves when nobody knows what became of its item.
pub(super) fn lost() -> StatusMove {
    StatusMove::new(&["SCHEDULED"], IN_DOUBT)
}

/// A plan of so many items per window, and everything else by default.
pub(super) fn plan(max_per_window: u32, window_size_secs: u32) -> LaneChange {
    LaneChange {
        max_per_window: Some(max_per_window),
        window_size_secs: Some(window_size_secs),
        ..LaneChange::default()
    }
}
pub(super) fn hard_limit(per_second: i64) -> LaneChange {
    LaneChange {
        max_per_second: Some(per_second.into()),
        ..LaneChange::default()
    }
}

/// One dollar, for now, on the bank's lane.
pub(super) fn new_item(id: &str) -> NewItem {
    let record = NewRecord::new("acme", "SCHEDULED", usd(100), format!("hash of {id}"));
    let body = format!("{{\"body\":\"{id}\"}}");
    let flow = FlowId::new(format!("init-{id}"));
    NewItem::new(ItemId::new(id), bank(), record, body, flow)
}
pub(super) fn new_item_at(id: &str, requested: Timestamp) -> NewItem {
    NewItem {
        requested: Some(requested),
        ..new_item(id)
    }
}
pub(super) fn many(prefix: &str, count: usize, requested: Timestamp) -> Vec<NewItem> {
    let one = |n| new_item_at(&format!("{prefix}{n:05}"), requested);
    (0..count).map(one).collect()
}
pub(super) fn usd(minor: i64) -> Money {
    let currency = Currency::from_code("USD").unwrap();
    Money { minor, currency }
}

/// Takes all that is ready within the hour, and would take much more.
pub(super) fn claim_all() -> Claim {
    Claim {
        item_type: payments(),
        lane: bank(),
        batch: BatchId::new("BATCH-1"),
        ahead: HOUR,
        stale_after: STALE,
        limit: 10_000,
        credit_horizon: 24 * HOUR,
    }
}

pub(super) fn start(claimed: &Claimed, started: Started) -> StartRecord {
    StartRecord {
        id: claimed.id.clone(),
        fence: claimed.fence,
        flow: Item::new(&payments(), &claimed.id).exec_flow(claimed.run),
        started,
    }
}

/// A send in the item's first run, as soon as possible.
pub(super) fn send(item: &Item) -> NewTurn {
    NewTurn {
        item: item.clone(),
        run: 1,
        kind: AttemptKind::Send,
        key: format!("payment-{}", item.id),
        planned: Timestamp::UNIX_EPOCH,
        seen: None,
        missed: None,
        may_be_late: false,
    }
}

/// The outcome of the first run's attempt; record and queue stay.
pub(super) fn settlement(item: &Item, attempt: AttemptId, outcome: Outcome) -> Settlement {
    Settlement {
        attempt,
        item: item.clone(),
        run: 1,
        outcome,
        record: None,
        then: Then::Stay,
        disproves: false,
        close_lane: None,
        accounts: vec![],
    }
}

pub(super) fn placed(admission: &Admission) -> Placed {
    match admission {
        Admission::New(placed) | Admission::Repeat(placed) => placed.clone(),
        Admission::Conflict
        | Admission::Refused(_)
        | Admission::RefusedBy { .. }
        | Admission::Cancelled
        | Admission::Archived
        | Admission::Erased => {
            panic!("not placed: {admission:?}")
        }
    }
}
pub(super) fn is_new(admission: &Admission) -> bool {
    matches!(admission, Admission::New(_))
}

/// The turns that were given, in their order.
pub(super) fn given(block: &TurnBlock) -> Vec<(AttemptId, Timestamp)> {
    let one = |turn: &Turn| match turn {
        Turn::At { attempt, at } => Some((*attempt, *at)),
        Turn::Later
        | Turn::TooLate
        | Turn::Closed { .. }
        | Turn::NotYours(_)
        | Turn::LookAgain(_) => None,
    };
    block.turns.iter().filter_map(one).collect()
}

pub(super) fn micros(from: Timestamp, to: Timestamp) -> i64 {
    to.as_microsecond() - from.as_microsecond()
}
pub(super) fn signed(time: Duration) -> SignedDuration {
    SignedDuration::try_from(time).unwrap()
}

impl dyn Fixture + '_ {
    pub(super) async fn now(&self) -> Timestamp {
        self.store().now().await.unwrap()
    }

    /// A time ahead that begins a window of any size that divides an hour.
    pub(super) async fn next_hour(&self) -> Timestamp {
        let secs = self.now().await.as_second() + 3600;
        Timestamp::from_second(secs + 3600 - secs % 3600).unwrap()
    }

    /// Changes the bank's lane, or creates it.
    pub(super) async fn lane(&self, change: LaneChange) -> LaneInForce {
        self.store()
            .change_lane(&bank(), change, ops())
            .await
            .unwrap()
    }
    pub(super) async fn current_lane(&self) -> Lane {
        self.store().lane(&bank()).await.unwrap().unwrap().lane
    }

    pub(super) async fn admit(&self, items: Vec<NewItem>) -> Vec<Admission> {
        self.store().admit(&payments(), items).await.unwrap()
    }
    pub(super) async fn admit_one(&self, item: NewItem) -> Admission {
        self.admit(vec![item]).await.remove(0)
    }
    pub(super) async fn place(&self, items: Vec<NewItem>) -> Vec<Placed> {
        let admissions = self.admit(items).await;
        assert!(admissions.iter().all(is_new), "{admissions:?}");
        admissions.iter().map(placed).collect()
    }

    pub(super) async fn view(&self, item: &Item) -> ItemView {
        let view = self.store().item(item).await.unwrap();
        view.unwrap_or_else(|| panic!("{item} is gone"))
    }

    /// An item without its body.
    pub(super) async fn lose_body(&self, item: &Item) {
        let (kind, id) = (&item.item_type, &item.id);
        let lose = format!("DELETE FROM item_body WHERE item_type = '{kind}' AND item_id = '{id}'");
        self.damage(&lose).await;
    }

    pub(super) async fn windows(&self) -> Vec<WindowUse> {
        self.store()
            .windows(&bank(), Timestamp::UNIX_EPOCH, 100_000)
            .await
            .unwrap()
    }

    pub(super) async fn claim(&self, claim: Claim) -> Vec<Claimed> {
        self.store().claim(claim).await.unwrap()
    }
    pub(super) async fn claim_ids(&self, claim: Claim) -> Vec<String> {
        let claimed = self.claim(claim).await;
        claimed.iter().map(|c| c.id.to_string()).collect()
    }
    pub(super) async fn claimed_one(&self, id: &str) -> Claimed {
        self.place(vec![new_item(id)]).await;
        let mut claimed = self.claim(claim_all()).await;
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    /// Gives back what is still claimed under this claim's batch.
    pub(super) async fn release(&self, claim: &Claim) -> u64 {
        let store = self.store();
        let released = store.release(&claim.item_type, &claim.lane, &claim.batch);
        released.await.unwrap()
    }

    pub(super) async fn record(&self, starts: Vec<StartRecord>) -> u64 {
        self.store()
            .record_starts(&payments(), &BatchId::new("BATCH-1"), starts, MAX_RETRIES)
            .await
            .unwrap()
    }

    /// Admits these items and brings them to where their exec flows run.
    pub(super) async fn dispatched(&self, ids: &[&str]) -> Vec<Item> {
        self.place(ids.iter().map(|id| new_item(id)).collect())
            .await;
        self.dispatch_all().await;
        ids.iter().map(|id| payment(id)).collect()
    }
    pub(super) async fn dispatched_one(&self) -> Item {
        self.dispatched(&["p"]).await.remove(0)
    }
    pub(super) async fn dispatch_all(&self) {
        let claimed = self.claim(claim_all()).await;
        let starts = claimed.iter().map(|c| start(c, Started::New)).collect();
        assert_eq!(self.record(starts).await, claimed.len() as u64);
    }
    pub(super) async fn dispatched_many(&self, count: usize) -> Vec<Item> {
        let now = self.now().await;
        let items = many("p", count, now);
        let names = items.iter().map(|i| Item::new(&payments(), &i.id));
        let names = names.collect();
        self.place(items).await;
        self.dispatch_all().await;
        names
    }

    /// For senders that have just looked at their items.
    pub(super) async fn turns(&self, attempts: Vec<NewTurn>) -> TurnBlock {
        let attempts = self.having_looked(attempts).await;
        self.store().take_turns(wanted(attempts)).await.unwrap()
    }
    /// Each with the latest attempt of its item as the one that its sender has seen.
    pub(super) async fn having_looked(&self, mut attempts: Vec<NewTurn>) -> Vec<NewTurn> {
        for attempt in &mut attempts {
            // No item is in a run of this number: nothing is taken over.
            let (store, item) = (self.store(), &attempt.item);
            let history = store.take_over(item, 0, HOUR, &lost()).await.unwrap();
            attempt.seen = history.latest();
        }
        attempts
    }
    pub(super) async fn turn(&self, attempt: NewTurn) -> Turn {
        self.turns(vec![attempt]).await.turns.remove(0)
    }
    /// What the item is given when the commit may take so long that its turn is nearly the horizon
    /// away.
    pub(super) async fn far_turn(&self, item: &Item) -> Turn {
        let lead = HORIZON * 4 / 5;
        let wanted = TurnsWanted {
            lead,
            ..wanted(vec![send(item)])
        };
        let block = self.store().take_turns(wanted).await;
        block.unwrap().turns.remove(0)
    }
    /// Opens an attempt for the item's first run.
    pub(super) async fn sent(&self, item: &Item) -> (AttemptId, Timestamp) {
        match self.turn(send(item)).await {
            Turn::At { attempt, at } => (attempt, at),
            other => panic!("{item} was given no turn: {other:?}"),
        }
    }
    pub(super) async fn settle(&self, settlement: Settlement) -> bool {
        self.store().settle(settlement).await.unwrap()
    }

    /// How many sends the bank's log holds.
    pub(super) async fn logged(&self) -> u64 {
        let (from, to) = (Timestamp::UNIX_EPOCH, self.now().await + signed(HOUR));
        let proof = self.store().certificate(&bank(), from, to).await.unwrap();
        proof.sends
    }

    /// The actions of an item's audit trail, newest first.
    pub(super) async fn trail(&self, item: &Item) -> Vec<String> {
        let entries = self.store().audit(Some(item), 100).await.unwrap();
        entries.into_iter().map(|entry| entry.action).collect()
    }
}

pub(super) fn wanted(attempts: Vec<NewTurn>) -> TurnsWanted {
    TurnsWanted {
        watch: None,
        lane: bank(),
        lead: Duration::from_millis(5),
        attempts,
    }
}

/// Goes through a list page by page to its end and back to its start: all of it in its order, both ways.
pub(super) async fn there_and_back(
    page: impl AsyncFn(PageFrom<PageToken>) -> Page<String, PageToken>,
    expected: &[&str],
) {
    let (mut seen, mut from) = (vec![], PageFrom::Start);
    let mut last = loop {
        let page = page(from).await;
        seen.extend(page.items.clone());
        assert!(seen.len() <= expected.len(), "it does not go on: {seen:?}");
        match page.next.clone() {
            Some(next) => from = PageFrom::After(next),
            None => break page,
        }
    };
    assert_eq!(seen, expected);
    let mut seen = last.items.clone();
    while let Some(previous) = last.previous.take() {
        last = page(PageFrom::Before(previous)).await;
        assert!(last.next.is_some(), "there is a page behind it");
        seen.splice(0..0, last.items.clone());
        assert!(
            seen.len() <= expected.len(),
            "it does not go back: {seen:?}"
        );
    }
    assert_eq!(seen, expected, "and back");
}
