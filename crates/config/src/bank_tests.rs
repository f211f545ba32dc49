//! What a configuration may say about its banks, and what it may not.

use std::path::Path;

use tollgate_core::marker::Marker;
use tollgate_downstream::SHIPPED;

use super::tests::with;
use super::{DEFAULT, NamedBank};

#[test]
fn every_shipped_description_is_named_where_people_look_for_one() {
    let page = include_str!("../../../docs/connect-a-bank.md");
    for (name, _) in SHIPPED {
        let (quoted, code) = (format!("\"{name}\""), format!("`{name}`"));
        assert!(
            DEFAULT.contains(&quoted),
            "default.toml does not name {name}"
        );
        assert!(
            page.contains(&code),
            "connect-a-bank.md does not name {name}"
        );
    }
}

#[test]
fn each_contradiction_of_a_bank_names_its_key() {
    let bank = |text: &str| format!("[downstream.payments]\n{text}");
    let gateway = |text: &str| {
        format!("[downstream.gateways.acme]\nurl = \"http://acme\"\nlane = \"a\"\n{text}")
    };
    let table = [
        ("timeout_ms = 0", "timeout_ms must be at least 1"),
        ("timeout_ms = 60000", "gate.patience_secs"),
        ("timeout_ms = 9223372036854775807", "timeout_ms"),
        ("timeout_ms = -1", "timeout_ms"),
        ("max_connections = 0", "max_connections"),
        ("canary = 101", "canary must be at most 100"),
        ("streak = 26", "streak must be at most 25"),
        ("key_retention_secs = 5", "key_retention_secs"),
        ("key_retention_secs = 0", "key_retention_secs"),
        (
            "honours_idempotency_key = false\nsettle_secs = 0",
            "settle_secs",
        ),
        ("means_not_done = [200]", "means_not_done: 200"),
        ("means_not_done = [429, 302]", "means_not_done: 302"),
        ("means_not_done = [429, 408]", "means_not_done: 408"),
        ("means_not_done = [504]", "means_not_done: 504"),
        ("means_not_done = [999]", "means_not_done: 999"),
        ("recognised_by = \"json\"", "recognised_by: unknown marker"),
        ("recognised_by = 5", "recognised_by"),
        (
            "recognised_by = \"header:a b\"",
            "recognised_by: \"a b\" is not the name of a header",
        ),
        ("lane = \"\"", "lane"),
        ("lane = \"a b\"", "lane"),
        ("headers = \"secret\"", "headers: must be text"),
        (
            "headers = {\"X-Key\" = 5318008}",
            "headers.X-Key: must be text",
        ),
        ("colour = 1", "colour"),
    ];
    for (text, key) in table {
        let twice = text.starts_with("lane");
        let said = with(&bank(text)).unwrap_err().to_string();
        assert!(
            said.contains(key) && said.contains("downstream.payments"),
            "{text}: {said}"
        );
        let said = with(&gateway(text)).unwrap_err().to_string();
        let named = said.contains("downstream.gateways.acme");
        assert!(twice || (said.contains(key) && named), "{text}: {said}");
        assert!(
            !said.contains("secret") && !said.contains("5318008"),
            "{said}"
        );
    }
    for fine in [
        "honours_idempotency_key = false\nkey_retention_secs = 9",
        "means_not_done = [425, 503]",
        "settle_secs = 0",
        "recognised_by = \"any body\"",
        "recognised_by = \"content-type:application/problem+json\"",
        "canary = 0\nstreak = 0\nremembers_refusals = false",
    ] {
        with(&bank(fine)).unwrap();
        with(&gateway(fine)).unwrap();
    }
}

#[test]
fn a_gateway_needs_a_name_a_place_and_a_lane_of_its_own() {
    let full = "url = \"http://x\"\nlane = \"a\"";
    let table = [
        (
            "[downstream.gateways.acme]\nlane = \"a\"".to_owned(),
            "downstream.gateways.acme.url is missing",
        ),
        (
            "[downstream.gateways.acme]\nurl = \"http://x\"".to_owned(),
            "downstream.gateways.acme.lane is missing",
        ),
        (
            format!("[downstream.gateways.default]\n{full}"),
            "downstream.gateways.default: \"default\" is reserved for",
        ),
        (
            format!("[downstream.gateways.payments]\n{full}"),
            "choose another name",
        ),
        (
            format!("[downstream.gateways.\"a b\"]\n{full}"),
            "a gateway's name may only contain",
        ),
        (
            format!("[downstream.gateways.{}]\n{full}", "x".repeat(65)),
            "at most 64",
        ),
        (
            format!("[downstream.gateways.acme]\n{full}\n[downstream.gateways.Acme]\n{full}"),
            "Acme and acme differ only in",
        ),
        (
            format!("[downstream.gateways.acme]\n{full}\n[downstream.gateways.acme]\n{full}"),
            "duplicate key",
        ),
    ];
    for (text, why) in table {
        let said = with(&text).unwrap_err().to_string();
        assert!(said.contains(why), "{text}: {said}");
        assert_eq!(said.lines().count(), 1);
    }
}

