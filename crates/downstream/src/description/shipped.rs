//! The descriptions that come with Tollgate. The first two are the contract of `docs/bank.md`; the others were written
//! from their providers' public documentation, and nobody has run them against the provider.

use std::sync::LazyLock;

use super::Description;

const PAYMENTS: &str = include_str!("../../descriptions/contract.toml");
const INVOICES: &str = include_str!("../../descriptions/contract-invoices.toml");

/// By the name under which a configuration asks for them.
pub const SHIPPED: [(&str, &str); 7] = [
    ("contract", PAYMENTS),
    ("contract-invoices", INVOICES),
    (
        "stripe-transfers",
        include_str!("../../descriptions/stripe-transfers.toml"),
    ),
    (
        "paypal-payouts",
        include_str!("../../descriptions/paypal-payouts.toml"),
    ),
    (
        "adyen-transfers",
        include_str!("../../descriptions/adyen-transfers.toml"),
    ),
    (
        "modern-treasury",
        include_str!("../../descriptions/modern-treasury.toml"),
    ),
    (
        "berlin-group",
        include_str!("../../descriptions/berlin-group.toml"),
    ),
];

static FOR_PAYMENTS: LazyLock<Description> =
    LazyLock::new(|| Description::read(PAYMENTS).expect("a test reads what is shipped"));
static FOR_INVOICES: LazyLock<Description> =
    LazyLock::new(|| Description::read(INVOICES).expect("a test reads what is shipped"));

impl Description {
    /// The contract for payments.
    pub fn payments() -> Self {
        FOR_PAYMENTS.clone()
    }

    /// The contract for the provider that charges invoices.
    pub fn invoices() -> Self {
        FOR_INVOICES.clone()
    }

    /// The text of one that is shipped.
    pub fn shipped(name: &str) -> Option<&'static str> {
        let found = SHIPPED.iter().find(|(it, _)| *it == name);
        found.map(|(_, text)| *text)
    }
}
