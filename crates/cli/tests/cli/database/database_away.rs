//! The database cannot be reached for long: the process stays up, clients are told to come back,
//! nothing is acknowledged that is not committed, the server is not stormed with connections, and
//! the rate is back within seconds.

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres::shared;
use tollgate_sandbox::{Bank, BankOptions, worst_second};

use crate::database::database_trouble::{payment, posted};
use crate::fixture::cable::{Cable, State};
use crate::fixture::http::{get, post};
use crate::fixture::served::{Setting, eventually};
use crate::money::kill_storm::MEASURED_ALONE;

/// Low enough that an unoptimised build on a busy machine keeps to its turns.
const LIMIT: u32 = 50;
/// Accepted before, while the lane is paused: a backlog that takes seconds at the full rate.
const BEFORE: usize = 400;
const RATE_IS_BACK_WITHIN: Duration = Duration::from_secs(10);
/// Everything in the process that looks for the database together tries at most so often.
const MOST_CONNECTIONS_A_SECOND: u128 = 5;
const FIRST_TRIES: Duration = Duration::from_secs(1);

/// In CI seconds; a minute and more in soaks.
fn away() -> Duration {
    let secs = std::env::var("TGTEST_AWAY_SECS").ok();
    Duration::from_secs(secs.map_or(10, |secs| secs.parse().unwrap()))
}

/// Posts from several clients at once; answers which ids were acknowledged.
fn post_all(address: SocketAddr, prefix: &str, count: usize) -> Vec<String> {
    const CLIENTS: usize = 8;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let ids = (client..count).step_by(CLIENTS);
            let ids: Vec<String> = ids.map(|n| format!("{prefix}-{n}")).collect();
            std::thread::spawn(move || {
                let accepted = ids.into_iter().filter(|id| posted(address, id) == 201);
                accepted.collect::<Vec<_>>()
            })
        })
        .collect();
    let accepted = clients.into_iter().flat_map(|c| c.join().unwrap());
    accepted.collect()
}

struct Place {
    bank: Bank,
    cable: Cable,
    setting: Setting,
}

impl Place {
    async fn new() -> Self {
        let url = shared().database().await;
        let rest = url.strip_prefix("postgres://postgres@").unwrap();
        let (server, database) = rest.split_once('/').unwrap();
        let cable = Cable::to(server.to_owned());
        let bank = Bank::start(BankOptions {
            limit_per_second: Some(LIMIT),
            ..BankOptions::default()
        })
        .unwrap();
        let url = format!("postgres://postgres@{}/{database}", cable.address);
        let setting = Setting::on(&url, &bank, "gate.margin = 0.1\n");
        Self {
            bank,
            cable,
            setting,
        }
    }

    /// The fullest second since then, by the bank's ledger.
    fn best_second_since(&self, then: Duration) -> usize {
        let entries = self.bank.ledger().entries();
        let mut since: Vec<_> = entries.iter().map(|e| e.arrival).collect();
        since.retain(|arrival| *arrival > then);
        since.sort();
        worst_second(&since).count
    }

    fn now(&self) -> Duration {
        self.bank.ledger().wall_anchor().elapsed().unwrap()
    }
}

fn change(address: SocketAddr, path: &str, body: &Value) {
    let answer = post(address, path, body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn away_and_back(state: State, meanwhile: impl Fn(SocketAddr, usize)) {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let place = runtime.block_on(Place::new());
    let server = place.setting.start("127.0.0.1:0");
    let address = server.address;
    let limit = json!({"configName": "default", "maxPerWindow": LIMIT * 4, "windowSizeSecs": 4, "maxPerSecond": LIMIT});
    change(address, "/admin/rate-limit/config", &limit);
    let because = json!({"reason": "a backlog is wanted"});
    change(address, "/admin/lanes/default/pause", &because);
    let mut accepted = post_all(address, "before", BEFORE);
    assert_eq!(accepted.len(), BEFORE);
    change(address, "/admin/lanes/default/resume", &because);
    let ledger = place.bank.ledger();
    runtime.block_on(ledger.wait_for_arrivals(BEFORE / 2));
    let usual = place.best_second_since(Duration::ZERO);
    assert!(
        usual * 10 >= LIMIT as usize * 5,
        "{usual} a second before anything was wrong"
    );

    place.cable.set(state);
    let gone = place.now();
    let mut tried = None;
    for round in 0.. {
        let gone_for = place.now().saturating_sub(gone);
        if gone_for >= away() {
            break;
        }
        // Whoever was waiting for a connection when the cable was cut tries once.
        if gone_for >= FIRST_TRIES {
            tried.get_or_insert_with(|| place.cable.connections());
        }
        meanwhile(address, round);
        let live = get(address, "/health/live").unwrap();
        assert_eq!(live.status, 200, "the process stays up");
    }
    let back = place.now();
    let tried = place.cable.connections() - tried.unwrap();
    let watched = back.saturating_sub(gone + FIRST_TRIES);
    let landed = ledger.arrivals();
    println!("{state:?}: {tried} connections in {watched:?}, {landed} had landed");
    let most = watched.as_millis() * MOST_CONNECTIONS_A_SECOND / 1000;
    assert!(tried as u128 <= most, "{tried} in {watched:?}");

    place.cable.set(State::Whole);
    // What this build manages on this machine is what it is to come back to.
    let full = usual * 85 / 100;
    eventually("the rate is back", RATE_IS_BACK_WITHIN, || {
        (place.best_second_since(back) >= full).then_some(())
    });
    println!("rate back after {:?}", place.now().saturating_sub(back));
    accepted.extend(post_all(address, "after", 20));
    assert_eq!(accepted.len(), BEFORE + 20);
    eventually(
        "all that was accepted has landed",
        Duration::from_mins(1),
        || {
            let effective = ledger.effective();
            accepted
                .iter()
                .all(|id| effective.contains_key(id))
                .then_some(())
        },
    );
    assert!(ledger.doubles().is_empty(), "MONEY: paid twice");
    let worst = ledger.worst_second();
    assert!(worst.count <= LIMIT as usize, "{worst:?}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_database_that_refuses_for_long() {
    let is_unknown = Cell::new(false);
    away_and_back(State::Cut, |address, round| {
        // What needs a person is not known, and the console does not look as if nothing did. A look is good for a second.
        let page = get(address, "/console/handbook/stop-everything").unwrap();
        is_unknown.set(is_unknown.get() || page.text.contains("data-count>?<"));
        if is_unknown.get() {
            assert!(page.text.contains("<title>(?) "), "{}", page.text);
            assert_eq!(get(address, "/admin/needs-you").unwrap().status, 503);
            let first = get(address, "/").unwrap();
            assert!(
                !first.text.contains("Nothing needs attention"),
                "{}",
                first.text
            );
        }
        let answer = post(address, "/payments", &payment(&format!("during-{round}"))).unwrap();
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.head.contains("retry-after"), "{}", answer.head);
        let ready = get(address, "/health/ready").unwrap();
        let error = "the store cannot be reached; see the log";
        assert_eq!((ready.status, &ready.body["error"]), (503, &error.into()));
    });
    assert!(is_unknown.get(), "the menu shows a question mark");
}

#[test]
fn a_network_that_swallows_everything_for_long() {
    away_and_back(State::Silent, |_, _| {
        // Whoever asks for more than whether it lives waits for the network to come back.
        std::thread::sleep(Duration::from_millis(50));
    });
}
