//! The one forecast, from outside: what is told at intake, of an item, of a lane and for an imagined change is the
//! same, knows what stands in the way, and comes true.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Value, json};
use tollgate_core::{SignedDuration, Timestamp};

use crate::fixture::footing::{LONG, database, take_in};
use crate::fixture::http::{get, post, post_raw, put};
use crate::fixture::pair::{Pair, pair, pair_on, payment};
use crate::fixture::served::{eventually, eventually_or};
use crate::money::kill_storm::MEASURED_ALONE;

pub(crate) fn time(value: &Value) -> Timestamp {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    text.parse().unwrap()
}

pub(crate) fn done(address: SocketAddr, path: &str, body: &Value) -> Value {
    let answer = if path.starts_with("/admin/item-types") || path.starts_with("/admin/calendars") {
        put(address, path, body)
    } else {
        post(address, path, body)
    };
    let answer = answer.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.body
}

/// Hands payments in, many at a time; their answers in the order of their slots.
pub(crate) fn pay_all(address: SocketAddr, payments: Vec<Value>) -> Vec<Value> {
    let (left, answers) = (Mutex::new(payments), Mutex::new(vec![]));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let Some(payment) = left.lock().unwrap().pop() else {
                        return;
                    };
                    let answer = take_in(address, &payment).body;
                    answers.lock().unwrap().push(answer);
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap();
    answers.sort_by_key(|answer| time(&answer["scheduledTime"]));
    answers
}

impl Pair {
    pub(crate) fn now(&self) -> Timestamp {
        time(&get(self.server.address, "/admin/now").unwrap().body["now"])
    }

    pub(crate) fn default_lane(&self) -> Value {
        let told = get(self.server.address, "/admin/now").unwrap().body;
        let lanes = told["lanes"].as_array().unwrap();
        let found = lanes
            .iter()
            .find(|it| it["lane"]["configName"] == "default");
        found.unwrap().clone()
    }

    #[expect(clippy::needless_pass_by_value, reason = "made where it is asked for")]
    pub(crate) fn limit(&self, change: Value) -> Value {
        let mut wish = json!({"configName": "default", "reason": "test", "confirm": true});
        for (name, value) in change.as_object().unwrap() {
            wish[name] = value.clone();
        }
        done(self.server.address, "/admin/rate-limit/config", &wish)
    }

    fn forecast(&self, wish: &Value) -> Value {
        done(self.server.address, "/admin/rate-limit/forecast", wish)
    }

    fn pause(&self, mut pause: Value) {
        pause["reason"] = json!("the bank asked");
        done(self.server.address, "/admin/lanes/default/pause", &pause);
    }

    fn resume(&self) {
        let because = json!({"reason": "it is back"});
        done(self.server.address, "/admin/lanes/default/resume", &because);
    }

    fn dispatch(&self, enabled: bool) {
        let wish = json!({"enabled": enabled, "reason": "drill"});
        done(self.server.address, "/admin/item-types/PAYMENT", &wish);
    }

    /// Closed for a while, by the calendar.
    fn black_out(&self, from: Timestamp, to: Timestamp) {
        let blackout =
            json!({"from": from.to_string(), "to": to.to_string(), "reason": "migration"});
        let calendar =
            json!({"zone": "UTC", "blackouts": [blackout], "reason": "test", "confirm": true});
        done(self.server.address, "/admin/calendars/hours", &calendar);
    }

    /// How many of the list are said to be late.
    fn listed_late(&self) -> u64 {
        let list = get(self.server.address, "/payments?limit=1000")
            .unwrap()
            .body;
        let lines = list["payments"].as_array().unwrap().iter();
        lines.filter(|line| line["meetsDeadline"] == false).count() as u64
    }
}

