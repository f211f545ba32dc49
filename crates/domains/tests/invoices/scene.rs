//! A fresh store, a fresh provider, and the domain between them; time moves when a test says so.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_conformance::memory::{Memory, Work};
use tollgate_conformance::postgres as cluster;
use tollgate_core::Timestamp;
use tollgate_core::flow::ExecInput;
use tollgate_core::id::Item;
use tollgate_core::id::{BatchId, ItemId, LaneName};
use tollgate_core::lane::LaneChange;
use tollgate_core::marker::Marker;
use tollgate_core::ports::{
    AuditEntry, Author, Claim, ItemView, Profile, StartRecord, Started, Store,
};
use tollgate_dispatch::{Gate, GateOptions, Sender};
use tollgate_domains::invoices::{
    self, Billed, Billing, CheckText, ChecksInForce, Customer, InvoiceExecFlow, InvoiceRequest,
    Invoices, RetrySchedule, Taken,
};
use tollgate_downstream::{Access, HttpConnector, HttpOptions};
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::MovableTime;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

pub(crate) const DAY: Duration = Duration::from_hours(24);
const LANE: &str = "invoices";
/// For what takes seconds, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_mins(2);
/// More runs than any test's invoice needs; one that goes round and round is found out.
const MOST_RUNS: usize = 5000;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Footing {
    Sqlite,
    Postgres,
}
pub(crate) const BOTH: [Footing; 2] = [Footing::Sqlite, Footing::Postgres];

pub(crate) struct Town {
    pub(crate) node: Node,
    pub(crate) bank: Bank,
    pub(crate) time: MovableTime,
    pub(crate) url: Option<String>,
    pub(crate) folder: Option<TempDir>,
}

/// One process of many: its own gate and sender, on the shared store.
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) billing: Billing,
    pub(crate) memory: Memory,
}

/// What differs from town to town.
#[derive(Clone, Default)]
pub(crate) struct Plan {
    pub(crate) bank: BankOptions,
    pub(crate) checks: Vec<CheckText>,
    pub(crate) ladder: Vec<&'static str>,
}

impl Plan {
    pub(crate) fn with_faults(faults: &str) -> Self {
        let bank = BankOptions {
            faults: faults.parse().unwrap(),
            ..BankOptions::default()
        };
        Self {
            bank,
            ladder: vec!["1d", "3d"],
            ..Self::default()
        }
    }
}

