//! Leaders and standbys under load, killed, stopped, woken and restarted, at a bank without keys. Small in CI;
//! `./dev soak` makes it large. Every run says its seed.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tollgate_conformance::postgres::{Cluster, sql};

use crate::database::database_trouble::posted;
use crate::fixture::http::get;
use crate::fixture::served::{Served, eventually};
use crate::money::kill_storm::MEASURED_ALONE;
use crate::nodes::standby::{Group, ids, post_all, role, set_limit, wait_for_role};
use crate::nodes::woken::act;

/// Sends resume so soon after a leader was killed.
const RESUMED_WITHIN: Duration = Duration::from_secs(5);

/// Payments of a round with signals: so many that it never runs out of them, however long a busy machine takes between two
/// signals. With 200 it did, and then nothing arrived.
const EACH: usize = 600;

fn read(name: &str, otherwise: usize) -> usize {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().unwrap())
}

fn random(what: &str) -> SmallRng {
    let seed = read("TGTEST_SEED", 20_261_117);
    println!("{what}: seed {seed}");
    SmallRng::seed_from_u64(seed as u64)
}

fn wait_for(group: &Group, more: usize) {
    let ledger = group.bank.ledger();
    let waiting = ledger.wait_for_arrivals(ledger.arrivals() + more);
    let waited = group
        .runtime
        .block_on(async { tokio::time::timeout(Duration::from_mins(1), waiting).await });
    if waited.is_err() {
        let left = "SELECT count(*) FROM item_queue WHERE finished_at IS NULL";
        let (arrived, left) = (ledger.arrivals(), group.count(left));
        let node = "SELECT epoch * 1000 + coalesce(beat, 0) FROM node";
        let node = group.count(node);
        panic!(
            "nothing arrives: {arrived} have, {left} payments have not ended, epoch and beat {node}"
        );
    }
}

/// The longest time without an arrival, from the arrival of this number on, among so many.
fn longest_gap(group: &Group, from: usize, among: usize) -> Duration {
    let entries = group.bank.ledger().entries();
    let mut arrivals: Vec<Duration> = entries.iter().map(|entry| entry.arrival).collect();
    arrivals.sort();
    let since = &arrivals[from.saturating_sub(1).min(arrivals.len())..];
    let since = &since[..among.min(since.len())];
    let gaps = since.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
    gaps.max().unwrap_or_default()
}

/// Which of two leads, once one does.
fn leads_first(a: Served, b: Served) -> (Served, Served) {
    let b_leads = eventually("one leads", Duration::from_secs(30), || {
        let is_leader = |server: &Served| role(server.address).as_deref() == Some("leader");
        match (is_leader(&a), is_leader(&b)) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        }
    });
    if b_leads { (b, a) } else { (a, b) }
}

#[test]
fn leaders_killed_in_a_storm_lose_and_double_nothing() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let rounds = read("TGTEST_STANDBY_ROUNDS", 1);
    let payments = read("TGTEST_STANDBY_PAYMENTS", 200);
    let limit = read("TGTEST_STANDBY_LIMIT", 100);
    let mut random = random("kill -9");
    let group = Group::new("gate.margin = 0.1\n");
    let (mut leader, mut standby) = (group.start(), group.start());
    set_limit(leader.address, u32::try_from(limit).unwrap());
    let mut all = vec![];
    for round in 0..rounds {
        let more = ids(&format!("r{round}"), payments);
        let before = group.bank.ledger().arrivals();
        let kill_at = random.random_range(limit / 4..payments / 2);
        // All due at once: the lane is at its limit when the leader dies.
        act(standby.address, "pause");
        post_all(&[standby.address], &more);
        act(standby.address, "resume");
        wait_for(&group, kill_at);
        leader.kill();
        let killed_at = before + kill_at;
        wait_for_role(&standby, "leader");
        all.extend(more);
        group.all_paid_once(&all);
        // A second's worth: later ones also wait for what is in doubt.
        let gap = longest_gap(&group, killed_at, limit);
        println!(
            "round {round}: killed at arrival {kill_at} of {payments}, sends resumed after {gap:?}"
        );
        assert!(gap <= RESUMED_WITHIN, "sends resumed after {gap:?}");
        leader = standby;
        standby = group.start();
        assert_eq!(role(standby.address).as_deref(), Some("standby"));
    }
    let worst = group.bank.ledger().worst_second();
    println!("worst second {} of {limit}", worst.count);
    assert!(worst.count <= limit, "{worst:?}");
    group.epochs_only_rise();
    assert_eq!(standby.stop(), Some(0));
    assert_eq!(leader.stop(), Some(0));
}

