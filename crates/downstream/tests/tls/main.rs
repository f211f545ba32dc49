//! The HTTP connector over TLS, against a server that the test makes: whom it trusts, when it
//! takes a connection for usable, and how much it reads.

#![expect(
    clippy::unwrap_used,
    reason = "a test may; clippy sees only the test functions as such"
)]

mod bank;
mod identity;

use std::path::Path;
use std::time::Duration;

use tokio::net::TcpListener;
use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::marker::Marker;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{Connection, Connector, Permit, Profile, Request};
use tollgate_downstream::{Access, HttpConnector, HttpOptions, MAX_ANSWER_BYTES};

use crate::bank::{Bank, Then, authority, named};

const NAMED: &str = r#"{"paymentId":"pay_1"}"#;
const BODY: &str = r#"{"paymentId":"pay_1","amount":"125.50"}"#;
/// Enough for every way in which two threads can meet.
const ROUNDS: usize = 200;

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn ok() -> String {
    answer("200 OK", NAMED)
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

fn trusting(url: &str, roots: &Path) -> Result<HttpConnector, String> {
    let access = Access::trusting(Some(roots.to_owned()));
    HttpConnector::with_access(options(url), &access)
}

fn connector(bank: &Bank) -> HttpConnector {
    trusting(&bank.url, &bank.roots).unwrap()
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

async fn connected(connector: &HttpConnector) -> Box<dyn Connection> {
    let mut connection = connector.connection().await.unwrap();
    let now = tokio::time::Instant::now().into_std();
    connection.connect_for(now).await.unwrap();
    connection
}

fn done() -> Outcome {
    Outcome::Done(NAMED.into())
}

#[track_caller]
fn assert_unknown(outcome: &Outcome, says: &str) {
    assert!(
        matches!(outcome, Outcome::Unknown(why) if why.contains(says)),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_send_and_a_probe_carry_the_headers_that_let_us_in() {
    let bank = Bank::open([Then::Answer(ok()), Then::Answer(ok())]).await;
    let mut access = Access::trusting(Some(bank.roots.clone()));
    access.add_header("Authorization", "Bearer secret").unwrap();
    let connector = HttpConnector::with_access(options(&bank.url), &access).unwrap();
    assert!(!format!("{connector:?}").contains("secret"));
    assert_eq!(send(&connector).await, done());
    let connection = connector.connection().await.unwrap();
    assert_eq!(
        connection
            .probe(permit(), &request())
            .await
            .unwrap()
            .outcome,
        done()
    );

    let host = bank.url.strip_prefix("https://").unwrap();
    let posted = format!(
        "POST /payments HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer secret\r\n\
         idempotency-key: payment-pay_1\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    );
    let asked = format!(
        "GET /payments/pay_1 HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer secret\r\n\r\n"
    );
    assert_eq!(bank.seen(), [posted, asked]);
    assert_eq!(bank.connections(), 1);
}

#[tokio::test]
async fn a_certificate_that_proves_nothing_is_no_line() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let mut expired = named("localhost");
    expired.not_before = rcgen::date_time_ymd(2020, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let cases = [
        (
            &theirs,
            named("localhost"),
            "add its issuer to root_certificates",
        ),
        (&ours, named("elsewhere"), "does not match"),
        (&ours, expired, "has expired"),
    ];
    let trusted = Bank::certified(&ours, named("localhost"), []).await;
    for (issuer, params, why) in cases {
        let bank = Bank::certified(issuer, params, []).await;
        let connector = trusting(&bank.url, &trusted.roots).unwrap();
        let said = connector.connection().await.err().unwrap().to_string();
        let start = format!("bank {}: its certificate is not accepted: ", bank.url);
        assert!(said.starts_with(&start) && said.contains(why), "{said}");
        assert!(bank.seen().is_empty());
    }
}

#[tokio::test]
async fn a_server_without_tls_or_without_a_word_is_no_line() {
    let trusted = Bank::open([]).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let connector = trusting(&url, &trusted.roots).unwrap();
    let rude = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.writable().await.unwrap();
        stream
            .try_write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        stream
    };
    let (connection, _stream) = tokio::join!(connector.connection(), rude);
    let said = connection.err().unwrap().to_string();
    assert!(said.contains("the TLS handshake failed: "), "{said}");
    let (connection, accepted) = tokio::join!(connector.connection(), listener.accept());
    accepted.unwrap();
    let said = connection.err().unwrap().to_string();
    assert!(said.contains("no TLS handshake within 3s"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tickets_and_new_keys_do_not_cost_a_connection() {
    let bank = Bank::open(vec![Then::AnswerAndChangeKeys(ok()); ROUNDS]).await;
    let one = connector(&bank);
    for _ in 0..ROUNDS / 2 {
        assert_eq!(send(&one).await, done());
        bank.followed.notified().await;
    }
    assert_eq!(bank.connections(), 1);
    bank.opened.notified().await;
    for round in 0..ROUNDS / 2 {
        let connection = connector(&bank).connection().await.unwrap();
        // The tickets are in the socket or on their way through.
        bank.opened.notified().await;
        assert_eq!(
            connection.send(permit(), &request()).await.unwrap().outcome,
            done(),
            "{round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_goodbye_or_a_hang_up_between_two_sends_costs_a_new_connection_and_nothing_else() {
    for then in [Then::AnswerAndSayGoodbye(ok()), Then::AnswerAndHangUp(ok())] {
        let bank = Bank::open(vec![then.clone(); ROUNDS]).await;
        let connector = connector(&bank);
        for round in 0..ROUNDS {
            assert_eq!(send(&connector).await, done(), "{then:?} {round}");
            bank.followed.notified().await;
        }
        assert_eq!((bank.seen().len(), bank.connections()), (ROUNDS, ROUNDS));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_goodbye_before_the_turn_costs_a_new_connection_and_not_the_turn() {
    let bank = Bank::open(vec![Then::Answer(ok()); ROUNDS]).await;
    for round in 0..ROUNDS {
        let connection = connected(&connector(&bank)).await;
        bank.opened.notified().await;
        bank.dismissed.notify_one();
        bank.followed.notified().await;
        let outcome = connection.send(permit(), &request()).await.unwrap().outcome;
        assert_eq!(outcome, done(), "{round}");
        bank.opened.notified().await;
        bank.followed.notified().await;
        // So that the next round dismisses its own connection and not one of these.
        bank.ended(2).await;
    }
    assert_eq!(
        (bank.seen().len(), bank.connections()),
        (ROUNDS, 2 * ROUNDS)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_right_to_send_has_ended_no_request_goes_out() {
    let bank = Bank::open([]).await;
    for _ in 0..ROUNDS {
        let connection = connected(&connector(&bank)).await;
        let late = tokio::time::Instant::now() - Duration::from_millis(1);
        let (attempt, turn_at) = (AttemptId(1), Timestamp::UNIX_EPOCH);
        let late = Permit::granted_by_the_gate(attempt, turn_at, 1, late.into_std());
        let missed = connection.send(late, &request()).await.unwrap_err();
        assert!(missed.0.contains("its permit had expired"), "{missed}");
        bank.ended(1).await;
    }
    assert!(bank.seen().is_empty());
}

#[tokio::test]
async fn a_connection_that_was_idle_for_long_is_not_trusted_again() {
    let bank = Bank::open(vec![Then::Answer(ok()); 3]).await;
    let connector = connector(&bank);
    for (idle_millis, connections) in [(0, 1), (3_000, 1), (4_000, 2)] {
        tokio::time::pause();
        tokio::time::advance(Duration::from_millis(idle_millis)).await;
        tokio::time::resume();
        assert_eq!(send(&connector).await, done());
        assert_eq!(bank.connections(), connections);
    }
}

#[tokio::test]
async fn an_answer_that_is_too_large_too_late_or_half_is_unknown() {
    let sized = |bytes: usize| format!("{NAMED}{}", " ".repeat(bytes - NAMED.len()));
    let whole = ok();
    let half = whole[..whole.len() - 1].to_owned();
    let bank = Bank::open([
        Then::Answer(answer("200 OK", &sized(3_000_000))),
        Then::Answer(answer("200 OK", &sized(MAX_ANSWER_BYTES + 1))),
        Then::AnswerAndSayGoodbye(half.clone()),
        Then::AnswerAndHangUp(half),
        Then::StaySilent,
        Then::Answer(ok()),
    ])
    .await;
    let mut hasty = options(&bank.url);
    hasty.profile.timeout = Duration::from_millis(500);
    let access = Access::trusting(Some(bank.roots.clone()));
    let connector = HttpConnector::with_access(hasty, &access).unwrap();
    for _ in 0..2 {
        assert_unknown(&send(&connector).await, "larger than 65536 bytes");
    }
    for _ in 0..2 {
        assert_unknown(&send(&connector).await, "incomplete answer");
    }
    assert_unknown(&send(&connector).await, "no complete answer within 500ms");
    assert_eq!(send(&connector).await, done());
    assert_eq!((bank.seen().len(), bank.connections()), (6, 6));
}

#[tokio::test]
async fn root_certificates_that_are_none_are_refused_in_one_sentence() {
    let bank = Bank::open([]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let table = [
        (folder.path().join("missing.pem"), "cannot be read"),
        (file("letter.pem", "Dear bank,"), "contains no certificate"),
        (
            file("garbage.pem", garbage),
            "contains an invalid root certificate",
        ),
    ];
    for (path, why) in table {
        let said = trusting("https://bank.example", &path).unwrap_err();
        let name = path.display().to_string();
        assert!(said.contains(why) && said.contains(&name), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
    let said = trusting("http://bank.example", &bank.roots).unwrap_err();
    assert!(said.contains("requires an https:// URL"), "{said}");
}
