//! The connector to a downstream that speaks the payments contract over HTTP: where it is, what
//! it promises, and what a send and a probe look like on the wire.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::uri::{Authority, Scheme, Uri};
use http::{HeaderValue, Method};
use http_body_util::Full;
use tollgate_core::id::LaneName;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{Connector, Line, Permit, Profile, Request};

use crate::judge::{Exchange, judge_probe, judge_send};
use crate::pool::{Lease, OutRequest, Pool};

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// How the connector is called in messages.
    pub name: String,
    /// Where `/payments` is found: `http://host[:port][/path]`.
    pub url: String,
    pub lane: LaneName,
    pub profile: Profile,
    /// The most connections open at a time, idle ones included.
    pub max_connections: usize,
}

/// Cheap to clone: all clones share the connections.
#[derive(Debug, Clone)]
pub struct HttpConnector {
    endpoint: Arc<Endpoint>,
    pool: Arc<Pool>,
}

impl HttpConnector {
    /// Checks the options; connects to nothing yet.
    pub fn new(options: HttpOptions) -> Result<Self, String> {
        let name = &options.name;
        let refuse = |why: &str| format!("connector {name:?}: {why}");
        let base = Base::parse(&options.url).map_err(|why| refuse(&why))?;
        if options.max_connections == 0 {
            return Err(refuse("with 0 connections it would never send"));
        }
        if options.profile.timeout.is_zero() {
            return Err(refuse("with a timeout of 0 every answer would be lost"));
        }
        let pool = Pool::new(base.host, base.port, options.max_connections);
        let endpoint = Endpoint {
            label: format!("{name} {}", options.url),
            path: base.path,
            host_header: base.host_header,
            lane: options.lane,
            profile: options.profile,
        };
        Ok(Self {
            endpoint: Arc::new(endpoint),
            pool: Arc::new(pool),
        })
    }
}

#[async_trait]
impl Connector for HttpConnector {
    fn lane(&self) -> &LaneName {
        &self.endpoint.lane
    }

    fn profile(&self) -> &Profile {
        &self.endpoint.profile
    }

    async fn line(&self) -> Result<Box<dyn Line>, String> {
        // An exchange lasts no longer than the timeout, so a line should come free within it.
        let lease = self.pool.lease(self.endpoint.profile.timeout).await;
        let lease = lease.map_err(|why| format!("{}: {why}", self.endpoint.label))?;
        Ok(Box::new(HttpLine {
            endpoint: Arc::clone(&self.endpoint),
            lease,
        }))
    }
}

#[derive(Debug)]
struct HttpLine {
    endpoint: Arc<Endpoint>,
    lease: Lease,
}

#[async_trait]
impl Line for HttpLine {
    async fn send(self: Box<Self>, _permit: Permit, request: &Request) -> Outcome {
        let profile = &self.endpoint.profile;
        let exchange = match self.endpoint.payment(request) {
            Ok(out) => self.lease.exchange(out, profile.timeout).await,
            Err(error) => Exchange::NotSent(error.to_string()),
        };
        judge_send(exchange, &request.reference, profile)
    }

    async fn probe(self: Box<Self>, _permit: Permit, request: &Request) -> Outcome {
        let exchange = match self.endpoint.question(request) {
            Ok(out) => {
                let within = self.endpoint.profile.timeout;
                self.lease.exchange(out, within).await
            }
            Err(error) => Exchange::NotSent(error.to_string()),
        };
        judge_probe(exchange, &request.reference)
    }
}

/// All that a line must know of its downstream.
#[derive(Debug)]
struct Endpoint {
    /// Name and URL, for messages.
    label: String,
    /// The URL's path without its last slash.
    path: String,
    host_header: HeaderValue,
    lane: LaneName,
    profile: Profile,
}

impl Endpoint {
    fn payment(&self, request: &Request) -> http::Result<OutRequest> {
        let body = Full::new(Bytes::from(request.body_json.clone()));
        self.to(Method::POST, format!("{}/payments", self.path))
            .header("idempotency-key", &request.idempotency_key)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
    }

