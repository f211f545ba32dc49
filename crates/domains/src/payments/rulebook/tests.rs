//! Which rules are refused, and which payments they refuse.

use serde_json::json;
use tollgate_core::guard::Limit;

use super::*;

fn read(rules: &serde_json::Value) -> Result<Rulebook, Vec<String>> {
    let text: RulesText = serde_json::from_value(json!({ "rules": rules })).unwrap();
    let told = |problems: Vec<Problem>| problems.iter().map(ToString::to_string).collect();
    Rulebook::read(&text, 7, |name| name == "default").map_err(told)
}

fn payment(amount: &str, currency: &str) -> PaymentRequest {
    PaymentRequest::parse(&json!({
        "paymentId": "p", "amount": amount, "currency": currency,
        "debtor": {"account": "DE1", "name": "D"}, "creditor": {"account": "FR2", "name": "C"},
    }))
    .unwrap()
}

fn refused(book: &Rulebook, payment: &PaymentRequest) -> Option<(String, String)> {
    let now = "2026-11-16T12:00:00Z".parse().unwrap();
    let refusal = book.refusal(payment, "default", &LaneName::new("default"), now);
    refusal.map(|refusal| (refusal.rule, refusal.message))
}

#[test]
fn the_first_rule_that_is_against_it_refuses_a_payment() {
    let book = read(&json!([
        {"name": "currencies", "require": "currency in ['EUR', 'USD']", "message": "euros or dollars"},
        {"name": "limit", "require": "currency != 'EUR' || amountMinor <= minor('1000')", "message": "too much"},
        {"name": "tagged", "require": "currency != 'USD' || metadata.desk == 'north'", "message": "which desk?"},
    ]))
    .unwrap();
    assert_eq!((book.version, book.rules.len()), (7, 3));
    assert_eq!(refused(&book, &payment("1000.00", "EUR")), None);
    let table = [
        ("1000.01", "EUR", "limit", "too much"),
        ("5", "JPY", "currencies", "euros or dollars"),
        (
            "5",
            "USD",
            "tagged",
            "which desk? (the rule could not be evaluated: there is no \"desk\")",
        ),
    ];
    for (amount, currency, rule, message) in table {
        let expected = Some((rule.to_owned(), message.to_owned()));
        assert_eq!(refused(&book, &payment(amount, currency)), expected);
    }
}

#[test]
fn a_rule_says_when_it_is_judged_if_it_speaks_of_the_moment() {
    let rule = |require: &str, more: serde_json::Value| {
        let mut rule = json!({"name": "r", "message": "m", "require": require});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([rule])
    };
    let counting = |more: serde_json::Value| {
        let mut rule = json!({"name": "r", "message": "m", "duplicateWithinSecs": 60});
        rule.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([rule])
    };
    let both = json!({"at": ["intake", "execution"]});
    let fine = [
        rule("currency == 'EUR'", json!({})),
        rule("currency == 'EUR'", json!({"onFailure": "reject"})),
        rule("executeAt - now < 60", both.clone()),
        rule(
            "now > 0",
            json!({"at": ["execution"], "on_failure": "hold"}),
        ),
        rule("deadline == null", json!({"at": ["intake"]})),
        counting(json!({"at": ["intake"]})),
    ];
    for rules in fine {
        assert!(read(&rules).is_ok(), "{rules}");
    }
    let wrong = [
        (rule("executeAt > 0", json!({})), "uses executeAt"),
        (rule("deadline == null", json!({})), "uses deadline"),
        (rule("!holdIfLate", json!({})), "uses holdIfLate"),
        (
            rule("[1, 2].all(n, n < now)", json!({})),
            "uses now, which changes between intake and execution",
        ),
        (rule("{'a': now}.a > 0", json!({})), "uses now"),
        (rule("true", json!({"at": []})), "at must name"),
        (
            rule("true", json!({"at": ["intake"], "onFailure": "hold"})),
            "on_failure is only allowed",
        ),
        (counting(both), "only evaluated at intake"),
        (
            counting(json!({"onFailure": "hold"})),
            "only evaluated at intake",
        ),
    ];
    for (rules, said) in wrong {
        let problems = read(&rules).unwrap_err();
        assert!(problems[0].contains(said), "{rules}: {problems:?}");
    }
}

