//! The fault sweep: every fault at every step of a flow, each in a fresh world.

use std::fmt;

use tollgate_core::flow::Flow;
use tollgate_core::id::FlowId;

use super::{Fault, Memory, Plan, Ran, StepCall};

/// What one case of a sweep starts from.
#[derive(Debug)]
pub struct Scene<F: Flow, W> {
    /// With the flow, its children and all their steps registered on `world`.
    pub memory: Memory,
    pub id: FlowId,
    pub input: F::In,
    pub world: W,
}

/// One case of a sweep, for the check and for the message when it fails.
#[derive(Debug, Clone)]
pub struct Case {
    /// `None` for the clean run that comes first.
    pub plan: Option<Plan>,
    /// The step that the plan hits.
    pub hit: Option<StepCall>,
}

impl Case {
    pub fn fault(&self) -> Option<Fault> {
        self.plan.map(|plan| plan.fault)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.plan, &self.hit) {
            (Some(plan), Some(hit)) => write!(f, "{plan}: {hit}"),
            (Some(plan), None) => write!(f, "{plan}"),
            (None, _) => f.write_str("no fault"),
        }
    }
}

/// Runs the flow once without a fault to learn its steps, then once for each fault at each step.
/// `check` asserts what must hold after any of them; the case is printed if it panics. Returns
/// how many cases were run.
pub fn sweep<F: Flow, W>(
    set_up: impl Fn() -> Scene<F, W>,
    check: impl Fn(&Case, &W, &Ran<F::Out>),
) -> usize {
    let clean = Case {
        plan: None,
        hit: None,
    };
    let steps = run_case(&set_up, &check, &clean).calls;
    assert!(
        !steps.is_empty(),
        "a flow without steps has nothing to sweep"
    );
    let mut cases = 1;
    for fault in Fault::ALL {
        for (before, hit) in steps.iter().enumerate() {
            let at = before + 1;
            let case = Case {
                plan: Some(Plan { at, fault }),
                hit: Some(hit.clone()),
            };
            run_case(&set_up, &check, &case);
            cases += 1;
        }
    }
    cases
}

fn run_case<F: Flow, W>(
    set_up: impl Fn() -> Scene<F, W>,
    check: impl Fn(&Case, &W, &Ran<F::Out>),
    case: &Case,
) -> Ran<F::Out> {
    let named = NamedOnPanic(case);
    let scene = set_up();
    let ran = scene.memory.run::<F>(&scene.id, &scene.input, case.plan);
    let ran = ran.unwrap_or_else(|broken| panic!("{broken}"));
    check_plan(case, &ran);
    check(case, &scene.world, &ran);
    drop(named);
    ran
}

/// The plan itself must have happened: a sweep whose faults miss proves nothing.
fn check_plan<T>(case: &Case, ran: &Ran<T>) {
    let crashes = match case.fault() {
        Some(Fault::CrashBeforeRecord | Fault::CrashAfterRecord) => 1,
        Some(Fault::FailOnce | Fault::FailForGood | Fault::LoseResult) | None => 0,
    };
    assert_eq!(ran.missed, None, "the fault was not injected");
    assert_eq!(ran.crashes, crashes, "the flow was begun anew this often");
}

/// Says which case it was when the check panics.
struct NamedOnPanic<'a>(&'a Case);

impl Drop for NamedOnPanic<'_> {
    #[expect(clippy::print_stderr, reason = "part of a failing test's message")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in the sweep's case: {}", self.0);
        }
    }
}
