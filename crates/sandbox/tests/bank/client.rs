//! Plain clients: one that understands HTTP, and one that shows every byte and how it ended.

use std::{io::ErrorKind, time::Duration};

use anyhow::Context;
use bytes::Bytes;
use http::{Request, StatusCode, response::Parts};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tollgate_sandbox::{Bank, Effect};

/// Where silence is expected, so long of it is enough.
pub(crate) const SILENCE: Duration = Duration::from_millis(300);
/// No test waits longer for anything.
pub(crate) const BOUND: Duration = Duration::from_secs(30);

/// One keep-alive connection to the bank.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Value,
}

impl Client {
    pub(crate) async fn connect(bank: &Bank) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(bank.address()).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    pub(crate) async fn send(&mut self, key: &str, body: &str) -> anyhow::Result<Reply> {
        let request = Request::post("/payments").header("idempotency-key", key);
        self.exchange(request.body(Full::from(body.to_owned()))?)
            .await
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Reply> {
        self.exchange(Request::get(path).body(Full::default())?)
            .await
    }

    /// The body of an answer that is no JSON.
    pub(crate) async fn text(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<String> {
        let (_, body) = self.whole(request).await?;
        Ok(String::from_utf8(body.to_vec())?)
    }

    async fn whole(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<(Parts, Bytes)> {
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        Ok((head, body.collect().await?.to_bytes()))
    }

    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<Reply> {
        let (head, body) = self.whole(request).await?;
        let retry_after = head.headers.get("retry-after");
        Ok(Reply {
            status: head.status,
            retry_after: retry_after
                .map(|value| value.to_str().map(str::to_owned))
                .transpose()?,
            body: serde_json::from_slice(&body).context("every answer is JSON")?,
        })
    }
}

pub(crate) fn payment(id: &str, amount: &str, currency: &str) -> String {
    let (debtor, creditor) = (json!({"account": "D1"}), json!({"account": "C1"}));
    json!({
        "paymentId": id, "amount": amount, "currency": currency, "debtor": debtor,
        "creditor": creditor, "gateway": "stripe", "reference": "r",
    })
    .to_string()
}

pub(crate) fn effects(bank: &Bank) -> Vec<Effect> {
    let entries = bank.ledger().entries();
    entries.iter().map(|entry| entry.effect).collect()
}

/// How a connection ended, seen from the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Closed,
    Reset,
    /// Still open, and nothing comes.
    Silent,
}

/// All that came back on a connection.
pub(crate) struct Wire {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) end: End,
}

impl Wire {
    /// 0 if there was no answer.
    pub(crate) fn status(&self) -> u16 {
        let word = self.head.split(' ').nth(1);
        word.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }
}

/// Sends on a connection of its own and reads until it ends.
pub(crate) async fn send_raw(bank: &Bank, key: &str, body: &str) -> anyhow::Result<Wire> {
    send_until_silent(bank, key, body, BOUND).await
}

/// Also ends when nothing came for so long.
pub(crate) async fn send_until_silent(
    bank: &Bank,
    key: &str,
    body: &str,
    silence: Duration,
) -> anyhow::Result<Wire> {
    let length = body.len();
    let request = format!(
        "POST /payments HTTP/1.1\r\nhost: b\r\nconnection: close\r\nidempotency-key: {key}\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(bank.address()).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = vec![];
    let end = loop {
        match timeout(silence, stream.read_buf(&mut bytes)).await {
            Err(_) => break End::Silent,
            Ok(Ok(0)) => break End::Closed,
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
            Ok(Err(error)) => return Err(error.into()),
        }
    };
    let gap = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let body = gap.map(|gap| bytes.split_off(gap + 4)).unwrap_or_default();
    let head = String::from_utf8(bytes)?.to_lowercase();
    Ok(Wire { head, body, end })
}

/// The bank has read the whole of its latest arrival.
pub(crate) async fn has_read_its_latest(bank: &Bank) {
    eventually("the latest arrival has been read", async || {
        let entries = bank.ledger().entries();
        entries
            .last()
            .is_some_and(|entry| entry.body_sha256.is_some())
    })
    .await;
}

/// Asks again and again until the answer is there, within a bound.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let so = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(
        timeout(BOUND, so).await.is_ok(),
        "{what}: not within {BOUND:?}"
    );
}