#[test]
fn at_execution_all_rules_speak_except_those_that_a_person_let_pass() {
    let at_both = json!([
        {"name": "early", "require": "currency == 'USD'", "message": "dollars", "at": ["intake"]},
        {"name": "limit", "require": "amountMinor <= 100", "message": "too much"},
        {"name": "desk", "require": "metadata.desk == 'north'", "message": "which desk?", "onFailure": "reject"},
        {"name": "closed", "require": "currency != 'EUR'", "message": "no euros", "onFailure": "reject", "at": ["execution"]},
    ]);
    let book = read(&at_both).unwrap();
    let now = "2026-11-16T12:00:00Z".parse().unwrap();
    let lane = LaneName::new("default");
    let said = |currency: &str, passed: &[String]| {
        book.objection(&payment("5", currency), "default", &lane, now, passed)
    };
    let euros = said("EUR", &[]).unwrap();
    assert_eq!(euros.names, ["limit", "desk", "closed"]);
    assert!(euros.rejects, "{euros:?}");
    assert!(euros.why.contains("rule \"limit\": too much"), "{euros:?}");
    assert!(euros.why.ends_with("(rules of version 7)"), "{euros:?}");
    let dollars = said("USD", &[]).unwrap();
    assert_eq!(dollars.names, ["limit", "desk"]);
    assert!(!dollars.rejects, "a rule that cannot be judged holds");
    assert_eq!(said("EUR", &euros.keys), None);
    let mut reworded = at_both.clone();
    reworded[1]["require"] = json!("amountMinor <= 101");
    reworded[3]["message"] = json!("none");
    let book = read(&reworded).unwrap();
    let again = book.objection(&payment("5", "EUR"), "default", &lane, now, &euros.keys);
    assert_eq!(again.unwrap().names, ["limit"], "another rule now");
    assert_eq!(refused(&book, &payment("1", "EUR")).unwrap().0, "early");
}

#[test]
fn rules_that_count_become_guards_of_the_payments_they_are_about() {
    let book = read(&json!([
        {"name": "twin", "duplicateWithinSecs": 60, "message": "again"},
        {"name": "day", "dailyTotal": "50", "currency": "EUR", "zone": "Asia/Tokyo", "message": "enough"},
    ]))
    .unwrap();
    let limits = |payment: &PaymentRequest| -> Vec<Limit> {
        let guards = book.guards().iter().filter_map(|rule| rule.guard(payment));
        guards.map(|guard| guard.limit).collect()
    };
    let euros = limits(&payment("5", "EUR"));
    assert_eq!(euros.len(), 2);
    let zone = "Asia/Tokyo".to_owned();
    assert_eq!(
        euros[1],
        Limit::DailyTotal {
            zone,
            most_minor: 5000
        }
    );
    assert_eq!(
        limits(&payment("5", "USD")).len(),
        1,
        "another currency has no total"
    );
    let same = limits(&payment("5.00", "EUR"));
    assert_eq!(euros, same, "the id is no part of what makes a duplicate");
    assert_ne!(euros[0], limits(&payment("5.01", "EUR"))[0]);
    assert_ne!(euros[0], limits(&payment("5", "USD"))[0]);
}

#[test]
fn every_wrong_rule_is_one_sentence_and_all_are_told() {
    let table = [
        (json!({"name": "a", "message": "m"}), "must have one of"),
        (
            json!({"name": "a", "message": "m", "require": "true", "dailyTotal": "5"}),
            "must have one of",
        ),
        (
            json!({"name": "a", "message": "m", "require": "currency =="}),
            "require line 1",
        ),
        (
            json!({"name": "a", "message": "m", "require": "true", "zone": "UTC"}),
            "only allowed with daily_total",
        ),
        (
            json!({"name": "a", "message": " ", "require": "true"}),
            "message must have",
        ),
        (
            json!({"name": "", "message": "m", "require": "true"}),
            "name ",
        ),
        (
            json!({"name": "lane", "message": "m", "require": "true"}),
            "built-in",
        ),
        (
            json!({"name": "a", "message": "m", "duplicateWithinSecs": 0}),
            "from 1 to",
        ),
        (
            json!({"name": "a", "message": "m", "dailyTotal": "5"}),
            "needs a currency",
        ),
        (
            json!({"name": "a", "message": "m", "dailyTotal": "5.555", "currency": "EUR"}),
            "decimal digits",
        ),
        (
            json!({"name": "a", "message": "m", "dailyTotal": "5", "currency": "EUR", "zone": "Mars/Base"}),
            "Mars/Base",
        ),
    ];
    let mut rules = vec![];
    for (rule, expected) in table {
        let told = read(&json!([rule])).unwrap_err();
        assert!(told[0].starts_with("rules[0] "), "{told:?}");
        assert!(told[0].contains(expected), "{told:?}");
        rules.push(rule);
    }
    let count = rules.len();
    assert!(read(&json!(rules)).unwrap_err().len() >= count);
    let good = json!({"name": "a", "message": "m", "require": "true"});
    let told = read(&json!([good, good])).unwrap_err();
    assert_eq!(
        told,
        ["rules[1] \"a\": has the same name as an earlier rule"]
    );
    let many: Vec<_> = (0..=MOST_RULES)
        .map(|n| json!({"name": format!("r{n}"), "message": "m", "require": "true"}))
        .collect();
    assert_eq!(read(&json!(many)).unwrap_err(), ["rules: more than 100"]);
}
