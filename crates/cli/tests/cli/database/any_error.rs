//! The database fails in every way at every place: what was accepted is never lost, always seen, and paid once as
//! soon as the database recovers.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres::{count, sql};
use tollgate_core::Timestamp;

use crate::fixture::footing::{Footing, LONG, database, on_both_footings};
use crate::fixture::http::{get, post, post_async, post_raw};
use crate::fixture::pair::{Pair, pair_on, payment};
use crate::fixture::served::{eventually, eventually_or, shorten_leases};

on_both_footings!(an_error_while_a_payment_is_planned_loses_nothing);

/// One of each class that PostgreSQL may answer with and stay up: data, integrity, transaction state, conflict,
/// rights, resources, limits, state of an object, intervention, the system, itself, a trigger.
const CODES: [&str; 12] = [
    "22003", "23505", "25006", "40001", "42501", "53100", "54000", "55P03", "57014", "58030",
    "XX000", "P0001",
];
const POINTS: [&str; 5] = ["init", "admission", "claim", "turn", "settle"];

/// An item named in `fault` makes the statement at its point fail with its code. What was hit is counted by sequences,
/// which no rollback undoes.
const FAULTS: &str = r"
CREATE TABLE fault (item_id text PRIMARY KEY, point text NOT NULL, code text NOT NULL);
CREATE FUNCTION fail_at() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    wanted text;
    name text;
BEGIN
    IF TG_ARGV[0] = 'init' THEN
        name := substring(NEW.flow_id FROM 'init-payment-([^~]*)');
    ELSE
        name := NEW.item_id;
    END IF;
    SELECT code INTO wanted FROM fault WHERE item_id = name AND point = TG_ARGV[0];
    IF FOUND THEN
        PERFORM nextval(('hit_' || replace(name, '-', '_'))::regclass);
        RAISE EXCEPTION 'injected at %', TG_ARGV[0] USING ERRCODE = wanted;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER fail_at_init BEFORE INSERT ON flow FOR EACH ROW
    EXECUTE FUNCTION fail_at('init');
CREATE TRIGGER fail_at_admission BEFORE INSERT ON item_body FOR EACH ROW
    EXECUTE FUNCTION fail_at('admission');
CREATE TRIGGER fail_at_claim BEFORE UPDATE ON item_queue FOR EACH ROW
    WHEN (NEW.queue_status = 'CLAIMED' AND OLD.queue_status = 'READY')
    EXECUTE FUNCTION fail_at('claim');
CREATE TRIGGER fail_at_turn BEFORE INSERT ON attempt FOR EACH ROW
    EXECUTE FUNCTION fail_at('turn');
CREATE TRIGGER fail_at_settle BEFORE UPDATE ON attempt FOR EACH ROW
    WHEN (OLD.state = 'OPEN' AND NEW.state <> 'OPEN')
    EXECUTE FUNCTION fail_at('settle');
";

fn run(pair: &Pair, url: &str, statements: &str) {
    pair.runtime.block_on(sql(url, statements));
}

fn plant(pair: &Pair, url: &str, id: &str, point: &str, code: &str) {
    let hits = id.replace('-', "_");
    let fault = format!(
        "CREATE SEQUENCE IF NOT EXISTS hit_{hits}; INSERT INTO fault VALUES ('{id}', '{point}', '{code}');"
    );
    run(pair, url, &fault);
}

/// Waits until the fault was met.
fn hit(pair: &Pair, url: &str, id: &str) {
    let question = format!(
        "SELECT count(*) FROM pg_sequences WHERE sequencename = 'hit_{}' AND last_value IS NOT NULL",
        id.replace('-', "_")
    );
    eventually(&format!("{id} meets its fault"), LONG, || {
        let hits = pair.runtime.block_on(count(url, &question));
        (hits > 0).then_some(())
    });
}

fn shown(address: SocketAddr, id: &str) -> Value {
    let answer = get(address, &format!("/payments/{id}")).unwrap();
    assert_eq!(answer.status, 200, "{id}: {}", answer.text);
    answer.body
}

fn listed(address: SocketAddr, status: &str) -> Vec<String> {
    let answer = get(address, &format!("/payments?limit=1000&status={status}")).unwrap();
    let lines = answer.body["payments"].as_array().unwrap().clone();
    let id = |line: &Value| line["paymentId"].as_str().unwrap().to_owned();
    lines.iter().map(id).collect()
}

