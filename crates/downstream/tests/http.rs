//! The HTTP connector against a server written by hand, byte by byte: what each behaviour of a
//! downstream becomes, and how many requests it really saw.

#![expect(
    clippy::unwrap_used,
    reason = "a test may; clippy sees only the test functions as such"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::marker::Marker;
use tollgate_core::outcome::{Outcome, Quiet};
use tollgate_core::ports::{Connector, Health, NoConnection, Permit, Profile, Request};
use tollgate_downstream::{Access, HttpConnector, HttpOptions, MAX_ANSWER_BYTES};

const NAMED: &str = r#"{"paymentId":"pay_1"}"#;
const NO_ACCOUNT: &str = r#"{"error":"no such account"}"#;
const BODY: &str = r#"{"paymentId":"pay_1","amount":"125.50"}"#;

/// What the server does with the next request it has read.
#[derive(Debug, Clone)]
enum Then {
    Answer(String),
    /// Answers without a word about closing, hangs up, and says so.
    AnswerAndClose(String),
    Close,
    Reset,
    StaySilent,
}

/// A downstream that follows a script: one entry per request, over all its connections.
struct Bank {
    url: String,
    script: Mutex<Vec<Then>>,
    /// Each request as it came, head and body.
    seen: Mutex<Vec<String>>,
    connections: Mutex<usize>,
    hung_up: Notify,
}

impl Bank {
    async fn open(script: impl IntoIterator<Item = Then>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut script: Vec<Then> = script.into_iter().collect();
        script.reverse();
        let bank = Arc::new(Self {
            url: format!("http://{}", listener.local_addr().unwrap()),
            script: Mutex::new(script),
            seen: Mutex::default(),
            connections: Mutex::default(),
            hung_up: Notify::new(),
        });
        let serving = Arc::clone(&bank);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *serving.connections.lock().unwrap() += 1;
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        bank
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        while let Some(request) = read_request(&mut stream).await {
            self.seen.lock().unwrap().push(request);
            let then = self.script.lock().unwrap().pop();
            match then.expect("more requests than the script has answers") {
                Then::Answer(text) => stream.write_all(text.as_bytes()).await.unwrap_or(()),
                Then::AnswerAndClose(text) => {
                    stream.write_all(text.as_bytes()).await.unwrap_or(());
                    break;
                }
                Then::Close => break,
                Then::Reset => {
                    stream.set_zero_linger().unwrap();
                    break;
                }
                Then::StaySilent => std::future::pending().await,
            }
        }
        drop(stream);
        self.hung_up.notify_one();
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    fn connector(&self) -> HttpConnector {
        connector(&self.url, 4)
    }
}

/// A whole request, or nothing when the client hangs up between two.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8(bytes.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |digits| digits.parse().unwrap());
            assert!(body.len() <= length, "bytes after the request: {text}");
            if body.len() == length {
                return Some(text);
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(read) if read > 0 => {}
            Ok(_) | Err(_) => {
                assert!(bytes.is_empty(), "half a request: {bytes:?}");
                return None;
            }
        }
    }
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn options(url: &str) -> HttpOptions {
    HttpOptions {
        name: "bank".into(),
        url: url.into(),
        lane: LaneName::new("default"),
        profile: Profile {
            honours_idempotency_key: true,
            key_retention: Duration::from_hours(24),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        },
        max_connections: 4,
    }
}

fn connector(url: &str, max_connections: usize) -> HttpConnector {
    let options = HttpOptions {
        max_connections,
        ..options(url)
    };
    HttpConnector::new(options).unwrap()
}

fn impatient(url: &str) -> HttpConnector {
    let mut options = options(url);
    options.profile.timeout = Duration::from_millis(100);
    options.max_connections = 1;
    HttpConnector::new(options).unwrap()
}

fn permit() -> Permit {
    let use_by = tokio::time::Instant::now() + Duration::from_secs(10);
    Permit::granted_by_the_gate(AttemptId(1), Timestamp::UNIX_EPOCH, 1, use_by.into_std())
}

