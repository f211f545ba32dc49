//! TLS to the server: the certificate is always checked, chain and name.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::SettingError;

pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// To this host, which may be an IPv6 address in brackets.
    pub(crate) fn to(host: &str, ca_file: Option<&Path>) -> Result<Self, SettingError> {
        let host = host.trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|source| SettingError::Host {
            host,
            source: source.into(),
        })?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring has ciphers for TLS 1.2 and 1.3")
            .with_root_certificates(trusted(ca_file)?)
            .with_no_client_auth();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    pub(crate) async fn handshake(
        &self,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

/// The certificates of the file, or else the system's.
fn trusted(file: Option<&Path>) -> Result<RootCertStore, SettingError> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(SettingError::NoRoots);
        }
        return Ok(roots);
    };
    let wrong = |what: String| SettingError::CaFile(format!("{} {what}", file.display()));
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for certificate in read.map_err(|error| wrong(format!("cannot be read: {error}")))? {
        let added = roots.add(certificate);
        added.map_err(|error| wrong(format!("contains an invalid root certificate: {error}")))?;
    }
    if roots.is_empty() {
        return Err(wrong(
            "contains no certificate; it must be a PEM file".to_owned(),
        ));
    }
    Ok(roots)
}
