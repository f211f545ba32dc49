//! What Temporal's own tools say of a status check, and do to it.

use serde_json::Value;
use tollgate_conformance::temporal::Namespace;
use tollgate_sandbox::{Kind, ServiceCall};

use crate::checks::status_checks::{LONG, ended, ids, of_kind, shown, started};
use crate::fixture::pair::Pair;
use crate::fixture::served::eventually;

/// While a gateway is asked its chunks count, one by one, as in the API; then the check is terminated.
pub(crate) fn a_check_says_how_far_it_is_and_stops_its_gateways(
    pair: &Pair,
    namespace: &Namespace,
) {
    pair.bank
        .set_faults("checks: latency 600ms".parse().unwrap());
    let check = started(pair.server.address, &ids("stripe", 200));
    let before = pair.bank.ledger().calls().len();
    let is_asking = |calls: &[ServiceCall]| of_kind(&calls[before..], Kind::Check).len() > 1;
    eventually("its gateway is asked", LONG, || {
        is_asking(&pair.bank.ledger().calls()).then_some(())
    });
    let progress = || Some(shown(pair.server.address, &check)?["progress"].clone());
    eventually("the query says what the API says", LONG, || {
        let before = progress()?;
        let is_amid = (1..40).contains(&before["chunksCompleted"].as_u64()?);
        let told = namespace.ask(&query(&check, "getProgress"))?;
        let says = says_all(&told, &before) || says_all(&told, &progress()?);
        (is_amid && says).then_some(())
    });
    let terminate = ["workflow", "terminate", "--workflow-id", &check];
    let because = ["--reason", "enough"];
    namespace.ask(&[&terminate[..], &because].concat()).unwrap();
    let gateway = format!("{check}-gateway-0");
    let describe = ["workflow", "describe", "--workflow-id", &gateway];
    eventually("its gateway's workflow is terminated", LONG, || {
        let told = namespace.ask(&[&describe[..], &["--output", "json"]].concat())?;
        told.contains("_TERMINATED").then_some(())
    });
    assert_eq!(ended(pair.server.address, &check)["status"], "FAILED");
}

fn query<'a>(flow: &'a str, question: &'a str) -> Vec<&'a str> {
    vec![
        "workflow",
        "query",
        "--workflow-id",
        flow,
        "--type",
        question,
    ]
}

fn says_all(told: &str, progress: &Value) -> bool {
    let told = told.replace([' ', '\n'], "");
    let says = |(name, value): (&String, &Value)| told.contains(&format!("\"{name}\":{value}"));
    progress.as_object().unwrap().iter().all(says)
}

/// By the names that its contract has for the questions, and as the API tells it.
pub(crate) fn assert_tells_its_progress(namespace: &Namespace, check: &str, progress: &Value) {
    let gateway = format!("{check}-gateway-0");
    for (flow, question, part) in [
        (check, "getProgress", "chunksCompleted"),
        (&*gateway, "getChunkProgress", "currentChunkIndex"),
    ] {
        let ask = query(flow, question);
        let told = eventually("it is answered", LONG, || namespace.ask(&ask));
        assert!(told.contains(part), "{question}: {told}");
        assert_eq!(
            says_all(&told, progress),
            flow == check,
            "{question}: {told}"
        );
    }
}