/// Four hundred in an hour at 25 a second, due within ten seconds.
#[test]
#[expect(clippy::too_many_lines, reason = "one lane's day, read top down")]
fn every_surface_knows_what_stands_in_the_way() {
    let pair = pair("");
    let address = pair.server.address;
    pair.black_out(
        pair.now() - Duration::from_hours(2),
        pair.now() - Duration::from_hours(1),
    );
    pair.limit(
        json!({"maxPerWindow": 100, "windowSizeSecs": 4, "maxPerSecond": 50, "calendar": "hours"}),
    );
    let secs = pair.now().as_second() + 3600;
    let hour = Timestamp::from_second(secs - secs % 60).unwrap();
    let deadline = hour + Duration::from_secs(10);
    let ordered = |n: u32| {
        let mut order = payment(&format!("p{n:03}"));
        order["executeAt"] = json!(hour.to_string());
        order["deadline"] = json!(deadline.to_string());
        order
    };
    let answers = pay_all(address, (0..400).map(ordered).collect());
    let last = answers.last().unwrap();
    for answer in &answers {
        assert_eq!(answer["estimate"], answer["scheduledTime"], "{answer}");
        assert_eq!(
            (&answer["toleranceMs"], &answer["provisional"]),
            (&json!(4000), &Value::Null)
        );
        let in_time = time(&answer["estimate"]) + Duration::from_millis(20) <= deadline;
        assert_eq!(answer["meetsDeadline"], in_time, "{answer}");
    }
    let (first_id, last_id) = (id(&answers[0]), id(last));
    // What is told of a lane is a moment old.
    eventually("the lane knows all of them", LONG, || {
        let lane = pair.default_lane();
        let drained = lane["drainedAt"] == last["estimate"];
        (drained && lane["late"] == 150).then_some(())
    });

    // A limit that is lowered after slots were given: 400 at 4.9 a second.
    let lowered = pair.limit(json!({"maxPerSecond": 5}));
    assert_eq!(lowered["capacityPerWindow"], 19, "not the 100 of the plan");
    let shown = pair.shown(&last_id);
    let behind = time(&shown["estimate"]).duration_since(hour).as_secs_f64();
    assert!((behind - 399.0 / 4.9).abs() < 2.0, "{shown}");
    assert_eq!(shown["meetsDeadline"], false);
    assert_eq!(pair.shown(&first_id)["meetsDeadline"], true);
    // 49 or so in ten seconds; the same in the list, to the payment.
    eventually("the lane knows", LONG, || {
        let late = pair.default_lane()["late"].as_u64().unwrap();
        ((350..=352).contains(&late) && late == pair.listed_late()).then_some(())
    });
    let late = pair.listed_late();
    let metric = format!("tollgate_lane_planned_late{{lane=\"default\"}} {late}\n");
    eventually("the metric says the same", LONG, || {
        let metrics = get(address, "/metrics").unwrap().text;
        metrics.contains(&metric).then_some(())
    });

    // What binds is named, and the pair that is enough.
    let what_if = json!({"change": {"maxPerSecond": 120}});
    let told = pair.forecast(&what_if);
    assert_eq!(
        (&told["queue"]["missedAfter"], &told["binds"]),
        (&json!(150), &json!("plan"))
    );
    let verdict = told["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("the limiting factor is the plan of 100 per 4 s"),
        "{verdict}"
    );
    let enough = json!({"change": told["enough"]});
    let told = pair.forecast(&enough);
    assert_eq!(
        (&told["queue"]["missedAfter"], &told["binds"]),
        (&json!(0), &Value::Null)
    );
    assert!(
        told["verdict"]
            .as_str()
            .unwrap()
            .starts_with("all 400 with a deadline meet it")
    );
    let feed = pair.forecast(&json!({"count": 10, "executeAt": hour.to_string()}));
    let verdict = feed["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("none of the 10 has a deadline"),
        "{verdict}"
    );

    // A pause that nobody has ended, and the kill switch: no time, no verdict, on no surface.
    pair.pause(json!({}));
    untold(&pair, &last_id, "LANE_PAUSED", "the bank asked");
    pair.resume();
    pair.dispatch(false);
    untold(&pair, &last_id, "DISPATCH_OFF", "disabled by local");
    pair.dispatch(true);
    assert_eq!(pair.shown(&last_id)["provisional"], Value::Null);

    // A pause that is announced, and a new blackout.
    let (from, until) = (
        hour - Duration::from_secs(1),
        hour + Duration::from_mins(30),
    );
    pair.pause(json!({"from": from.to_string(), "until": until.to_string()}));
    assert_eq!(time(&pair.shown(&first_id)["estimate"]), until);
    eventually("the lane knows", LONG, || {
        (pair.default_lane()["late"] == 400).then_some(())
    });
    pair.resume();
    let until = hour + Duration::from_hours(2);
    pair.black_out(hour - Duration::from_secs(1), until);
    assert_eq!(time(&pair.shown(&first_id)["estimate"]), until);
    assert_eq!(pair.listed_late(), 400);
    an_import_says_what_holds_now(&pair, hour);
}

