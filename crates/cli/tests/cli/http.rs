//! A small blocking HTTP client: one request, one connection, whatever comes back.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// Null if it is no JSON.
    pub(crate) body: Value,
    pub(crate) text: String,
}

pub(crate) fn get(address: SocketAddr, path: &str) -> std::io::Result<Response> {
    exchange(
        address,
        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"),
    )
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> std::io::Result<Response> {
    post_raw(address, path, "application/json", &body.to_string())
}

/// A post that does not wait for its answer.
pub(crate) fn put(address: SocketAddr, path: &str, body: &Value) -> std::io::Result<Response> {
    let kind = "content-type: application/json";
    send(address, "PUT", path, kind, &body.to_string())
}

pub(crate) fn post_async(
    address: SocketAddr,
    path: &str,
    body: &Value,
) -> std::io::Result<Response> {
    post_raw(
        address,
        path,
        "application/json\r\nprefer: respond-async",
        &body.to_string(),
    )
}

pub(crate) fn post_raw(
    address: SocketAddr,
    path: &str,
    kind: &str,
    body: &str,
) -> std::io::Result<Response> {
    let kind = format!("content-type: {kind}");
    send(address, "POST", path, &kind, body)
}

/// Any method, with a header or more.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> std::io::Result<Response> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\ncontent-length: {length}\r\n\r\n"
    );
    exchange(address, &(head + body))
}

pub(crate) fn exchange(address: SocketAddr, request: &str) -> std::io::Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let broken = || std::io::Error::other(format!("incomplete answer: {answer:?}"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .ok_or_else(broken)?;
    let text = body.to_owned();
    let body = serde_json::from_str(body).unwrap_or(Value::Null);
    Ok(Response {
        status,
        head: head.to_lowercase(),
        body,
        text,
    })
}
