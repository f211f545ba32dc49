//! A fresh store, a fresh bank that is also told, and the domains between them, for one case of a
//! sweep.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_conformance::memory::{Memory, Work};
use tollgate_core::Timestamp;
use tollgate_core::flow::ExecInput;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::id::{BatchId, FlowId, Item, ItemType, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::marker::Marker;
use tollgate_core::ports::{
    Accounts, AuditEntry, Author, Claim, Connector, ItemView, Lanes, NewItem, Profile, Queue,
    Records, StartRecord, Started, Store,
};
use tollgate_dispatch::{FileOrder, Forecaster, Gate, GateOptions, LEAST_WAY, Sender};
use tollgate_domains::notifications::{self, Event, Notifications, Receiver, news_id};
use tollgate_domains::payments::{self, PaymentRequest, Payments, Routes, RulesInForce};
use tollgate_downstream::{
    Access, HttpConnector, HttpOptions, Signer, WebhookConnector, WebhookOptions,
};
use tollgate_sandbox::{Bank, BankOptions, WEBHOOK_SECRET};
use tollgate_store::MovableTime;
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

pub(crate) const LANE: &str = "default";

pub(crate) struct Town {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) bank: Bank,
    pub(crate) receiver: Receiver,
    pub(crate) time: MovableTime,
    pub(crate) rules: Arc<RulesInForce>,
    pub(crate) gate: Arc<Gate>,
    _folder: TempDir,
}

impl Town {
    /// The domains registered with a memory context whose steps really wait for their IO.
    pub(crate) fn build(options: BankOptions) -> (Self, Memory) {
        let (town, memory) = Self::without_the_receivers_lane(options);
        town.open_lane(&town.receiver.lane);
        (town, memory)
    }

    pub(crate) fn without_the_receivers_lane(options: BankOptions) -> (Self, Memory) {
        Self::telling(options, true)
    }

    pub(crate) fn without_receivers(options: BankOptions) -> (Self, Memory) {
        Self::telling(options, false)
    }

    fn telling(options: BankOptions, has_receivers: bool) -> (Self, Memory) {
        let _inside = RUNTIME.enter();
        let folder = tempfile::tempdir().unwrap();
        let at = SqliteOptions::at(folder.path().join("t.db"));
        let time = at.time.clone();
        let store = Arc::new(SqliteStore::open(at).unwrap());
        let honours_idempotency_key = options.honours_keys;
        let bank = Bank::start(options).unwrap();
        let receiving = webhooks(&bank);
        let receiver = Receiver {
            place: receiving.place().to_owned(),
            lane: receiving.lane().clone(),
        };
        let shared: Arc<dyn Store> = store.clone();
        let gate = Arc::new(Gate::new(shared.clone(), GateOptions::default()));
        let sender = |to: Arc<dyn Connector>| Sender::new(shared.clone(), gate.clone(), to);
        let rules = Arc::new(RulesInForce::new(shared.clone(), []));
        let world = Arc::new(Payments {
            store: shared.clone(),
            receivers: has_receivers
                .then(|| receiver.clone())
                .into_iter()
                .collect(),
            rules: rules.clone(),
            forecaster: Arc::new(Forecaster::new(
                shared.clone(),
                vec![payments::item_type()],
                DEFAULT_MARGIN,
                LEAST_WAY,
            )),
            order: FileOrder::new(shared.clone()),
            routes: Arc::new(Routes {
                default: payments::Bank {
                    lane: LaneName::new(LANE),
                    sender: sender(Arc::new(paying(&bank, honours_idempotency_key))),
                },
                gateways: BTreeMap::new(),
            }),
        });
        let told = Arc::new(Notifications {
            store: shared.clone(),
            receivers: BTreeMap::from([(receiver.place.clone(), sender(Arc::new(receiving)))]),
        });
        let mut memory = Memory::new(Work::Blocking(RUNTIME.handle().clone()));
        payments::register(&mut memory, &world);
        notifications::register(&mut memory, &told);
        let town = Self {
            store,
            bank,
            receiver,
            time,
            rules,
            gate,
            _folder: folder,
        };
        town.open_lane(&LaneName::new(LANE));
        (town, memory)
    }

