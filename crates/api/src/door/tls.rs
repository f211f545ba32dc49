//! TLS for whoever calls the API: a certificate and its key from files, TLS 1.2 or later.

use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use rustls::ServerConfig;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tollgate_config::Tls;

/// Reads the files, once; none are named where TLS is not wanted.
pub fn acceptor(config: &Tls) -> anyhow::Result<Option<TlsAcceptor>> {
    let (Some(certificate), Some(key)) = (&config.certificate, &config.key) else {
        return Ok(None);
    };
    let chain = read_chain(certificate)?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| {
        anyhow!(
            "tls.key: {} {}",
            key.display(),
            flaw(&error, "private key (without a password)")
        )
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| {
            anyhow!(
                "tls.key: {} does not match tls.certificate {}: {error}",
                key.display(),
                certificate.display()
            )
        })?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}

fn read_chain(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => bail!(
            "tls.certificate: {} contains no certificate; it must be a PEM file, the server's own first",
            file.display()
        ),
        Err(error) => bail!(
            "tls.certificate: {} {}",
            file.display(),
            flaw(&error, "certificate")
        ),
    }
}

/// What is wrong with a file, never what is in it.
fn flaw(error: &PemError, wanted: &str) -> String {
    match error {
        PemError::Io(error) => format!("cannot be read: {error}"),
        PemError::NoItemsFound => format!("contains no {wanted}; it must be a PEM file"),
        _ => format!("is not a PEM file with a {wanted}"),
    }
}
