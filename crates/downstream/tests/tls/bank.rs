//! A downstream behind TLS that follows a script, with a certificate from an authority of its own.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let common = rcgen::DnType::CommonName;
    params.distinguished_name.push(common, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate's request for this name, valid now.
pub(crate) fn named(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

/// What the server does with the next request it has read.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    Answer(String),
    /// Answers and changes its keys: bytes on the socket that are no answer and no goodbye.
    AnswerAndChangeKeys(String),
    /// Answers and says goodbye in TLS, with the socket left open.
    AnswerAndSayGoodbye(String),
    /// Answers and closes the socket without a goodbye.
    AnswerAndHangUp(String),
    StaySilent,
}

pub(crate) struct Bank {
    pub(crate) url: String,
    /// The authority's certificate.
    pub(crate) roots: PathBuf,
    script: Mutex<Vec<Then>>,
    seen: Mutex<Vec<String>>,
    connections: Mutex<usize>,
    /// A handshake is over, and the session tickets are out.
    pub(crate) opened: Notify,
    /// The script's entry has been followed to its end.
    pub(crate) followed: Notify,
    /// How many clients have hung up and were not waited for yet.
    ended: Semaphore,
    /// Lets each connection end before its first request.
    pub(crate) dismissed: Notify,
    _folder: TempDir,
}

impl Bank {
    pub(crate) async fn open(script: impl IntoIterator<Item = Then>) -> Arc<Self> {
        Self::certified(&authority("ours"), named("localhost"), script).await
    }

    pub(crate) async fn certified(
        authority: &Authority,
        params: CertificateParams,
        script: impl IntoIterator<Item = Then>,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let roots = folder.path().join("roots.pem");
        std::fs::write(&roots, authority.pem()).unwrap();
        let mut script: Vec<Then> = script.into_iter().collect();
        script.reverse();
        let bank = Arc::new(Self {
            url: format!(
                "https://localhost:{}",
                listener.local_addr().unwrap().port()
            ),
            roots,
            script: Mutex::new(script),
            seen: Mutex::default(),
            connections: Mutex::default(),
            opened: Notify::new(),
            followed: Notify::new(),
            ended: Semaphore::new(0),
            dismissed: Notify::new(),
            _folder: folder,
        });
        let acceptor = acceptor(authority, &params);
        let serving = Arc::clone(&bank);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // What is written is in the client's kernel when the write is over.
                stream.set_nodelay(true).unwrap();
                *serving.connections.lock().unwrap() += 1;
                let serving = Arc::clone(&serving);
                let accepting = acceptor.accept(stream);
                tokio::spawn(async move {
                    if let Ok(stream) = accepting.await {
                        serving.serve(stream).await;
                    }
                });
            }
        });
        bank
    }

    /// Waits until clients have hung up on so many connections.
    pub(crate) async fn ended(&self, connections: u32) {
        let ended = self.ended.acquire_many(connections).await;
        ended.unwrap().forget();
    }

    async fn serve(&self, mut stream: TlsStream<TcpStream>) {
        self.opened.notify_one();
        loop {
            let request = tokio::select! {
                request = read_request(&mut stream) => request,
                () = self.dismissed.notified() => {
                    say_goodbye(&mut stream).await;
                    self.followed.notify_one();
                    // The socket stays open until the client closes it.
                    read_request(&mut stream).await
                }
            };
            let Some(request) = request else {
                self.ended.add_permits(1);
                return;
            };
            self.seen.lock().unwrap().push(request);
            let then = self.script.lock().unwrap().pop();
            let then = then.expect("more requests than the script has answers");
            let hangs_up = matches!(then, Then::AnswerAndHangUp(_));
            follow(&mut stream, then).await;
            if hangs_up {
                drop(stream);
                self.followed.notify_one();
                return;
            }
            self.followed.notify_one();
        }
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn follow(stream: &mut TlsStream<TcpStream>, then: Then) {
    match then {
        Then::Answer(text) | Then::AnswerAndHangUp(text) => write(stream, &text).await,
        Then::AnswerAndChangeKeys(text) => {
            write(stream, &text).await;
            stream.get_mut().1.refresh_traffic_keys().unwrap();
            stream.flush().await.unwrap_or(());
        }
        Then::AnswerAndSayGoodbye(text) => {
            write(stream, &text).await;
            say_goodbye(stream).await;
        }
        Then::StaySilent => std::future::pending().await,
    }
}

async fn write(stream: &mut TlsStream<TcpStream>, text: &str) {
    // The client hangs up on what is too large.
    stream.write_all(text.as_bytes()).await.unwrap_or(());
    stream.flush().await.unwrap_or(());
}

async fn say_goodbye(stream: &mut TlsStream<TcpStream>) {
    stream.get_mut().1.send_close_notify();
    stream.flush().await.unwrap_or(());
}

fn acceptor(authority: &Authority, params: &CertificateParams) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A whole request, or nothing when the client hangs up between two.
async fn read_request(stream: &mut TlsStream<TcpStream>) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8(bytes.clone()).unwrap();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |digits| digits.parse().unwrap());
            if body.len() == length {
                return Some(text);
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(read) if read > 0 => {}
            Ok(_) | Err(_) => return None,
        }
    }
}
