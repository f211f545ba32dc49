//! A bank, and a server that sends to it.

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::served::{Served, Setting};

pub(crate) struct Pair {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) bank: Bank,
    pub(crate) setting: Setting,
    pub(crate) server: Served,
}

pub(crate) fn pair(extra: &str) -> Pair {
    paired(|bank| Setting::new(bank, extra))
}

/// On any store.
pub(crate) fn pair_on(url: &str, extra: &str) -> Pair {
    paired(|bank| Setting::on(url, bank, extra))
}

pub(crate) fn paired(setting: impl FnOnce(&Bank) -> Setting) -> Pair {
    paired_with(BankOptions::default(), setting)
}

/// With a bank of another kind.
pub(crate) fn paired_with(options: BankOptions, setting: impl FnOnce(&Bank) -> Setting) -> Pair {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = {
        let _inside = runtime.enter();
        Bank::start(options).unwrap()
    };
    let setting = setting(&bank);
    let server = setting.start("127.0.0.1:0");
    Pair {
        runtime,
        bank,
        setting,
        server,
    }
}

impl Pair {
    /// The same with another server.
    pub(crate) fn served_by(self, start: impl FnOnce(&Setting, &Bank, Served) -> Served) -> Self {
        let server = start(&self.setting, &self.bank, self.server);
        Self { server, ..self }
    }
}

pub(crate) fn payment(id: &str) -> Value {
    json!({"paymentId": id, "amount": "125.5", "currency": "USD",
           "debtor": {"account": "A-1", "name": "Ann"}, "creditor": {"account": "B-2", "name": "Bob"}})
}