    fn open_lane(&self, lane: &LaneName) {
        let change = LaneChange {
            max_per_window: Some(4000),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        let author = Author::new("test", "sweep");
        RUNTIME
            .block_on(self.store.change_lane(lane, change, author))
            .unwrap();
    }

    /// Admits and dispatches one payment, as intake and the dispatcher would.
    pub(crate) fn dispatched(&self) -> ExecInput {
        let payment = payment("pay_1");
        let item = payments::new_item(
            &payment,
            &LaneName::new(LANE),
            &FlowId::new("init-payment-pay_1"),
        )
        .unwrap();
        self.dispatch(&payments::item_type(), item)
    }

    /// Admits and dispatches an item.
    pub(crate) fn dispatch(&self, item_type: &ItemType, item: NewItem) -> ExecInput {
        let lane = item.lane.clone();
        let admitted = self.store.admit(item_type, vec![item]);
        RUNTIME.block_on(admitted).unwrap();
        self.claimed(item_type, &lane).unwrap()
    }

    /// The next item that is due, dispatched.
    pub(crate) fn claimed(&self, item_type: &ItemType, lane: &LaneName) -> Option<ExecInput> {
        let batch = BatchId::new("BATCH-1");
        let claim = Claim {
            item_type: item_type.clone(),
            lane: lane.clone(),
            batch: batch.clone(),
            ahead: Duration::from_secs(6),
            stale_after: Duration::from_mins(1),
            limit: 1,
            credit_horizon: Duration::from_secs(8),
        };
        RUNTIME.block_on(async {
            let claimed = self.store.claim(claim).await.unwrap().pop()?;
            let item = Item::new(item_type, &claimed.id);
            let start = StartRecord {
                id: claimed.id,
                fence: claimed.fence,
                flow: item.exec_flow(claimed.run),
                started: Started::New,
            };
            self.store
                .record_starts(item_type, &batch, vec![start], 5)
                .await
                .unwrap();
            Some(ExecInput {
                item,
                run: claimed.run,
                context_json: claimed.context_json,
            })
        })
    }

    pub(crate) fn item(&self, id: &str) -> Option<ItemView> {
        let item = payments::item(&tollgate_core::id::ItemId::new(id));
        RUNTIME.block_on(self.store.item(&item)).unwrap()
    }

    pub(crate) fn is_queued(&self, id: &str, event: Event) -> bool {
        let item = notifications::item(&news_id(event, id, &self.receiver.place, 0));
        RUNTIME.block_on(self.store.item(&item)).unwrap().is_some()
    }

    /// The events of pay_1 of which a notification is queued, or was.
    pub(crate) fn news(&self) -> Vec<&'static str> {
        let is_queued = |event: &Event| self.is_queued("pay_1", *event);
        let queued = Event::ALL.into_iter().filter(is_queued);
        let queued: Vec<_> = queued.map(Event::name).collect();
        let (all, ever) = (Timestamp::UNIX_EPOCH, Timestamp::MAX);
        let item_type = notifications::item_type();
        let totals = self.store.totals(&item_type, all, ever);
        let counted: u64 = RUNTIME
            .block_on(totals)
            .unwrap()
            .iter()
            .map(|t| t.count)
            .sum();
        assert_eq!(counted, queued.len() as u64, "and no other");
        queued
    }

    pub(crate) fn audit(&self, item: &Item) -> Vec<AuditEntry> {
        RUNTIME.block_on(self.store.audit(Some(item), 100)).unwrap()
    }

    /// How often the payment took effect, by the bank's own ledger.
    pub(crate) fn effects(&self, id: &str) -> u32 {
        self.bank.ledger().effective().get(id).copied().unwrap_or(0)
    }
}

fn paying(bank: &Bank, honours_idempotency_key: bool) -> HttpConnector {
    HttpConnector::new(HttpOptions {
        name: "payments".into(),
        url: bank.url(),
        lane: LaneName::new(LANE),
        profile: Profile {
            honours_idempotency_key,
            key_retention: Duration::from_hours(1),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(5),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        },
        max_connections: 4,
    })
    .unwrap()
}

fn webhooks(bank: &Bank) -> WebhookConnector {
    let options = WebhookOptions {
        url: format!("{}/webhooks", bank.url()),
        signer: Signer::parse(WEBHOOK_SECRET).unwrap(),
    };
    WebhookConnector::with_access(options, &Access::default(), notifications::lane_of).unwrap()
}

pub(crate) fn payment(id: &str) -> PaymentRequest {
    let body = json!({"paymentId": id, "amount": "125.50", "currency": "USD",
        "debtor": {"account": "A-1", "name": "Ann"}, "creditor": {"account": "B-2", "name": "Bob"}});
    PaymentRequest::parse(&body).unwrap()
}
