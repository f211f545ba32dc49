//! A small blocking HTTP client: one request, one connection, one answer.

use std::fs::File;
use std::io::{Read, Write, copy};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

pub(crate) fn get(address: SocketAddr, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&get_text(address, path)?)?)
}

pub(crate) fn get_text(address: SocketAddr, path: &str) -> Result<String> {
    exchange(address, &format!("GET {path}"), "", |_| Ok(()))
}

pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Result<Value> {
    send(address, &format!("POST {path}"), body)
}

pub(crate) fn put(address: SocketAddr, path: &str, body: &Value) -> Result<Value> {
    send(address, &format!("PUT {path}"), body)
}

fn send(address: SocketAddr, what: &str, body: &Value) -> Result<Value> {
    let body = body.to_string();
    let headers = headers("application/json", body.len() as u64);
    let answer = exchange(address, what, &headers, |stream| {
        stream.write_all(body.as_bytes())?;
        Ok(())
    })?;
    Ok(serde_json::from_str(&answer)?)
}

/// Streams a file of NDJSON.
pub(crate) fn post_file(address: SocketAddr, path: &str, file: &Path) -> Result<Value> {
    let mut file = File::open(file)?;
    let headers = headers("application/x-ndjson", file.metadata()?.len());
    let answer = exchange(address, &format!("POST {path}"), &headers, |stream| {
        copy(&mut file, stream)?;
        Ok(())
    })?;
    Ok(serde_json::from_str(&answer)?)
}

fn headers(kind: &str, length: u64) -> String {
    format!("content-type: {kind}\r\ncontent-length: {length}\r\n")
}

fn exchange(
    address: SocketAddr,
    what: &str,
    headers: &str,
    body: impl FnOnce(&mut TcpStream) -> Result<()>,
) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{what} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\r\n"
    )?;
    body(&mut stream)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("incomplete answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status.starts_with('2'), "{what}: {status} {body}");
    Ok(body.to_owned())
}
