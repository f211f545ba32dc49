//! TLS to the service: its certificate is always checked, chain and name.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn to(host: &str, roots: Option<&Path>) -> anyhow::Result<Self> {
        let host = host.trim_matches(['[', ']']).to_owned();
        let wrong = format!("--server: {host:?} is not a valid host name");
        let name = ServerName::try_from(host).context(wrong)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(trusted(roots)?)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    pub(super) async fn handshake(
        &self,
        stream: TcpStream,
    ) -> anyhow::Result<TlsStream<TcpStream>> {
        let shaken = self.connector.connect(self.name.clone(), stream).await;
        shaken.map_err(|error| {
            anyhow!("TLS connection to the service failed: {error} (set the trusted certificate authorities with --ca)")
        })
    }
}

fn trusted(file: Option<&Path>) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        ensure!(
            !roots.is_empty(),
            "https:// needs root certificates and none were found; install ca-certificates, or give a file with --ca"
        );
        return Ok(roots);
    };
    let file_name = file.display();
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for certificate in read.map_err(|error| anyhow!("--ca: {file_name} cannot be read: {error}"))? {
        let added = roots.add(certificate);
        added.map_err(|error| {
            anyhow!("--ca: {file_name} contains an invalid root certificate: {error}")
        })?;
    }
    ensure!(
        !roots.is_empty(),
        "--ca: {file_name} contains no certificate; it must be a PEM file"
    );
    Ok(roots)
}
