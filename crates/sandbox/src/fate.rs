//! Decides which faults strike an arrival. Scripted rules strike by number or payment; the others
//! by a draw that depends on nothing but the seed, the fault and the number of the send or probe,
//! so that another fault, or other traffic, does not shift it. The contract carries it out.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use sha2::{Digest, Sha256};

use crate::{
    entry::Kind,
    faults::{Blow, Fault, Faults, OfPayment, Rule, Subject, Which},
};

/// What will go wrong with one arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fate {
    pub(crate) blow: Option<Blow>,
    pub(crate) latency: Duration,
    pub(crate) work: Duration,
    pub(crate) settle: Duration,
    pub(crate) forget_key: Option<Duration>,
    pub(crate) decline: bool,
}

#[derive(Debug)]
pub(crate) struct FaultSource {
    seed: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    script: Arc<Script>,
    /// Since the bank's start, for the draws.
    ever: Count,
    /// Since these faults were set, for the script.
    since_set: Count,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    sends: u64,
    probes: u64,
    webhooks: u64,
    lookups: u64,
    notifies: u64,
    checks: u64,
}

/// The faults in force, with what must be forgotten when others take their place.
#[derive(Debug, Default)]
struct Script {
    faults: Faults,
    by_payment: Mutex<HashMap<String, Count>>,
}

/// An arrival whose place in the sequence is fixed, and whose payment is not known yet.
#[derive(Debug)]
pub(crate) struct Lot {
    script: Arc<Script>,
    seed: u64,
    kind: Kind,
    ever: Count,
    since_set: Count,
}

impl FaultSource {
    pub(crate) fn new(faults: Faults, seed: u64) -> Self {
        let state = State {
            script: Script::of(faults),
            ever: Count::default(),
            since_set: Count::default(),
        };
        Self {
            seed,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn set(&self, faults: Faults) {
        let mut state = self.state();
        state.script = Script::of(faults);
        state.since_set = Count::default();
    }

    pub(crate) fn in_force(&self) -> Faults {
        self.state().script.faults.clone()
    }

    /// The faults are those in force now, whatever is set before the payment is known.
    pub(crate) fn draw(&self, kind: Kind) -> Lot {
        let mut state = self.state();
        state.ever.add(kind);
        state.since_set.add(kind);
        Lot {
            script: Arc::clone(&state.script),
            seed: self.seed,
            kind,
            ever: state.ever,
            since_set: state.since_set,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Script {
    fn of(faults: Faults) -> Arc<Self> {
        Arc::new(Self {
            faults,
            by_payment: Mutex::default(),
        })
    }

    /// Payments are counted only if a rule wants it: the counts are as many as the payments.
    fn count(&self, kind: Kind, payment_id: &str) -> Count {
        let rules = &self.faults.rules;
        if rules
            .iter()
            .all(|rule| rule.which.payment == OfPayment::Any)
        {
            return Count::default();
        }
        let mut counts = self
            .by_payment
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(payment_id.to_owned()).or_default();
        count.add(kind);
        *count
    }
}

impl Lot {
    /// None for a request that names no payment.
    pub(crate) fn fate(self, payment_id: Option<&str>) -> Fate {
        let of_payment = payment_id.map(|id| (id, self.script.count(self.kind, id)));
        let mut fate = Fate::default();
        let (mut latency, mut work, mut settle) = (None, None, None);
        let rules = &self.script.faults.rules;
        for Rule { which, fault } in rules.iter().filter(|rule| self.strikes(rule, of_payment)) {
            debug_assert!(which.subject.includes(self.kind), "{which}");
            match *fault {
                Fault::Latency(time) => latency = latency.or(Some(time)),
                Fault::Work(time) => work = work.or(Some(time)),
                Fault::Settle(time) => settle = settle.or(Some(time)),
                Fault::ForgetKey(time) => fate.forget_key = fate.forget_key.or(Some(time)),
                Fault::Decline => fate.decline = true,
                Fault::Blow(blow) => fate.blow = fate.blow.or(Some(blow)),
            }
        }
        fate.latency = latency.unwrap_or_default();
        fate.work = work.unwrap_or_default();
        fate.settle = settle.unwrap_or_default();
        fate
    }

    fn strikes(&self, rule: &Rule, of_payment: Option<(&str, Count)>) -> bool {
        let Which {
            subject,
            one_in,
            numbers,
            payment,
        } = &rule.which;
        let counted = match (payment, of_payment) {
            (OfPayment::Any, _) => Some(self.since_set),
            (OfPayment::Each, Some((_, count))) => Some(count),
            (OfPayment::Named(wanted), Some((id, count))) => (wanted == id).then_some(count),
            (OfPayment::Each | OfPayment::Named(_), None) => None,
        };
        subject.includes(self.kind)
            && counted.is_some_and(|count| numbers.is_none_or(|n| n.include(count.of(*subject))))
            && one_in.is_none_or(|n| self.drawn(rule.fault).is_multiple_of(u64::from(n.get())))
    }

    /// A hash instead of a generator: it has no state that another draw could move.
    fn drawn(&self, fault: Fault) -> u64 {
        let number = match self.kind {
            Kind::Send => self.ever.sends,
            Kind::Probe => self.ever.probes,
            Kind::Webhook => self.ever.webhooks,
            Kind::Lookup => self.ever.lookups,
            Kind::Notify => self.ever.notifies,
            Kind::Check => self.ever.checks,
        };
        let drawn = format!("{} {:?} {number} {fault}", self.seed, self.kind);
        let hash = Sha256::digest(drawn);
        hash.iter()
            .take(8)
            .fold(0, |bits, byte| bits << 8 | u64::from(*byte))
    }
}

impl Count {
    fn add(&mut self, kind: Kind) {
        match kind {
            Kind::Send => self.sends += 1,
            Kind::Probe => self.probes += 1,
            Kind::Webhook => self.webhooks += 1,
            Kind::Lookup => self.lookups += 1,
            Kind::Notify => self.notifies += 1,
            Kind::Check => self.checks += 1,
        }
    }

    fn of(self, subject: Subject) -> u64 {
        match subject {
            Subject::Sends => self.sends,
            Subject::Probes => self.probes,
            Subject::Webhooks => self.webhooks,
            Subject::Lookups => self.lookups,
            Subject::Notifies => self.notifies,
            Subject::Checks => self.checks,
            Subject::All => self.sends + self.probes,
        }
    }
}
