//! One step in memory: answered from the journal, or run with its retries and the plan's fault.

use serde_json::Value;
use tollgate_core::flow::{Call, Step, StepError};

use super::MemoryCtx;
use super::fault::Fault;
use super::flows::{Record, StepCall, Stop, json, parse};

impl MemoryCtx {
    /// The recorded result of a key. A key that was already used in this run, or that another
    /// step was recorded under, would come out differently on each engine.
    pub(super) fn recall(&self, key: &str, input: &Value) -> Option<Result<Value, StepError>> {
        let fresh = self.state().life.keys.insert((self.id.clone(), key.into()));
        if !fresh {
            return self.stop(Stop::Broken(format!(
                "flow {} used the step key \"{key}\" twice in one run",
                self.id
            )));
        }
        let record = self.row(|row| row.journal.get(key).cloned())?;
        if record.step != *input {
            return self.stop(Stop::Broken(format!(
                "flow {} replayed step \"{key}\" as {input}, but had recorded {}",
                self.id, record.step
            )));
        }
        Some(record.result)
    }

    /// Does a step's work, with its retries and the plan's fault, and records the result.
    /// `None` once this life has stopped.
    pub(super) fn perform<S: Step>(
        &self,
        key: &str,
        input: Value,
    ) -> Option<Result<Value, StepError>> {
        if self.state().life.stop.is_some() {
            return None;
        }
        let fault = self.note_call(S::NAME, key);
        let result = self.try_until_settled::<S>(&input, fault)?;
        if fault == Some(Fault::CrashBeforeRecord) {
            return self.stop(Stop::Crash);
        }
        let record = Record {
            step: input,
            result: result.clone(),
        };
        self.row(|row| row.journal.insert(key.to_owned(), record));
        if fault == Some(Fault::CrashAfterRecord) {
            return self.stop(Stop::Crash);
        }
        Some(result)
    }

    fn try_until_settled<S: Step>(
        &self,
        input: &Value,
        fault: Option<Fault>,
    ) -> Option<Result<Value, StepError>> {
        for attempt in 1.. {
            let step: S = parse(input.clone());
            let fault = fault.filter(|_| attempt == 1);
            let own = match fault {
                Some(fault) if fault.skips_work() => None,
                _ => Some(self.try_once(&step, attempt)?),
            };
            let answer = match (fault.and_then(Fault::first_answer), own) {
                (Some(error), _) => Err(error),
                (None, own) => own.expect("only a fault with an answer skips the work"),
            };
            match answer {
                Err(error) if error.retry => {
                    if step.policy().retry.next_pause(attempt).is_none() {
                        return Some(Err(error));
                    }
                }
                settled => return Some(settled),
            }
        }
        None
    }

    fn try_once<S: Step>(&self, step: &S, attempt: u32) -> Option<Result<Value, StepError>> {
        let world = self.shared.registered.worlds.get(S::NAME).cloned();
        let Some(world) = world.and_then(|world| world.downcast::<S::World>().ok()) else {
            return self.stop(Stop::Broken(format!("step {} is not registered", S::NAME)));
        };
        let call = Call {
            flow_id: self.id.clone(),
            attempt,
        };
        let work = step.run(&world, &call);
        match self.shared.work.run(step.policy().timeout, work) {
            Some(result) => Some(result.map(|out| json(&out))),
            None => self.stop(Stop::Broken(format!(
                "step {} awaited something that is not the port's; run it with Work::Blocking",
                S::NAME
            ))),
        }
    }

    /// Notes a call, and takes the plan's fault if it is due.
    fn note_call(&self, step: &'static str, key: &str) -> Option<Fault> {
        let mut state = self.state();
        state.calls.push(StepCall {
            flow: self.id.clone(),
            step,
            key: key.into(),
        });
        let at = state.calls.len();
        let due = state.plan.take_if(|plan| plan.at == at);
        due.map(|plan| plan.fault)
    }
}
