//! An incompatible change of a flow is noticed by its recorded history. That every flow has one, and
//! still goes that way, is tested where all flows are known: `crates/server/src/engines/replays.rs`.

use std::path::Path;

use tollgate_core::flow::{Ctx, End, ExecInput, Flow, FlowError, Registrar};
use tollgate_dispatch::Sent;
use tollgate_domains::notifications::Event;
use tollgate_domains::payments::{ExecutePayment, PaymentExecFlow, PostProcess, SendNotifications};
use tollgate_temporal::Replay;

fn recorded(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/temporal/histories");
    std::fs::read(folder.join(name)).unwrap()
}

/// As somebody might change it: what is done after the send changes places.
#[derive(Debug)]
struct Reordered;

impl Flow for Reordered {
    const NAME: &'static str = PaymentExecFlow::NAME;
    type In = ExecInput;
    type Out = Sent;

    async fn run<C: Ctx>(ctx: C, input: ExecInput) -> Result<End<Self>, FlowError> {
        let send = ExecutePayment {
            input: input.clone(),
        };
        let end = ctx.step(send).await?;
        if let Sent::Done(answer) = &end {
            let (notified, processed) = (input.clone(), input);
            ctx.step(SendNotifications {
                input: notified,
                event: Event::Processing,
            })
            .await?;
            ctx.step(PostProcess {
                input: processed,
                answer: answer.clone(),
            })
            .await?;
        }
        Ok(End::Done(end))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_whose_steps_change_places_is_noticed() {
    let mut replay = Replay::default();
    replay.flow::<Reordered>();
    let replayed = replay.replay(&recorded("PaymentExecWorkflow.json")).await;
    let noticed = replayed.expect_err("an incompatible change went unnoticed");
    let said = format!("{noticed:#}");
    assert!(
        said.contains("ondeterminis") || said.contains("TMPRL1100"),
        "{said}"
    );
}
