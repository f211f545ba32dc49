//! The third domain of docs/adding-a-domain.md, compiled and run: the page shows this very file.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod reminders;

use std::sync::Arc;
use std::time::Duration;

use tollgate_conformance::memory::{Memory, Work};
use tollgate_core::flow::ExecInput;
use tollgate_core::id::{BatchId, Item};
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, Claim, Connector, StartRecord, Started, Store};
use tollgate_dispatch::{Gate, GateOptions, Sender, Sent};
use tollgate_domains::notifications;
use tollgate_downstream::{Access, Signer, WebhookConnector, WebhookOptions};
use tollgate_sandbox::{Bank, BankOptions, WEBHOOK_SECRET};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

use reminders::{ReminderExecFlow, Reminders, default_config, item_type, new_item, register};

const CODE: &str = include_str!("reminders.rs");
const PAGE: &str = include_str!("../../../../docs/adding-a-domain.md");

#[test]
fn the_page_shows_the_domain_that_is_run_here_and_it_is_short() {
    assert!(
        PAGE.contains(CODE),
        "docs/adding-a-domain.md shows another domain than reminders.rs"
    );
    let (_, code) = CODE.split_once("pub(crate) fn item_type()").unwrap();
    let lines = code.lines().filter(|line| !line.trim().is_empty());
    assert!(lines.count() < 100, "behind its imports");
}

#[test]
fn it_is_extensible_a_third_domain_runs_on_the_same_store_gate_and_sender() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions::at(folder.path().join("t.db"));
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(options).unwrap());
    let bank = Bank::start(BankOptions::default()).unwrap();
    let options = WebhookOptions {
        url: format!("{}/webhooks", bank.url()),
        signer: Signer::parse(WEBHOOK_SECRET).unwrap(),
    };
    let connector =
        WebhookConnector::with_access(options, &Access::default(), notifications::lane_of);
    let connector = Arc::new(connector.unwrap());
    let lane = connector.lane().clone();
    let gate = Arc::new(Gate::new(Arc::clone(&store), GateOptions::default()));
    let world = Arc::new(Reminders {
        sender: Sender::new(Arc::clone(&store), gate, connector),
        store: Arc::clone(&store),
    });
    let mut engine = Memory::new(Work::Blocking(runtime.handle().clone()));
    register(&mut engine, &world);

    let input = runtime.block_on(async {
        let change = LaneChange {
            max_per_window: Some(100),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        store
            .change_lane(&lane, change, Author::new("test", "a new domain"))
            .await
            .unwrap();
        let new = new_item("r_1", &lane, r#"{"text":"your invoice is due"}"#);
        store.admit(&item_type(), vec![new]).await.unwrap();
        claimed(&*store, &lane).await
    });
    assert_eq!(default_config().exec_workflow_type, "ReminderExecWorkflow");
    for _ in 0..2 {
        let flow = input.item.exec_flow(1);
        let ran = engine.run::<ReminderExecFlow>(&flow, &input, None).unwrap();
        assert!(matches!(ran.result.unwrap(), Sent::Done(_)));
    }
    let view = runtime.block_on(store.item(&input.item)).unwrap().unwrap();
    assert_eq!(view.status, "SENT");
    assert_eq!(bank.ledger().deliveries().len(), 1, "told once");
}

async fn claimed(store: &dyn Store, lane: &tollgate_core::id::LaneName) -> ExecInput {
    let (item_type, batch) = (item_type(), BatchId::new("BATCH-1"));
    let claim = Claim {
        item_type: item_type.clone(),
        lane: lane.clone(),
        batch: batch.clone(),
        ahead: Duration::from_secs(6),
        stale_after: Duration::from_mins(2),
        limit: 1,
        credit_horizon: Duration::from_secs(8),
    };
    let claimed = store.claim(claim).await.unwrap().remove(0);
    let item = Item::new(&item_type, &claimed.id);
    let start = StartRecord {
        id: claimed.id,
        fence: claimed.fence,
        flow: item.exec_flow(1),
        started: Started::New,
    };
    store
        .record_starts(&item_type, &batch, vec![start], 5)
        .await
        .unwrap();
    ExecInput {
        item,
        run: claimed.run,
        context_json: claimed.context_json,
    }
}
