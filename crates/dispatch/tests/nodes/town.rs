//! A database with one lane and many due items, and a bank that keeps the books.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use rust_decimal::Decimal;
use tollgate_conformance::postgres::shared;
use tollgate_core::Timestamp;
use tollgate_core::id::{FlowId, Item, ItemId, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{
    Accounts, Admission, Author, ItemView, Lanes, NewItem, NewRecord, Queue, Records, SharedClock,
};
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

pub(crate) const LANE: &str = "default";

pub(crate) fn item_type() -> ItemType {
    ItemType::new("THING")
}

pub(crate) struct Town {
    pub(crate) url: String,
    pub(crate) store: PostgresStore,
    pub(crate) bank: Bank,
    items: u32,
    /// When each item is planned, by its name.
    slots: HashMap<String, Timestamp>,
}

impl Town {
    /// Everything is due now.
    pub(crate) async fn new(limit: u32, items: u32) -> Self {
        Self::due_in(limit, items, Duration::ZERO).await
    }

    /// The first item is due after this time, the others at the pace of the lane.
    pub(crate) async fn due_in(limit: u32, items: u32, after: Duration) -> Self {
        let url = shared().database().await;
        let store = PostgresStore::open(PostgresOptions::at(&url))
            .await
            .unwrap();
        let bank = Bank::start(BankOptions {
            limit_per_second: Some(limit),
            ..BankOptions::default()
        })
        .unwrap();
        let slots = HashMap::new();
        let mut town = Self {
            url,
            store,
            bank,
            items,
            slots,
        };
        town.set_limit(limit).await;
        let first = town.store.now().await.unwrap() + after;
        for start in (0..items).step_by(1000) {
            town.admit(start..items.min(start + 1000), first).await;
        }
        town
    }

    async fn admit(&mut self, numbers: Range<u32>, due: Timestamp) {
        let batch = numbers.clone().map(|n| new_item(n, due)).collect();
        let admitted = self.store.admit(&item_type(), batch).await.unwrap();
        for (number, admission) in numbers.zip(admitted) {
            let Admission::New(placed) = admission else {
                panic!("{admission:?}")
            };
            self.slots.insert(name(number), placed.scheduled);
        }
    }

    /// The plan is wide, so that only the gate binds.
    pub(crate) async fn set_limit(&self, limit: u32) {
        let change = LaneChange {
            max_per_window: Some(100_000),
            window_size_secs: Some(4),
            max_per_second: Some(Decimal::from(limit)),
            ..LaneChange::default()
        };
        let author = Author::new("test", "storm");
        self.store
            .change_lane(&LaneName::new(LANE), change, author)
            .await
            .unwrap();
    }

    /// Resolves once so many requests have arrived at the bank.
    pub(crate) async fn arrivals(&self, count: usize) {
        let ledger = self.bank.ledger();
        tokio::time::timeout(Duration::from_mins(1), ledger.wait_for_arrivals(count))
            .await
            .expect("the sending has stopped");
    }

    /// Every item as it is now.
    pub(crate) async fn views(&self) -> Vec<ItemView> {
        let mut views = vec![];
        for number in 0..self.items {
            let item = Item::new(&item_type(), &ItemId::new(name(number)));
            views.extend(self.store.item(&item).await.unwrap());
        }
        views
    }

    /// Resolves once every item has ended.
    pub(crate) async fn all_ended(&self, within: Duration) {
        let looking = async {
            loop {
                let totals = self
                    .store
                    .totals(&item_type(), Timestamp::UNIX_EPOCH, Timestamp::MAX)
                    .await;
                let ended = totals.unwrap_or_default();
                let ended = ended
                    .iter()
                    .filter(|t| t.status == "PROCESSING")
                    .map(|t| t.count)
                    .sum::<u64>();
                if ended == u64::from(self.items) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(within, looking)
            .await
            .expect("not all items have ended");
    }

    /// Lost 0, doubled 0, and no second above the limit, by the bank's ledger.
    pub(crate) fn check(&self, limit: u32) {
        let ledger = self.bank.ledger();
        let effective = ledger.effective();
        let lost: Vec<_> = (0..self.items)
            .filter(|n| !effective.contains_key(&name(*n)))
            .collect();
        assert!(lost.is_empty(), "MONEY: lost: {lost:?}");
        assert!(
            ledger.doubles().is_empty(),
            "MONEY: paid twice: {:?}",
            ledger.doubles()
        );
        let worst = ledger.worst_second();
        println!(
            "worst second {} of {limit}, {} arrivals",
            worst.count,
            ledger.arrivals()
        );
        assert!(worst.count <= limit as usize, "{worst:?}");
    }

    /// Nothing arrived before its slot, by the bank's clock.
    pub(crate) fn check_nothing_was_early(&self) {
        let ledger = self.bank.ledger();
        let anchor = Timestamp::try_from(ledger.wall_anchor()).unwrap();
        for entry in ledger.entries() {
            let id = entry.payment_id.unwrap();
            let (arrival, slot) = (anchor + entry.arrival, self.slots[&id]);
            assert!(arrival >= slot, "{id} arrived at {arrival}, due at {slot}");
        }
    }
}

fn name(number: u32) -> String {
    format!("thing-{number}")
}

fn new_item(number: u32, due: Timestamp) -> NewItem {
    let money = Money {
        minor: 100,
        currency: Currency::from_code("EUR").unwrap(),
    };
    let record = NewRecord::new("o", "SCHEDULED", money, "h".into());
    let (id, lane) = (ItemId::new(name(number)), LaneName::new(LANE));
    NewItem {
        requested: Some(due),
        ..NewItem::new(id, lane, record, "{}", FlowId::new("init"))
    }
}
