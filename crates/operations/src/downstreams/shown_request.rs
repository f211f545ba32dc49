//! A request as a bank would get it, for people: with its URL, and without a secret.

use std::fmt::Write;

use tollgate_config::{Config, Login, NamedBank};
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::Request;

/// What stands for a secret.
const MASKED: &str = "***";

/// By the configuration of the bank of this name; "default" is the one of payments that name no gateway.
pub fn shown_request(
    config: &Config,
    name: &str,
    kind: AttemptKind,
    request: &Request,
) -> anyhow::Result<String> {
    shown(&config.downstream.bank(name)?, kind, request)
}

pub(crate) fn shown(
    named: &NamedBank,
    kind: AttemptKind,
    request: &Request,
) -> anyhow::Result<String> {
    let NamedBank {
        key,
        bank,
        description,
        ..
    } = named;
    let plain = description.shown_request(kind, request);
    let plain = plain.map_err(|why| anyhow::anyhow!("{key}: {why}"))?;
    let (line, rest) = plain.split_once('\n').unwrap_or((&plain, ""));
    let (method, path) = line.split_once(' ').unwrap_or((line, ""));
    let url = bank.url.trim_end_matches('/');
    let mut shown = format!("{method} {url}{path}\n");
    for header in bank.headers.keys() {
        // Writing to a string does not fail.
        let _ = writeln!(shown, "{}: {MASKED}", header.to_lowercase());
    }
    if let Some(login) = &bank.login {
        let _ = writeln!(shown, "{}", masked(login));
    }
    shown.push_str(rest);
    Ok(shown.trim_end().to_owned())
}

fn masked(login: &Login) -> String {
    match login {
        Login::Bearer { .. } | Login::Oauth2 { .. } => format!("authorization: Bearer {MASKED}"),
        Login::Basic { .. } => format!("authorization: Basic {MASKED}"),
        Login::ApiKey { header, .. } | Login::Hmac { header, .. } => {
            format!("{}: {MASKED}", header.to_lowercase())
        }
    }
}
