//! The chain: who objects, in which order, and what cannot be configured.

use super::*;

fn customer() -> Customer {
    Customer {
        customer_id: "c_1".into(),
        currency: Currency::from_code("DKK").unwrap(),
        time_zone: "Europe/Copenhagen".into(),
        ladder: None,
    }
}

fn subject(customer: Option<&Customer>) -> Subject<'_> {
    Subject {
        invoice_id: "inv_1",
        customer_id: "c_1",
        status: "PENDING",
        money: Money {
            minor: 10_000,
            currency: Currency::from_code("DKK").unwrap(),
        },
        created_at: Timestamp::from_second(1_000).unwrap(),
        declines: 0,
        was_charged: false,
        undecided: false,
        customer,
        now: Timestamp::from_second(2_000).unwrap(),
    }
}

fn text(require: &str, otherwise: &str) -> CheckText {
    CheckText {
        name: "small".into(),
        require: require.into(),
        otherwise: otherwise.into(),
        pause: None,
        message: "too large to charge at night".into(),
    }
}

fn found(texts: &[CheckText], subject: &Subject<'_>) -> (String, String) {
    let finding = Chain::read(texts).unwrap().find(subject);
    (finding.check, finding.verdict.to_string())
}

#[test]
fn what_may_be_charged_passes_and_each_built_in_check_objects_by_its_name() {
    let known = customer();
    let told = |it: Subject<'_>| found(&[], &it);
    let is = |check: &str, verdict: &str| (check.to_owned(), verdict.to_owned());
    let good = || subject(Some(&known));
    assert_eq!(told(good()), is("all", "continue"));
    let paid = Subject {
        status: "PAID",
        ..good()
    };
    assert_eq!(told(paid), is("not-paid", "skip"));
    let charged = Subject {
        was_charged: true,
        ..good()
    };
    assert_eq!(told(charged), is("not-charged-already", "skip"));
    // Whatever the record says: whoever sent it may have died, or heard a decline too late.
    for status in ["PENDING", "IN_DOUBT"] {
        let undecided = Subject {
            undecided: true,
            status,
            ..subject(None)
        };
        assert_eq!(told(undecided), is("not-in-doubt", "postpone"));
        let decided = Subject { status, ..good() };
        assert_eq!(told(decided), is("all", "continue"));
    }
    assert_eq!(told(subject(None)), is("customer-exists", "fail"));
    let euro = Money {
        currency: Currency::from_code("EUR").unwrap(),
        ..good().money
    };
    let euro = Subject {
        money: euro,
        ..good()
    };
    assert_eq!(told(euro), is("currency-matches", "fail"));
}

#[test]
fn a_configured_check_has_each_of_the_verdicts() {
    let known = customer();
    for otherwise in ["skip", "fail", "postpone"] {
        let small = [text("amountMinor <= minor(\"50.00\")", otherwise)];
        let told = found(&small, &subject(Some(&known)));
        assert_eq!(told, ("small".to_owned(), otherwise.to_owned()));
    }
    let fine = [text("customer.currency == \"DKK\" && declines < 3", "fail")];
    assert_eq!(found(&fine, &subject(Some(&known))).1, "continue");
    let pause = CheckText {
        pause: Some("2h".into()),
        ..text("now < createdAt", "postpone")
    };
    let finding = Chain::read(&[pause]).unwrap().find(&subject(Some(&known)));
    assert_eq!(finding.verdict, Verdict::Postpone(Duration::from_hours(2)));
    assert_eq!(finding.reason, "too large to charge at night");
}

#[test]
fn what_cannot_be_judged_is_not_charged_and_comes_again() {
    let known = customer();
    let broken = [text("customer.colour == \"red\"", "skip")];
    let finding = Chain::read(&broken).unwrap().find(&subject(Some(&known)));
    assert!(
        matches!(finding.verdict, Verdict::Postpone(_)),
        "{finding:?}"
    );
    assert!(finding.reason.contains("colour"), "{}", finding.reason);
}

#[test]
fn a_check_that_makes_no_sense_is_refused_by_its_name_and_part() {
    let table = [
        (text("amountMinor", "skip"), "require"),
        (text("debtor == 1", "skip"), "require"),
        (text("1 +", "skip"), "require"),
        (text("true", "explode"), "otherwise"),
        (
            CheckText {
                pause: Some("1d".into()),
                ..text("true", "skip")
            },
            "pause",
        ),
        (
            CheckText {
                pause: Some("soon".into()),
                ..text("true", "postpone")
            },
            "pause",
        ),
        (
            CheckText {
                message: " ".into(),
                ..text("true", "skip")
            },
            "message",
        ),
        (
            CheckText {
                name: "not-paid".into(),
                ..text("true", "skip")
            },
            "two checks",
        ),
        (
            CheckText {
                name: "a b".into(),
                ..text("true", "skip")
            },
            "a b",
        ),
    ];
    for (check, part) in table {
        let why = Chain::read(std::slice::from_ref(&check)).unwrap_err();
        assert!(why.contains(&check.name) && why.contains(part), "{why}");
    }
}
