//! The flow of a chunk of invoices: its step failed, repeated, crashed after; then every line is counted once, as what
//! it was the first time.

use serde_json::{Value, json};
use tollgate_conformance::memory::{Case, Fault, Ran, Scene, sweep};
use tollgate_core::id::{BulkId, ItemId};
use tollgate_core::ports::{BulkState, ChunkId, NewChunk};
use tollgate_domains::invoices::{self, InvoiceBulkInitFlow};
use tollgate_domains::payments::bulk::ChunkInput;

use crate::scene::{Footing, Node, Plan, RUNTIME, Town};

fn invoice(id: &str, customer: &str, amount: &str, currency: &str) -> Value {
    json!({"invoiceId": id, "customerId": customer, "amount": {"value": amount, "currency": currency}})
}

/// Accepted, known, of an unknown customer, not JSON, repeated, with other content, in another currency, with a schedule
/// that is none, known with other content; accepted. Lines are offsets plus 1.
fn lines() -> String {
    let mut own = invoice("own", "c_1", "3", "DKK");
    own["schedule"] = json!({"cron": "never"});
    let lines = [
        invoice("inv_1", "c_1", "100.0", "DKK").to_string(),
        invoice("known", "c_1", "100", "DKK").to_string(),
        invoice("stranger", "c_9", "1", "DKK").to_string(),
        "not JSON".to_owned(),
        invoice("inv_1", "c_1", "100.00", "DKK").to_string(),
        invoice("inv_1", "c_1", "7", "DKK").to_string(),
        invoice("kroner", "c_1", "1", "EUR").to_string(),
        own.to_string(),
        invoice("known", "c_1", "100.01", "DKK").to_string(),
        invoice("inv_2", "c_1", "1", "DKK").to_string(),
    ];
    let numbered = (1..).zip(lines).map(|(n, line)| format!("{n} {line}\n"));
    numbered.collect()
}

fn scene(footing: Footing) -> Scene<InvoiceBulkInitFlow, Town> {
    let town = Town::build(footing, &Plan::default());
    town.node.invoice("known");
    let store = &town.node.store;
    let bulk = BulkId::new("feed.billing.invoices.0");
    RUNTIME.block_on(async {
        store
            .open_bulk(&bulk, &invoices::item_type())
            .await
            .unwrap();
        let chunk = NewChunk {
            number: 1,
            lines: 10,
            text: lines().into_bytes(),
        };
        assert!(store.add_chunk(&bulk, chunk).await.unwrap());
        store.close_bulk(&bulk, None, "d".into()).await.unwrap();
    });
    let chunk = ChunkId { bulk, number: 1 };
    // The flow is run by a node of its own: the town looks on.
    let Node { memory, .. } = town.again(&Plan::default());
    Scene {
        memory,
        id: chunk.flow(),
        input: ChunkInput { chunk },
        world: town,
    }
}

#[test]
fn every_record_of_a_chunk_is_counted_once_whatever_happens_to_its_step() {
    assert_eq!(sweep(|| scene(Footing::Sqlite), check), 1 + 5);
}

#[test]
fn a_chunk_is_taken_in_on_postgres_too() {
    let scene = scene(Footing::Postgres);
    let ran = scene
        .memory
        .run::<InvoiceBulkInitFlow>(&scene.id, &scene.input, None)
        .unwrap();
    assert_eq!(ran.result, Ok(true));
    judge(&scene.world);
}

fn check(case: &Case, town: &Town, ran: &Ran<bool>) {
    if ran.result.is_err() {
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        let item = invoices::item(&ItemId::new("inv_1"));
        let found = RUNTIME.block_on(town.node.store.item(&item)).unwrap();
        assert!(found.is_none(), "nothing half-written");
        return;
    }
    judge(town);
}

fn judge(town: &Town) {
    let bulk = BulkId::new("feed.billing.invoices.0");
    let store = &town.node.store;
    let (view, errors) = RUNTIME.block_on(async {
        let view = store.bulk(&bulk).await.unwrap().unwrap();
        (view, store.bulk_errors(&bulk, 0, 20).await.unwrap())
    });
    let counts = (view.lines, view.accepted, view.duplicate, view.rejected);
    assert_eq!((view.state, counts), (BulkState::Done, (10, 2, 2, 6)));
    assert_eq!(view.sums[0].amount_minor, 10_000 + 100);
    let said: Vec<_> = errors
        .iter()
        .map(|error| {
            let (field, why) = error.details.iter().next().unwrap();
            let id = error.id.as_deref().unwrap_or("-");
            assert!(error.text.is_some(), "it can be corrected");
            format!("{} {id}: {field} {why}", error.line)
        })
        .collect();
    let expected = [
        "3 stranger: customerId there is no customer c_9; POST /customers first",
        "4 -: line is not JSON",
        "6 inv_1: invoiceId is also on line 1, with other content",
        "7 kroner: amount.currency customer c_1 pays in DKK",
        "8 own: schedule.cron ",
        "9 known: invoiceId is also on line 2, with other content",
    ];
    assert_eq!(said.len(), expected.len(), "{said:?}");
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "{said}");
    }
    for id in ["inv_1", "inv_2"] {
        let invoice = town.node.view(id);
        assert_eq!(invoice.status, "PENDING");
        assert_eq!(
            invoice.init_flow.as_str(),
            "init-bulk-feed.billing.invoices.0-1"
        );
    }
}