/// Twenty payments that are in time when they are taken in, and not by what people do afterwards.
fn an_import_says_what_holds_now(pair: &Pair, hour: Timestamp) {
    let address = pair.server.address;
    let line = |n: u32| {
        let mut order = payment(&format!("line{n}"));
        order["executeAt"] = json!(hour.to_string());
        order["deadline"] = json!((hour + Duration::from_hours(3)).to_string());
        order.to_string()
    };
    let file = (0..20).map(line).collect::<Vec<_>>().join("\n");
    let taken = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    let batch = taken.body["batchId"].as_str().unwrap();
    let told = crate::files::bulk::done(address, batch)["deadline"].clone();
    let counts = (&told["meets"], &told["misses"], &told["waiting"]["late"]);
    assert_eq!(counts, (&json!(20), &json!(0), &json!(0)), "{told}");
    let now = |what: &str, late: u32, untold: u32, verdict: &str| {
        eventually_or(what, LONG, || {
            let told = get(address, &format!("/payments/bulk/{batch}")).unwrap();
            let told = &told.body["deadline"];
            let waiting = (&told["waiting"]["late"], &told["waiting"]["untold"]);
            let says = told["verdict"].as_str().unwrap();
            if waiting == (&json!(late), &json!(untold)) && says.starts_with(verdict) {
                assert!(says.contains("all 20 meet the deadline"), "{says}");
                return Ok(());
            }
            Err(told.to_string())
        });
    };
    pair.black_out(
        hour - Duration::from_secs(1),
        hour + Duration::from_hours(4),
    );
    let late = "20 of those waiting will miss their deadline; at intake: ";
    now("the import knows the blackout", 20, 0, late);
    pair.pause(json!({}));
    now(
        "the import knows the pause",
        0,
        20,
        "no estimate is available",
    );
    // A replan counts what it does by the same forecast: no time, no verdict.
    let replanned = json!({"reason": "test"});
    let replanned = done(address, "/admin/lanes/default/replan", &replanned);
    let counts = (&replanned["untold"], &replanned["missedAfter"]);
    assert_eq!(counts, (&json!(420), &json!(0)), "{replanned}");
    pair.resume();
    let replanned = done(
        address,
        "/admin/lanes/default/replan",
        &json!({"reason": "test"}),
    );
    let counts = (&replanned["untold"], &replanned["missedAfter"]);
    assert_eq!(counts, (&json!(0), &json!(420)), "{replanned}");
}

fn id(answer: &Value) -> String {
    answer["paymentId"].as_str().unwrap().to_owned()
}

fn untold(pair: &Pair, id: &str, code: &str, reason: &str) {
    let shown = pair.shown(id);
    assert_eq!(shown["provisional"]["code"], code, "{shown}");
    let told = shown["provisional"]["reason"].as_str().unwrap();
    assert!(told.contains(reason), "{told}");
    let since = pair
        .now()
        .duration_since(time(&shown["provisional"]["since"]));
    assert!(since.abs() < SignedDuration::from_mins(1), "{shown}");
    assert_eq!(
        (&shown["estimate"], &shown["meetsDeadline"]),
        (&Value::Null, &Value::Null)
    );
    assert_ne!(shown["whyNotRunning"], Value::Null);
    let list = get(pair.server.address, "/payments?status=SCHEDULED").unwrap();
    for line in list.body["payments"].as_array().unwrap() {
        let told = (&line["meetsDeadline"], &line["provisional"]["code"]);
        assert_eq!(told, (&Value::Null, &json!(code)), "{line}");
    }
    eventually("the lane knows", LONG, || {
        let lane = pair.default_lane();
        let counts = (&lane["untold"], &lane["late"], &lane["drainedAt"]);
        let is_untold = counts == (&json!(400), &json!(0), &Value::Null);
        (is_untold && lane["provisional"]["code"] == code).then_some(())
    });
    let verdict = pair.forecast(&json!({}))["verdict"].clone();
    assert!(
        verdict
            .as_str()
            .unwrap()
            .starts_with("no estimate is available"),
        "{verdict}"
    );
}

/// An estimate that was told.
struct Forecast {
    id: String,
    estimate: Timestamp,
    tolerance: SignedDuration,
}

#[test]
fn what_is_told_comes_true_on_sqlite() {
    storm(&pair(UNHURRIED));
}

#[test]
fn what_is_told_comes_true_on_postgres() {
    storm(&pair_on(&database(), UNHURRIED));
}

const STORM: usize = 200;

/// A busy machine misses turns of a few milliseconds, and reads the database's clock too late to give any: that is not what
/// is tested here.
pub(crate) const UNHURRIED: &str =
    "sweep.interval_secs = 1\ngate.margin = 0.2\ngate.tolerance_ms = 90\n";

