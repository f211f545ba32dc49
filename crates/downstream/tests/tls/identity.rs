//! Mutual TLS: who we are, and that a certificate that is replaced is shown without a restart.

use std::path::Path;
use std::sync::{Arc, Mutex};

use rcgen::KeyPair;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::Connector;
use tollgate_downstream::{Access, HttpConnector};

use crate::bank::{Authority, authority, named};
use crate::{ok, options, permit, request};

/// A certificate and its key, as files. Its DER, to know it by.
fn issue(authority: &Authority, folder: &Path) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let certificate = named("us").signed_by(&key, authority).unwrap();
    std::fs::write(folder.join("client.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.join("client-key.pem"), key.serialize_pem()).unwrap();
    certificate.der().to_vec()
}

/// A bank that lets in whom this authority has signed, and notes who came. One request a connection.
async fn members_only(authority: &Authority) -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut members = RootCertStore::empty();
    members.add(authority.der().clone()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(members), Arc::clone(&provider));
    let key = KeyPair::generate().unwrap();
    let certificate = named("localhost").signed_by(&key, authority).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let came = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&came);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
            let mut buffer = [0; 4096];
            if stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                seen.lock().unwrap().push(shown);
                let closing = ok().replacen("\r\n", "\r\nconnection: close\r\n", 1);
                stream.write_all(closing.as_bytes()).await.unwrap();
                let _ = stream.shutdown().await;
            }
        }
    });
    (url, came)
}

fn member(url: &str, folder: &Path) -> Result<HttpConnector, String> {
    let mut access = Access::trusting(Some(folder.join("roots.pem")));
    access.identify(folder.join("client.pem"), folder.join("client-key.pem"));
    HttpConnector::with_access(options(url), &access)
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_shown_with_the_next_connection() {
    let (ours, folder) = (authority("ours"), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("roots.pem"), ours.pem()).unwrap();
    let (url, came) = members_only(&ours).await;
    let first = issue(&ours, folder.path());
    let connector = member(&url, folder.path()).unwrap();
    let send = async || {
        let connection = connector.connection().await.unwrap();
        connection.send(permit(), &request()).await.unwrap().outcome
    };
    assert!(matches!(send().await, Outcome::Done(_)));
    let second = issue(&ours, folder.path());
    // In the middle of being replaced: a key that is not the certificate's.
    let key = std::fs::read(folder.path().join("client-key.pem")).unwrap();
    std::fs::write(folder.path().join("client-key.pem"), "half a key").unwrap();
    assert!(
        matches!(send().await, Outcome::Done(_)),
        "the last that went together"
    );
    std::fs::write(folder.path().join("client-key.pem"), key).unwrap();
    // One connection may have been opened ahead; the one after it shows the new certificate.
    for _ in 0..3 {
        assert!(matches!(send().await, Outcome::Done(_)));
    }
    let came = came.lock().unwrap();
    assert_eq!(came[0], first);
    assert_eq!(came.last(), Some(&second));
}

#[tokio::test]
async fn a_certificate_without_its_key_is_refused_in_one_sentence() {
    let (ours, folder) = (authority("ours"), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("roots.pem"), ours.pem()).unwrap();
    issue(&ours, folder.path());
    let said = |file: &str, text: &str| {
        issue(&ours, folder.path());
        std::fs::write(folder.path().join(file), text).unwrap();
        member("https://localhost:1", folder.path()).unwrap_err()
    };
    assert!(said("client-key.pem", "").contains("client_key: "));
    assert!(said("client.pem", "no certificate").contains("contains no certificate"));
    let other = KeyPair::generate().unwrap().serialize_pem();
    let mismatch = said("client-key.pem", &other);
    assert!(mismatch.contains("do not match"), "{mismatch}");
    let plain = member("http://localhost:1", folder.path()).unwrap_err();
    assert!(plain.contains("requires an https:// URL"), "{plain}");
}
