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
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bank = {
        let _inside = runtime.enter();
        Bank::start(BankOptions::default()).unwrap()
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

pub(crate) fn payment(id: &str) -> Value {
    json!({"paymentId": id, "amount": "125.5", "currency": "USD",
           "debtor": {"account": "A-1", "name": "Ann"}, "creditor": {"account": "B-2", "name": "Bob"}})
}
