//! A load balancer between us and a bank without keys, which answers in the bank's place for a while: at first
//! instead of passing requests on, then after it has. Payments run meanwhile, and persons resume the lane too early.
//! The judge is the bank's ledger: nothing is paid twice, and nothing that was paid is REJECTED.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tollgate_conformance::postgres as cluster;

use crate::money::{Street, promises};
use crate::town::Town;

const PAYMENTS: usize = 30;
/// Of the requests that come by: when the stranger begins to answer, when it begins to pass them on
/// nevertheless, and when it is gone.
const ANSWERS_FROM: usize = 10;
const LOSES_FROM: usize = 30;
const GONE_FROM: usize = 60;
/// More than any payment takes on a busy machine.
const LONG: Duration = Duration::from_mins(2);

/// What strangers say: status, content type and body.
const STRANGERS: [(&str, &str, &str); 6] = [
    ("404 Not Found", "text/plain", "default backend - 404"),
    ("404 Not Found", "text/html", "<html><h1>404</h1></html>"),
    ("404 Not Found", "", ""),
    (
        "404 Not Found",
        "application/json",
        r#"{"message":"no Route matched with those values"}"#,
    ),
    ("400 Bad Request", "text/html", "<html>nginx</html>"),
    ("403 Forbidden", "text/plain", "Forbidden"),
];

/// Counts the requests that come by.
struct Balancer {
    bank: String,
    seen: AtomicUsize,
    answer: Vec<u8>,
}

impl Balancer {
    async fn before(bank: &str, (status, kind, body): (&str, &str, &str)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let kind = match kind {
            "" => String::new(),
            kind => format!("content-type: {kind}\r\n"),
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\n{kind}content-length: {length}\r\n\r\n{body}");
        let balancer = Arc::new(Self {
            bank: bank.strip_prefix("http://").unwrap().to_owned(),
            seen: AtomicUsize::new(0),
            answer: answer.into(),
        });
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&balancer).serve(client));
            }
        });
        url
    }

    async fn serve(self: Arc<Self>, mut client: TcpStream) {
        let mut bank = TcpStream::connect(&self.bank).await.unwrap();
        while let Some(request) = whole_message(&mut client).await {
            let number = self.seen.fetch_add(1, Ordering::SeqCst);
            let answer = match number {
                ANSWERS_FROM..LOSES_FROM => self.answer.clone(),
                _ => {
                    bank.write_all(&request).await.unwrap();
                    let answer = whole_message(&mut bank).await.unwrap();
                    if (LOSES_FROM..GONE_FROM).contains(&number) {
                        self.answer.clone()
                    } else {
                        answer
                    }
                }
            };
            if client.write_all(&answer).await.is_err() {
                return;
            }
        }
    }
}

/// A request or an answer, head and body; nothing when the other side hangs up.
async fn whole_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = vec![];
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then_some(value)
            });
            if body.len() >= length.map_or(0, |digits| digits.parse().unwrap()) {
                return Some(bytes);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

async fn pay_through(town: Town, stranger: (&'static str, &'static str, &'static str)) {
    let mut street = Street::of(town, "", promises(false));
    street.url = Balancer::before(&street.url, stranger).await;
    street.town.admit("p", "default", PAYMENTS).await;
    let street = Arc::new(street);
    let mut payments = JoinSet::new();
    for n in 0..PAYMENTS {
        let street = Arc::clone(&street);
        payments.spawn(async move {
            let id = format!("p{n}");
            while !street.ends(&id).await {}
        });
    }
    let paid = tokio::time::timeout(LONG, payments.join_all()).await;
    paid.unwrap_or_else(|_| panic!("{stranger:?}: not all payments end"));
    for n in 0..PAYMENTS {
        let id = format!("p{n}");
        let wrong = street.check(&id).await;
        assert_eq!(wrong, Vec::<String>::new(), "{stranger:?}");
        let status = street.town.item(&id).await.status;
        assert_eq!(
            status, "ACCEPTED",
            "{stranger:?} {id}: the bank refused none"
        );
    }
    let doubles = street.bank.ledger().doubles();
    assert!(
        doubles.is_empty(),
        "{stranger:?}: MONEY: paid twice: {doubles:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_a_stranger_says_each_payment_is_paid_once_and_none_is_rejected() {
    let mut streets = JoinSet::new();
    for stranger in STRANGERS {
        streets.spawn(pay_through(Town::new(500).await, stranger));
    }
    streets.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_a_stranger_says_each_payment_is_paid_once_on_postgres() {
    let mut streets = JoinSet::new();
    for stranger in STRANGERS {
        let url = cluster::shared().database().await;
        let town = Town::on_postgres(&url, 500).await;
        streets.spawn(pay_through(town, stranger));
    }
    streets.join_all().await;
}
