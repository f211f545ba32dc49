//! Known ids on SQLite.

use anyhow::Result;

use super::Plan;
use crate::known::{
    Found, Plan as Wanted, create_sqlite, fill_sqlite, section as text, weigh_sqlite,
};
use crate::payments::{self, Ids};
use crate::rounds::interleaved;
use crate::task::Task;

const BYTES_GOAL: f64 = 60.0;

pub(super) fn section(plan: &Plan<'_>) -> Result<String> {
    let wanted = Wanted::of(plan.size);
    let at = |name: &str| plan.scratch.path().join(name);
    let bytes_each = weigh_sqlite(&create_sqlite(&at("weighed.db"))?, wanted.weighed)?;
    let input = at("known.ndjson");
    payments::write(&input, wanted.count, Ids::Ascending)?;
    let mut tasks = vec![];
    for (name, known) in [("none.db", 0), ("known.db", wanted.known)] {
        let db = create_sqlite(&at(name))?;
        if known > 0 {
            fill_sqlite(&db, known)?;
        }
        tasks.push(Task::IntakeFrom {
            start: at(name),
            input: input.clone(),
            count: wanted.count,
        });
    }
    let mut samples = interleaved(&tasks, plan.rounds, plan.scratch)?;
    let (with, without) = (samples.pop(), samples.pop());
    let found = Found {
        bytes_each,
        bytes_goal: BYTES_GOAL,
        without: without.unwrap_or_default(),
        with: with.unwrap_or_default(),
    };
    Ok(text(wanted, &found))
}