/// How long the handover takes is printed: a second on a quiet machine.
#[test]
fn leaders_told_to_stop_in_a_storm_hand_over_in_doubt_of_nothing() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let rounds = read("TGTEST_STANDBY_ROUNDS", 1);
    let payments = read("TGTEST_STANDBY_PAYMENTS", 200);
    let limit = read("TGTEST_STANDBY_LIMIT", 100);
    let mut random = random("SIGTERM");
    let group = Group::new("gate.margin = 0.1\n");
    let (mut leader, mut standby) = (group.start(), group.start());
    set_limit(leader.address, u32::try_from(limit).unwrap());
    let mut all = vec![];
    for round in 0..rounds {
        let more = ids(&format!("r{round}"), payments);
        let before = group.bank.ledger().arrivals();
        let stop_at = random.random_range(limit / 4..payments / 2);
        act(standby.address, "pause");
        post_all(&[standby.address], &more);
        act(standby.address, "resume");
        wait_for(&group, stop_at);
        assert_eq!(leader.stop(), Some(0));
        wait_for_role(&standby, "leader");
        all.extend(more);
        group.all_paid_once(&all);
        let gap = longest_gap(&group, before + stop_at, limit);
        println!(
            "round {round}: told at arrival {stop_at} of {payments}, longest time without a send {gap:?}"
        );
        assert!(gap <= RESUMED_WITHIN, "sends resumed after {gap:?}");
        leader = standby;
        standby = group.start();
    }
    let unknown = "SELECT count(*) FROM attempt WHERE state = 'UNKNOWN'";
    assert_eq!(group.count(unknown), 0, "put in doubt by a handover");
    group.epochs_only_rise();
    assert_eq!(standby.stop(), Some(0));
    assert_eq!(leader.stop(), Some(0));
}

#[test]
fn a_leader_that_was_stopped_and_wakes_up_sends_nothing() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let rounds = read("TGTEST_STANDBY_ROUNDS", 1);
    let mut random = random("SIGSTOP");
    let group = Group::new("");
    let (mut leader, mut standby) = (group.start(), group.start());
    set_limit(leader.address, 100);
    let mut all = vec![];
    for round in 0..rounds {
        let more = ids(&format!("r{round}"), EACH);
        // All due at once: the gate is full for as long as the round takes.
        act(standby.address, "pause");
        post_all(&[standby.address], &more);
        act(standby.address, "resume");
        all.extend(more);

        // For a moment, without a takeover: it goes on leading.
        wait_for(&group, random.random_range(1..20));
        leader.signal("-STOP");
        std::thread::sleep(Duration::from_millis(random.random_range(50..1000)));
        leader.signal("-CONT");
        wait_for(&group, random.random_range(1..20));

        // Until another has taken over, and is killed in its turn.
        leader.signal("-STOP");
        wait_for_role(&standby, "leader");
        wait_for(&group, random.random_range(1..20));
        let third = if random.random_bool(0.5) {
            let third = group.start();
            standby.kill();
            wait_for_role(&third, "leader");
            third
        } else {
            standby
        };
        let epoch = "SELECT max(epoch) FROM attempt";
        let before = group.count(epoch);
        leader.signal("-CONT");
        wait_for_role(&leader, "standby");
        group.all_paid_once(&all);
        group.epochs_only_rise();
        assert!(group.count(epoch) >= before);
        assert_eq!(role(third.address).as_deref(), Some("leader"));
        (leader, standby) = (third, leader);
    }
    assert_eq!(standby.stop(), Some(0));
    assert_eq!(leader.stop(), Some(0));
}

