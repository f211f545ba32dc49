//! Which bank a payment goes to: its `gateway` picks one of those that are configured, and with it
//! the lane (docs/decisions/0011). Pure.

use std::collections::BTreeMap;

use tollgate_core::id::LaneName;
use tollgate_dispatch::Sender;

use super::prepare::NotTaken;

/// The gateway of a payment that names none; also a name for it.
pub const DEFAULT_GATEWAY: &str = "default";

/// The banks, or whatever is known of each.
#[derive(Debug, Clone)]
pub struct Routes<T> {
    pub default: T,
    /// The others, by gateway. If there are none, `gateway` is only passed on to the default bank.
    pub gateways: BTreeMap<String, T>,
}

/// How one bank is reached.
#[derive(Debug)]
pub struct Bank {
    pub lane: LaneName,
    pub sender: Sender,
}

/// Where one payment goes. The connector is kept in the payment's context: a payment that may
/// have been sent must never be sent through another bank because the configuration has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PaymentRoute {
    /// What the bank is told.
    pub(super) gateway: String,
    /// None for the default bank.
    pub(super) connector: Option<String>,
    pub(super) lane: LaneName,
}

impl Routes<Bank> {
    /// The gateways' names, the default one's aside.
    pub fn gateway_names(&self) -> Vec<String> {
        self.gateways.keys().cloned().collect()
    }

    pub(super) fn lanes(&self) -> impl Iterator<Item = &LaneName> {
        let all = std::iter::once(&self.default).chain(self.gateways.values());
        all.map(|bank| &bank.lane)
    }

    pub(super) fn route(&self, gateway: Option<&str>) -> Result<PaymentRoute, NotTaken> {
        let (connector, bank) = self.pick(gateway)?;
        Ok(PaymentRoute {
            gateway: gateway.unwrap_or(DEFAULT_GATEWAY).to_owned(),
            connector: connector.map(str::to_owned),
            lane: bank.lane.clone(),
        })
    }
}

impl<T> Routes<T> {
    /// A gateway that nobody knows is refused: a slip of the pen must not pay through another bank.
    fn pick<'a>(&self, gateway: Option<&'a str>) -> Result<(Option<&'a str>, &T), NotTaken> {
        let Some(name) = gateway.filter(|name| *name != DEFAULT_GATEWAY) else {
            return Ok((None, &self.default));
        };
        if self.gateways.is_empty() {
            return Ok((None, &self.default));
        }
        match self.gateways.get(name) {
            Some(bank) => Ok((Some(name), bank)),
            None => Err(NotTaken::Refused {
                rule: "gateway".to_owned(),
                message: format!("unknown gateway {name:?}; configured: {}", self.names()),
            }),
        }
    }

    /// What an admitted payment is sent through. None if its gateway is configured no more.
    pub(super) fn connected(&self, connector: Option<&str>) -> Option<&T> {
        match connector {
            None => Some(&self.default),
            Some(name) => self.gateways.get(name),
        }
    }

    fn names(&self) -> String {
        let names = self.gateways.keys().map(String::as_str);
        let all: Vec<_> = std::iter::once(DEFAULT_GATEWAY).chain(names).collect();
        all.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(gateways: &[&str]) -> Routes<String> {
        let gateways = gateways
            .iter()
            .map(|name| ((*name).to_owned(), (*name).to_owned()));
        Routes {
            default: "the default".to_owned(),
            gateways: gateways.collect(),
        }
    }

    #[test]
    fn a_gateway_picks_its_bank_and_none_picks_the_default() {
        let routes = routes(&["stripe", "sepa"]);
        let table = [
            (None, None, "the default"),
            (Some("default"), None, "the default"),
            (Some("stripe"), Some("stripe"), "stripe"),
            (Some("sepa"), Some("sepa"), "sepa"),
        ];
        for (gateway, connector, bank) in table {
            let picked = routes.pick(gateway).unwrap();
            assert_eq!(picked, (connector, &bank.to_owned()), "{gateway:?}");
            let connected = routes.connected(connector);
            assert_eq!(connected, Some(&bank.to_owned()), "{gateway:?}");
        }
    }

    #[test]
    fn a_gateway_that_nobody_knows_is_refused_with_those_that_are_known() {
        for name in ["strpie", "Stripe", "stripe ", ""] {
            let refused = routes(&["stripe", "sepa"]).pick(Some(name)).unwrap_err();
            let message = format!("unknown gateway {name:?}; configured: default, sepa, stripe");
            let rule = "gateway".to_owned();
            assert_eq!(refused, NotTaken::Refused { rule, message });
        }
    }

    #[test]
    fn without_gateways_the_name_is_only_passed_on() {
        let routes = routes(&[]);
        let picked = routes.pick(Some("anything")).unwrap();
        assert_eq!(picked, (None, &"the default".to_owned()));
    }

    #[test]
    fn a_gateway_that_is_gone_connects_to_nothing() {
        assert_eq!(routes(&["sepa"]).connected(Some("stripe")), None);
        assert_eq!(routes(&[]).connected(Some("stripe")), None);
    }
}
