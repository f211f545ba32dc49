//! A job that is killed with -9 in the middle, again and again, and goes on to its end: each item exactly once. Small by
//! default; `TGTEST_JOB_ITEMS` makes it large. The judge is the store's audit log.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::footing::{LONG, database};
use crate::fixture::http::get;
use crate::fixture::served::{Setting, eventually_or};
use crate::people::jobs::{ended, import_held, preview, shown, start};

/// Held within a second of being late, and worked off as fast as the store can.
const QUICK: &str = "sweep.interval_secs = 1\njobs.max_per_second = 10000\n";

#[test]
fn kill_9_in_the_middle_of_a_job_acts_on_each_item_once() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    killed_in_the_middle(&Setting::new(&bank, QUICK));
}

#[test]
fn kill_9_in_the_middle_of_a_job_acts_on_each_item_once_on_postgresql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    killed_in_the_middle(&Setting::on(&database(), &bank, QUICK));
}

fn items() -> usize {
    let asked = std::env::var("TGTEST_JOB_ITEMS").ok();
    asked.map_or(2000, |items| items.parse().unwrap())
}

fn killed_in_the_middle(setting: &Setting) {
    let count = items();
    let server = setting.start("127.0.0.1:0");
    let address = server.address;
    import_held(address, count);
    let wish = json!({"act": "cancel", "filter": {"held": true, "lane": "default"}});
    let previewed = timed("preview", || preview(address, &wish));
    let total = format!("{}.{}0", count * 1255 / 10, count * 1255 % 10);
    assert_eq!(previewed["amounts"], json!({"USD": total}));
    assert_eq!(previewed["first"][0]["queueStatus"], "HELD");
    let job = timed("start", || start(address, &wish));
    let mut server = Some(server);
    let mut kills = 0;
    for share in [4, 2] {
        let at = (count / share) as u64;
        let patience = LONG * u32::try_from(2 + count / 5000).unwrap();
        eventually_or("it is under way", patience, || {
            let shown = shown(address, &job);
            let is_there = shown["done"].as_u64() >= Some(at);
            is_there.then_some(()).ok_or_else(|| shown.to_string())
        });
        kills += usize::from(shown(address, &job)["state"] == "RUNNING");
        server.take().unwrap().kill();
        server = Some(setting.start(&address.to_string()));
    }
    assert!(kills > 0, "a kill must strike in the middle");
    let view = ended(address, &job);
    println!(
        "{count} items, killed {kills} times: {} a second",
        view["rate"]
    );
    assert_eq!(view["done"], count, "{view}");
    assert_eq!(view["leftOut"], 0);
    each_once(address, &job, count);
    let left_out = format!("/admin/jobs/{job}/items?leftOut=true");
    assert_eq!(get(address, &left_out).unwrap().body["items"], json!([]));
    let started = entries(address, "JOB_STARTED");
    assert_eq!(started.values().sum::<usize>(), 1, "one entry for the job");
    let ended = entries(address, "JOB_ENDED");
    assert_eq!(ended.values().sum::<usize>(), 1, "and one for its end");
}

/// In the audit log, and among the results of the job.
fn each_once(address: SocketAddr, job: &str, count: usize) {
    let cancelled = entries(address, "CANCELLED");
    assert_eq!(cancelled.len(), count);
    assert!(cancelled.values().all(|times| *times == 1), "each once");
    let (mut results, mut after) = (BTreeMap::new(), 0);
    loop {
        let path = format!("/admin/jobs/{job}/items?limit=1000&after={after}");
        let page = get(address, &path).unwrap().body;
        for item in page["items"].as_array().unwrap() {
            assert_eq!(item["done"], true, "{item}");
            *results.entry(item["id"].to_string()).or_insert(0) += 1;
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(results.len(), count);
    assert!(results.values().all(|times| *times == 1), "one result each");
}

/// How often the audit log has this action, by item.
fn entries(address: SocketAddr, action: &str) -> BTreeMap<String, usize> {
    let (mut found, mut after) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/admin/audit?action={action}&limit=1000{after}");
        let page = get(address, &path).unwrap().body;
        for entry in page["entries"].as_array().unwrap() {
            *found.entry(entry["item"].to_string()).or_default() += 1;
        }
        match &page["next"] {
            Value::Null => return found,
            next => after = format!("&after={next}"),
        }
    }
}

/// How long it took is printed, and judged by nobody here.
fn timed<T>(what: &str, act: impl FnOnce() -> T) -> T {
    #[expect(clippy::disallowed_methods, reason = "a caller's own watch")]
    let began = std::time::Instant::now();
    let done = act();
    println!("{what}: {:?}", began.elapsed());
    done
}
