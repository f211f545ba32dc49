//! TLS to a server whose certificate comes from an authority of our own: the chain and the name
//! are checked, whatever libpq would do under the same `sslmode`.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use tollgate_conformance::postgres::Cluster;
use tollgate_core::ports::SharedClock;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use crate::open_errors::refusal;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate for `localhost` only, that lets nobody in without TLS.
struct Server {
    cluster: Cluster,
    folder: TempDir,
}

impl Server {
    fn certified_by(authority: &Authority) -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let certificate = params.signed_by(&key, authority).unwrap();
        let cluster = Cluster::with_tls(&certificate.pem(), &key.serialize_pem());
        cluster.insist_on_tls();
        let folder = tempfile::tempdir().unwrap();
        Self { cluster, folder }
    }

    fn url(&self, host: &str, options: &str) -> String {
        let port = self.cluster.port();
        format!("postgres://postgres@{host}:{port}/postgres?{options}")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

/// Opens, and asks on a connection from the pool.
async fn works(url: String) {
    let store = PostgresStore::open(PostgresOptions::at(&url))
        .await
        .unwrap();
    store.now().await.unwrap();
}

#[tokio::test]
async fn a_certificate_is_checked_against_the_named_authority_and_the_name() {
    let (ours, theirs) = (authority("ours"), authority("theirs"));
    let server = Server::certified_by(&ours);
    let right = server.file("ours.pem", &ours.pem());
    let wrong = server.file("theirs.pem", &theirs.pem());
    let right = right.display();

    works(server.url("localhost", &format!("sslmode=require&sslrootcert={right}"))).await;
    works(server.url(
        "localhost",
        &format!("sslmode=verify-full&sslrootcert={right}"),
    ))
    .await;

    let not_theirs = format!("sslmode=verify-full&sslrootcert={}", wrong.display());
    let why = refusal(&server.url("localhost", &not_theirs)).await;
    assert!(
        why.contains("is not trusted") && why.contains("sslrootcert"),
        "{why}"
    );

    let why = refusal(&server.url("localhost", "sslmode=require")).await;
    assert!(why.contains("is not trusted"), "not the system's: {why}");

    let by_number = format!("sslmode=require&sslrootcert={right}");
    let why = refusal(&server.url("127.0.0.1", &by_number)).await;
    assert!(why.contains("not valid for"), "another name: {why}");

    let why = refusal(&server.url("localhost", "")).await;
    assert!(why.contains("sslmode=require"), "the remedy: {why}");
}

#[tokio::test]
async fn a_root_file_that_is_of_no_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let url = |options: &str| format!("postgres://clerk:secret@localhost:1/tollgate?{options}");
    let cases = [
        (
            format!("sslmode=require&sslrootcert={}", empty.display()),
            "no root certificate in",
        ),
        (
            "sslmode=require&sslrootcert=/nowhere.pem".into(),
            "cannot be read",
        ),
        (
            "sslrootcert=/nowhere.pem".into(),
            "requires sslmode=require",
        ),
    ];
    for (options, sentence) in cases {
        let why = refusal(&url(&options)).await;
        assert!(why.contains(sentence), "{why}");
    }
}
