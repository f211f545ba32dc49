//! Tokens for tests, made by the command that makes everybody's.

use std::net::SocketAddr;
use std::process::Command;

use crate::http::{Response, send};
use crate::served::BINARY;

pub(crate) struct Token {
    pub(crate) text: String,
    /// For `auth.tokens`.
    pub(crate) entry: String,
}

pub(crate) fn token(name: &str, role: &str) -> Token {
    let output = Command::new(BINARY)
        .args(["token", "create", "--name", name, "--role", role])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let [text, entry] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("a token and its entry, not: {said}");
    };
    Token {
        text: text.to_owned(),
        entry: entry.to_owned(),
    }
}

/// The line of the configuration that lets them in.
pub(crate) fn auth(tokens: &[&Token]) -> String {
    let entries: Vec<_> = tokens.iter().map(|token| token.entry.as_str()).collect();
    format!("auth.tokens = [{}]\n", entries.join(", "))
}

/// A request as JSON, with this token or none.
pub(crate) fn call(
    address: SocketAddr,
    token: Option<&str>,
    method: &str,
    path: &str,
    body: &str,
) -> Response {
    let authorization = token.map_or(String::new(), |text| {
        format!("\r\nauthorization: Bearer {text}")
    });
    let headers = format!("content-type: application/json{authorization}");
    send(address, method, path, &headers, body).unwrap()
}
