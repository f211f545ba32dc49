//! The routing table: which gateway a payment takes that names none. The first route that matches
//! wins; if none does, it is the default. Pure.

use tollgate_core::money::{Currency, Money};

use super::PaymentRequest;
use super::rule_text::{Problem, RouteText};

pub(super) const MOST_ROUTES: usize = 1000;
/// As an account.
const MAX_PREFIX_CHARS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct RouteTable {
    routes: Vec<Route>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    gateway: String,
    currency: Option<Currency>,
    /// In minor units of that currency, both ends among them.
    least: i64,
    most: i64,
    debtor_prefix: String,
    creditor_prefix: String,
}

impl RouteTable {
    /// `is_gateway` knows the banks that are connected.
    pub(super) fn read(
        texts: &[RouteText],
        is_gateway: impl Fn(&str) -> bool,
    ) -> Result<Self, Vec<Problem>> {
        let mut problems = vec![];
        let mut routes: Vec<(usize, Route)> = vec![];
        if texts.len() > MOST_ROUTES {
            problems.push(Problem::new("routes", format!("more than {MOST_ROUTES}")));
        }
        for (n, text) in texts.iter().enumerate() {
            match read_route(text, &is_gateway) {
                Err(what) => problems.push(Problem::new(place(n), what)),
                Ok(route) => {
                    if let Some((first, _)) = routes.iter().find(|(_, r)| r.covers(&route)) {
                        problems.push(Problem::new(place(n), unreachable_after(*first)));
                    }
                    routes.push((n, route));
                }
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let routes = routes.into_iter().map(|(_, route)| route).collect();
        Ok(Self { routes })
    }

    /// None means the default.
    pub(super) fn gateway_of(&self, payment: &PaymentRequest) -> Option<&str> {
        let matching = self.routes.iter().find(|route| route.matches(payment));
        matching.map(|route| route.gateway.as_str())
    }
}

fn place(n: usize) -> String {
    format!("routes[{n}]")
}

fn unreachable_after(first: usize) -> String {
    format!(
        "is never reached: {} before it matches the same payments; change the order or remove it",
        place(first)
    )
}

fn read_route(text: &RouteText, is_gateway: impl Fn(&str) -> bool) -> Result<Route, String> {
    if !is_gateway(&text.gateway) {
        return Err(format!(
            "gateway {:?} is not one of [downstream.gateways]; add it there first, then restart",
            text.gateway
        ));
    }
    let currency = text.currency.as_deref().map(read_currency).transpose()?;
    if currency.is_none() && (text.min_amount.is_some() || text.max_amount.is_some()) {
        return Err("min_amount and max_amount need a currency: set one".to_owned());
    }
    let amount = |field: &str, text: &Option<String>| match (text, currency) {
        (Some(text), Some(currency)) => match Money::parse(text, currency) {
            Ok(money) => Ok(Some(money.minor)),
            Err(why) => Err(format!("{field} {why}")),
        },
        _ => Ok(None),
    };
    let least = amount("min_amount", &text.min_amount)?.unwrap_or(0);
    let most = amount("max_amount", &text.max_amount)?.unwrap_or(i64::MAX);
    if least > most {
        return Err("min_amount is above max_amount".to_owned());
    }
    Ok(Route {
        gateway: text.gateway.clone(),
        currency,
        least,
        most,
        debtor_prefix: prefix("debtor_prefix", text.debtor_prefix.as_ref())?,
        creditor_prefix: prefix("creditor_prefix", text.creditor_prefix.as_ref())?,
    })
}

pub(super) fn read_currency(code: &str) -> Result<Currency, String> {
    Currency::from_code(code)
        .ok_or_else(|| format!("currency {code:?} is not an ISO 4217 code such as \"USD\""))
}

/// The empty prefix is every account's, but nobody writes it down and means that.
fn prefix(field: &str, text: Option<&String>) -> Result<String, String> {
    match text.map(String::as_str) {
        None => Ok(String::new()),
        Some("") => Err(format!("{field} must not be empty; leave it out instead")),
        Some(text) if text.chars().count() > MAX_PREFIX_CHARS => Err(format!(
            "{field} must have at most {MAX_PREFIX_CHARS} characters, as an account has"
        )),
        Some(text) => Ok(text.to_owned()),
    }
}

impl Route {
    fn matches(&self, payment: &PaymentRequest) -> bool {
        let money = payment.money;
        self.currency
            .is_none_or(|currency| currency == money.currency)
            && (self.least..=self.most).contains(&money.minor)
            && payment.debtor.account.starts_with(&self.debtor_prefix)
            && payment.creditor.account.starts_with(&self.creditor_prefix)
    }

    /// Whether it matches all that the other matches.
    fn covers(&self, other: &Self) -> bool {
        (self.currency.is_none() || self.currency == other.currency)
            && self.least <= other.least
            && self.most >= other.most
            && other.debtor_prefix.starts_with(&self.debtor_prefix)
            && other.creditor_prefix.starts_with(&self.creditor_prefix)
    }
}

#[cfg(test)]
mod tests;
