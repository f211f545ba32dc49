//! A configured bank as a connector: with its certificates, headers and login.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tollgate_config::{NamedBank, Secret, identify};
use tollgate_downstream::{Access, HttpConnector, HttpOptions, LoginOptions};

/// The way to a bank: where it is, what it asks for, and what it is told.
pub fn connector(named: NamedBank) -> anyhow::Result<HttpConnector> {
    let NamedBank {
        key,
        name,
        bank,
        description,
    } = named;
    let mut access = access_to(&key, bank.root_certificates.clone(), &bank.headers)?;
    // Read again while we run: a token in a file is replaced without a restart.
    for (header, secret) in &bank.headers {
        access.log_in(LoginOptions::Header {
            name: header.clone(),
            prefix: String::new(),
            secret: secret.source(),
        });
    }
    if let Some(login) = &bank.login {
        access.log_in(login.options());
    }
    let (certificate, client_key) = (&bank.client_certificate, &bank.client_key);
    let identified = identify(&mut access, certificate.as_deref(), client_key.as_deref());
    identified.map_err(|why| anyhow::anyhow!("{key}.{why}"))?;
    let options = HttpOptions {
        name,
        profile: bank.profile(),
        url: bank.url,
        lane: bank.lane,
        max_connections: bank.max_connections,
    };
    let connector = HttpConnector::describing(description, options, &access);
    connector.map_err(|why| anyhow::anyhow!("{key}: {why}"))
}

/// What the downstream that is configured under this key asks for. Reads its secrets.
pub fn access_to(
    key: &str,
    root_certificates: Option<PathBuf>,
    headers: &BTreeMap<String, Secret>,
) -> anyhow::Result<Access> {
    let mut access = Access::trusting(root_certificates);
    for (header, secret) in headers {
        let added = secret
            .value()
            .and_then(|value| access.add_header(header, &value));
        added.map_err(|why| anyhow::anyhow!("{key}.headers.{header}: {why}"))?;
    }
    Ok(access)
}
