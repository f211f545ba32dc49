//! The sample flow's steps: one that adds, one that fails its first try, one that refuses for
//! good, and one that waits for the test.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tollgate_core::flow::{Call, Policy, Step, StepError};
use tollgate_core::retry;

use super::World;

pub const REFUSED: &str = "refused on purpose";

const POLICY: Policy = Policy {
    timeout: Duration::from_secs(20),
    retry: retry::Policy {
        max_attempts: 3,
        first_pause: Duration::from_millis(10),
        factor: retry::TWICE,
        longest_pause: Duration::from_secs(1),
    },
};

/// Adds an amount to the world. Its key does not name the round: each round has a fresh journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct Add {
    round: i64,
    name: String,
    amount: i64,
}

impl Add {
    pub fn new(round: i64, name: &str, amount: i64) -> Self {
        Self {
            round,
            name: name.into(),
            amount,
        }
    }
}

impl Step for Add {
    const NAME: &'static str = "sampleAdd";
    type Out = i64;
    type World = World;

    fn key(&self) -> String {
        self.name.clone()
    }
    fn policy(&self) -> Policy {
        POLICY
    }
    async fn run(&self, world: &World, call: &Call) -> Result<i64, StepError> {
        Ok(world.add(&call.flow_id, self.round, &self.name, self.amount))
    }
}

/// Fails its first try, adds on a later one.
#[derive(Debug, Serialize, Deserialize)]
pub struct Stumble {
    pub round: i64,
}

impl Step for Stumble {
    const NAME: &'static str = "sampleStumble";
    type Out = i64;
    type World = World;

    fn key(&self) -> String {
        "stumble".into()
    }
    fn policy(&self) -> Policy {
        POLICY
    }
    async fn run(&self, world: &World, call: &Call) -> Result<i64, StepError> {
        if call.attempt == 1 {
            return Err(StepError::retryable("stumbled on purpose"));
        }
        Ok(world.add(&call.flow_id, self.round, "stumble", 100 * self.round))
    }
}

/// Always fails: for good although tries are left, or for now although none is left.
#[derive(Debug, Serialize, Deserialize)]
pub enum Refuse {
    ForGood,
    ForNow,
}

impl Step for Refuse {
    const NAME: &'static str = "sampleRefuse";
    type Out = ();
    type World = World;

    fn key(&self) -> String {
        match self {
            Self::ForGood => "refuse-for-good".into(),
            Self::ForNow => "refuse-for-now".into(),
        }
    }
    fn policy(&self) -> Policy {
        match self {
            Self::ForGood => POLICY,
            Self::ForNow => Policy {
                retry: retry::Policy::ONCE,
                ..POLICY
            },
        }
    }
    async fn run(&self, world: &World, call: &Call) -> Result<(), StepError> {
        world.count(&call.flow_id, &self.key());
        match self {
            Self::ForGood => Err(StepError::last(REFUSED)),
            Self::ForNow => Err(StepError::retryable(REFUSED)),
        }
    }
}

/// Waits until the test lets go.
#[derive(Debug, Serialize, Deserialize)]
pub struct Wait {}

impl Step for Wait {
    const NAME: &'static str = "sampleWait";
    type Out = ();
    type World = World;

    fn key(&self) -> String {
        "wait".into()
    }
    fn policy(&self) -> Policy {
        POLICY
    }
    async fn run(&self, world: &World, _: &Call) -> Result<(), StepError> {
        world.let_go().await;
        Ok(())
    }
}