/// Limits, pauses, the kill switch and a blackout while payments wait; each estimate that is told after the last of
/// these acts is within its tolerance of the arrival at the bank.
fn storm(pair: &Pair) {
    let _turn = MEASURED_ALONE
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let address = pair.server.address;
    let now = pair.now();
    pair.black_out(now - Duration::from_hours(2), now - Duration::from_hours(1));
    pair.limit(
        json!({"maxPerWindow": 20, "windowSizeSecs": 2, "maxPerSecond": 40, "calendar": "hours"}),
    );
    let ids: Vec<String> = (0..STORM).map(|n| format!("s{n:03}")).collect();
    let deadline = json!((now + Duration::from_hours(1)).to_string());
    let in_time = |id: &String| {
        let mut order = payment(id);
        order["deadline"] = deadline.clone();
        order
    };
    pay_all(address, ids.iter().map(in_time).collect());
    let mut act = Acts { pair, ids: &ids };
    act.then(|pair| drop(pair.limit(json!({"maxPerSecond": 8}))));
    act.then(|pair| {
        let now = pair.now();
        let (from, until) = (
            now + Duration::from_millis(500),
            now + Duration::from_millis(1500),
        );
        pair.pause(json!({"from": from.to_string(), "until": until.to_string()}));
    });
    act.then(|pair| {
        pair.resume();
        pair.limit(json!({"maxPerSecond": 30}));
    });
    act.then(|pair| pair.dispatch(false));
    act.then(|pair| pair.dispatch(true));
    act.then(|pair| pair.pause(json!({})));
    act.then(Pair::resume);
    act.then(|pair| {
        let now = pair.now();
        pair.black_out(now + Duration::from_secs(1), now + Duration::from_secs(2));
    });
    let mut told =
        act.then(|pair| drop(pair.limit(json!({"maxPerSecond": 20, "maxPerWindow": 20}))));
    assert!(!told.is_empty(), "nothing was left to be told about");
    while pair.bank.ledger().arrivals() < STORM {
        told.extend(act.ask());
        std::thread::sleep(Duration::from_secs(1));
    }
    eventually("all have arrived", LONG, || {
        (pair.bank.ledger().effective().len() == STORM).then_some(())
    });
    eventually("the list says that all were in time", LONG, || {
        let list = get(address, "/payments?limit=1000").unwrap().body;
        let mut lines = list["payments"].as_array().unwrap().iter();
        let was_in_time = |line: &Value| line["meetsDeadline"] == true;
        lines.all(was_in_time).then_some(())
    });
    judge(pair, &told);
}

/// What people do to the lane, one after the other.
struct Acts<'a> {
    pair: &'a Pair,
    ids: &'a [String],
}

impl Acts<'_> {
    /// Does something, and says what is told right after it.
    fn then(&mut self, act: impl FnOnce(&Pair)) -> Vec<Forecast> {
        act(self.pair);
        self.ask()
    }

    /// Asks about every payment, many at a time: whatever has not ended says why.
    fn ask(&self) -> Vec<Forecast> {
        let told = Mutex::new(vec![]);
        std::thread::scope(|scope| {
            for some in self.ids.chunks(self.ids.len().div_ceil(8)) {
                let told = &told;
                scope.spawn(move || {
                    let asked: Vec<Forecast> = some.iter().filter_map(|id| self.told(id)).collect();
                    told.lock().unwrap().extend(asked);
                });
            }
        });
        told.into_inner().unwrap()
    }

    fn told(&self, id: &str) -> Option<Forecast> {
        let shown = get(self.pair.server.address, &format!("/payments/{id}"));
        let shown = shown.unwrap().body;
        let has_ended = ["PROCESSING", "REJECTED"].contains(&shown["status"].as_str()?);
        assert!(has_ended || shown["whyNotRunning"].is_string(), "{shown}");
        let tolerance = shown["toleranceMs"].as_i64()?;
        Some(Forecast {
            id: id.to_owned(),
            estimate: time(&shown["estimate"]),
            tolerance: SignedDuration::from_millis(tolerance),
        })
    }
}

fn judge(pair: &Pair, told: &[Forecast]) {
    let ledger = pair.bank.ledger();
    let opened = ledger.wall_anchor().duration_since(UNIX_EPOCH).unwrap();
    let opened = Timestamp::UNIX_EPOCH + opened;
    let arrived: HashMap<String, Timestamp> = ledger
        .entries()
        .into_iter()
        .filter_map(|entry| Some((entry.payment_id?, opened + entry.arrival)))
        .collect();
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
    let off = |it: &Forecast| arrived[&it.id].duration_since(it.estimate);
    let worst = told.iter().map(|it| off(it).abs()).max().unwrap();
    println!("{} estimates, the worst off by {worst:?}", told.len());
    for it in told {
        assert!(
            off(it).abs() <= it.tolerance,
            "{}: {:?} off",
            it.id,
            off(it)
        );
    }
}
