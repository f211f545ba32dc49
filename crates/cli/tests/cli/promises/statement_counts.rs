//! What an answer costs the store: a number of statements that does not grow with what waits. PostgreSQL counts them, and
//! a standby with a user of its own sends no others.

use std::collections::HashMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tollgate_conformance::postgres::{Cluster, connect, sql};

use crate::fixture::footing::LONG;
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{day_ahead, payment};
use crate::fixture::served::eventually;
use crate::nodes::standby::{Group, wait_for_role};
use crate::promises::forecast::pay_all;

const COUNTED: &str = "shared_preload_libraries = 'pg_stat_statements'\n\
                       fsync = off\nfull_page_writes = off\nmax_connections = 100\n";
/// How often each question is asked. What a standby does by itself is less than this meanwhile.
const ASKED: i64 = 60;
const FEW: u32 = 30;
/// More than two of any page that is read behind an answer.
const MANY: u32 = 2500;

/// How often each statement was performed.
type Performed = HashMap<String, i64>;

#[test]
fn an_answer_costs_as_many_statements_however_many_payments_wait() {
    let cluster = Cluster::start_with(COUNTED);
    let group = Group::on(&cluster, "");
    let leader = group.start();
    wait_for_role(&leader, "leader");
    group.runtime.block_on(async {
        cluster.sql("CREATE ROLE onlooker SUPERUSER LOGIN").await;
        sql(&group.database, "CREATE EXTENSION pg_stat_statements").await;
    });
    let url = group.database.replace("postgres@", "onlooker@");
    let setting = group.through(&url);
    let standby = setting.start("127.0.0.1:0");
    wait_for_role(&standby, "standby");

    let batch = import(leader.address, "few", FEW);
    let ask = || -> Vec<(String, Performed)> {
        let asked = questions(&batch).into_iter();
        asked
            .map(|question| {
                let counted = performed_by(&group, "onlooker", || {
                    for _ in 0..ASKED {
                        question.ask(standby.address);
                    }
                });
                (question.path, counted)
            })
            .collect()
    };
    let few = ask();
    import(leader.address, "many", MANY);
    let many = ask();
    for ((path, few), (_, many)) in few.iter().zip(&many) {
        let sum = |performed: &Performed| performed.values().sum::<i64>();
        println!("{path}: {} statements, then {}", sum(few), sum(many));
        for (statement, times) in many {
            let before = few.get(statement).copied().unwrap_or(0);
            assert!(
                times - before < ASKED,
                "{path}: {times} instead of {before} times {statement}"
            );
        }
    }
    let (path, of_item) = &few[0];
    let all: i64 = of_item.values().sum();
    assert!(all >= ASKED, "{path} was counted {all} times");
    intake_reads_nothing_more_for_its_forecast(&group, leader.address);
}

/// Of the estimates and verdicts of payments that are handed in: one look at the lane is for all within a second.
fn intake_reads_nothing_more_for_its_forecast(group: &Group, address: SocketAddr) {
    let singles = (0..ASKED).map(|n| later(&format!("single-{n}"))).collect();
    let counted = performed_by(group, "postgres", || {
        let answers = pay_all(address, singles);
        assert!(answers.iter().all(|it| it["meetsDeadline"] == true));
    });
    let looks_of = |counted: &Performed| {
        let is_look = |statement: &&String| statement.starts_with(LOOK);
        counted.keys().filter(is_look).map(|it| counted[it]).max()
    };
    let looks = looks_of(&counted);
    println!("{ASKED} payments, {looks:?} looks");
    // Each look asks once for every type of item. None at all, if the last one before was less than a second old.
    assert!(looks.unwrap() < 2 * ASKED, "{looks:?} looks");
    let mut number = 0;
    eventually("intake looks at the lane again", LONG, || {
        number += 1;
        let one = vec![later(&format!("again-{number}"))];
        let counted = performed_by(group, "postgres", || drop(pay_all(address, one)));
        (looks_of(&counted)? > 0).then_some(())
    });
}

/// How the statements begin that read what waits on a lane.
const LOOK: &str = "SELECT item_type, scheduled_exec_time, hold_after";

struct Question {
    path: String,
    /// A question may be a POST.
    body: Option<Value>,
}

impl Question {
    fn ask(&self, address: SocketAddr) {
        let answer = match &self.body {
            None => get(address, &self.path),
            Some(body) => post(address, &self.path, body),
        };
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{}: {}", self.path, answer.text);
    }
}

fn questions(batch: &str) -> Vec<Question> {
    let get = |path: &str| Question {
        path: path.to_owned(),
        body: None,
    };
    vec![
        get("/payments/few-3"),
        get("/payments?limit=10"),
        get(&format!("/payments/bulk/{batch}")),
        get("/admin/rate-limit/config"),
        get("/admin/now"),
        Question {
            path: "/admin/rate-limit/forecast".to_owned(),
            body: Some(json!({"count": 100})),
        },
    ]
}

/// A payment for a later day, with a deadline.
fn later(id: &str) -> Value {
    let mut order = payment(id);
    order["executeAt"] = json!(format!("{}T16:00:00Z", day_ahead(60)));
    order["deadline"] = json!(format!("{}T16:00:00Z", day_ahead(61)));
    order
}

fn import(address: SocketAddr, name: &str, count: u32) -> String {
    let line = |n: u32| later(&format!("{name}-{n}")).to_string();
    let file = (0..count).map(line).collect::<Vec<_>>().join("\n");
    let taken = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    let batch = taken.body["batchId"].as_str().unwrap().to_owned();
    let told = crate::files::bulk::done(address, &batch);
    assert_eq!(told["accepted"], count, "{told}");
    batch
}

/// What a user's sessions perform meanwhile.
fn performed_by(group: &Group, user: &str, act: impl FnOnce()) -> Performed {
    let question = "SELECT query, sum(calls)::bigint FROM pg_stat_statements
                    WHERE userid = ($1::text)::regrole GROUP BY query";
    let performed = || -> Performed {
        group.runtime.block_on(async {
            let client = connect(&group.database).await;
            let rows = client.query(question, &[&user]).await.unwrap();
            rows.iter().map(|row| (row.get(0), row.get(1))).collect()
        })
    };
    let before = performed();
    act();
    let mut after = performed();
    for (statement, times) in before {
        *after.entry(statement).or_default() -= times;
    }
    after
}