    fn question(&self, request: &Request) -> http::Result<OutRequest> {
        let id = path_segment(&request.reference);
        self.to(Method::GET, format!("{}/payments/{id}", self.path))
            .body(Full::default())
    }

    fn to(&self, method: Method, path: String) -> http::request::Builder {
        http::Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host_header)
    }
}

/// Ids are plain by the API's rule; should another come along, it still names one segment.
fn path_segment(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:".contains(&byte);
    let encode = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    id.bytes().map(encode).collect()
}

/// A base URL taken apart.
#[derive(Debug, PartialEq)]
struct Base {
    host: String,
    port: u16,
    path: String,
    host_header: HeaderValue,
}

impl Base {
    fn parse(url: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("the URL {url:?} {why}");
        let uri: Uri = url
            .parse()
            .map_err(|error| bad(&format!("is none: {error}")))?;
        let Some(authority) = uri.authority() else {
            return Err(bad("names no host; write http://host:port"));
        };
        if authority.as_str().contains('@') {
            return Err("its URL carries a user or a password, which do not belong there".into());
        }
        match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => {}
            Some(scheme) if *scheme == Scheme::HTTPS => {
                return Err(bad(
                    "asks for TLS, which comes in a later release; use http://",
                ));
            }
            _ => return Err(bad("must start with http://")),
        }
        // http::Uri drops a fragment without a word.
        if uri.query().is_some() || url.contains('#') {
            return Err(bad("must end with its path: no query, no fragment"));
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        Ok(Self {
            host: host.to_owned(),
            port: port_of(authority).ok_or_else(|| bad("has a bad host or port"))?,
            path: uri.path().trim_end_matches('/').to_owned(),
            host_header: HeaderValue::from_str(authority.as_str())
                .map_err(|_| bad("has a bad host"))?,
        })
    }
}

/// The port, 80 if none is written; none if what is written is no port, or there is no host.
fn port_of(authority: &Authority) -> Option<u16> {
    let written = authority.as_str().strip_prefix(authority.host())?;
    match (authority.host(), written) {
        ("", _) => None,
        (_, "") => Some(80),
        _ => authority.port_u16().filter(|port| *port != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> (String, u16, String) {
        let base = Base::parse(url).unwrap();
        (base.host, base.port, base.path)
    }

    #[test]
    fn a_url_gives_host_port_and_path() {
        let table = [
            ("http://bank", ("bank", 80, "")),
            ("http://bank/", ("bank", 80, "")),
            ("http://bank:9090/v1/", ("bank", 9090, "/v1")),
            ("HTTP://127.0.0.1:9", ("127.0.0.1", 9, "")),
            ("http://[::1]:8080/a/b", ("::1", 8080, "/a/b")),
        ];
        for (url, (host, port, path)) in table {
            assert_eq!(parsed(url), (host.into(), port, path.into()), "{url}");
        }
    }

    #[test]
    fn a_bad_url_is_named_with_what_is_wrong() {
        let table = [
            ("", "is none"),
            ("bank with spaces", "is none"),
            ("/payments", "names no host"),
            ("bank:9090", "must start with http://"),
            ("ftp://bank", "must start with http://"),
            ("https://bank", "TLS, which comes in a later release"),
            ("http://bank:99999", "port"),
            ("http://bank:0", "port"),
            ("http://bank:", "port"),
            ("http://:9090", ""),
            ("http://bank?x=1", "no query"),
            ("http://bank/#top", "no query, no fragment"),
        ];
        for (url, why) in table {
            let said = Base::parse(url).unwrap_err();
            assert!(said.contains(why), "{url}: {said}");
            assert!(said.contains(&format!("{url:?}")), "{url}: {said}");
        }
        let said = Base::parse("http://me:secret@bank").unwrap_err();
        assert!(
            said.contains("password") && !said.contains("secret"),
            "{said}"
        );
    }

    #[test]
    fn an_id_is_always_one_segment_of_the_path() {
        assert_eq!(path_segment("pay_001:a.b-c"), "pay_001:a.b-c");
        assert_eq!(path_segment("a/b?c#d é"), "a%2Fb%3Fc%23d%20%C3%A9");
    }
}
