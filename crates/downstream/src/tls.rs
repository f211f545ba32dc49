//! TLS to a downstream: its certificate is always checked, chain and name, against the system's
//! root certificates or those in a file. Sessions are not resumed, so every new connection checks
//! it anew, and no request ever travels as early data.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::access::Identity;
use crate::connection::plain_io;
use crate::encrypted::Raw;

/// Cheap to clone: clones share what was read.
#[derive(Clone)]
pub(crate) struct Tls {
    current: Arc<Mutex<Current>>,
    roots: Arc<RootCertStore>,
    identity: Option<Identity>,
    name: ServerName<'static>,
}

struct Current {
    connector: TlsConnector,
    /// What the identity's files looked like when they were read.
    stamp: Stamp,
}

/// When each file was written, and how long it is.
type Stamp = Vec<Option<(SystemTime, u64)>>;

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the root certificates, once, and who we are, which is read again when its files change.
    pub(crate) fn to(
        host: &str,
        root_file: Option<&Path>,
        identity: Option<&Identity>,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is not a valid host name"))?;
        let roots = Arc::new(roots(root_file)?);
        let current = Current {
            stamp: stamp(identity),
            connector: connector(&roots, identity)?,
        };
        Ok(Self {
            current: Arc::new(Mutex::new(current)),
            roots,
            identity: identity.cloned(),
            name,
        })
    }

    #[tracing::instrument(level = "debug", skip_all)]
    pub(crate) async fn handshake(&self, stream: Raw) -> Result<TlsStream<Raw>, String> {
        let connector = self.connector();
        let shaking = connector.connect(self.name.clone(), stream);
        shaking.await.map_err(|error| why(&error))
    }

    /// With the identity as it is now. Files that do not go together, as in the middle of being replaced, are read
    /// again with the next connection; until then the last that did are shown.
    fn connector(&self) -> TlsConnector {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if self.identity.is_some() {
            let stamp = stamp(self.identity.as_ref());
            if stamp != current.stamp
                && let Ok(connector) = connector(&self.roots, self.identity.as_ref())
            {
                *current = Current { connector, stamp };
            }
        }
        current.connector.clone()
    }
}

fn stamp(identity: Option<&Identity>) -> Stamp {
    let files = identity.map(|identity| [&identity.certificate, &identity.key]);
    let files = files.into_iter().flatten();
    let seen = files.map(|file| {
        let seen = std::fs::metadata(file).ok()?;
        Some((seen.modified().ok()?, seen.len()))
    });
    seen.collect()
}

fn connector(
    roots: &Arc<RootCertStore>,
    identity: Option<&Identity>,
) -> Result<TlsConnector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(Arc::clone(roots));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let (chain, key) = read_identity(identity)?;
            let made = builder.with_client_auth_cert(chain, key);
            made.map_err(|error| {
                format!("client_certificate and client_key do not match: {error}")
            })?
        }
    };
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn read_identity(
    Identity { certificate, key }: &Identity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain = CertificateDer::pem_file_iter(certificate);
    let chain = chain.and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let file = certificate.display();
    let chain =
        chain.map_err(|error| format!("client_certificate: {file} cannot be read: {error}"))?;
    if chain.is_empty() {
        return Err(format!(
            "client_certificate: {file} contains no certificate; it must be a PEM file"
        ));
    }
    let file = key.display();
    let key = PrivateKeyDer::from_pem_file(key);
    let key = key.map_err(|error| format!("client_key: {file} cannot be read: {error}"))?;
    Ok((chain, key))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("https:// needs root certificates and none were found; install ca-certificates, or give a file with root_certificates".into());
        }
        return Ok(roots);
    };
    let bad = |why: String| format!("root_certificates: {} {why}", file.display());
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    for certificate in read.map_err(|error| bad(format!("cannot be read: {error}")))? {
        roots
            .add(certificate)
            .map_err(|error| bad(format!("contains an invalid root certificate: {error}")))?;
    }
    if roots.is_empty() {
        return Err(bad("contains no certificate; it must be a PEM file".into()));
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
            "none of the root certificates has signed it; add its issuer to root_certificates"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its name does not match the URL's host".to_owned()
        }
        other => other.to_string(),
    }
}
