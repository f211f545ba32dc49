//! Which route takes which payment, and which routes are refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const GATEWAYS: [&str; 3] = ["default", "acme", "sepa"];

fn read(routes: serde_json::Value) -> Result<RouteTable, Vec<String>> {
    let texts: Vec<RouteText> = serde_json::from_value(routes).unwrap();
    let told = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect();
    RouteTable::read(&texts, |name| GATEWAYS.contains(&name)).map_err(told)
}

fn payment(amount: &str, currency: &str, debtor: &str, creditor: &str) -> PaymentRequest {
    PaymentRequest::parse(&json!({
        "paymentId": "p", "amount": amount, "currency": currency,
        "debtor": {"account": debtor, "name": "D"}, "creditor": {"account": creditor, "name": "C"},
    }))
    .unwrap()
}

#[test]
fn the_first_route_that_matches_wins() {
    let table = read(json!([
        {"gateway": "acme", "currency": "EUR", "minAmount": "1000", "maxAmount": "5000.00"},
        {"gateway": "sepa", "currency": "EUR", "debtorPrefix": "DE"},
        {"gateway": "default", "currency": "USD", "creditorPrefix": "US-1"},
        {"gateway": "acme", "currency": "USD"},
    ]))
    .unwrap();
    let cases = [
        ("999.99", "EUR", "DE1", "X", Some("sepa")),
        ("1000.00", "EUR", "DE1", "X", Some("acme")),
        ("5000.00", "EUR", "FR1", "X", Some("acme")),
        ("5000.01", "EUR", "FR1", "X", None),
        ("5000.01", "EUR", "DE", "X", Some("sepa")),
        ("2000.00", "USD", "DE1", "US-17", Some("default")),
        ("2000.00", "USD", "DE1", "US-2", Some("acme")),
        ("2000", "JPY", "DE1", "US-1", None),
    ];
    for (amount, currency, debtor, creditor, gateway) in cases {
        let payment = payment(amount, currency, debtor, creditor);
        assert_eq!(
            table.gateway_of(&payment),
            gateway,
            "{amount} {currency} {debtor}"
        );
    }
}

#[test]
fn every_wrong_route_is_one_sentence() {
    let table = [
        (json!({"gateway": "acne"}), "gateway \"acne\" is not one of"),
        (
            json!({"gateway": "acme", "currency": "XXQ"}),
            "currency \"XXQ\"",
        ),
        (
            json!({"gateway": "acme", "minAmount": "1"}),
            "need a currency",
        ),
        (
            json!({"gateway": "acme", "currency": "JPY", "maxAmount": "1.5"}),
            "max_amount has more",
        ),
        (
            json!({"gateway": "acme", "currency": "EUR", "minAmount": "2", "maxAmount": "1"}),
            "is above",
        ),
        (
            json!({"gateway": "acme", "debtorPrefix": ""}),
            "debtor_prefix must not be empty",
        ),
        (
            json!({"gateway": "acme", "creditorPrefix": "x".repeat(65)}),
            "at most 64",
        ),
    ];
    for (route, expected) in table {
        let told = read(json!([{"gateway": "sepa", "debtorPrefix": "ok"}, route])).unwrap_err();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("routes[1]: "), "{told:?}");
        assert!(told[0].contains(expected), "{told:?}");
    }
}

#[test]
fn a_route_behind_one_that_takes_all_of_it_is_never_reached() {
    let hidden = [
        (
            json!({"gateway": "acme"}),
            json!({"gateway": "sepa", "currency": "EUR"}),
        ),
        (
            json!({"gateway": "acme", "debtorPrefix": "DE"}),
            json!({"gateway": "sepa", "debtorPrefix": "DE1"}),
        ),
        (
            json!({"gateway": "acme", "currency": "EUR", "minAmount": "1"}),
            json!({"gateway": "sepa", "currency": "EUR", "minAmount": "1", "maxAmount": "5"}),
        ),
    ];
    for (first, second) in hidden {
        let told = read(json!([first, second])).unwrap_err();
        assert!(
            told[0].starts_with("routes[1]: is never reached"),
            "{told:?}"
        );
        assert!(told[0].contains("routes[0]"), "{told:?}");
        read(json!([second, first])).expect("the narrower one first is fine");
    }
}

fn routes() -> impl Strategy<Value = Vec<RouteText>> {
    let prefix = || proptest::option::of("[AB]{1,2}");
    let amount = || proptest::option::of((1..40_u32).prop_map(|n| n.to_string()));
    let currency =
        proptest::option::of(prop_oneof![Just("EUR".to_owned()), Just("USD".to_owned())]);
    let route = (
        0..GATEWAYS.len(),
        currency,
        amount(),
        amount(),
        prefix(),
        prefix(),
    );
    let route = route.prop_map(
        |(g, currency, min_amount, max_amount, debtor_prefix, creditor_prefix)| RouteText {
            gateway: GATEWAYS[g].to_owned(),
            currency,
            min_amount,
            max_amount,
            debtor_prefix,
            creditor_prefix,
        },
    );
    proptest::collection::vec(route, 0..6)
}

proptest! {
    /// Routing is total: every payment has one gateway that is known, and it is that of the first
    /// route that matches. And a route that is said to be hidden matches nothing on its own.
    #[test]
    fn every_payment_has_a_gateway(
        texts in routes(),
        minor in 1..5000_i64,
        euro in any::<bool>(),
        debtor in "[ABC]{1,3}",
        creditor in "[ABC]{1,3}",
    ) {
        let amount = format!("{}.{:02}", minor / 100, minor % 100);
        let payment = payment(&amount, if euro { "EUR" } else { "USD" }, &debtor, &creditor);
        let known = |name: &str| GATEWAYS.contains(&name);
        let good: Vec<Route> = texts.iter().filter_map(|t| read_route(t, known).ok()).collect();
        for (n, route) in good.iter().enumerate() {
            let before = &good[..n];
            if before.iter().any(|earlier| earlier.covers(route)) && route.matches(&payment) {
                prop_assert!(before.iter().any(|earlier| earlier.matches(&payment)));
            }
        }
        if let Ok(table) = RouteTable::read(&texts, known) {
            let chosen = table.gateway_of(&payment);
            prop_assert!(chosen.is_none_or(known));
            let first = good.iter().find(|route| route.matches(&payment));
            prop_assert_eq!(chosen, first.map(|route| route.gateway.as_str()));
        }
    }
}
