//! The flow of a bulk's chunk: its step failed, repeated, crashed after; then every line is counted
//! once, as what it was the first time.

use tollgate_conformance::memory::{Case, Fault, Ran, Scene, sweep};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{BulkState, BulkView, Bulks, ChunkId, Queue};
use tollgate_domains::payments;
use tollgate_domains::payments::bulk::{BulkIntake, ChunkInput, Format, PaymentBulkInitFlow};
use tollgate_sandbox::BankOptions;

use crate::scene::{RUNTIME, Town, payment};

/// One accepted, known, rejected by a rule, not JSON, repeated, with other content; accepted.
fn file() -> String {
    let line = |id: &str, amount: &str, creditor: &str| {
        format!(
            r#"{{"paymentId":"{id}","amount":"{amount}","currency":"USD","debtor":{{"account":"A-1","name":"Ann"}},"creditor":{{"account":"{creditor}","name":"Bob"}}}}"#
        )
    };
    let lines = [
        line("pay_1", "125.5", "B-2"),
        line("known", "125.50", "B-2"),
        line("circle", "125.50", "A-1"),
        "not JSON".to_owned(),
        line("pay_1", "125.50", "B-2"),
        line("pay_1", "7", "B-2"),
        line("pay_2", "1", "B-2"),
    ];
    lines.join("\n")
}

struct Bulk {
    town: Town,
    chunk: ChunkId,
}

fn scene() -> Scene<PaymentBulkInitFlow, Bulk> {
    let (town, memory) = Town::build(BankOptions::default());
    let lane = tollgate_core::id::LaneName::new("default");
    let known = payments::new_item(&payment("known"), &lane, &FlowId::new("init-payment-known"));
    let chunk = RUNTIME.block_on(async {
        let known = vec![known.unwrap()];
        let admitted = town.store.admit(&payments::item_type(), known).await;
        admitted.unwrap();
        let store = town.store.clone();
        let intake = BulkIntake { store };
        let mut upload = intake.begin(Format::Ndjson, None).await.unwrap();
        upload.push(file().as_bytes()).await.unwrap();
        let bulk = upload.end().await.unwrap().bulk;
        ChunkId { bulk, number: 1 }
    });
    Scene {
        memory,
        id: chunk.flow(),
        input: ChunkInput {
            chunk: chunk.clone(),
        },
        world: Bulk { town, chunk },
    }
}

#[test]
fn every_line_of_a_chunk_is_counted_once_whatever_happens_to_its_step() {
    assert_eq!(sweep(scene, check), 1 + 5);
}

fn view(world: &Bulk) -> BulkView {
    let view = world.town.store.bulk(&world.chunk.bulk);
    RUNTIME.block_on(view).unwrap().unwrap()
}

fn check(case: &Case, world: &Bulk, ran: &Ran<bool>) {
    let view = view(world);
    let counts = (view.lines, view.accepted, view.duplicate, view.rejected);
    if ran.result.is_err() {
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        assert_eq!((view.state, counts), (BulkState::Running, (7, 0, 0, 0)));
        assert!(world.town.item("pay_1").is_none(), "nothing half-written");
        return;
    }
    assert_eq!((view.state, counts), (BulkState::Done, (7, 2, 2, 3)));
    assert_eq!(view.sums[0].amount_minor, 12_550 + 100);
    let errors = world.town.store.bulk_errors(&world.chunk.bulk, 0, 10);
    let errors = RUNTIME.block_on(errors).unwrap();
    let lines: Vec<_> = errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [3, 4, 6]);
    for (id, is_there) in [("pay_1", true), ("pay_2", true), ("circle", false)] {
        assert_eq!(world.town.item(id).is_some(), is_there, "{id}");
    }
}

/// As after a death between admission and the chunk's end.
#[test]
fn what_an_earlier_try_has_admitted_is_accepted_and_no_duplicate() {
    let scene = scene();
    let world = &scene.world;
    let flow = world.chunk.flow();
    let earlier = payments::new_item(
        &payment("pay_1"),
        &tollgate_core::id::LaneName::new("default"),
        &flow,
    );
    let earlier = vec![earlier.unwrap()];
    let item_type = payments::item_type();
    let admitted = world.town.store.admit(&item_type, earlier);
    RUNTIME.block_on(admitted).unwrap();
    let ran = scene
        .memory
        .run::<PaymentBulkInitFlow>(&scene.id, &scene.input, None)
        .unwrap();
    assert_eq!(ran.result, Ok(true));
    let view = view(world);
    assert_eq!((view.accepted, view.duplicate, view.rejected), (2, 2, 3));
}
