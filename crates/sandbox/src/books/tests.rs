//! The books at exact times, which no client can hit.

use super::*;

#[test]
fn the_limit_counts_the_admitted_arrivals_of_the_last_second() {
    let mut books = Books::default();
    let millis_and_within_limit = [
        (0, true),
        (500, true),
        (500, false),
        (999, false),
        (1_000, true), // the one at 0 is exactly a second old, and out
        (1_499, false),
        (1_500, true),
        (9_000, true),
    ];
    for (millis, within_limit) in millis_and_within_limit {
        let at = Duration::from_millis(millis);
        let arrival = books.arrive(at, Kind::Send, None, Some(2));
        assert_eq!(arrival.within_limit, within_limit, "at {millis} ms");
    }
}
/// The order of `p1` under key `k`, at this time.
fn pay_p1(books: &mut Books, at_ms: u64, terms: &Terms) -> Effect {
    let order = Order {
        payment_id: "p1".to_owned(),
        amount: Decimal::ONE,
        amount_text: "1".to_owned(),
        currency: "EUR".to_owned(),
    };
    let at = Duration::from_millis(at_ms);
    let place = books
        .arrive(at, Kind::Send, Some("k".to_owned()), None)
        .place;
    books.pay(at, place, &order, terms);
    books.entries[place.number].effect
}

const TERMS: Terms = Terms {
    honours_keys: true,
    refuses_batches: false,
    settle: Duration::ZERO,
    forget_key: None,
};

#[test]
fn a_key_is_known_until_its_retention_has_passed_since_the_effect() {
    let mut books = Books::default();
    let terms = Terms {
        forget_key: Some(Duration::from_millis(100)),
        ..TERMS
    };
    let expected = [
        (50, Effect::Took),
        (100, Effect::Repeated),
        (149, Effect::Repeated), // a repeat does not prolong it
        (150, Effect::Took),
        (249, Effect::Repeated),
        (250, Effect::Took),
    ];
    for (at_ms, effect) in expected {
        assert_eq!(pay_p1(&mut books, at_ms, &terms), effect, "at {at_ms} ms");
    }
    assert_eq!(books.times_effective["p1"], 3);
}

#[test]
fn a_probe_finds_a_payment_once_it_has_settled_and_from_then_on() {
    let mut books = Books::default();
    let late = |ms| Terms {
        honours_keys: false,
        refuses_batches: false,
        settle: Duration::from_millis(ms),
        ..TERMS
    };
    assert_eq!(pay_p1(&mut books, 50, &late(100)), Effect::Took);
    let probe = |books: &mut Books, at_ms| {
        let at = Duration::from_millis(at_ms);
        let place = books.arrive(at, Kind::Probe, None, None).place;
        books.probe(at, place, "p1", false);
        books.entries[place.number].effect
    };
    assert_eq!(probe(&mut books, 149), Effect::Hidden);
    assert_eq!(probe(&mut books, 150), Effect::Found);
    // The double has a settling time of its own, which hides nothing.
    assert_eq!(pay_p1(&mut books, 160, &late(1_000)), Effect::Took);
    assert_eq!(probe(&mut books, 161), Effect::Found);
}
