//! The text of faults: what it may say, and what is said about a text that is wrong.

use tollgate_sandbox::{Faults, SpecError};

#[test]
fn a_spec_is_read_and_written_in_full() {
    let table = [
        ("send 3: reset after", "sends 3: reset after"),
        (
            "sends 10-20: 429 retry-after 2",
            "sends 10-20: 429 before retry-after 2",
        ),
        ("sends 7-: 401", "sends 7-: 401 before"),
        (
            "sends of payment pay:7: stall",
            "sends of payment pay:7: stall after",
        ),
        (
            "probe 2 of each payment: 404",
            "probes 2 of each payment: 404 before",
        ),
        ("1 in 50: half", "1 in 50 all: half after"),
        ("1 in 5 probes: garbage", "1 in 5 probes: garbage after"),
        (
            "1 in 5 sends 1-9 of payment x: wrong-id",
            "1 in 5 sends 1-9 of payment x: wrong-id after",
        ),
        ("send 2: stranger 404", "sends 2: stranger 404 after"),
        ("all: stranger 502 before", "all: stranger 502 before"),
        ("all: huge", "all: huge 8 after"),
        ("all: huge 64 before", "all: huge 64 before"),
        (
            "all: 503 before retry-after 30",
            "all: 503 before retry-after 30",
        ),
        ("probes: latency 2s", "probes: latency 2000ms"),
        ("sends: work 5m", "sends: work 300000ms"),
        ("sends: settle 20ms", "sends: settle 20ms"),
        ("all: forget-key 60s", "all: forget-key 60000ms"),
    ];
    for (text, canonical) in table {
        let faults: Faults = text.parse().unwrap();
        assert_eq!(faults.to_string(), format!("{canonical}\n"));
        assert_eq!(canonical.parse(), Ok(faults), "{canonical}");
    }
    let together = table.map(|(text, _)| text);
    let by_line: Faults = together.join(" # why\n\n").parse().unwrap();
    assert_eq!(together.join(";;").parse(), Ok(by_line));
    assert!("\n # nothing\n;".parse::<Faults>().unwrap().is_empty());
}

#[test]
fn a_wrong_spec_names_its_line_rule_and_field() {
    let table = [
        ("reset after", "rule", "WHICH: FAULT"),
        ("send 3:", "rule", "WHICH: FAULT"),
        ("sned 3: stall", "which", "\"sned\""),
        ("payment x: stall", "which", "\"payment\""),
        ("1 in 0 sends: stall", "1 in N", "\"0\""),
        ("1 in x: stall", "1 in N", "\"x\""),
        ("send 0: stall", "number", "\"0\""),
        ("sends 9-3: stall", "number", "ends before it begins"),
        ("sends 3-x: stall", "number", "\"x\""),
        ("sends of x: stall", "payment", "of payment ID"),
        ("sends 3 4: stall", "payment", "\"4\""),
        ("sends of payment x y: stall", "payment", "of payment ID"),
        ("sends: explode", "fault", "\"explode\""),
        ("sends: 200", "fault", "\"200\""),
        ("sends: 600", "fault", "\"600\""),
        ("sends: 429 after", "fault", "nothing was done"),
        ("sends: 429 retry-after soon", "retry-after", "\"soon\""),
        ("sends: reset retry-after 2", "fault", "behind reset"),
        ("sends: stranger", "stranger", "stranger 404"),
        ("sends: stranger 200", "fault", "\"200\""),
        (
            "sends: stranger 429 retry-after 2",
            "fault",
            "behind stranger",
        ),
        ("sends: stall after all", "fault", "\"all\""),
        ("sends: latency", "fault", "latency needs one TIME"),
        ("sends: latency 20", "latency", "\"20\""),
        ("sends: latency 2h", "latency", "\"2h\""),
        ("sends: settle 1441m", "settle", "up to a day"),
        ("sends: work -1s", "work", "\"-1s\""),
        (
            "sends: forget-key 99999999999999999999s",
            "forget-key",
            "up to a day",
        ),
        ("sends: huge 0", "huge", "\"0\""),
        ("sends: huge 2000", "huge", "1024"),
        ("probes: settle 1s", "fault", "for sends"),
    ];
    for (rule, field, part) in table {
        let text = format!("all: latency 1ms\nsend 1: 401; {rule}\n");
        let error: SpecError = text.parse::<Faults>().unwrap_err();
        assert_eq!(
            (error.line, error.rule.as_str(), error.field),
            (2, rule, field)
        );
        assert!(error.reason.contains(part), "{rule}: {error}");
    }
    let error = "sends: explode".parse::<Faults>().unwrap_err().to_string();
    assert!(
        error.starts_with("line 1, \"sends: explode\": fault: \"explode\" is none of"),
        "{error}"
    );
    let many = "all: stall\n".repeat(1_001).parse::<Faults>().unwrap_err();
    assert_eq!((many.line, many.field), (1_001, "rules"));
}