/// How many payments the control totals hold in a status; in all without one.
fn total(address: SocketAddr, status: Option<&str>) -> u64 {
    let totals = get(address, "/admin/totals").unwrap().body;
    let buckets = totals["payments"].as_array().unwrap().iter();
    buckets
        .filter(|bucket| status.is_none_or(|status| bucket["status"] == status))
        .map(|bucket| bucket["count"].as_u64().unwrap())
        .sum()
}

fn paid_once(pair: &Pair, ids: &[String]) {
    eventually_or("all are paid", LONG, || {
        let effects = pair.bank.ledger().effective();
        let missing: Vec<_> = ids.iter().filter(|id| !effects.contains_key(*id)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(format!("{missing:?}"))
    });
    for id in ids {
        eventually_or(&format!("{id} ends"), LONG, || {
            let told = shown(pair.server.address, id);
            if told["status"] == "PROCESSING" {
                return Ok(());
            }
            Err(told.to_string())
        });
    }
    let effects = pair.bank.ledger().effective();
    let once = effects.values().all(|times| *times == 1);
    assert!(once, "MONEY: paid twice: {effects:?}");
    assert_eq!(effects.len(), ids.len());
}

/// A lane for every case whose failure would take those beside it along.
fn lanes() -> Vec<String> {
    let names = CODES.iter().map(|code| code.to_lowercase());
    names
        .flat_map(|code| ["claim", "turn"].map(|point| format!("{point}-{code}")))
        .collect()
}

#[test]
fn any_error_at_any_place_loses_nothing_is_seen_and_all_are_paid_once() {
    let url = database();
    let gateways: String = {
        let bank = "http://127.0.0.1:9";
        let gateway = |name: String| {
            format!(
                "[downstream.gateways.{name}]\nurl = \"{bank}\"\nlane = \"{name}\"\n[lanes.{name}]\nmax_per_window = 100\nwindow_size_secs = 4\n"
            )
        };
        lanes().into_iter().map(gateway).collect()
    };
    // Filled in when the bank's address is known.
    let pair = crate::fixture::pair::paired(|bank| {
        let gateways = gateways.replace("http://127.0.0.1:9", &bank.url());
        crate::fixture::served::Setting::on(
            &url,
            bank,
            &format!("sweep.interval_secs = 1\n{gateways}"),
        )
    });
    let address = pair.server.address;
    shorten_leases(address, "PAYMENT");
    run(&pair, &url, FAULTS);
    // The bank is known to accept payments: without that the gate lets five through, until one is answered.
    let first = "first".to_owned();
    assert_eq!(
        post(address, "/payments", &payment(&first)).unwrap().status,
        201
    );
    paid_once(&pair, std::slice::from_ref(&first));
    let mut ids = vec![];
    for point in POINTS {
        for code in CODES {
            let id = format!("{point}-{}", code.to_lowercase());
            plant(&pair, &url, &id, point, code);
            let mut asked = payment(&id);
            if matches!(point, "claim" | "turn") {
                asked["gateway"] = json!(id);
            }
            let answer = post_async(address, "/payments", &asked).unwrap();
            assert_eq!(answer.status, 202, "{id}: {}", answer.text);
            ids.push(id);
        }
    }
    for id in &ids {
        hit(&pair, &url, id);
        shown(address, id);
    }
    ids.push(first);
    assert_eq!(total(address, None), ids.len() as u64, "each in one bucket");
    let waiting = listed(address, "INITIALIZING");
    for id in ids
        .iter()
        .filter(|id| id.starts_with("init-") || id.starts_with("admission-"))
    {
        assert!(waiting.contains(id), "{id} is not in {waiting:?}");
        let told = shown(address, id);
        assert_eq!(told["status"], "INITIALIZING", "{told}");
        let code = id.rsplit('-').next().unwrap().to_uppercase();
        eventually(&format!("{id} says why"), LONG, || {
            let why = shown(address, id)["whyNotRunning"].as_str()?.to_owned();
            (why.contains(&code) && why.contains("next attempt at")).then_some(())
        });
    }
    assert_eq!(total(address, Some("INITIALIZING")), 2 * CODES.len() as u64);
    assert!(get(address, "/metrics").unwrap().text.lines().any(|line| {
        let failures = line.strip_prefix("tollgate_intake_failures_total{what=\"request\"} ");
        failures.is_some_and(|count| count.parse::<u64>().unwrap() >= 24)
    }));
    run(&pair, &url, "DELETE FROM fault");
    paid_once(&pair, &ids);
    assert_eq!(total(address, Some("PROCESSING")), ids.len() as u64);
    assert_eq!(total(address, None), ids.len() as u64);
}

/// What the alert `AcceptedNotPlanned` goes by.
fn gauges_show_what_is_not_planned(address: SocketAddr) {
    let wanted = [
        "tollgate_unplanned{what=\"request\"} 2",
        "tollgate_unplanned{what=\"line\"} 1",
    ];
    eventually_or("the gauges show it", LONG, || {
        let metrics = get(address, "/metrics").unwrap().text;
        let lines: Vec<&str> = metrics.lines().collect();
        let is_shown = wanted.iter().all(|line| lines.contains(line));
        let is_above_0 = |name: &str| {
            let value = lines.iter().find_map(|line| line.strip_prefix(name));
            value.is_some_and(|value| value.trim().parse::<f64>().unwrap() > 0.0)
        };
        let fails = is_above_0("tollgate_unplanned_failing ");
        if is_shown && fails && is_above_0("tollgate_unplanned_oldest_seconds ") {
            return Ok(());
        }
        let shown = lines.iter().filter(|line| line.contains("_unplanned"));
        Err(shown.copied().collect::<Vec<_>>().join("; "))
    });
}

fn an_error_while_a_payment_is_planned_loses_nothing(footing: &Footing) {
    let url = database();
    let pair = footing.pair_on(&url, "");
    run(&pair, &url, FAULTS);
    for id in REFUSED_IDS {
        plant(&pair, &url, id, "admission", "42501");
    }
    holds_on_until_the_fault_is_gone(&pair, || run(&pair, &url, "DELETE FROM fault"));
}

#[test]
fn an_error_while_a_payment_is_planned_loses_nothing_on_sqlite() {
    let pair = crate::fixture::pair::pair("");
    let file = rusqlite::Connection::open(pair.setting.folder.path().join("t.db")).unwrap();
    file.busy_timeout(LONG).unwrap();
    let ids = REFUSED_IDS.map(|id| format!("'{id}'")).join(", ");
    let fault = format!(
        "CREATE TRIGGER fault BEFORE INSERT ON item_body WHEN NEW.item_id IN ({ids})
         BEGIN SELECT RAISE(ABORT, 'injected as by 42501'); END"
    );
    file.execute_batch(&fault).unwrap();
    holds_on_until_the_fault_is_gone(&pair, || {
        file.execute_batch("DROP TRIGGER fault").unwrap();
    });
}

/// Their rows cannot be written.
const REFUSED_IDS: [&str; 4] = ["one", "two", "moved", "line"];

#[expect(
    clippy::too_many_lines,
    reason = "one fault and what people do meanwhile, read top down"
)]
fn holds_on_until_the_fault_is_gone(pair: &Pair, lift: impl FnOnce()) {
    let address = pair.server.address;
    for id in ["one", "two", "moved"] {
        let answer = post_async(address, "/payments", &payment(id)).unwrap();
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(answer.body["status"], "INITIALIZING");
    }
    let bulk = |file: &str| {
        let answer = post_raw(address, "/payments/bulk", "application/x-ndjson", file).unwrap();
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.body["batchId"].as_str().unwrap().to_owned()
    };
    let held_up = bulk(&payment("line").to_string());
    for id in ["one", "two"] {
        let told = eventually("it says why", LONG, || {
            let told = shown(address, id);
            let why = told["whyNotRunning"].as_str()?;
            why.contains("42501").then_some(told)
        });
        assert_eq!(told["status"], "INITIALIZING", "{told}");
    }
    // The same again is told the same, other content is refused, a person may end it.
    let again = post(address, "/payments", &payment("one")).unwrap();
    assert_eq!(again.status, 202, "{}", again.text);
    let mut other = payment("one");
    other["amount"] = json!("1.00");
    assert_eq!(post(address, "/payments", &other).unwrap().status, 409);
    let reason = json!({"reason": "not any more"});
    let cancelled = post(address, "/payments/two/cancel", &reason).unwrap();
    assert_eq!(cancelled.status, 200, "{}", cancelled.text);
    assert_eq!(cancelled.body["status"], "CANCELLED");
    assert_eq!(
        post(address, "/payments/two/cancel", &reason)
            .unwrap()
            .status,
        409
    );
    let again = post(address, "/payments", &payment("two")).unwrap();
    assert_eq!(
        (again.status, &again.body["status"]),
        (200, &json!("CANCELLED"))
    );
    let later = reschedule_within_bounds(address, "moved");
    assert_eq!(listed(address, "INITIALIZING"), ["moved", "one"]);
    assert_eq!(listed(address, "CANCELLED"), ["two"]);
    // Another file is not held up by the one that fails.
    let why = eventually("the file says why", LONG, || {
        let state = get(address, &format!("/payments/bulk/{held_up}"))
            .unwrap()
            .body;
        state["whyNotRunning"].as_str().map(str::to_owned)
    });
    assert!(
        why.contains("chunk 1 failed") && why.contains("42501"),
        "{why}"
    );
    let healthy = bulk(&payment("healthy").to_string());
    crate::files::bulk::done(address, &healthy);
    let log = pair.server.log();
    let says = |words: &[&str]| {
        let mut lines = log.iter();
        lines.any(|line| words.iter().all(|words| line.contains(words)))
    };
    let payment_failed = "an accepted payment could not be planned; it is tried again";
    assert!(says(&[payment_failed, "PAYMENT/one", "tries=", "42501"]));
    gauges_show_what_is_not_planned(address);
    let chunk_failed = "the chunk could not be processed; it is tried again";
    assert!(says(&[chunk_failed, &held_up, "tries=", "42501"]));

    lift();
    let state = crate::files::bulk::done(address, &held_up);
    assert_eq!(
        (&state["accepted"], &state["whyNotRunning"]),
        (&json!(1), &Value::Null)
    );
    paid_once(pair, &["one", "line", "healthy"].map(str::to_owned));
    let again = post(address, "/payments", &payment("one")).unwrap();
    assert_eq!(
        (again.status, &again.body["status"]),
        (200, &json!("PROCESSING"))
    );
    assert_eq!(shown(address, "two")["status"], "CANCELLED");
    let moved = eventually("it is planned", LONG, || {
        let told = shown(address, "moved");
        (told["status"] == "SCHEDULED").then_some(told)
    });
    let slot = moved["scheduledTime"].as_str().unwrap();
    assert!(slot.parse::<Timestamp>().unwrap() >= later, "{moved}");
}

