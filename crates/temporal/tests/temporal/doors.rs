//! A door in front of a real server, which wants a key or a certificate, as a hosted one does.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tollgate_conformance::sample::{self, World};
use tollgate_conformance::temporal::TemporalServer;
use tollgate_core::id::FlowId;
use tollgate_core::ports::FlowView;
use tollgate_temporal::{ConnectError, Registered, Server, Size, TemporalService, Tls};
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Channel, Endpoint, Identity, ServerTlsConfig};
use tonic::{Code, Status};

use crate::outages::{LONG, start, until};

const KEY: &str = "a key";

/// Passes calls on to the server, as long as it knows the caller's key.
#[derive(Clone)]
struct Door {
    server: Channel,
    expired: Arc<AtomicBool>,
    /// How it says no.
    no: Code,
}

impl NamedService for Door {
    const NAME: &'static str = "temporal.api.workflowservice.v1.WorkflowService";
}

impl Service<http::Request<Body>> for Door {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let shown = request.headers().get("authorization");
        let known = shown.is_some_and(|shown| shown == &format!("Bearer {KEY}"));
        if !known || self.expired.load(Ordering::SeqCst) {
            let no = Status::new(self.no, "the key is not valid");
            return async move { Ok(no.into_http()) }.boxed();
        }
        let mut server = self.server.clone();
        async move {
            let ready = std::future::poll_fn(|cx| server.poll_ready(cx)).await;
            let passed = match ready {
                Ok(()) => server.call(request).await,
                Err(error) => Err(error),
            };
            Ok(passed.unwrap_or_else(|error| Status::unavailable(error.to_string()).into_http()))
        }
        .boxed()
    }
}

/// A server behind a door, at an address of its own.
struct Behind {
    address: String,
    expired: Arc<AtomicBool>,
    _server: TemporalServer,
}

impl Behind {
    fn a_door(no: Code, tls: Option<ServerTlsConfig>) -> Self {
        let server = TemporalServer::start();
        let endpoint = Endpoint::from_shared(format!("http://{}", server.address())).unwrap();
        let expired = Arc::new(AtomicBool::new(false));
        let door = Door {
            server: endpoint.connect_lazy(),
            expired: Arc::clone(&expired),
            no,
        };
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = incoming.local_addr().unwrap().port();
        let mut builder = tonic::transport::Server::builder();
        if let Some(tls) = tls {
            builder = builder.tls_config(tls).unwrap();
        }
        tokio::spawn(builder.add_service(door).serve_with_incoming(incoming));
        Self {
            address: format!("127.0.0.1:{port}"),
            expired,
            _server: server,
        }
    }

    fn with(&self, key: &str, tls: Option<Tls>) -> Server {
        Server {
            api_key: Some(key.to_owned()),
            tls,
            ..Server::plain(&self.address, "default", "caller")
        }
    }
}

/// TLS is a must with a key, as for the SDK.
fn tls() -> &'static Papers {
    static PAPERS: OnceLock<Papers> = OnceLock::new();
    PAPERS.get_or_init(Papers::issue)
}

/// An authority's certificate, and what it has issued to a server and to a client.
struct Papers {
    authority: String,
    server: (String, String),
    client: (String, String),
}

impl Papers {
    fn issue() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            (certificate.pem(), key.serialize_pem())
        };
        Self {
            server: issue("temporal.test"),
            client: issue("tollgate.test"),
            authority: authority.pem(),
        }
    }

    fn of_the_server(&self) -> ServerTlsConfig {
        let (certificate, key) = &self.server;
        ServerTlsConfig::new()
            .identity(Identity::from_pem(certificate, key))
            .client_ca_root(Certificate::from_pem(&self.authority))
    }

    fn of_the_client(&self) -> Tls {
        let (certificate, key) = self.client.clone();
        Tls {
            root_certificates: Some(self.authority.clone().into_bytes()),
            server_name: Some("temporal.test".to_owned()),
            client: Some((certificate.into_bytes(), key.into_bytes())),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_not_let_in_is_one_sentence_at_the_start() {
    for no in [Code::Unauthenticated, Code::PermissionDenied] {
        let behind = Behind::a_door(no, None);
        let refused = TemporalService::connect(behind.with("another", None)).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(_)), "{refused:?}");
        let said = refused.to_string();
        assert!(
            said.contains(&behind.address) && said.contains("check the key"),
            "{said}"
        );
        assert!(!said.contains("another") && !said.contains('\n'), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_expires_stops_everything_with_a_reason_until_it_is_good_again() {
    let behind = Behind::a_door(Code::Unauthenticated, Some(tls().of_the_server()));
    let server = behind.with(KEY, Some(tls().of_the_client()));
    let mut service = TemporalService::connect(server).await.unwrap();
    let mut registered = Registered::new("sample", Size::keeping(100));
    sample::register(&mut registered, &Arc::new(World::default()));
    service.run(vec![registered]);
    let (engine, reach) = (service.engine(), service.reach());
    engine.start(vec![start("before")]).await.unwrap();
    let done = engine.view(&FlowId::new("before"), LONG).await.unwrap();
    assert!(matches!(done, FlowView::Done { .. }), "{done:?}");

    behind.expired.store(true, Ordering::SeqCst);
    until(&reach, false).await;
    let why = reach.trouble().unwrap();
    assert!(why.contains("the key is not valid; check the key"), "{why}");
    assert!(engine.start(vec![start("after")]).await.is_err());

    behind.expired.store(false, Ordering::SeqCst);
    until(&reach, true).await;
    engine.start(vec![start("after")]).await.unwrap();
    let done = engine.view(&FlowId::new("after"), LONG).await.unwrap();
    assert!(matches!(done, FlowView::Done { .. }), "{done:?}");
    service.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_with_the_right_papers_is_there_a_connection() {
    let behind = Behind::a_door(Code::Unauthenticated, Some(tls().of_the_server()));
    let right = tls().of_the_client();
    behind
        .with(KEY, Some(right.clone()))
        .connect()
        .await
        .unwrap();
    let table = [
        ("no TLS", None),
        (
            "no certificate of ours",
            Some(Tls {
                client: None,
                ..right.clone()
            }),
        ),
        (
            "an authority we do not know",
            Some(Tls {
                root_certificates: None,
                ..right.clone()
            }),
        ),
        (
            "another server's name",
            Some(Tls {
                server_name: None,
                ..right.clone()
            }),
        ),
        (
            "a certificate of another authority",
            Some(Tls {
                client: Papers::issue().of_the_client().client,
                ..right
            }),
        ),
    ];
    for (what, tls) in table {
        let refused = behind.with(KEY, tls).connect().await;
        let said = refused.err().unwrap_or_else(|| panic!("{what} was let in"));
        println!("{what}: {said}");
        assert!(
            matches!(said, ConnectError::Away(_)),
            "{what}: certificates may be renewed: {said}"
        );
        assert!(said.to_string().contains(&behind.address), "{what}: {said}");
    }
}
