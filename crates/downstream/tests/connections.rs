//! When a connection has a socket, how many there are, and when the right to send on it ends. The server
//! takes connections one by one, as the test says.

#![expect(
    clippy::unwrap_used,
    reason = "a test may; clippy sees only the test functions as such"
)]

use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tollgate_core::Timestamp;
use tollgate_core::id::{AttemptId, LaneName};
use tollgate_core::marker::Marker;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{Connection, Connector, NoConnection, Permit, Profile, Request};
use tollgate_downstream::{HttpConnector, HttpOptions};

const NAMED: &str = r#"{"paymentId":"pay_1"}"#;

struct Bank {
    listener: TcpListener,
}

impl Bank {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// How many have connected and were not accepted.
    async fn waiting(&self) -> usize {
        let mut count = 0;
        let patience = Duration::from_millis(50);
        while let Ok(Ok(_)) = tokio::time::timeout(patience, self.listener.accept()).await {
            count += 1;
        }
        count
    }

    fn connector(&self, max_connections: usize) -> HttpConnector {
        let options = HttpOptions {
            name: "bank".into(),
            url: format!("http://127.0.0.1:{}", self.port()),
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
            max_connections,
        };
        HttpConnector::new(options).unwrap()
    }
}

/// Reads until the request's last byte, and answers.
async fn serve(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"{}") && !bytes.ends_with(b"\r\n\r\n") {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "hung up");
        if bytes.starts_with(b"POST") && bytes.ends_with(b"\r\n\r\n") {
            stream.read_buf(&mut bytes).await.unwrap();
        }
    }
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{NAMED}",
        NAMED.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
}

fn permit(use_by: Instant) -> Permit {
    Permit::granted_by_the_gate(AttemptId(1), Timestamp::UNIX_EPOCH, 1, use_by.into_std())
}

fn in_time() -> Permit {
    permit(Instant::now() + Duration::from_secs(10))
}

fn request() -> Request {
    Request {
        reference: "pay_1".into(),
        idempotency_key: "payment-pay_1".into(),
        body_json: "{}".into(),
        sent_by: None,
    }
}

async fn connected(connector: &HttpConnector) -> Box<dyn Connection> {
    let mut connection = connector.connection().await.unwrap();
    let now = Instant::now().into_std();
    connection.connect_for(now).await.unwrap();
    connection
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hang_up_before_the_turn_costs_a_new_connection_and_not_the_turn() {
    let bank = Bank::open().await;
    for probing in [false, true].repeat(50) {
        let connector = bank.connector(1);
        let (connection, accepted) = tokio::join!(connected(&connector), bank.accept());
        drop(accepted);
        let request = request();
        let sending = async {
            if probing {
                connection.probe(in_time(), &request).await.unwrap().outcome
            } else {
                connection.send(in_time(), &request).await.unwrap().outcome
            }
        };
        let serving = async { serve(&mut bank.accept().await).await };
        let (outcome, ()) = tokio::join!(sending, serving);
        assert_eq!(outcome, Outcome::Done(NAMED.into()), "probing: {probing}");
    }
}

#[tokio::test]
async fn a_hang_up_for_good_before_the_turn_has_sent_nothing() {
    for probing in [false, true] {
        let bank = Bank::open().await;
        let connector = bank.connector(1);
        let (connection, accepted) = tokio::join!(connected(&connector), bank.accept());
        drop((accepted, bank));
        let outcome = if probing {
            connection
                .probe(in_time(), &request())
                .await
                .unwrap()
                .outcome
        } else {
            connection
                .send(in_time(), &request())
                .await
                .unwrap()
                .outcome
        };
        match (&outcome, probing) {
            (Outcome::Retry { why, .. }, false) => assert!(why.contains("refused"), "{why}"),
            (Outcome::Unknown(why), true) => assert!(why.starts_with("not asked"), "{why}"),
            _ => panic!("{outcome:?}"),
        }
    }
}

/// The process was stopped between the gate and the socket.
#[tokio::test]
async fn after_the_right_to_send_has_ended_not_a_byte_goes_out() {
    let bank = Bank::open().await;
    let connector = bank.connector(1);
    for probing in [false, true] {
        let (connection, mut accepted) = tokio::join!(connected(&connector), bank.accept());
        let late = permit(Instant::now() - Duration::from_millis(1));
        let missed = if probing {
            connection.probe(late, &request()).await.unwrap_err()
        } else {
            connection.send(late, &request()).await.unwrap_err()
        };
        assert!(missed.0.contains("its permit had expired"), "{missed}");
        let mut bytes = Vec::new();
        accepted.read_to_end(&mut bytes).await.unwrap();
        assert_eq!(bytes, b"", "the connection is closed unused");
    }
}

#[tokio::test]
async fn lines_that_wait_for_their_turn_share_one_connection_opened_ahead() {
    let bank = Bank::open().await;
    let connector = bank.connector(500);
    let connections = join_all((0..500).map(|_| connector.connection())).await;
    assert!(connections.iter().all(Result::is_ok));
    assert_eq!(bank.waiting().await, 1);
}

#[tokio::test]
async fn a_bank_that_is_not_there_is_asked_once_for_all_who_wait() {
    let bank = Bank::open().await;
    let connector = bank.connector(500);
    drop(bank);
    let connections = join_all((0..500).map(|_| connector.connection())).await;
    let refused = |connection: &Result<_, NoConnection>| {
        matches!(connection, Err(NoConnection::Unreachable(_)))
    };
    assert!(connections.iter().all(refused));
}

#[tokio::test]
async fn idle_connections_are_closed_though_nobody_sends() {
    let bank = Bank::open().await;
    let connector = bank.connector(4);
    let (connections, mut accepted) = tokio::join!(
        join_all((0..4).map(|_| connected(&connector))),
        join_all((0..4).map(|_| bank.accept())),
    );
    drop(connections);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(4)).await;
    tokio::time::resume();
    for stream in &mut accepted {
        assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
    }
}

/// Each is a row of the kernel's table with our port at its other end.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_costs_one_descriptor() {
    let bank = Bank::open().await;
    let connector = bank.connector(4);
    let (_lines, _accepted) = tokio::join!(
        join_all((0..4).map(|_| connected(&connector))),
        join_all((0..4).map(|_| bank.accept())),
    );
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let to_the_bank = format!(":{:04X}", bank.port());
    let inodes = table.lines().map(|row| row.split_whitespace().collect());
    let inodes: Vec<String> = inodes
        .filter(|columns: &Vec<&str>| columns[2].ends_with(&to_the_bank))
        .map(|columns| format!("socket:[{}]", columns[9]))
        .collect();
    assert_eq!(inodes.len(), 4);
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let ours = open.filter(|link| {
        inodes
            .iter()
            .any(|inode| link.as_os_str() == inode.as_str())
    });
    assert_eq!(ours.count(), 4);
}