/// Of a payment that is not planned yet; the bounds are those of intake.
fn reschedule_within_bounds(address: SocketAddr, id: &str) -> Timestamp {
    let now = get(address, "/admin/now").unwrap().body["now"].clone();
    let now: Timestamp = now.as_str().unwrap().parse().unwrap();
    let path = format!("/payments/{id}/reschedule");
    let to = |time: &str| {
        let wish = json!({"executeAt": time, "reason": "later"});
        post(address, &path, &wish).unwrap()
    };
    let hours = |hours: u64| (now + Duration::from_hours(hours)).to_string();
    for wrong in ["tomorrow", "2001-01-01T00:00:00Z", &hours(24 * 401)] {
        let answer = to(wrong);
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text);
        assert!(
            answer.body["details"]["executeAt"].is_string(),
            "{}",
            answer.text
        );
    }
    let answer = to(&hours(2));
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.body["status"], "INITIALIZING");
    let told = answer.body["rescheduledTo"].as_str().unwrap();
    let told: Timestamp = told.parse().unwrap();
    assert_eq!(told, now + Duration::from_hours(2));
    told
}

#[test]
fn what_was_accepted_and_never_started_is_planned_after_a_crash() {
    let url = database();
    let pair = pair_on(&url, "");
    let address = pair.server.address;
    run(&pair, &url, FAULTS);
    plant(&pair, &url, "p", "init", "XX000");
    let answer = post_async(address, "/payments", &payment("p")).unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text);
    let Pair {
        runtime,
        bank,
        setting,
        server,
    } = pair;
    server.kill();
    runtime.block_on(sql(&url, "DELETE FROM fault"));
    let server = setting.start("127.0.0.1:0");
    let pair = Pair {
        runtime,
        bank,
        setting,
        server,
    };
    paid_once(&pair, &["p".to_owned()]);
}