fn request() -> Request {
    Request {
        reference: "pay_1".into(),
        idempotency_key: "payment-pay_1".into(),
        body_json: BODY.into(),
        sent_by: None,
    }
}

async fn send(connector: &HttpConnector) -> Outcome {
    let connection = connector.connection().await.unwrap();
    connection.send(permit(), &request()).await.unwrap().outcome
}

async fn probe(connector: &HttpConnector) -> Outcome {
    let connection = connector.connection().await.unwrap();
    connection
        .probe(permit(), &request())
        .await
        .unwrap()
        .outcome
}

#[track_caller]
fn assert_unknown(outcome: &Outcome, says: &str) {
    assert!(
        matches!(outcome, Outcome::Unknown(why) if why.contains(says)),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_send_and_a_probe_look_like_the_contract_on_the_wire() {
    let bank = Bank::open([
        Then::Answer(answer("200 OK", NAMED)),
        Then::Answer(answer("200 OK", NAMED)),
    ])
    .await;
    let connector = connector(&format!("{}/v1/", bank.url), 1);
    assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
    assert_eq!(probe(&connector).await, Outcome::Done(NAMED.into()));

    let host = bank.url.strip_prefix("http://").unwrap();
    let posted = format!(
        "POST /v1/payments HTTP/1.1\r\nhost: {host}\r\nidempotency-key: payment-pay_1\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let asked = format!("GET /v1/payments/pay_1 HTTP/1.1\r\nhost: {host}\r\n\r\n");
    assert_eq!(bank.seen(), [posted, asked]);
}

#[tokio::test]
async fn whole_answers_are_judged_and_their_connection_is_used_again() {
    let bank = Bank::open([
        Then::Answer(answer("201 Created", NAMED)),
        Then::Answer(answer("422 Unprocessable", NO_ACCOUNT)),
        Then::Answer(answer("404 Not Found", NAMED)),
        Then::Answer("HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n".into()),
        Then::Answer("HTTP/1.1 302 Found\r\nlocation: /x\r\ncontent-length: 0\r\n\r\n".into()),
    ])
    .await;
    let connector = bank.connector();
    assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
    assert_eq!(
        send(&connector).await,
        Outcome::Refused(format!("status 422: {NO_ACCOUNT}"))
    );
    assert_eq!(
        probe(&connector).await,
        Outcome::retry("unknown to the downstream")
    );
    assert_eq!(
        send(&connector).await,
        Outcome::Retry {
            why: "status 429: not done".into(),
            quiet: Quiet::For(Duration::from_secs(7)),
        }
    );
    assert_unknown(&send(&connector).await, "status 302");
    assert_eq!((bank.seen().len(), bank.connections()), (5, 1));
}

/// A load balancer without a backend, and then the bank itself.
#[tokio::test]
async fn a_strangers_404_neither_refuses_nor_proves_and_a_send_stops_the_lane() {
    let stranger = "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\n\
                    content-length: 21\r\n\r\ndefault backend - 404";
    let bank = Bank::open([
        Then::Answer(stranger.into()),
        Then::Answer(stranger.into()),
        Then::Answer(answer("404 Not Found", NAMED)),
    ])
    .await;
    let connector = bank.connector();
    let connection = connector.connection().await.unwrap();
    let sent = connection.send(permit(), &request()).await.unwrap();
    assert_unknown(&sent.outcome, "default backend - 404");
    let Health::TurnsUsAway { why } = sent.health else {
        panic!("{:?}", sent.health)
    };
    assert!(why.contains("status 404 (text/plain)"), "{why}");
    assert_unknown(&probe(&connector).await, "not recognisably the bank's");
    let refused = Outcome::Refused(format!("status 404: {NAMED}"));
    assert_eq!(send(&connector).await, refused);
}

#[tokio::test]
async fn a_marker_of_the_profile_is_looked_for_in_the_answers_head() {
    let marked = "HTTP/1.1 404 Not Found\r\nX-Bank: core\r\ncontent-length: 0\r\n\r\n";
    let bank = Bank::open([
        Then::Answer(marked.into()),
        Then::Answer(marked.into()),
        Then::Answer(answer("404 Not Found", NAMED)),
    ])
    .await;
    let mut options = options(&bank.url);
    options.profile.recognised_by = Marker::parse("header:x-bank=core").unwrap();
    let connector = HttpConnector::new(options).unwrap();
    let unmarked = "not recognisably the bank's";
    assert_eq!(
        send(&connector).await,
        Outcome::Refused("status 404".into())
    );
    let denied = Outcome::retry("unknown to the downstream");
    assert_eq!(probe(&connector).await, denied);
    assert_unknown(&send(&connector).await, unmarked);
}

#[tokio::test]
async fn a_charge_is_known_by_its_invoice_or_its_key() {
    let named = [
        r#"{"invoiceId":"pay_1"}"#,
        r#"{"key":"payment-pay_1"}"#,
        r#"{"idempotencyKey":"payment-pay_1"}"#,
    ];
    let mut script = named.map(|body| Then::Answer(answer("404 Not Found", body)));
    let bank = Bank::open(script.clone()).await;
    let connector = HttpConnector::charging(options(&bank.url), &Access::default()).unwrap();
    for body in named {
        let refused = Outcome::Refused(format!("status 404: {body}"));
        assert_eq!(send(&connector).await, refused);
    }
    script[0] = Then::Answer(answer("404 Not Found", r#"{"paymentId":"pay_1"}"#));
    let bank = Bank::open(script).await;
    let connector = HttpConnector::charging(options(&bank.url), &Access::default()).unwrap();
    assert_unknown(&probe(&connector).await, "not recognisably the bank's");
    for _ in 1..named.len() {
        let denied = Outcome::retry("unknown to the downstream");
        assert_eq!(probe(&connector).await, denied);
    }
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_not_trusted_again() {
    let bank = Bank::open(vec![Then::Answer(answer("200 OK", NAMED)); 3]).await;
    let connector = bank.connector();
    for (idle_millis, connections) in [(0, 1), (3_000, 1), (4_000, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(idle_millis)).await;
        tokio::time::resume();
        assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
        assert_eq!(bank.connections(), connections);
    }
}

#[tokio::test]
async fn a_line_dropped_unused_gives_its_connection_back() {
    let bank = Bank::open([Then::Answer(answer("200 OK", NAMED))]).await;
    let connector = bank.connector();
    drop(connector.connection().await.unwrap());
    assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
    assert_eq!(bank.connections(), 1);
}

#[tokio::test]
async fn an_answer_that_says_close_is_whole_and_the_next_send_connects_anew() {
    let closing = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{NAMED}",
        NAMED.len()
    );
    let bank = Bank::open([
        Then::AnswerAndClose(closing),
        Then::Answer(answer("200 OK", NAMED)),
    ])
    .await;
    let connector = bank.connector();
    assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
    assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
    assert_eq!((bank.seen().len(), bank.connections()), (2, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_between_two_sends_costs_a_new_connection_and_nothing_else() {
    let rounds = 500;
    let script = vec![Then::AnswerAndClose(answer("200 OK", NAMED)); rounds];
    let bank = Bank::open(script).await;
    let connector = bank.connector();
    for _ in 0..rounds {
        assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
        bank.hung_up.notified().await;
    }
    assert_eq!((bank.seen().len(), bank.connections()), (rounds, rounds));
}

#[tokio::test]
async fn a_hang_up_or_reset_instead_of_an_answer_is_unknown() {
    for then in [Then::Close, Then::Reset] {
        let bank = Bank::open([then.clone(), then]).await;
        let connector = bank.connector();
        assert_unknown(&send(&connector).await, "");
        assert_unknown(&probe(&connector).await, "");
        assert_eq!((bank.seen().len(), bank.connections()), (2, 2));
    }
}

#[tokio::test]
async fn half_an_answer_is_unknown_wherever_it_breaks_off() {
    let whole = answer("200 OK", NAMED);
    let refused = answer("422 Unprocessable", NO_ACCOUNT);
    let chunked =
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n15\r\n{\"paymentId\":\"pay_1\"}\r\n";
    let halves = [
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\ncontent-le",
        &whole[..whole.len() - NAMED.len()],
        &whole[..whole.len() - 1],
        &refused[..refused.len() - 1],
        chunked,
        "this is not HTTP\r\n\r\n",
    ];
    for half in halves {
        let bank = Bank::open([Then::AnswerAndClose(half.into())]).await;
        assert_unknown(&send(&bank.connector()).await, "");
        assert_eq!(bank.seen().len(), 1, "{half:?}");
    }
}

#[tokio::test]
async fn no_answer_or_half_of_one_in_time_is_unknown_and_frees_the_line() {
    let half = answer("200 OK", NAMED);
    let bank = Bank::open([
        Then::StaySilent,
        Then::Answer(half[..half.len() - 1].into()),
        Then::Answer(answer("200 OK", NAMED)),
    ])
    .await;
    let connector = impatient(&bank.url);
    assert_unknown(&send(&connector).await, "no complete answer within 100ms");
    assert_unknown(&send(&connector).await, "no complete answer within 100ms");
    assert_eq!(send(&connector).await, Outcome::Done(NAMED.into()));
    assert_eq!((bank.seen().len(), bank.connections()), (3, 3));
}

#[tokio::test]
async fn an_answer_over_the_bound_is_unknown_and_its_connection_is_not_used_again() {
    let sized = |bytes: usize| format!("{NAMED}{}", " ".repeat(bytes - NAMED.len()));
    let fits = sized(MAX_ANSWER_BYTES);
    let too_large = sized(MAX_ANSWER_BYTES + 1);
    let bank = Bank::open([
        Then::Answer(answer("200 OK", &sized(3_000_000))),
        Then::Answer(answer("200 OK", &too_large)),
        Then::Answer(answer("400 Bad Request", &too_large)),
        Then::Answer(answer("200 OK", &fits)),
    ])
    .await;
    let connector = bank.connector();
    for _ in 0..3 {
        assert_unknown(&send(&connector).await, "larger than 65536 bytes");
    }
    assert_eq!(send(&connector).await, Outcome::Done(fits));
    assert_eq!((bank.seen().len(), bank.connections()), (4, 4));
}

#[tokio::test]
async fn a_key_that_is_no_header_is_not_sent() {
    let bank = Bank::open([]).await;
    let connection = bank.connector().connection().await.unwrap();
    let request = Request {
        idempotency_key: "a\r\nb".into(),
        ..request()
    };
    let outcome = connection.send(permit(), &request).await.unwrap().outcome;
    assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
    assert!(bank.seen().is_empty());
}

#[tokio::test]
async fn there_are_never_more_lines_than_allowed() {
    let bank = Bank::open([]).await;
    let connector = impatient(&bank.url);
    let held = connector.connection().await.unwrap();
    let said = connector.connection().await.err().unwrap();
    assert_eq!(
        said,
        NoConnection::Busy(format!(
            "bank {}: all 1 connections were busy for 100ms",
            bank.url
        ))
    );
    drop(held);
    assert!(connector.connection().await.is_ok());
    assert_eq!(bank.connections(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_no_line() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let said = connector(&url, 1).connection().await.err().unwrap();
    let refused = format!("bank {url}: connection refused");
    assert_eq!(said, NoConnection::Unreachable(refused));
}

#[test]
fn options_that_cannot_work_are_refused_in_one_sentence() {
    let said = |options| HttpConnector::new(options).unwrap_err();
    assert_eq!(
        said(options("ftp://bank.example")),
        "connector \"bank\": the URL \"ftp://bank.example\" must start with http:// or https://"
    );
    let mut none = options("http://bank");
    none.max_connections = 0;
    assert!(said(none).contains("0 connections"));
    let mut hasty = options("http://bank");
    hasty.profile.timeout = Duration::ZERO;
    assert!(said(hasty).contains("timeout of 0"));
}
