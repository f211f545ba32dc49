//! What expressions may say, and what is told about those that may not.

use serde_json::json;

use super::*;
use crate::expression::{Failed, MAX_CHARS, MAX_DEPTH};

fn payment() -> PaymentRequest {
    PaymentRequest::parse(&json!({
        "paymentId": "p1", "amount": "125.50", "currency": "EUR",
        "debtor": {"account": "DE1", "name": "Ann"}, "creditor": {"account": "FR2", "name": "Bob"},
        "executeAt": "2026-11-16T16:00:00Z", "reference": "invoice 7",
        "metadata": {"tags": ["rent", "home"], "level": 3, "by": {"desk": "north"}},
    }))
    .unwrap()
}

fn known(payment: &PaymentRequest) -> Facts {
    let now = "2026-11-16T12:00:00Z".parse().unwrap();
    of(payment, "acme", &LaneName::new("fast"), now)
}

fn holds(source: &str) -> Result<bool, Failed> {
    let expression = compile(source).unwrap_or_else(|e| panic!("{source}: {e}"));
    expression.holds(&known(&payment()))
}

#[test]
fn an_expression_knows_every_field_of_a_payment() {
    let all = [
        "paymentId == 'p1'",
        "amountMinor == 12550 && amountMinor <= minor('125.50') && amountMinor > minor('125.49')",
        "currency in ['EUR', 'USD']",
        "debtor.account.startsWith('DE') && creditor.name == 'Bob'",
        "!(creditor.account in ['FR9', 'FR8'])",
        "gateway == 'acme' && lane == 'fast'",
        "executeAt - now == 4 * 3600",
        "deadline == null",
        "reference.contains('7') && size(reference) == 9 && reference.endsWith('7')",
        "metadata.level == 3 && metadata.by.desk == 'north'",
        "metadata.tags.exists(tag, tag == 'rent') && metadata.tags.all(t, size(t) == 4)",
        "has(metadata.level) && !has(metadata.nothing)",
        "size(metadata.tags.filter(t, t != 'rent')) == 1",
        "!holdIfLate",
        "type(amountMinor) == int && string(amountMinor) == '12550' && int('5') == 5",
        "double(metadata.level) > 2.5 && uint(3) == 3u && dyn(1) == 1",
        "currency == 'JPY' ? amountMinor < 100 : amountMinor < 1000000",
    ];
    for source in all {
        assert_eq!(holds(source), Ok(true), "{source}");
    }
    assert_eq!(holds("currency == 'USD'"), Ok(false));
}

#[test]
fn what_can_be_wrong_before_a_payment_comes_is_said_then() {
    let table = [
        ("currency ==", "line 1, column"),
        ("true &&\n (currency == 'EUR'", "line 2, column"),
        (
            "amount > 5",
            "has an unknown name \"amount\"; known: paymentId, amountMinor",
        ),
        (
            "debtor.acount == 'x'",
            "debtor has account and name, but no \"acount\"",
        ),
        (
            "debtor.account.startWith('x')",
            "has an unknown function \"startWith\"",
        ),
        (
            "currency.matches('E.*')",
            "has an unknown function \"matches\"",
        ),
        (
            "metadata.tags.map(t, metadata.tags.map(u, u)) == []",
            "cannot be used on or inside",
        ),
        (
            "metadata.tags.map(t, t).map(u, u) == []",
            "cannot be used on or inside",
        ),
        ("amountMinor", "must be true or false, but is int"),
        ("'EUR'", "must be true or false, but is string"),
        ("Money{minor: 1} == 1", "has an unknown type"),
        ("", "line"),
    ];
    for (source, expected) in table {
        let told = compile(source).unwrap_err();
        assert!(told.contains(expected), "{source}: {told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    let long = format!("currency == '{}'", "x".repeat(MAX_CHARS));
    assert!(compile(&long).unwrap_err().contains("2000 characters"));
    let deep = format!("{}true{}", "(".repeat(17), ")".repeat(17));
    assert!(compile(&deep).unwrap_err().contains("16 deep"));
    let chain = format!("{}1 > 0", "1+".repeat(MAX_DEPTH));
    let told = compile(&chain).unwrap_err();
    assert!(told.contains("more than 48 operations"), "{told}");
}

#[test]
fn what_fails_on_a_payment_says_why_and_shows_no_value() {
    let table = [
        ("metadata.colour == 'red'", "there is no \"colour\""),
        ("deadline > now", "no matching overload"),
        (
            "amountMinor < minor('1.005')",
            "minor: \"1.005\" has more than the 2 decimal digits",
        ),
        ("1 / (amountMinor - amountMinor) == 1", "division by zero"),
        (
            "metadata.tags[5] == 'x'",
            "a list has no element with this index",
        ),
        ("amountMinor * 9223372036854775807 > 0", "too large"),
        ("debtor.account > 5", "overload"),
    ];
    for (source, expected) in table {
        let why = holds(source).expect_err(source).to_string();
        assert!(why.contains(expected), "{source}: {why}");
        assert!(!why.contains("DE1"), "{why}");
    }
    assert_eq!(
        holds("metadata.level == 3 ? metadata.level : true"),
        Err(Failed::NoVerdict("int".into()))
    );
}

/// The longest that is taken, in the shapes that grow deepest, on the stack of a worker.
#[test]
fn no_expression_is_too_much_for_the_stack() {
    let shapes = |steps: usize| {
        [
            format!("{}1 > 0", "1+".repeat(steps)),
            format!("{}true", "!".repeat(steps)),
            format!("{}true", "true&&".repeat(steps / 3)),
            format!("metadata{} == 1", ".a".repeat(steps)),
            format!("{}1 < 2", "- ".repeat(steps)),
            format!("{}true", "true?true:".repeat(steps / 5)),
            format!("{}1{} > 0", "(1+".repeat(16), ")".repeat(16)),
        ]
    };
    let fitting = shapes(MAX_DEPTH - 3);
    for source in fitting.into_iter().chain(shapes((MAX_CHARS - 13) / 2)) {
        let judged = move || compile(&source).map(|e| e.holds(&known(&payment())));
        let worker = std::thread::Builder::new()
            .stack_size(2 << 20)
            .spawn(judged);
        let _ = worker.unwrap().join().expect("no panic");
    }
}

/// Not a promise, but an idea: run with `--ignored --nocapture` and `--release`.
#[test]
#[ignore = "a measurement"]
fn evaluations_per_second() {
    let sources = [
        "currency in ['EUR', 'USD', 'CHF']",
        "currency != 'EUR' || amountMinor <= minor('10000.00')",
        "!(debtor.account in ['XX1', 'XX2', 'XX3']) && !creditor.account.startsWith('KP')",
    ];
    let compiled: Vec<_> = sources.map(|s| compile(s).unwrap()).into();
    let payment = payment();
    #[expect(clippy::disallowed_methods, reason = "a measurement")]
    let begun = std::time::Instant::now();
    let rounds = 100_000_u32;
    for _ in 0..rounds {
        let facts = known(&payment);
        assert!(compiled.iter().all(|e| e.holds(&facts) == Ok(true)));
    }
    let each = begun.elapsed() / rounds;
    eprintln!("{each:?} for a payment and {} rules", sources.len());
}
