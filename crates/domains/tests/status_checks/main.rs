//! Status checks in the in-memory engine, over a real store and the sandbox's services: each step
//! failed, repeated, crashed after. Whatever happens, every payment is in the result once.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod service;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, OnceLock};

use rust_decimal::Decimal;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tollgate_conformance::memory::{Case, Fault, Memory, Ran, Scene, Work, sweep};
use tollgate_core::flow::Step;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{CheckEnd, CheckPhase, CheckView, StatusChecks, Store};
use tollgate_dispatch::{Gate, GateOptions};
use tollgate_domains::status_checks::{
    self, Aggregate, CallIdbFacade, CallPgiGateway, CheckInput, CheckStatusResult,
    GetGatewayForPayment, NoteDone, PaymentStatusCheckWorkflow, Place, PlanChunks, ProgressInfo,
    ReadChunks, RecordChunk, WorkflowConfig, World,
};
use tollgate_downstream::{Access, HttpCheckServices, Service, ServiceOptions};
use tollgate_sandbox::{Bank, BankOptions};
use tollgate_store::sqlite::{SqliteOptions, SqliteStore};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

const IDS: [&str; 6] = ["a:1", "b:1", "a:2", "lost", "a:3", "b:2"];

fn check_id() -> FlowId {
    FlowId::new("payment-check-1")
}

struct Town {
    store: Arc<SqliteStore>,
    bank: Bank,
    _folder: TempDir,
}

fn connected(bank: &Bank) -> Service {
    let options = ServiceOptions {
        url: bank.url(),
        max_connections: 8,
    };
    Service::connect(&options, &Access::default()).unwrap()
}

fn config() -> WorkflowConfig {
    WorkflowConfig {
        max_parallel_es_queries: 4,
        max_payments_per_chunk: 2,
        ..WorkflowConfig::default()
    }
}

fn scene() -> Scene<PaymentStatusCheckWorkflow, Town> {
    let _inside = RUNTIME.enter();
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(SqliteOptions::at(folder.path().join("t.db"))).unwrap();
    let store = Arc::new(store);
    let faults = "lookups of payment lost: 404".parse().unwrap();
    let bank = Bank::start(BankOptions {
        faults,
        ..BankOptions::default()
    });
    let bank = bank.unwrap();
    let shared: Arc<dyn Store> = store.clone();
    let [es, idb, pgi] = [connected(&bank), connected(&bank), connected(&bank)];
    let world = Arc::new(World {
        gate: Arc::new(Gate::new(shared.clone(), GateOptions::default())),
        store: shared,
        services: Arc::new(HttpCheckServices::new(es, "payments", idb, pgi)),
        lanes: BTreeMap::new(),
        lane_share: Decimal::ONE,
        engine: OnceLock::new(),
    });
    let mut memory = Memory::new(Work::Blocking(RUNTIME.handle().clone()));
    status_checks::register(&mut memory, &world);
    // Two parts, as if there were more than fit into one run.
    let parts = [&IDS[..4], &IDS[4..]].map(|ids| serde_json::to_string(ids).unwrap());
    let opened = RUNTIME.block_on(store.open_check(&check_id(), 6, parts.to_vec()));
    assert!(opened.unwrap());
    Scene {
        memory,
        id: check_id(),
        input: CheckInput {
            config: config(),
            payments: 6,
            parts: 2,
            resolve: true,
            place: Place::Lookups { part: 0 },
        },
        world: Town {
            store,
            bank,
            _folder: folder,
        },
    }
}

#[test]
fn every_payment_is_in_the_result_once_whatever_happens_to_its_steps() {
    let cases = sweep(scene, check);
    assert!(cases > 100, "only {cases} cases");
}

fn check(case: &Case, town: &Town, ran: &Ran<ProgressInfo>) {
    let view = RUNTIME.block_on(town.store.check(&check_id()));
    let view = view.unwrap().unwrap();
    let hit = case.hit.as_ref().map(|hit| hit.step);
    let for_good = case.fault() == Some(Fault::FailForGood);
    let Ok(progress) = &ran.result else {
        assert!(for_good, "only what fails for good fails the check");
        assert!(
            matches!(view.end, Some(CheckEnd::Failed { .. })),
            "{view:?}"
        );
        let calls = [
            GetGatewayForPayment::NAME,
            CallIdbFacade::NAME,
            CallPgiGateway::NAME,
            NoteDone::NAME,
            ReadChunks::NAME,
            RecordChunk::NAME,
        ];
        assert!(
            !calls.contains(&hit.unwrap()),
            "{case} is somebody's own trouble"
        );
        return;
    };
    assert_eq!(progress.current_phase, CheckPhase::Completed);
    assert_eq!(view.chunks_ended, view.chunks, "{view:?}");
    let result = result(&view);
    let mut named = named(&result);
    named.sort();
    let mut all: Vec<String> = IDS.map(str::to_owned).to_vec();
    all.sort();
    assert_eq!(named, all, "each once");
    assert!(result.gateway_lookup_failed.contains(&"lost".to_owned()));
    if !for_good || hit == Some(NoteDone::NAME) {
        assert_eq!(view.chunks_failed, 0, "{result:?}");
        assert_eq!(result.successful["a"], ["a:1", "a:2", "a:3"]);
        assert_eq!(result.successful["b"], ["b:1", "b:2"]);
        assert_eq!((view.gateways, view.chunks), (2, 3));
    } else if [Aggregate::NAME, PlanChunks::NAME].contains(&hit.unwrap()) {
        panic!("{case} went well");
    } else if hit == Some(CallPgiGateway::NAME) {
        assert_eq!(named_failed(&result), 1, "one payment: {result:?}");
    } else if hit == Some(CallIdbFacade::NAME) {
        assert!(
            (1..=2).contains(&named_failed(&result)),
            "one chunk: {result:?}"
        );
    }
    let calls = town.bank.ledger().calls().len();
    // Six lookups, three announcements, five questions; a repeat or a crash costs one more.
    assert!(calls <= 6 + 3 + 5 + 4, "{calls} calls");
}

fn result(view: &CheckView) -> CheckStatusResult {
    let Some(CheckEnd::Completed { result_json }) = &view.end else {
        panic!("no result: {view:?}");
    };
    serde_json::from_str(result_json).unwrap()
}

fn named(result: &CheckStatusResult) -> Vec<String> {
    let failed = result.failed.values().flatten();
    let failed = failed.flat_map(|chunk| chunk.payment_ids.clone());
    let worked = result.successful.values().flatten().cloned();
    let lost = result.gateway_lookup_failed.iter().cloned();
    worked.chain(failed).chain(lost).collect()
}

fn named_failed(result: &CheckStatusResult) -> usize {
    let failed = result.failed.values().flatten();
    failed.map(|chunk| chunk.payment_ids.len()).sum()
}
