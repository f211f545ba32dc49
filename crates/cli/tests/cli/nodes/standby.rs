//! A leader and standbys on one PostgreSQL database. The bank honours no keys, so every send is a payment. The
//! judge is its ledger: nothing lost, nothing paid twice.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tollgate_conformance::postgres::{Cluster, count, shared};
use tollgate_conformance::wrong_clock::WrongClock;
use tollgate_sandbox::{Bank, BankOptions};

use crate::database::database_trouble::{payment, posted};
use crate::fixture::cable::{Cable, State};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::served::{BINARY, Served, Setting, eventually};

const LIMIT: u32 = 100;
/// For what is told a few seconds later.
const PATIENCE: Duration = Duration::from_secs(20);
/// The bank's own time for each answer: a handover always meets some that are awaited.
const FAULTS: &str = "sends: latency 100ms";

const EXTRA: &str =
    "downstream.payments.honours_idempotency_key = false\nsweep.interval_secs = 1\n";

pub(crate) struct Group {
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) database: String,
    pub(crate) bank: Bank,
    pub(crate) setting: Setting,
}

impl Group {
    pub(crate) fn new(extra: &str) -> Self {
        Self::on(shared(), extra)
    }

    pub(crate) fn on(cluster: &Cluster, extra: &str) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let database = runtime.block_on(cluster.database());
        let bank = {
            let _inside = runtime.enter();
            Bank::start(BankOptions {
                honours_keys: false,
                faults: FAULTS.parse().unwrap(),
                ..BankOptions::default()
            })
            .unwrap()
        };
        let extra = format!("{EXTRA}{extra}");
        let setting = Setting::among(&database, &bank, &extra);
        Self {
            runtime,
            database,
            bank,
            setting,
        }
    }

    /// The same with something else set.
    pub(crate) fn also(&self, extra: &str) -> Setting {
        let extra = format!("{EXTRA}{extra}");
        Setting::among(&self.database, &self.bank, &extra)
    }

    /// The same by another way to the database.
    pub(crate) fn through(&self, url: &str) -> Setting {
        Setting::among(url, &self.bank, EXTRA)
    }

    pub(crate) fn start(&self) -> Served {
        self.setting.start("127.0.0.1:0")
    }

    pub(crate) fn count(&self, question: &str) -> i64 {
        self.runtime.block_on(count(&self.database, question))
    }

    /// Every one of these has been paid, once.
    pub(crate) fn all_paid_once(&self, ids: &[String]) {
        let ledger = self.bank.ledger();
        let unfinished = "SELECT count(*) FROM item_queue WHERE finished_at IS NULL";
        eventually("all payments end", Duration::from_mins(2), || {
            assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
            (self.count(unfinished) == 0).then_some(())
        });
        let effective = ledger.effective();
        let lost: Vec<_> = ids
            .iter()
            .filter(|id| !effective.contains_key(*id))
            .collect();
        assert_eq!(lost, Vec::<&String>::new(), "MONEY: lost");
        assert_eq!(effective.len(), ids.len(), "payments nobody made");
    }

    /// Turns in the order in which they were taken never go back to an earlier epoch: at most one leader at
    /// any time.
    pub(crate) fn epochs_only_rise(&self) {
        let back = "SELECT count(*) FROM (
                 SELECT epoch, lag(epoch) OVER (ORDER BY attempt_id) AS before FROM attempt
                 WHERE attempt_id > 0) turns
             WHERE epoch < before OR epoch IS NULL";
        assert_eq!(self.count(back), 0, "two leaders at a time");
    }
}

pub(crate) fn role(address: SocketAddr) -> Option<String> {
    let ready = get(address, "/health/ready").ok()?;
    assert!(matches!(ready.status, 200 | 503), "{}", ready.text);
    Some(ready.body["role"].as_str()?.to_owned())
}

pub(crate) fn wait_for_role(server: &Served, wanted: &str) {
    let what = format!("{} is {wanted}", server.address);
    eventually(&what, Duration::from_secs(30), || {
        (role(server.address)? == wanted).then_some(())
    });
}

pub(crate) fn set_limit(address: SocketAddr, limit: u32) {
    let limit = json!({"configName": "default", "maxPerWindow": limit * 4, "windowSizeSecs": 4,
                       "maxPerSecond": limit, "reason": "a test"});
    let answer = post(address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Posts these from a few clients, at any of the addresses, until each is accepted.
pub(crate) fn post_all(addresses: &[SocketAddr], ids: &[String]) {
    const CLIENTS: usize = 8;
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for (number, id) in ids.iter().enumerate().skip(client).step_by(CLIENTS) {
                    let mut tries = number;
                    eventually("a payment is accepted", Duration::from_mins(1), || {
                        tries += 1;
                        let address = addresses[tries % addresses.len()];
                        matches!(posted(address, id), 200 | 201).then_some(())
                    });
                }
            });
        }
    });
}

pub(crate) fn ids(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number}"))
        .collect()
}

/// By the command, at either of them.
fn nodes_are_listed(leader: &Served, standby: &Served) {
    for asked in [leader, standby] {
        eventually("both are listed", Duration::from_secs(10), || {
            let server = format!("http://{}", asked.address);
            let mut command = Command::new(BINARY);
            let listed = command
                .args(["nodes", "list", "--server", &server])
                .output();
            let text = String::from_utf8(listed.unwrap().stdout).unwrap();
            let has = |address: &SocketAddr, role: &str| {
                let mut lines = text.lines();
                lines.any(|line| line.contains(&address.to_string()) && line.contains(role))
            };
            let both = has(&leader.address, "leader") && has(&standby.address, "standby");
            both.then_some(())
        });
    }
}