#[test]
fn a_database_that_restarts_and_ends_sessions_has_one_leader_at_a_time() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let rounds = read("TGTEST_STANDBY_ROUNDS", 1);
    let mut random = random("database trouble");
    let cluster = Cluster::start();
    let group = Group::on(&cluster, "");
    let (leader, standby) = (group.start(), group.start());
    set_limit(leader.address, 100);
    let mut all = vec![];
    for round in 0..rounds {
        let more = ids(&format!("r{round}"), 100);
        std::thread::scope(|scope| {
            let addresses = [leader.address, standby.address];
            scope.spawn({
                let more = &more;
                move || post_all(&addresses, more)
            });
            wait_for(&group, random.random_range(1..20));
            let end_all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()";
            group.runtime.block_on(sql(&group.database, end_all));
            wait_for(&group, random.random_range(1..20));
            cluster.crash();
            std::thread::sleep(Duration::from_millis(random.random_range(0..2500)));
            cluster.start_again();
        });
        all.extend(more);
        group.all_paid_once(&all);
        group.epochs_only_rise();
    }
    let (leader, standby) = leads_first(leader, standby);
    assert_eq!(standby.stop(), Some(0));
    assert_eq!(leader.stop(), Some(0));
}

#[test]
fn rolling_restarts_under_load_answer_every_request() {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let restarts = read("TGTEST_STANDBY_RESTARTS", 2);
    let group = Group::new("");
    let mut servers = vec![group.start(), group.start()];
    set_limit(servers[0].address, 100);
    let unknown = "SELECT count(*) FROM attempt WHERE state = 'UNKNOWN'";
    let over = AtomicBool::new(false);
    let (sent, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let addresses = std::sync::Mutex::new([servers[0].address, servers[1].address]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    let number = sent.fetch_add(1, Ordering::SeqCst);
                    accepted(&addresses, number, &refused);
                    std::thread::sleep(Duration::from_millis(40));
                }
            });
        }
        for restart in 0..restarts {
            wait_for(&group, 20);
            // The leader every second time: the process that has run longest.
            let old = servers.remove(0);
            let address = old.address;
            assert_eq!(old.stop(), Some(0));
            let new = group.setting.start(&address.to_string());
            println!("restart {restart}: {address} is {:?} again", role(address));
            eventually("somebody leads", Duration::from_secs(30), || {
                let leads = |server: &Served| role(server.address).as_deref() == Some("leader");
                (leads(&new) || servers.iter().any(leads)).then_some(())
            });
            servers.push(new);
        }
        over.store(true, Ordering::SeqCst);
    });
    let sent = sent.load(Ordering::SeqCst);
    println!(
        "{sent} payments, {} refused for a moment",
        refused.load(Ordering::SeqCst)
    );
    group.all_paid_once(&ids("p", sent));
    group.epochs_only_rise();
    assert_eq!(group.count(unknown), 0, "put in doubt by a handover");
    println!(
        "longest time without a send: {:?}",
        longest_gap(&group, 1, usize::MAX)
    );
    for server in servers {
        assert_eq!(server.stop(), Some(0));
    }
}

/// A client behind a load balancer: another server when one does not take it, and again on 503.
fn accepted(addresses: &std::sync::Mutex<[SocketAddr; 2]>, number: usize, refused: &AtomicUsize) {
    let mut tries = number;
    eventually("a request is answered", Duration::from_secs(30), || {
        tries += 1;
        let address = addresses.lock().unwrap()[tries % 2];
        match posted(address, &format!("p-{number}")) {
            200 | 201 => Some(()),
            // 0: the listener is closed while its process restarts.
            0 | 202 | 503 => {
                refused.fetch_add(1, Ordering::SeqCst);
                None
            }
            other => panic!("{other}"),
        }
    });
}

