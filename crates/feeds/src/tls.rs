//! TLS to brokers: their certificates are always checked, against the system's root certificates or those in a file.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// `identity` is our own certificate and its key, where brokers want one.
pub fn tls(
    root_file: Option<&Path>,
    identity: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(root_file)?);
    let config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate, "client_certificate")?;
            let file = key.display();
            let key = PrivateKeyDer::from_pem_file(key);
            let key = key.map_err(|error| format!("client_key: {file} cannot be read: {error}"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                format!("client_certificate and client_key do not match: {error}")
            })?
        }
    };
    Ok(Arc::new(config))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("tls needs root certificates and none were found; install ca-certificates, or give a file with root_certificates".into());
        }
        return Ok(roots);
    };
    for certificate in certificates(file, "root_certificates")? {
        roots.add(certificate).map_err(|error| {
            let file = file.display();
            format!("root_certificates: {file} contains an invalid root certificate: {error}")
        })?;
    }
    Ok(roots)
}

fn certificates(file: &Path, field: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let file = file.display();
    let read = read.map_err(|error| format!("{field}: {file} cannot be read: {error}"))?;
    if read.is_empty() {
        return Err(format!(
            "{field}: {file} contains no certificate; it must be a PEM file"
        ));
    }
    Ok(read)
}
