//! How much of a payment's accounts a caller is told: whole to those who operate, masked to everybody
//! else, also where a bank's words repeat them.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use tollgate_contract as contract;
use tollgate_core::account::{masked, without_accounts};
use tollgate_core::archive::ArchivedItem;
use tollgate_core::erasure::ERASED;
use tollgate_core::id::Item;
use tollgate_core::ports::ItemView;
use tollgate_domains::payments::{self, Party, PaymentRequest};

use super::error::ApiError;
use crate::App;
use crate::door::auth::Caller;

#[derive(Debug)]
pub(crate) struct Sight {
    /// The accounts that this caller is not told.
    hidden: Vec<String>,
}

impl Sight {
    /// Of what has no accounts.
    pub(crate) const WHOLE: Self = Self { hidden: vec![] };

    pub(crate) fn of(caller: &Caller, payment: &PaymentRequest) -> Self {
        if caller.sees_accounts() {
            return Self::WHOLE;
        }
        let accounts = [&payment.debtor, &payment.creditor].map(|party| party.account.clone());
        let is_there = |account: &String| account != ERASED;
        Self {
            hidden: accounts.into_iter().filter(is_there).collect(),
        }
    }

    /// Of any item that was taken in like this.
    pub(super) fn on_document(caller: &Caller, document: &str) -> Self {
        match serde_json::from_str(document) {
            Ok(payment) => Self::of(caller, &payment),
            Err(_) => Self::WHOLE,
        }
    }

    /// Of any item; only payments have accounts.
    pub(crate) fn on(caller: &Caller, view: &ItemView) -> Self {
        match payments::document(view) {
            Ok(payment) => Self::of(caller, &payment),
            Err(_) => Self::WHOLE,
        }
    }

    pub(crate) fn party(&self, party: &Party) -> contract::PaymentParty {
        let (account, name) = (self.account(party), party.name.clone());
        contract::PaymentParty { account, name }
    }

    pub(crate) fn account(&self, party: &Party) -> String {
        if self.hidden.contains(&party.account) {
            return masked(&party.account);
        }
        party.account.clone()
    }

    /// A client's own JSON, which may repeat the accounts.
    pub(crate) fn object(&self, map: Map<String, Value>) -> Map<String, Value> {
        let seen = |(key, value): (String, Value)| (self.text(&key), self.value(value));
        map.into_iter().map(seen).collect()
    }
    fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(list) => list.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => Value::Object(self.object(map)),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
        }
    }

    /// What somebody else said.
    pub(crate) fn text(&self, text: &str) -> String {
        without_accounts(text, &self.hidden)
    }
}

/// What a caller sees of texts about several items.
#[derive(Debug)]
pub(crate) struct Sights(HashMap<Item, Sight>);

impl Sights {
    pub(crate) async fn of<'a>(
        app: &App,
        caller: &Caller,
        items: impl Iterator<Item = &'a Item>,
    ) -> Result<Self, ApiError> {
        if caller.sees_accounts() {
            return Ok(Self(HashMap::new()));
        }
        let kind = payments::item_type();
        let items: HashSet<Item> = items.filter(|it| it.item_type == kind).cloned().collect();
        let items: Vec<Item> = items.into_iter().collect();
        let bodies = app.store.bodies(&items).await?;
        let mut sights = HashMap::new();
        for (item, body) in items.into_iter().zip(bodies) {
            // What is not hot may be in the archive, and its texts name the same accounts.
            let body = match body {
                Some(body) => Some(body),
                None => (app.store.item(&item).await?).and_then(|view| view.body),
            };
            let sight = Sight::on_document(caller, &body.unwrap_or_default());
            sights.insert(item, sight);
        }
        Ok(Self(sights))
    }

    /// Of items of the archive, which are at hand.
    pub(crate) fn of_archived(caller: &Caller, items: &[ArchivedItem]) -> Self {
        let sight = |item: &ArchivedItem| {
            let body = item.body.as_deref().unwrap_or_default();
            (item.item(), Sight::on_document(caller, body))
        };
        let is_payment = |item: &&ArchivedItem| item.item_type == payments::item_type();
        Self(items.iter().filter(is_payment).map(sight).collect())
    }

    /// What is said about an item.
    pub(crate) fn text(&self, item: Option<&Item>, text: String) -> String {
        match item.and_then(|item| self.0.get(item)) {
            Some(sight) => sight.text(&text),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollgate_contract::Role;

    use super::*;

    #[test]
    fn accounts_are_told_whole_to_those_who_operate_only() {
        let payment = PaymentRequest::parse(&json!({
            "paymentId": "p", "amount": "1", "currency": "EUR",
            "debtor": {"account": "DE02120300000000202051", "name": "A"},
            "creditor": {"account": "B-2", "name": "B"},
        }));
        let payment = payment.unwrap();
        let token = |role| Caller::Token {
            name: "ann".into(),
            role,
        };
        let table = [
            (Caller::Local, true),
            (token(Role::Operate), true),
            (token(Role::Read), false),
            (token(Role::Ingest), false),
        ];
        for (caller, whole) in table {
            let sight = Sight::of(&caller, &payment);
            let accounts = [&payment.debtor, &payment.creditor].map(|it| sight.party(it).account);
            let said = sight.text("DE02120300000000202051 is closed");
            let told = (accounts[0].as_str(), accounts[1].as_str(), said.as_str());
            let expected = if whole {
                let said = "DE02120300000000202051 is closed";
                ("DE02120300000000202051", "B-2", said)
            } else {
                ("****2051", "****2", "****2051 is closed")
            };
            assert_eq!(told, expected, "{caller:?}");
        }
    }
}