/// What is taken in by a standby is planned by the leader before the answer: 201, and not 202. How long that takes is
/// printed, for both; the long form asks more often.
#[test]
fn a_payment_posted_at_a_standby_is_started_by_the_leader_while_it_is_answered() {
    let rounds = read("TGTEST_STANDBY_STARTS", 20);
    let group = Group::new("");
    let (leader, standby) = (group.start(), group.start());
    set_limit(leader.address, 100);
    let mut all = vec![];
    for (name, server) in [("leader", &leader), ("standby", &standby)] {
        let mut took = vec![];
        for id in ids(name, rounds) {
            let began = tokio::time::Instant::now();
            assert_eq!(posted(server.address, &id), 201, "{id}");
            took.push(began.elapsed());
            all.push(id);
        }
        took.sort();
        let (p50, p99) = (took[rounds / 2], took[(rounds * 99 / 100).min(rounds - 1)]);
        println!(
            "posted at the {name}: p50 {p50:?}, p99 {p99:?}, longest {:?}",
            took[rounds - 1]
        );
    }
    group.all_paid_once(&all);
    assert_eq!(standby.stop(), Some(0));
    assert_eq!(leader.stop(), Some(0));
}

/// What the other settings are is said, and nobody leads with them when the leader dies.
#[test]
fn a_standby_with_other_settings_says_so_and_does_not_lead() {
    let group = Group::new("");
    let leader = group.start();
    let odd = group.also("gate.margin = 0.1\n").start("127.0.0.1:0");
    let why = "gate.margin is 0.02 for the leader and 0.1 here";
    eventually("it is said", Duration::from_secs(30), || {
        let nodes = get(odd.address, "/admin/nodes").ok()?.body["nodes"].clone();
        let mut nodes = nodes.as_array()?.clone().into_iter();
        nodes.find(|node| node["cannotLead"] == why)
    });
    let said = odd.log();
    assert!(
        said.iter()
            .any(|line| line.contains("cannot take over") && line.contains(why)),
        "{said:#?}"
    );
    let ready = get(odd.address, "/health/ready").unwrap();
    assert_eq!(
        (ready.status, &ready.body["cannotLead"]),
        (200, &json!(why))
    );
    let killed = leader.pid();
    leader.kill();
    eventually("the leader is silent", Duration::from_secs(30), || {
        let nodes = get(odd.address, "/admin/nodes").ok()?.body["nodes"].clone();
        let mut nodes = nodes.as_array()?.clone().into_iter();
        nodes.find(|node| node["role"] == "silent")
    });
    eventually("it is said again", Duration::from_secs(30), || {
        let said = odd.log();
        let mut said = said.iter();
        said.find(|line| line.contains("there is no leader, and this process does not take over"))
            .cloned()
    });
    // Somebody with the leader's settings takes over; until then nobody does.
    let right = group.start();
    wait_for_role(&right, "leader");
    assert_eq!(role(odd.address).as_deref(), Some("standby"));
    assert_eq!(
        group.count("SELECT epoch FROM node"),
        2,
        "one takeover, by that one"
    );
    // A leader that resigns is followed by one with its settings.
    let next = group.start();
    assert_eq!(right.stop(), Some(0));
    wait_for_role(&next, "leader");
    assert_eq!(role(odd.address).as_deref(), Some("standby"));
    // As a leader does with the row of a killed one after ten minutes. When all others have ended in order, the settings
    // are the odd one's.
    let forget = format!("DELETE FROM node_process WHERE name LIKE '%/{killed}'");
    group.runtime.block_on(sql(&group.database, &forget));
    assert_eq!(next.stop(), Some(0));
    wait_for_role(&odd, "leader");
    assert_eq!(odd.stop(), Some(0));
}
