//! The chunks of a file are admitted in its order, whichever is prepared first; one that keeps failing is passed.

use std::time::Duration;

use tollgate_conformance::memory::Memory;
use tollgate_core::ports::{BulkState, BulkView, Bulks, ChunkId, HELD_BACK};
use tollgate_domains::payments::bulk::{BulkIntake, ChunkInput, Format, PaymentBulkInitFlow};
use tollgate_sandbox::BankOptions;

use crate::scene::{RUNTIME, Town};

/// Lines with so much white space are so many to a chunk, whose text is a MiB.
const PADDING: usize = 60_000;
const LINES: usize = 30;

struct File {
    town: Town,
    memory: Memory,
    chunks: [ChunkId; 2],
}

impl File {
    fn uploaded() -> Self {
        let (town, memory) = Town::build(BankOptions::default());
        let line = |n: usize| {
            let padding = " ".repeat(PADDING);
            format!(
                r#"{{{padding}"paymentId":"p{n:02}","amount":"1.00","currency":"USD","debtor":{{"account":"A-1","name":"Ann"}},"creditor":{{"account":"B-2","name":"Bob"}}}}"#
            )
        };
        let text: Vec<String> = (0..LINES).map(line).collect();
        let bulk = RUNTIME.block_on(async {
            let store = town.store.clone();
            let intake = BulkIntake { store };
            let mut upload = intake.begin(Format::Ndjson, None).await.unwrap();
            upload.push(text.join("\n").as_bytes()).await.unwrap();
            upload.end().await.unwrap().bulk
        });
        let chunks = [1, 2].map(|number| ChunkId {
            bulk: bulk.clone(),
            number,
        });
        Self {
            town,
            memory,
            chunks,
        }
    }

    /// Runs the flow of a chunk's next try: whether it took the chunk in.
    fn take_in(&self, chunk: &ChunkId) -> bool {
        let input = ChunkInput {
            chunk: chunk.clone(),
        };
        let ran = self
            .memory
            .run::<PaymentBulkInitFlow>(&chunk.flow(), &input, None);
        ran.unwrap().result.unwrap()
    }

    fn view(&self) -> BulkView {
        let view = self.town.store.bulk(&self.chunks[0].bulk);
        RUNTIME.block_on(view).unwrap().unwrap()
    }

    fn is_in_order(&self) -> bool {
        let slot = |n: usize| self.town.item(&format!("p{n:02}")).unwrap().due;
        (0..LINES).map(slot).is_sorted()
    }
}

#[test]
fn a_files_payments_are_given_slots_in_its_order_whichever_chunk_is_first() {
    let file = File::uploaded();
    let [first, second] = &file.chunks;
    std::thread::scope(|scope| {
        let later = scope.spawn(|| file.take_in(second));
        assert!(file.take_in(first));
        assert!(later.join().unwrap());
    });
    let view = file.view();
    assert_eq!((view.state, view.order_kept), (BulkState::Done, true));
    assert!(file.is_in_order());
}

#[test]
fn a_chunk_that_fails_holds_its_file_back_for_half_a_minute_and_then_the_order_is_lost() {
    let file = File::uploaded();
    let [first, second] = &file.chunks;
    let failed = file.town.store.chunk_failed(first, "no rights");
    RUNTIME.block_on(failed).unwrap();
    assert!(!file.take_in(second));
    assert_eq!((file.view().accepted, file.view().order_kept), (0, true));
    file.town.time.advance(HELD_BACK + Duration::from_secs(1));
    assert!(file.take_in(second));
    let view = file.view();
    assert!(view.accepted > 0 && view.accepted < LINES as u64);
    assert!(!view.order_kept);
    assert!(file.take_in(first), "it is taken in all the same");
    assert_eq!(file.view().accepted, LINES as u64);
    assert!(!file.is_in_order());
}
