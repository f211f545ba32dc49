//! The connector to a downstream that speaks one of the money contracts over HTTP: where it is, what
//! it promises, and what a send and a probe look like on the wire.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_core::id::LaneName;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{Connector, Heard, Line, Missed, NoLine, Permit, Profile, Request};

use crate::access::Access;
use crate::charge::{judge_charge, judge_charge_probe};
use crate::connection::{OutRequest, Remote};
use crate::judge::{Exchange, heard, judge_probe, judge_send};
use crate::pool::{Lease, Pool};
use crate::stranger::tell_apart;
use crate::url::Base;

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// How the connector is called in messages.
    pub name: String,
    /// Where `/payments` or `/charge` is found: `http[s]://host[:port][/path]`.
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
    /// To a downstream that asks for nothing and, with https, is known to the system.
    pub fn new(options: HttpOptions) -> Result<Self, String> {
        Self::with_access(options, &Access::default())
    }

    /// Checks the options and reads the root certificates; connects to nothing yet.
    pub fn with_access(options: HttpOptions, access: &Access) -> Result<Self, String> {
        Self::speaking(Contract::Payments, options, access)
    }

    /// To a provider that charges customers: `/charge` instead of `/payments`.
    pub fn charging(mut options: HttpOptions, access: &Access) -> Result<Self, String> {
        options.profile.asks_by_key = true;
        Self::speaking(Contract::Charges, options, access)
    }

    fn speaking(contract: Contract, options: HttpOptions, access: &Access) -> Result<Self, String> {
        let name = &options.name;
        let refuse = |why: &str| format!("connector {name:?}: {why}");
        let base = Base::parse(&options.url).map_err(|why| refuse(&why))?;
        if options.max_connections == 0 {
            return Err(refuse("with 0 connections it would never send"));
        }
        if options.profile.timeout.is_zero() {
            return Err(refuse("with a timeout of 0 every answer would be lost"));
        }
        let remote = Remote::at(&base, access).map_err(|why| refuse(&why))?;
        let endpoint = Endpoint {
            contract,
            label: format!("{name} {}", options.url),
            place: base.place(),
            path: base.path,
            host_header: base.host_header,
            headers: access.headers().clone(),
            lane: options.lane,
            profile: options.profile,
        };
        let pool = Pool::new(remote, options.max_connections);
        Ok(Self {
            endpoint: Arc::new(endpoint),
            pool: Arc::new(pool),
        })
    }

    /// The same for two URLs of one place, however they are written: `host:port/path`.
    pub fn place(&self) -> &str {
        &self.endpoint.place
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

    async fn line(&self) -> Result<Box<dyn Line>, NoLine> {
        // An exchange lasts no longer than the timeout, so a line should come free within it.
        let lease = self.pool.lease(self.endpoint.profile.timeout).await;
        let lease = lease.map_err(|none| none.at(&self.endpoint.label))?;
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
    async fn connect_for(&mut self, turn: Instant) -> Result<(), NoLine> {
        let connected = self.lease.connect_for(turn.into()).await;
        connected.map_err(|none| none.at(&self.endpoint.label))
    }

    async fn send(self: Box<Self>, permit: Permit, request: &Request) -> Result<Heard, Missed> {
        let (profile, contract) = (&self.endpoint.profile, self.endpoint.contract);
        let use_by = permit.use_by().into();
        let exchange = match self.endpoint.order(request) {
            Ok(out) => self.lease.exchange(out, use_by, profile.timeout).await?,
            Err(error) => Exchange::NotSent(error.to_string()),
        };
        let exchange = tell_apart(exchange, profile, &contract.names(request));
        Ok(heard(AttemptKind::Send, exchange, |e| match contract {
            Contract::Payments => judge_send(e, &request.reference, profile),
            Contract::Charges => judge_charge(e, profile),
        }))
    }

    async fn probe(self: Box<Self>, permit: Permit, request: &Request) -> Result<Heard, Missed> {
        let (profile, contract) = (&self.endpoint.profile, self.endpoint.contract);
        let use_by = permit.use_by().into();
        let exchange = match self.endpoint.question(request) {
            Ok(out) => self.lease.exchange(out, use_by, profile.timeout).await?,
            Err(error) => Exchange::NotSent(error.to_string()),
        };
        let exchange = tell_apart(exchange, profile, &contract.names(request));
        Ok(heard(AttemptKind::Probe, exchange, |e| match contract {
            Contract::Payments => judge_probe(e, &request.reference),
            Contract::Charges => judge_charge_probe(e),
        }))
    }
}

/// What the downstream does for us: its addresses, and what its answers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contract {
    Payments,
    Charges,
}

impl Contract {
    fn address(self) -> &'static str {
        match self {
            Self::Payments => "payments",
            Self::Charges => "charge",
        }
    }

    /// What an answer may name the request by. A charge is known by its invoice and by its key.
    fn names(self, request: &Request) -> Vec<(&'static str, &str)> {
        let (reference, key) = (&*request.reference, &*request.idempotency_key);
        match self {
            Self::Payments => vec![("paymentId", reference)],
            Self::Charges => vec![
                ("invoiceId", reference),
                ("key", key),
                ("idempotencyKey", key),
            ],
        }
    }
}

/// All that a line must know of its downstream.
#[derive(Debug)]
struct Endpoint {
    contract: Contract,
    /// Name and URL, for messages.
    label: String,
    place: String,
    /// The URL's path without its last slash.
    path: String,
    host_header: HeaderValue,
    /// What the downstream asks for to let us in; secret.
    headers: HeaderMap,
    lane: LaneName,
    profile: Profile,
}

impl Endpoint {
    fn order(&self, request: &Request) -> http::Result<OutRequest> {
        let body = Full::new(Bytes::from(request.body_json.clone()));
        let address = self.contract.address();
        self.to(Method::POST, format!("{}/{address}", self.path))
            .header("idempotency-key", &request.idempotency_key)
            .header(CONTENT_TYPE, "application/json")
            .body(body)
    }

    fn question(&self, request: &Request) -> http::Result<OutRequest> {
        // A payment has one key for all its life; each charge of an invoice has one of its own.
        let id = match self.contract {
            Contract::Payments => path_segment(&request.reference),
            Contract::Charges => path_segment(&request.idempotency_key),
        };
        let address = self.contract.address();
        self.to(Method::GET, format!("{}/{address}/{id}", self.path))
            .body(Full::default())
    }

    fn to(&self, method: Method, path: String) -> http::request::Builder {
        let mut builder = http::Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, &self.host_header);
        if let Some(headers) = builder.headers_mut() {
            headers.extend(self.headers.clone());
        }
        builder
    }
}

/// All that could end a segment of a path, or mean something in it.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b':');

/// Ids are plain by the API's rule; should another come along, it still names one segment.
pub(crate) fn path_segment(id: &str) -> String {
    utf8_percent_encode(id, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_always_one_segment_of_the_path() {
        assert_eq!(path_segment("pay_001:a.b-c"), "pay_001:a.b-c");
        assert_eq!(path_segment("a/b?c#d é"), "a%2Fb%3Fc%23d%20%C3%A9");
    }
}