impl Town {
    pub(crate) fn build(footing: Footing, plan: &Plan) -> Self {
        let _inside = RUNTIME.enter();
        let time = MovableTime::default();
        let (url, folder) = match footing {
            Footing::Sqlite => (None, Some(tempfile::tempdir().unwrap())),
            Footing::Postgres => {
                let url = RUNTIME.block_on(cluster::shared().database());
                (Some(url), None)
            }
        };
        let bank = Bank::start(plan.bank.clone()).unwrap();
        let store = open(url.as_deref(), folder.as_ref(), &time);
        let node = Node::on(store, &bank, plan);
        let town = Self {
            node,
            bank,
            time,
            url,
            folder,
        };
        let change = LaneChange {
            max_per_window: Some(4000),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        let lane = LaneName::new(LANE);
        let changed = town.node.store.change_lane(&lane, change, test());
        RUNTIME.block_on(changed).unwrap();
        town
    }

    /// A new process on what an earlier one has left.
    pub(crate) fn build_on(folder: TempDir, bank: Bank, time: MovableTime, plan: &Plan) -> Self {
        let _inside = RUNTIME.enter();
        let node = Node::on(open(None, Some(&folder), &time), &bank, plan);
        Self {
            node,
            bank,
            time,
            url: None,
            folder: Some(folder),
        }
    }

    /// Another process on the same store.
    pub(crate) fn another_node(&self, plan: &Plan) -> Node {
        let _inside = RUNTIME.enter();
        let store = open(self.url.as_deref(), self.folder.as_ref(), &self.time);
        Node::on(store, &self.bank, plan)
    }

    /// The same process once more, on the store that is open.
    pub(crate) fn again(&self, plan: &Plan) -> Node {
        let _inside = RUNTIME.enter();
        Node::on(Arc::clone(&self.node.store), &self.bank, plan)
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.time.advance(by);
    }

    pub(crate) fn set_faults(&self, faults: &str) {
        self.bank.set_faults(faults.parse().unwrap());
    }

    /// How often the invoice was charged, by the provider's own ledger.
    pub(crate) fn charged(&self, id: &str) -> u32 {
        let effective = self.bank.ledger().effective();
        effective
            .get(&format!("invoice/{id}"))
            .copied()
            .unwrap_or(0)
    }

    /// The keys of all that was sent, in order.
    pub(crate) fn keys(&self) -> Vec<String> {
        let entries = self.bank.ledger().entries();
        entries.into_iter().filter_map(|entry| entry.key).collect()
    }

    /// Moves time to when the invoice is due, and executes what is due by then.
    pub(crate) fn bill(&self, id: &str) -> Vec<Billed> {
        self.advance_to(self.node.view(id).due);
        self.node.execute_all()
    }

    /// Executes what is due, as time passes by itself, until nobody is in doubt about the invoice.
    pub(crate) fn until_not_in_doubt(&self, id: &str) {
        self.until(id, |status| status != "IN_DOUBT");
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a test's own bound, outside of the program"
    )]
    pub(crate) fn until(&self, id: &str, is_so: impl Fn(&str) -> bool) {
        let began = std::time::Instant::now();
        while !is_so(&self.node.status(id)) {
            let view = self.node.view(id);
            assert!(began.elapsed() < PATIENCE, "still {view:?}");
            if self.node.execute_all().is_empty() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Why the lane is paused, if it is.
    pub(crate) fn pause_reason(&self) -> Option<String> {
        let name = LaneName::new(LANE);
        let lane = self.node.store.lane(&name);
        let lane = RUNTIME.block_on(lane).unwrap().unwrap();
        lane.lane.pause.map(|pause| pause.reason)
    }

    /// As a person does who has seen the reason.
    pub(crate) fn resume(&self) {
        if self.pause_reason().is_some() {
            let resumed = LaneChange {
                pause: Some(None),
                ..LaneChange::default()
            };
            let lane = LaneName::new(LANE);
            let changed = self.node.store.change_lane(&lane, resumed, test());
            RUNTIME.block_on(changed).unwrap();
        }
    }

    pub(crate) fn advance_to(&self, time: Timestamp) {
        let left = time.duration_since(self.node.now());
        self.advance(Duration::try_from(left).unwrap_or_default());
    }
}

fn open(url: Option<&str>, folder: Option<&TempDir>, time: &MovableTime) -> Arc<dyn Store> {
    let time = time.clone();
    match (url, folder) {
        (Some(url), _) => {
            let options = PostgresOptions {
                connections: 5,
                wait_timeout: Duration::from_secs(30),
                time,
                ..PostgresOptions::at(url)
            };
            Arc::new(RUNTIME.block_on(PostgresStore::open(options)).unwrap())
        }
        (None, Some(folder)) => {
            let options = SqliteOptions {
                time,
                ..SqliteOptions::at(folder.path().join("t.db"))
            };
            Arc::new(SqliteStore::open(options).unwrap())
        }
        (None, None) => unreachable!("a store is somewhere"),
    }
}

impl Node {
    pub(crate) fn on(store: Arc<dyn Store>, bank: &Bank, plan: &Plan) -> Self {
        let gate = Arc::new(Gate::new(Arc::clone(&store), GateOptions::default()));
        let connector = Arc::new(provider(bank, plan.bank.honours_keys));
        let ladder: Vec<_> = plan.ladder.iter().map(|&pause| pause.to_owned()).collect();
        let checks = ChecksInForce::new(Arc::clone(&store));
        RUNTIME.block_on(checks.put(&plan.checks, test())).unwrap();
        let checks = Arc::new(checks);
        let world = Arc::new(Invoices::new(
            Arc::clone(&store),
            LaneName::new(LANE),
            Sender::new(Arc::clone(&store), gate, connector),
            checks,
            RetrySchedule::try_from(ladder).unwrap(),
        ));
        let mut memory = Memory::new(Work::Blocking(RUNTIME.handle().clone()));
        invoices::register(&mut memory, &world);
        let billing = Billing::new(Arc::clone(&store), LaneName::new(LANE));
        Self {
            store,
            billing,
            memory,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        RUNTIME.block_on(self.store.now()).unwrap()
    }

    pub(crate) fn customer(&self, body: &Value) {
        let customer = Customer::parse(body).unwrap();
        let created = self
            .billing
            .customers()
            .create(&customer, test())
            .await_now();
        assert!(created.unwrap(), "new");
    }

    /// An invoice of the customer c_1, who is in Copenhagen.
    pub(crate) fn invoice(&self, id: &str) -> Taken {
        let known = self.billing.customers().get("c_1").await_now().unwrap();
        if known.is_none() {
            self.customer(
                &json!({"customerId": "c_1", "currency": "DKK", "timeZone": "Europe/Copenhagen"}),
            );
        }
        self.create(&json!({"invoiceId": id, "customerId": "c_1", "amount": {"value": "100.00", "currency": "DKK"}}))
    }

    pub(crate) fn create(&self, body: &Value) -> Taken {
        let request = InvoiceRequest::parse(body).unwrap();
        self.billing.create(&request).await_now().unwrap()
    }

    pub(crate) fn view(&self, id: &str) -> ItemView {
        let invoice = self.billing.invoice(&ItemId::new(id)).await_now();
        invoice.unwrap()
    }

    pub(crate) fn status(&self, id: &str) -> String {
        self.view(id).status
    }

    /// The verdicts of the checks, oldest first: who, and what.
    pub(crate) fn verdicts(&self, id: &str) -> Vec<(String, String)> {
        let trail = self.trail(id).into_iter().rev();
        let checked = trail.filter(|entry| entry.action == invoices::CHECKED);
        let told = checked.map(|entry| {
            let (check, verdict) = entry.detail.split_once(": ").unwrap();
            (check.to_owned(), verdict.to_owned())
        });
        told.collect()
    }

    pub(crate) fn trail(&self, id: &str) -> Vec<AuditEntry> {
        let item = invoices::item(&ItemId::new(id));
        RUNTIME
            .block_on(self.store.audit(Some(&item), 100))
            .unwrap()
    }

    /// The next invoice that is due, dispatched.
    pub(crate) fn claimed(&self) -> Option<ExecInput> {
        let batch = BatchId::new("BATCH-1");
        let claim = Claim {
            item_type: invoices::item_type(),
            lane: LaneName::new(LANE),
            batch: batch.clone(),
            ahead: Duration::ZERO,
            stale_after: Duration::from_mins(2),
            limit: 1,
            credit_horizon: Duration::from_secs(8),
        };
        let item_type = invoices::item_type();
        RUNTIME.block_on(async {
            let claimed = self.store.claim(claim).await.unwrap().pop()?;
            let item = Item::new(&item_type, &claimed.id);
            let start = StartRecord {
                id: claimed.id,
                fence: claimed.fence,
                flow: item.exec_flow(claimed.run),
                started: Started::New,
            };
            let recorded = self.store.record_starts(&item_type, &batch, vec![start], 5);
            recorded.await.unwrap();
            Some(ExecInput {
                item,
                run: claimed.run,
                context_json: claimed.context_json,
            })
        })
    }

    pub(crate) fn execute(&self, input: &ExecInput) -> Billed {
        let flow = input.item.exec_flow(input.run);
        let ran = self.memory.run::<InvoiceExecFlow>(&flow, input, None);
        ran.unwrap().result.unwrap()
    }

    /// Executes whatever is due, until nothing is.
    pub(crate) fn execute_all(&self) -> Vec<Billed> {
        let mut all = vec![];
        while let Some(input) = self.claimed() {
            all.push(self.execute(&input));
            assert!(all.len() < MOST_RUNS, "it goes round and round");
        }
        all
    }
}

fn provider(bank: &Bank, honours_idempotency_key: bool) -> HttpConnector {
    let options = HttpOptions {
        name: "invoices".into(),
        url: bank.url(),
        lane: LaneName::new(LANE),
        profile: Profile {
            honours_idempotency_key,
            key_retention: Duration::from_hours(1),
            settle: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        },
        max_connections: 4,
    };
    HttpConnector::charging(options, &Access::default()).unwrap()
}

pub(crate) fn test() -> Author {
    Author::new("test", "because")
}

/// A question that is answered before anything else happens.
pub(crate) trait AwaitNow: Future + Sized {
    fn await_now(self) -> Self::Output {
        RUNTIME.block_on(self)
    }
}
impl<F: Future> AwaitNow for F {}
