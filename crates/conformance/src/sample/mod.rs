//! A flow that uses every part of the port, written once: steps in sequence and in parallel, a
//! child, progress, continue-as-new, a retried step and refused ones. Its result and its
//! [`World`] prove that every effect happened exactly once.

mod expected;
mod steps;
mod world;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Ctx, End, Flow, FlowError, Registrar, StepError};
use tollgate_core::id::FlowId;
use tollgate_core::join;

pub use expected::{effects, outcome};
pub use steps::{Add, REFUSED, Refuse, Stumble, Wait};
pub use world::{Held, World};

pub const FAILED: &str = "failed on purpose";
const PARTS: i64 = 8;
const WIDTH: usize = 3;
const CHILD_ROUNDS: i64 = 2;

pub fn register(r: &mut impl Registrar, world: &Arc<World>) {
    r.flow::<SampleFlow>()
        .flow::<SampleChild>()
        .flow::<SampleTwins>();
    r.step::<Add>(world)
        .step::<Stumble>(world)
        .step::<Refuse>(world)
        .step::<Wait>(world);
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleIn {
    /// The flow ends after this many rounds, each a run of its own.
    pub rounds: i64,
    /// Ends in the error of its child, right after the first step.
    pub fails: bool,
    pub round: i64,
    pub total: i64,
}

impl SampleIn {
    pub fn rounds(rounds: i64) -> Self {
        Self {
            rounds,
            fails: false,
            round: 1,
            total: 0,
        }
    }
    pub fn failing() -> Self {
        Self {
            fails: true,
            ..Self::rounds(1)
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleOut {
    pub total: i64,
    /// The parallel steps' results of the last round, in their order.
    pub parts: Vec<i64>,
    /// What the flow saw of the refused steps: for good, then for now.
    pub refusals: [StepError; 2],
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleProgress {
    pub round: i64,
    pub stage: String,
}

impl SampleProgress {
    /// What a flow shows while it is held by [`World::hold`].
    pub fn waiting() -> Self {
        Self {
            round: 1,
            stage: "waiting".into(),
        }
    }
}

#[derive(Debug)]
pub struct SampleFlow;

impl Flow for SampleFlow {
    const NAME: &'static str = "sample";
    type In = SampleIn;
    type Out = SampleOut;

    async fn run<C: Ctx>(ctx: C, input: SampleIn) -> Result<End<Self>, FlowError> {
        let round = input.round;
        let show = |stage: &str| {
            let stage = stage.to_owned();
            ctx.progress(&SampleProgress { round, stage });
        };
        let add = |name: &str, amount| ctx.step(Add::new(round, name, amount));

        show("started");
        let first = add("first", round).await?;
        if input.fails {
            let child = ctx.child::<SampleChild>(child_id(ctx.flow_id()), ChildIn::failing());
            child.await?;
        }
        let second = add("second", first * 2).await?;
        let parts = (0..PARTS).map(|part| add(&format!("part-{part}"), 10 * round + part));
        let parts = join::windowed(WIDTH, parts).await;
        let parts: Vec<i64> = parts.into_iter().collect::<Result<_, _>>()?;
        if round == 1 {
            show("waiting");
            ctx.step(Wait {}).await?;
        }
        let stumbled = ctx.step(Stumble { round }).await?;
        // The same id in every round: the first round starts it, the others join it.
        let child = ctx.child::<SampleChild>(child_id(ctx.flow_id()), ChildIn::new());
        let child = child.await?;
        let refusals = [
            refusal(ctx.step(Refuse::ForGood).await)?,
            refusal(ctx.step(Refuse::ForNow).await)?,
        ];

        let total = input.total + first + second + parts.iter().sum::<i64>() + stumbled + child;
        if round == input.rounds {
            return Ok(End::Done(SampleOut {
                total,
                parts,
                refusals,
            }));
        }
        Ok(End::Again(SampleIn {
            round: round + 1,
            total,
            ..input
        }))
    }
}

fn refusal(result: Result<(), StepError>) -> Result<StepError, FlowError> {
    match result {
        Ok(()) => Err(FlowError("a refused step gave a result".into())),
        Err(refusal) => Ok(refusal),
    }
}

pub fn child_id(parent: &FlowId) -> FlowId {
    FlowId::new(format!("{parent}-child"))
}

/// Adds up over rounds of its own, so that a parent waits for more than one run of it.
#[derive(Debug)]
pub struct SampleChild;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChildIn {
    round: i64,
    total: i64,
    fails: bool,
}

impl ChildIn {
    fn new() -> Self {
        Self {
            round: 1,
            total: 0,
            fails: false,
        }
    }
    fn failing() -> Self {
        Self {
            fails: true,
            ..Self::new()
        }
    }
}

impl Flow for SampleChild {
    const NAME: &'static str = "sampleChild";
    type In = ChildIn;
    type Out = i64;

    async fn run<C: Ctx>(ctx: C, input: ChildIn) -> Result<End<Self>, FlowError> {
        let ChildIn {
            round,
            total,
            fails,
        } = input;
        if fails {
            return Err(FlowError(FAILED.into()));
        }
        let added = ctx.step(Add::new(round, "child", 1000 * round)).await?;
        let total = total + added;
        if round == CHILD_ROUNDS {
            return Ok(End::Done(total));
        }
        Ok(End::Again(ChildIn {
            round: round + 1,
            total,
            fails,
        }))
    }
}

/// Asks for one child twice at once; the second joins the first while it runs.
#[derive(Debug)]
pub struct SampleTwins;

impl Flow for SampleTwins {
    const NAME: &'static str = "sampleTwins";
    type In = SampleIn;
    type Out = Vec<SampleOut>;

    async fn run<C: Ctx>(ctx: C, input: SampleIn) -> Result<End<Self>, FlowError> {
        let child = || ctx.child::<SampleFlow>(child_id(ctx.flow_id()), input.clone());
        let both = join::windowed(2, [child(), child()]).await;
        Ok(End::Done(both.into_iter().collect::<Result<_, _>>()?))
    }
}
