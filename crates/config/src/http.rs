//! `[http]` and `[tls]`: how the API is served, and what is asked of an address that other machines
//! can reach.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde::Deserialize;

/// No wait of the API is longer.
const LONGEST_SECS: u64 = 3600;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub console: bool,
    pub max_connections: usize,
    pub head_secs: u64,
    pub body_secs: u64,
    pub drain_secs: u64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub ended_by_proxy: bool,
}

impl Http {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.max_connections > 1,
            "http.max_connections must be at least 2"
        );
        let waits = [
            ("head_secs", self.head_secs),
            ("body_secs", self.body_secs),
            ("drain_secs", self.drain_secs),
        ];
        for (key, secs) in waits {
            ensure!(
                (1..=LONGEST_SECS).contains(&secs),
                "http.{key} must be between 1 and {LONGEST_SECS}"
            );
        }
        Ok(())
    }

    pub fn head(&self) -> Duration {
        Duration::from_secs(self.head_secs)
    }
    pub fn body(&self) -> Duration {
        Duration::from_secs(self.body_secs)
    }
    pub fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_secs)
    }
}

impl Tls {
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        ensure!(
            self.certificate.is_some() == self.key.is_some(),
            "tls.certificate and tls.key must be set together"
        );
        ensure!(
            !(self.ended_by_proxy && self.certificate.is_some()),
            "tls.ended_by_proxy and tls.certificate exclude each other; keep one of them"
        );
        Ok(())
    }

    pub fn protects(&self) -> bool {
        self.certificate.is_some() || self.ended_by_proxy
    }
}

/// An address that other machines can reach is served only to who shows a token, and only where
/// nobody can read it on the way.
pub(super) fn may_listen(listen: SocketAddr, tokens: bool, tls: &Tls) -> anyhow::Result<()> {
    if listen.ip().is_loopback() {
        return Ok(());
    }
    ensure!(
        tokens,
        "listen: {listen} can be reached from other machines, which requires tokens; create one with `tollgate token create` and add it to auth.tokens, or listen on 127.0.0.1"
    );
    ensure!(
        tls.protects(),
        "listen: {listen} can be reached from other machines, which requires TLS; set tls.certificate and tls.key, or tls.ended_by_proxy = true if a proxy terminates TLS"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::with;

    #[test]
    fn an_address_for_others_needs_tokens_and_tls() {
        let tokens = format!(
            "auth.tokens = [{{name = \"a\", role = \"read\", sha256 = \"{}\"}}]\n",
            "ab".repeat(32)
        );
        let files = "tls.certificate = \"c.pem\"\ntls.key = \"k.pem\"\n";
        let proxy = "tls.ended_by_proxy = true\n";
        let fine = Ok(());
        let table = [
            ("127.0.0.1:1", String::new(), fine),
            ("[::1]:1", String::new(), fine),
            ("127.0.0.1:1", tokens.clone(), fine),
            ("127.0.0.1:1", files.into(), fine),
            ("0.0.0.0:1", String::new(), Err("which requires tokens")),
            ("[::]:1", files.into(), Err("which requires tokens")),
            ("0.0.0.0:1", proxy.into(), Err("which requires tokens")),
            ("10.0.0.1:1", tokens.clone(), Err("which requires TLS")),
            ("10.0.0.1:1", format!("{tokens}{files}"), fine),
            ("10.0.0.1:1", format!("{tokens}{proxy}"), fine),
        ];
        for (listen, rest, expected) in table {
            let said = with(&format!("listen = \"{listen}\"\n{rest}"));
            let said = said.map(drop).map_err(|error| error.to_string());
            match expected {
                Ok(()) => assert_eq!(said, Ok(()), "{listen} {rest}"),
                Err(why) => {
                    let said = said.unwrap_err();
                    assert!(said.starts_with("listen: ") && said.contains(why), "{said}");
                }
            }
        }
    }

    #[test]
    fn each_contradiction_names_its_key() {
        let table = [
            ("tls.key = \"k\"", "tls.certificate and tls.key"),
            ("tls.certificate = \"c\"", "tls.certificate and tls.key"),
            (
                "tls.certificate = \"c\"\ntls.key = \"k\"\ntls.ended_by_proxy = true",
                "tls.ended_by_proxy",
            ),
            ("http.max_connections = 1", "http.max_connections"),
            ("http.head_secs = 0", "http.head_secs"),
            ("http.body_secs = 3601", "http.body_secs"),
            ("http.drain_secs = 0", "http.drain_secs"),
        ];
        for (toml, key) in table {
            let said = with(toml).unwrap_err().to_string();
            assert!(said.starts_with(key), "{toml}: {said}");
        }
    }
}