/// Whether the want of a standby is told to people.
fn tells_of_no_standby(server: &Served) -> bool {
    let told = get(server.address, "/admin/needs-you").unwrap().body;
    let needs = told["needs"].as_array().unwrap().clone();
    needs.iter().any(|need| need["kind"] == "no-standby")
}

#[test]
fn a_standby_serves_takes_over_from_a_killed_leader_and_hands_over_in_doubt_of_nothing() {
    let group = Group::new("");
    let leader = group.start();
    assert_eq!(role(leader.address).as_deref(), Some("leader"));
    eventually("it is told that nobody stands by", PATIENCE, || {
        tells_of_no_standby(&leader).then_some(())
    });
    let standby = group.start();
    assert_eq!(role(standby.address).as_deref(), Some("standby"));
    set_limit(standby.address, LIMIT);

    // Through the standby: its own engine never runs, and the answer is whole all the same.
    let mut all = ids("a", 100);
    post_all(&[standby.address], &all);
    // A file too: the leader takes it in.
    let file = ids("f", 50);
    let lines: Vec<_> = file.iter().map(|id| payment(id).to_string()).collect();
    let lines = lines.join("\n");
    let kind = "application/x-ndjson";
    let uploaded = post_raw(standby.address, "/payments/bulk", kind, &lines).unwrap();
    assert_eq!(uploaded.status, 202, "{}", uploaded.text);
    all.extend(file);
    nodes_are_listed(&leader, &standby);
    for asked in [&leader, &standby] {
        eventually("somebody stands by", PATIENCE, || {
            (!tells_of_no_standby(asked)).then_some(())
        });
    }
    let ledger = group.bank.ledger();
    group.runtime.block_on(ledger.wait_for_arrivals(20));
    leader.kill();
    let more = ids("b", 100);
    post_all(&[standby.address], &more);
    all.extend(more);
    wait_for_role(&standby, "leader");
    group.all_paid_once(&all);
    group.epochs_only_rise();

    // Another one stands by; the leader is told to stop in the middle of its work.
    let next = group.start();
    assert_eq!(role(next.address).as_deref(), Some("standby"));
    let unknown = "SELECT count(*) FROM attempt WHERE state = 'UNKNOWN'";
    let before = group.count(unknown);
    let more = ids("c", 200);
    post_all(&[standby.address, next.address], &more);
    all.extend(more);
    let landed = ledger.arrivals();
    group
        .runtime
        .block_on(ledger.wait_for_arrivals(landed + 10));
    assert_eq!(standby.stop(), Some(0));
    wait_for_role(&next, "leader");
    group.all_paid_once(&all);
    group.epochs_only_rise();
    assert_eq!(group.count(unknown), before, "put in doubt by a handover");
    assert_eq!(next.stop(), Some(0));
}

#[test]
fn a_leader_that_is_cut_off_from_the_database_is_taken_over_from_and_stands_by() {
    let group = Group::new("");
    let rest = group.database.strip_prefix("postgres://postgres@").unwrap();
    let (server, database) = rest.split_once('/').unwrap();
    let cable = Cable::to(server.to_owned());
    let through = format!("postgres://postgres@{}/{database}", cable.address);
    let leader = group.through(&through).start("127.0.0.1:0");
    let standby = group.start();
    set_limit(standby.address, LIMIT);
    let all = ids("a", 100);
    post_all(&[standby.address], &all);
    let ledger = group.bank.ledger();
    group.runtime.block_on(ledger.wait_for_arrivals(10));
    cable.set(State::Cut);
    wait_for_role(&standby, "leader");
    group.all_paid_once(&all);
    cable.set(State::Whole);
    wait_for_role(&leader, "standby");
    group.epochs_only_rise();
    // Its API is whole: what it takes in is sent by the other.
    post_all(&[leader.address], &ids("b", 5));
    assert_eq!(leader.stop(), Some(0));
    assert_eq!(standby.stop(), Some(0));
}

/// Set forward it takes over from nobody; set back it still takes over when the leader is silent.
#[test]
fn a_standby_whose_wall_clock_is_set_judges_the_leader_by_its_beats_alone() {
    let group = Group::new("");
    let leader = group.start();
    let clock = WrongClock::off_by("+0");
    let environment = clock.env();
    let environment: Vec<_> = environment.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let standby = Served::start_in(&environment, &group.setting.config("127.0.0.1:0"));
    assert_eq!(role(standby.address).as_deref(), Some("standby"));
    let pid = standby.pid();
    let shown =
        format!("SELECT coalesce(max(beat), 0) FROM node_process WHERE name LIKE '%/{pid}'");
    clock.jump_to("+1h");
    let before = group.count(&shown);
    eventually("it has looked often since", Duration::from_secs(30), || {
        (group.count(&shown) > before + 5).then_some(())
    });
    assert_eq!(role(standby.address).as_deref(), Some("standby"));
    assert_eq!(group.count("SELECT epoch FROM node"), 1, "taken over");
    // While it counts how long the leader has been silent: it has seen the last beat.
    leader.kill();
    let before = group.count(&shown);
    eventually("it has looked since", Duration::from_secs(30), || {
        (group.count(&shown) > before).then_some(())
    });
    clock.jump_to("-1h");
    wait_for_role(&standby, "leader");
    assert_eq!(standby.stop(), Some(0));
}
