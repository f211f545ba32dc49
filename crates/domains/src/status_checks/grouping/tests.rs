//! The rules of the contract, as tables.

use serde_json::json;

use super::*;

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}
fn numbered(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("pay_{n:03}")).collect()
}
fn found(pairs: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
    let owned =
        |(id, gateway): &(&str, Option<&str>)| ((*id).to_owned(), gateway.map(str::to_owned));
    pairs.iter().map(owned).collect()
}

#[test]
fn duplicates_are_dropped_and_the_first_place_is_kept() {
    let table: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&["a"], &["a"]),
        (&["b", "a", "b", "c", "a"], &["b", "a", "c"]),
        (&["a", "a", "a"], &["a"]),
    ];
    for (given, kept) in table {
        assert_eq!(without_duplicates(ids(given)), kept);
    }
}

#[test]
fn a_part_is_made_of_whole_batches() {
    let table: [(usize, usize, &[usize]); 6] = [
        (100, 10, &[100]),
        (450, 10, &[200, 200, 50]),
        (450, 7, &[196, 196, 58]),
        (450, 200, &[200, 200, 50]),
        (450, 300, &[300, 150]),
        (0, 10, &[]),
    ];
    for (count, batch, sizes) in table {
        let all = numbered(count);
        let parts: Vec<_> = parts(&all, batch).collect();
        let got: Vec<_> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(got, sizes, "{count} in batches of {batch}");
        assert_eq!(parts.concat(), all);
    }
}

#[test]
fn runs_of_a_gateways_flow_make_about_two_hundred_calls() {
    let table = [(5, 33), (1, 100), (99, 2), (199, 1), (500, 1)];
    for (chunk, chunks) in table {
        assert_eq!(chunks_per_run(chunk), chunks);
    }
}

/// The contract's own example.
#[test]
fn payments_are_grouped_by_gateway_and_cut_into_chunks() {
    let stripe = ["001", "005", "012", "015", "023", "027", "031"];
    let pairs = found(&[
        ("001", Some("stripe")),
        ("002", Some("adyen")),
        ("003", Some("adyen")),
        ("005", Some("stripe")),
        ("008", Some("adyen")),
        ("012", Some("stripe")),
        ("015", Some("stripe")),
        ("099", None),
        ("023", Some("stripe")),
        ("027", Some("stripe")),
        ("031", Some("stripe")),
    ]);
    let groups = group(pairs);
    let names: Vec<_> = groups.iter().map(|group| group.gateway.as_str()).collect();
    assert_eq!(names, ["stripe", "adyen"]);
    assert_eq!(groups[0].payment_ids, stripe);
    let chunks = groups[0].chunks(5);
    assert_eq!(chunks[0].payment_ids, stripe[..5]);
    assert_eq!(chunks[1].payment_ids, stripe[5..]);
    assert_eq!(groups[1].chunks(5).len(), 1);
    assert!(group(found(&[("a", None)])).is_empty());
}

#[test]
fn the_result_names_each_payment_once_by_what_came_of_it() {
    let chunk = |names: &[&str]| Chunk {
        gateway: "stripe".to_owned(),
        payment_ids: ids(names),
    };
    let failed = |id: &str| FailedPayment {
        payment_id: id.to_owned(),
        error: format!("no {id}"),
    };
    let mut result = CheckStatusResult::default();
    let asked = |failed| Some(ChunkOutcome::Asked { failed });
    result.add(0, chunk(&["a", "b"]), asked(vec![]));
    result.add(
        1,
        chunk(&["c", "d", "e"]),
        asked(vec![failed("c"), failed("e")]),
    );
    let down = ChunkOutcome::NotAnnounced {
        error: "down".to_owned(),
    };
    result.add(2, chunk(&["f", "g"]), Some(down));
    result.add(3, chunk(&["h"]), None);
    result.gateway_lookup_failed = ids(&["z"]);
    let expected = json!({
        "successful": {"stripe": ["a", "b", "d"]},
        "failed": {"stripe": [
            {"chunkIndex": 1, "paymentIds": ["c"], "error": "no c", "stage": "PGI"},
            {"chunkIndex": 1, "paymentIds": ["e"], "error": "no e", "stage": "PGI"},
            {"chunkIndex": 2, "paymentIds": ["f", "g"], "error": "down", "stage": "IDB"},
            {"chunkIndex": 3, "paymentIds": ["h"], "error": "not processed", "stage": "IDB"},
        ]},
        "gatewayLookupFailed": ["z"],
    });
    assert_eq!(serde_json::to_value(&result).unwrap(), expected);
}

#[test]
fn gateways_without_a_success_or_without_a_failure_are_not_named_there() {
    let one = || Chunk {
        gateway: "adyen".to_owned(),
        payment_ids: ids(&["a"]),
    };
    let failed = vec![FailedPayment {
        payment_id: "a".to_owned(),
        error: "no".to_owned(),
    }];
    let mut all_failed = CheckStatusResult::default();
    all_failed.add(0, one(), Some(ChunkOutcome::Asked { failed }));
    assert!(all_failed.successful.is_empty() && all_failed.failed.len() == 1);
    let mut all_well = CheckStatusResult::default();
    all_well.add(0, one(), Some(ChunkOutcome::Asked { failed: vec![] }));
    assert!(all_well.failed.is_empty() && all_well.successful.len() == 1);
}

#[test]
fn a_chunk_with_any_failure_has_failed() {
    let payment = FailedPayment {
        payment_id: "a".to_owned(),
        error: String::new(),
    };
    let error = String::new();
    assert!(ChunkOutcome::NotAnnounced { error }.has_failed());
    assert!(
        ChunkOutcome::Asked {
            failed: vec![payment]
        }
        .has_failed()
    );
    assert!(!ChunkOutcome::Asked { failed: vec![] }.has_failed());
}

#[test]
fn progress_is_written_as_the_contract_writes_it() {
    let mut view = CheckView {
        phase: CheckPhase::GatewayProcessing,
        total: 100,
        gateways: 3,
        chunks: 20,
        chunks_ended: 12,
        chunks_failed: 1,
        opened_at: tollgate_core::Timestamp::UNIX_EPOCH,
        end: None,
    };
    let shown = |view: &CheckView| serde_json::to_value(ProgressInfo::of(view)).unwrap();
    let expected = json!({"totalPayments": 100, "gatewaysIdentified": 3, "chunksTotal": 20,
        "chunksCompleted": 12, "chunksFailed": 1, "currentPhase": "GATEWAY_PROCESSING"});
    assert_eq!(shown(&view), expected);
    view.phase = CheckPhase::EsLookup;
    let early = json!({"totalPayments": 100, "gatewaysIdentified": 0, "chunksTotal": 0,
        "chunksCompleted": 0, "chunksFailed": 0, "currentPhase": "ES_LOOKUP"});
    assert_eq!(shown(&view), early, "half a plan is not shown");
}

#[test]
fn an_error_is_kept_on_one_line_and_bounded() {
    assert_eq!(kept("a\r\nb\0c"), "a  b c");
    assert_eq!(kept(&"é".repeat(5000)).chars().count(), MAX_ERROR_CHARS);
}