#[test]
fn a_gateway_inherits_the_promises_and_no_secret() {
    let config = with(
        "[downstream.payments]\nsettle_secs = 7\nrecognised_by = \"field:code\"\nmeans_not_done = [429, 503]\nroot_certificates = \"r.pem\"\nheaders = {Authorization = \"hunter2\"}\n[downstream.gateways.acme]\nurl = \"https://acme\"\nlane = \"a\"\ntimeout_ms = 5000\n[downstream.gateways.near]\nurl = \"http://near\"\nlane = \"n\"\n",
    )
    .unwrap();
    let banks = config.downstream.banks().unwrap();
    let names: Vec<_> = banks.iter().map(|bank| bank.name.as_str()).collect();
    assert_eq!(names, ["payments", "acme", "near"]);
    let acme = &banks[1].bank;
    assert_eq!(
        (acme.timeout_ms, acme.settle_secs, acme.max_connections),
        (5000, 7, 512)
    );
    assert_eq!(acme.means_not_done, [429, 503]);
    let by_code = Marker::Field("code".to_owned());
    assert_eq!(acme.profile().recognised_by, by_code);
    let provider = config.downstream.provider().unwrap().bank;
    assert_eq!(provider.profile().recognised_by, Marker::Contract);
    assert_eq!(acme.root_certificates.as_deref(), Some(Path::new("r.pem")));
    assert_eq!(
        banks[2].bank.root_certificates, None,
        "of no use without TLS"
    );
    assert!(
        acme.headers.is_empty(),
        "one bank's token is not for another"
    );
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_description_makes_the_promises_that_nobody_else_has_made() {
    let config = with(
        "[downstream.payments]\ndescription = \"stripe-transfers\"\nsettle_secs = 7\n[downstream.gateways.pay]\nurl = \"http://pay\"\nlane = \"p\"\ndescription = \"paypal-payouts\"\nremembers_refusals = false\n[downstream.gateways.two]\nurl = \"http://two\"\nlane = \"t\"\n",
    )
    .unwrap();
    let banks = config.downstream.banks().unwrap();
    let promises = |n: usize| {
        let bank = &banks[n].bank;
        let NamedBank { description, .. } = &banks[n];
        (
            description.title.as_str(),
            bank.key_retention_secs,
            bank.settle_secs,
            bank.remembers_refusals,
        )
    };
    assert_eq!(promises(0), ("Stripe Transfers", 86_400, 7, true));
    assert_eq!(promises(1), ("PayPal Payouts", 2_592_000, 60, false));
    assert_eq!(promises(2), ("Stripe Transfers", 86_400, 7, true));
}

#[test]
fn a_description_that_cannot_be_used_stops_the_start_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bank.toml");
    let shipped = tollgate_downstream::Description::shipped("stripe-transfers").unwrap();
    std::fs::write(&file, shipped.replace("{amountMinor}", "{amountCents}")).unwrap();
    let of =
        |name: &str, more: &str| format!("[downstream.payments]\ndescription = {name:?}\n{more}");
    let file = file.display().to_string();
    let table = [
        (of("stripe", ""), "neither a file that can be read"),
        (
            of(&file, ""),
            "bank.toml: line 21: send.form.amount: has an unknown name \"amountCents\"",
        ),
        (of("contract-invoices", ""), "is a description for Invoices"),
        (
            of("paypal-payouts", "honours_idempotency_key = false"),
            "the description has no [probe]",
        ),
        (of("berlin-group", ""), "ask the bank whether it recognises"),
        (
            of("berlin-group", "honours_idempotency_key = true"),
            "key_retention_secs",
        ),
        (
            of("berlin-group", "honours_idempotency_key = false"),
            "the description has no [probe]",
        ),
    ];
    for (text, why) in table {
        let said = format!("{:#}", with(&text).unwrap_err());
        assert!(said.contains(why), "{text}: {said}");
        assert!(said.contains("downstream.payments") && said.lines().count() == 1);
    }
    let answered = "honours_idempotency_key = true\nkey_retention_secs = 3600";
    let config = with(&of("berlin-group", answered)).unwrap();
    let bank = config.downstream.banks().unwrap().remove(0).bank;
    assert_eq!(bank.key_retention_secs, 3600);
}

#[test]
fn a_sandbox_gets_everything_and_no_token() {
    let mut config = with(
        "[downstream.payments]\nurl = \"https://real\"\nheaders = {A = \"t\"}\nroot_certificates = \"r\"\nrecognised_by = \"field:code\"\n[downstream.gateways.acme]\nurl = \"https://acme\"\nlane = \"a\"\nheaders = {A = \"t\"}\nroot_certificates = \"r\"\nrecognised_by = \"header:x\"\n",
    )
    .unwrap();
    config.downstream.send_all_to("http://sandbox");
    for NamedBank { bank, .. } in config.downstream.banks().unwrap() {
        assert_eq!(bank.url, "http://sandbox");
        assert!(bank.headers.is_empty() && bank.root_certificates.is_none());
        assert_eq!(
            bank.recognised_by,
            Marker::Contract,
            "as the sandbox answers"
        );
    }
}
