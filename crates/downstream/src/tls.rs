//! TLS to a downstream: its certificate is always checked, chain and name, against the system's
//! root certificates or those in a file. Sessions are not resumed, so every new connection checks
//! it anew, and no request ever travels as early data.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::connection::plain_io;
use crate::encrypted::Raw;

#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the root certificates, once.
    pub(crate) fn to(host: &str, root_file: Option<&Path>) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is no name that a certificate can carry"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(root_file)?)
            .with_no_client_auth();
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    pub(crate) async fn handshake(&self, stream: Raw) -> Result<TlsStream<Raw>, String> {
        let shaking = self.connector.connect(self.name.clone(), stream);
        shaking.await.map_err(|error| why(&error))
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("https:// needs root certificates and none were found; install ca-certificates, or name a file with root_certificates".into());
        }
        return Ok(roots);
    };
    let bad = |why: String| format!("root_certificates: {} {why}", file.display());
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for certificate in read.map_err(|error| bad(format!("cannot be read: {error}")))? {
        roots
            .add(certificate)
            .map_err(|error| bad(format!("holds what is no root certificate: {error}")))?;
    }
    if roots.is_empty() {
        return Err(bad("holds no certificate; it must be a PEM file".into()));
    }
    Ok(roots)
}

/// One sentence about a handshake that failed. Nothing of the request was sent.
fn why(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(error)) => {
            format!("its certificate is not accepted: {}", flaw(error))
        }
        Some(error) => format!("the TLS handshake failed: {error}"),
        None => format!("the TLS handshake failed: {}", plain_io(error)),
    }
}

fn flaw(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => {
            "none of the root certificates has signed it; name its issuer's in root_certificates"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another name than the URL's host".to_owned()
        }
        other => other.to_string(),
    }
}
