//! A client certificate that ends in the middle of a storm, through the binary. The judge is the bank's ledger.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tollgate_sandbox::{Bank, BankOptions};

use crate::fixture::http::{get, post};
use crate::fixture::pair::payment;
use crate::fixture::served::{Served, Setting, eventually};

const SOON: Duration = Duration::from_secs(30);

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Who we are, as files. The certificate, to know it by.
fn issue(authority: &Authority, folder: &Path) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    let named = CertificateParams::new(vec!["us".to_owned()]).unwrap();
    let certificate = named.signed_by(&key, authority).unwrap();
    std::fs::write(folder.join("client.pem"), certificate.pem()).unwrap();
    std::fs::write(folder.join("client-key.pem"), key.serialize_pem()).unwrap();
    certificate.der().to_vec()
}

fn acceptor(authority: &Authority) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut members = RootCertStore::empty();
    members.add(authority.der().clone()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(members), Arc::clone(&provider));
    let key = KeyPair::generate().unwrap();
    let named = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = named.signed_by(&key, authority).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// The door of a bank that lets in one certificate at a time, and cuts everybody off when it ends.
struct MembersOnly {
    url: String,
    valid: watch::Sender<Vec<u8>>,
    /// How many came with another one.
    turned_away: Arc<Mutex<usize>>,
}

impl MembersOnly {
    async fn before(bank: &Bank, authority: &Authority, valid: Vec<u8>) -> Self {
        let acceptor = acceptor(authority);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "https://localhost:{}",
            listener.local_addr().unwrap().port()
        );
        let (valid, lets_in) = watch::channel(valid);
        let turned_away = Arc::new(Mutex::new(0));
        let (counted, bank) = (Arc::clone(&turned_away), bank.url().replace("http://", ""));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, bank) = (acceptor.clone(), bank.clone());
                let (mut lets_in, counted) = (lets_in.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
                    if *lets_in.borrow_and_update() != shown {
                        *counted.lock().unwrap() += 1;
                        return;
                    }
                    let mut behind = TcpStream::connect(bank).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut stream, &mut behind) => {}
                        _ = lets_in.changed() => {}
                    }
                });
            }
        });
        Self {
            url,
            valid,
            turned_away,
        }
    }
}

#[test]
fn a_certificate_that_ends_in_a_storm_costs_no_payment_and_pauses_nothing() {
    const PAYMENTS: usize = 200;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let bank = Bank::start(BankOptions::default()).unwrap();
    let (ours, folder) = (authority(), tempfile::tempdir().unwrap());
    std::fs::write(folder.path().join("roots.pem"), ours.pem()).unwrap();
    let first = issue(&ours, folder.path());
    let door = runtime.block_on(MembersOnly::before(&bank, &ours, first));
    let at = |file: &str| folder.path().join(file).display().to_string();
    let files = [
        ("root_certificates", "roots.pem"),
        ("client_certificate", "client.pem"),
        ("client_key", "client-key.pem"),
    ];
    let extra = files.map(|(key, file)| format!("downstream.payments.{key} = {:?}\n", at(file)));
    let setting = Setting::new(&bank, &extra.concat());
    let config = setting.config("127.0.0.1:0");
    let environment = [("TOLLGATE_DOWNSTREAM__PAYMENTS__URL", door.url.as_str())];
    let server = Served::start_in(&environment, &config);
    let limit = json!({"configName": "default", "maxPerWindow": 400, "windowSizeSecs": 4,
                       "maxPerSecond": 100, "reason": "a test"});
    let set = post(server.address, "/admin/rate-limit/config", &limit).unwrap();
    assert_eq!(set.status, 200, "{}", set.text);
    for n in 0..PAYMENTS {
        let taken = post(server.address, "/payments", &payment(&format!("p{n}"))).unwrap();
        assert_eq!(taken.status, 201, "{}", taken.text);
    }
    let ledger = bank.ledger();
    runtime.block_on(ledger.wait_for_arrivals(PAYMENTS / 8));
    let ended_at = ledger.arrivals();
    door.valid.send_replace(vec![]);
    eventually("the old one is turned away", SOON, || {
        (*door.turned_away.lock().unwrap() > 0).then_some(())
    });
    door.valid.send_replace(issue(&ours, folder.path()));
    eventually("all are paid", Duration::from_mins(1), || {
        (ledger.effective().len() == PAYMENTS).then_some(())
    });
    assert_eq!(ledger.doubles(), Vec::<String>::new(), "MONEY: paid twice");
    eventually("all have ended", SOON, || {
        let path = format!("/payments?limit={PAYMENTS}&status=PROCESSING");
        let ended = get(server.address, &path).ok()?.body;
        (ended["payments"].as_array()?.len() == PAYMENTS).then_some(())
    });
    let audit = get(server.address, "/admin/audit?limit=100").unwrap().text;
    assert!(!audit.contains("PAUSE"), "{audit}");
    let mut arrivals: Vec<_> = ledger.entries().iter().map(|entry| entry.arrival).collect();
    arrivals.sort();
    let since = arrivals[ended_at.saturating_sub(1)..].windows(2);
    let gap = since.map(|two| two[1].saturating_sub(two[0])).max();
    let turned_away = *door.turned_away.lock().unwrap();
    println!("longest time without an arrival: {gap:?}; turned away {turned_away} times");
    assert_eq!(server.stop(), Some(0));
}
