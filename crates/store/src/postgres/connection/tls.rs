//! TLS to the server. Its certificate is always checked, chain and name, against the system's root
//! certificates or those in the file that the URL names.

use std::error::Error;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The URL without its `sslrootcert`, which the driver does not know, and that.
pub(super) fn without_root_file(url: &str) -> (String, Option<String>) {
    let Some((address, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let file = |option: &str| option.strip_prefix("sslrootcert=").map(str::to_owned);
    let root_file = query.split('&').find_map(file);
    let others: Vec<&str> = query.split('&').filter(|o| file(o).is_none()).collect();
    (format!("{address}?{}", others.join("&")), root_file)
}

pub(super) fn verified(root_file: Option<&str>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(match root_file {
        Some(path) => in_file(path)?,
        None => rustls_native_certs::load_native_certs().certs,
    });
    if roots.is_empty() {
        return Err(match root_file {
            Some(path) => format!("there is no root certificate in {path:?}, which the store's URL names as sslrootcert"),
            None => "sslmode=require needs root certificates and none were found; install ca-certificates, or name a file with sslrootcert in the store's URL".into(),
        });
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn in_file(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|e| {
        format!("the store's URL names {path:?} as sslrootcert, which cannot be read: {e}")
    })
}

/// Why the server's certificate was refused, if that is what went wrong.
pub(super) fn refused_certificate(error: &(dyn Error + 'static)) -> Option<String> {
    let mut causes = std::iter::successors(Some(error), |error| (*error).source());
    causes.find_map(|cause| {
        // An I/O error hides what it was made from.
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        let cause = inner.map_or(cause, |inner| inner as &(dyn Error + 'static));
        match cause.downcast_ref::<rustls::Error>()? {
            rustls::Error::InvalidCertificate(why) => Some(why.to_string()),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_file_is_taken_out_of_the_url() {
        let cases = [
            ("postgres://a@b/c", "postgres://a@b/c", None),
            ("postgres://a@b/c?x=1", "postgres://a@b/c?x=1", None),
            (
                "postgres://a@b/c?sslrootcert=/r.pem&x=1",
                "postgres://a@b/c?x=1",
                Some("/r.pem"),
            ),
            (
                "postgres://a@b/c?x=1&sslrootcert=/r.pem",
                "postgres://a@b/c?x=1",
                Some("/r.pem"),
            ),
        ];
        for (url, without, file) in cases {
            let (left, found) = without_root_file(url);
            assert_eq!((left.as_str(), found.as_deref()), (without, file), "{url}");
        }
    }
}
