//! Who acts in the audit trail besides people: every name under which Tollgate itself writes there.
//! No token may have one of them, or a person could pass for a part of the machine.

/// Closes a lane whose downstream keeps failing.
pub const BREAKER: &str = "breaker";
/// Look at an invoice before it is charged.
pub const CHECKS: &str = "checks";
/// What was read from the configuration at the start.
pub const CONFIGURATION: &str = "configuration";
pub const DEMO: &str = "demo";
pub const DISPATCHER: &str = "dispatcher";
/// Pauses a feed whose position is not in the log.
pub const FEED: &str = "feed";
/// Whoever is on this machine, where no tokens are configured.
pub const LOCAL: &str = "local";
/// The flows of payments.
pub const PAYMENTS: &str = "payments";
pub const RECONCILIATION: &str = "reconciliation";
/// Judge a payment before it is sent.
pub const RULES: &str = "rules";
pub const SENDER: &str = "sender";
/// What a status check has learnt about a payment in doubt.
pub const STATUS_CHECK: &str = "status-check";
/// Pauses a lane whose bank refuses everything.
pub const STORM: &str = "storm";
/// Finds invoices that are outstanding and not scheduled.
pub const SWEEP: &str = "sweep";
/// Finds items that are orphaned or late.
pub const SWEEPER: &str = "sweeper";
/// What a first start needs.
pub const TOLLGATE: &str = "tollgate";

/// As the audit trail is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    People,
    Machine,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::People, Self::Machine];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::People => "people",
            Self::Machine => "machine",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    pub fn has(self, name: &str) -> bool {
        is_person(name) == (self == Self::People)
    }
}

pub const ALL: [&str; 16] = [
    BREAKER,
    CHECKS,
    CONFIGURATION,
    DEMO,
    DISPATCHER,
    FEED,
    LOCAL,
    PAYMENTS,
    RECONCILIATION,
    RULES,
    SENDER,
    STATUS_CHECK,
    STORM,
    SWEEP,
    SWEEPER,
    TOLLGATE,
];

/// Whether a name in the audit trail is a person's, or that of a system with a token.
pub fn is_person(name: &str) -> bool {
    name == LOCAL || !ALL.contains(&name)
}
