//! A fresh store, a fresh bank and the domain between them, for one case of a sweep.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_conformance::memory::{Memory, Work};
use tollgate_core::flow::ExecInput;
use tollgate_core::id::{BatchId, FlowId, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{
    Author, Claim, ItemView, Lanes, Profile, Queue, Records, StartRecord, Started, Store,
};
use tollgate_dispatch::{Gate, GateOptions, Sender};
use tollgate_domains::payments::{self, PaymentRequest, Payments, Routes, RulesInForce};
use tollgate_downstream::{HttpConnector, HttpOptions};
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

const LANE: &str = "default";

pub(crate) struct Town {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) bank: Bank,
    pub(crate) rules: Arc<RulesInForce>,
    _folder: TempDir,
}

impl Town {
    /// The domain registered with a memory context whose steps really wait for their IO.
    pub(crate) fn build(options: BankOptions) -> (Self, Memory) {
        let _inside = RUNTIME.enter();
        let folder = tempfile::tempdir().unwrap();
        let store =
            Arc::new(SqliteStore::open(SqliteOptions::at(folder.path().join("t.db"))).unwrap());
        let honours_idempotency_key = options.honours_keys;
        let bank = Bank::start(options).unwrap();
        let connector = HttpConnector::new(HttpOptions {
            name: "payments".into(),
            url: bank.url(),
            lane: LaneName::new(LANE),
            profile: Profile {
                honours_idempotency_key,
                key_retention: Duration::from_hours(1),
                settle: Duration::from_mins(1),
                timeout: Duration::from_secs(5),
                means_not_done: vec![429],
            },
            max_connections: 4,
        })
        .unwrap();
        let shared: Arc<dyn Store> = store.clone();
        let gate = Arc::new(Gate::new(shared.clone(), GateOptions::default()));
        let sender = Sender::new(shared.clone(), gate, Arc::new(connector));
        let rules = Arc::new(RulesInForce::new(shared.clone(), []));
        let world = Arc::new(Payments {
            rules: rules.clone(),
            store: shared,
            routes: Arc::new(Routes {
                default: payments::Bank {
                    lane: LaneName::new(LANE),
                    sender,
                },
                gateways: BTreeMap::new(),
            }),
        });
        let mut memory = Memory::new(Work::Blocking(RUNTIME.handle().clone()));
        payments::register(&mut memory, &world);
        let town = Self {
            store,
            bank,
            rules,
            _folder: folder,
        };
        town.open_lane();
        (town, memory)
    }

    fn open_lane(&self) {
        let change = LaneChange {
            max_per_window: Some(4000),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        let author = Author::new("test", "sweep");
        RUNTIME
            .block_on(self.store.change_lane(&LaneName::new(LANE), change, author))
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
        RUNTIME.block_on(async {
            self.store
                .admit(&payments::item_type(), vec![item])
                .await
                .unwrap();
            let claim = Claim {
                item_type: payments::item_type(),
                lane: LaneName::new(LANE),
                batch: BatchId::new("BATCH-1"),
                ahead: Duration::from_secs(6),
                stale_after: Duration::from_mins(1),
                limit: 10,
                credit_horizon: Duration::from_secs(8),
            };
            let claimed = self.store.claim(claim).await.unwrap().pop().unwrap();
            let item = payments::item(&claimed.id);
            let start = StartRecord {
                id: claimed.id,
                fence: claimed.fence,
                flow: item.exec_flow(claimed.run),
                started: Started::New,
            };
            let batch = BatchId::new("BATCH-1");
            self.store
                .record_starts(&payments::item_type(), &batch, vec![start], 5)
                .await
                .unwrap();
            ExecInput {
                item,
                run: claimed.run,
                context_json: claimed.context_json,
            }
        })
    }

    pub(crate) fn item(&self, id: &str) -> Option<ItemView> {
        let item = payments::item(&tollgate_core::id::ItemId::new(id));
        RUNTIME.block_on(self.store.item(&item)).unwrap()
    }

    /// How often the payment took effect, by the bank's own ledger.
    pub(crate) fn effects(&self, id: &str) -> u32 {
        self.bank.ledger().effective().get(id).copied().unwrap_or(0)
    }
}

pub(crate) fn payment(id: &str) -> PaymentRequest {
    let body = json!({"paymentId": id, "amount": "125.50", "currency": "USD",
        "debtor": {"account": "A-1", "name": "Ann"}, "creditor": {"account": "B-2", "name": "Bob"}});
    PaymentRequest::parse(&body).unwrap()
}
