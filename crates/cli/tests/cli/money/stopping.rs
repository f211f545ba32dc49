//! SIGTERM in the middle of it: what was answered is durable, and the end comes in bounded time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fixture::http::{get, post};
use crate::fixture::pair::{day_ahead, pair, payment};
use crate::fixture::served::{Served, eventually};

/// `http.drain_secs` in these tests.
const DRAIN: Duration = Duration::from_secs(3);
/// For the rest of a stop, on a busy machine.
const SLACK: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "a test's own stop watch")]
fn time_to_stop(server: Served) -> Duration {
    let before = Instant::now();
    assert_eq!(server.stop(), Some(0));
    before.elapsed()
}

fn later(id: &str) -> Value {
    let mut payment = payment(id);
    payment["executeAt"] = json!(format!("{}T16:00:00Z", day_ahead(60)));
    payment
}

/// Posts one payment after the other until nobody answers; every id, with the status it got.
fn post_until_the_end(address: SocketAddr, feed: usize, told: &Mutex<Vec<(String, Option<u16>)>>) {
    for n in 0.. {
        let id = format!("p-{feed}-{n}");
        let answer = post(address, "/payments", &later(&id));
        let status = answer.ok().map(|answer| answer.status);
        told.lock().unwrap().push((id, status));
        if status.is_none() {
            return;
        }
    }
}

#[test]
fn every_payment_that_was_acknowledged_is_there_after_the_stop() {
    let pair = pair("");
    let address = pair.server.address;
    let told = Mutex::new(vec![]);
    let taken = std::thread::scope(|scope| {
        for feed in 0..8 {
            let told = &told;
            scope.spawn(move || post_until_the_end(address, feed, told));
        }
        eventually("posts are under way", Duration::from_secs(30), || {
            (told.lock().unwrap().len() > 100).then_some(())
        });
        time_to_stop(pair.server)
    });
    assert!(taken < DRAIN + SLACK, "{taken:?}");
    let again = pair.setting.start("127.0.0.1:0");
    let told = told.into_inner().unwrap();
    for (id, status) in &told {
        let known = get(again.address, &format!("/payments/{id}")).unwrap();
        match status {
            Some(status) => {
                assert_eq!(*status, 201, "{id}");
                assert_eq!(known.body["status"], "SCHEDULED", "{id}");
            }
            // Nobody was told: it is whole or it is not there, and may be sent again.
            None => {
                assert!(matches!(known.status, 200 | 404), "{id}: {}", known.text);
                let repeat = post(again.address, "/payments", &later(id)).unwrap();
                assert!(matches!(repeat.status, 200 | 201), "{id}: {}", repeat.text);
            }
        }
    }
    let totals = get(again.address, "/admin/totals").unwrap().body;
    assert_eq!(totals["payments"][0]["count"], told.len());
}

fn opened(address: SocketAddr, said: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    stream
}

const LIVE: &str = "GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[test]
fn who_only_keeps_a_connection_open_does_not_delay_the_stop() {
    let pair = pair("http.drain_secs = 600\n");
    let mut idle = opened(pair.server.address, LIVE);
    let mut answer = [0; 1024];
    assert!(idle.read(&mut answer).unwrap() > 0);
    let never_asked = opened(pair.server.address, "");
    assert!(get(pair.server.address, "/health/live").is_ok());
    let taken = time_to_stop(pair.server);
    assert!(taken < SLACK, "{taken:?}");
    assert_eq!(idle.read(&mut answer).unwrap(), 0, "it was hung up");
    drop(never_asked);
}

#[test]
fn who_never_finishes_asking_is_cut_off_when_the_time_is_over() {
    let pair = pair(&format!("http.drain_secs = {}\n", DRAIN.as_secs()));
    let head = "POST /payments HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let mut stuck = opened(
        pair.server.address,
        &format!("{head}expect: 100-continue\r\ncontent-length: 99\r\n\r\n"),
    );
    // The server waits for the body once it says this.
    let mut go_on = [0; 12];
    stuck.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100");
    let taken = time_to_stop(pair.server);
    assert!(taken >= DRAIN && taken < DRAIN + SLACK, "{taken:?}");
    drop(stuck);
}
