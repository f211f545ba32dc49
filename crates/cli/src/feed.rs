//! A generated feed: payments that all fall due in the same second, repeatable by seed.

use anyhow::Context;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tollgate_core::Timestamp;
use tollgate_domains::payments::PaymentRequest;

const CURRENCIES: [&str; 3] = ["USD", "EUR", "JPY"];

pub(crate) struct Feed {
    random: SmallRng,
    next: u32,
    left: u32,
    execute_at: Timestamp,
}

impl Feed {
    pub(crate) fn new(seed: u64, payments: u32, execute_at: Timestamp) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed),
            next: 1,
            left: payments,
            execute_at,
        }
    }

    /// The next payments, at most `most`; empty at the end.
    pub(crate) fn batch(&mut self, most: usize) -> anyhow::Result<Vec<PaymentRequest>> {
        let size = most.min(self.left as usize);
        (0..size).map(|_| self.payment()).collect()
    }

    fn payment(&mut self) -> anyhow::Result<PaymentRequest> {
        let number = self.next;
        self.next += 1;
        self.left -= 1;
        let currency = CURRENCIES[self.random.random_range(0..CURRENCIES.len())];
        let whole = self.random.random_range(1..5000_u32);
        let amount = match currency {
            "JPY" => format!("{whole}"),
            _ => format!("{whole}.{:02}", self.random.random_range(0..100_u32)),
        };
        let body = json!({
            "paymentId": format!("pay_{number:07}"),
            "amount": amount,
            "currency": currency,
            "debtor": {"account": format!("DE-{:08}", self.random.random_range(0..99_999_999_u32)), "name": "Payer"},
            "creditor": {"account": format!("US-{:08}", self.random.random_range(0..99_999_999_u32)), "name": "Payee"},
            "executeAt": self.execute_at,
            "reference": format!("invoice {number}"),
        });
        PaymentRequest::parse(&body)
            .map_err(|wrong| anyhow::anyhow!("{wrong:?}"))
            .context("generated feed")
    }
}
