//! The connector to a downstream that is described: where it is, and what a send and a probe look like on the wire.
//! What goes out and what an answer means is the description's; what no description can change is in `judge.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_core::id::LaneName;
use tollgate_core::outcome::AttemptKind;
use tollgate_core::ports::{Connector, Heard, Line, Missed, NoLine, Permit, Profile, Request};

use crate::access::Access;
use crate::connection::{OutRequest, Remote};
use crate::description::{Description, NO_WAY_OUT};
use crate::judge::{Exchange, judge};
use crate::pool::{Lease, Pool};
use crate::url::Base;

#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// How the connector is called in messages.
    pub name: String,
    /// What the description's paths are added to: `http[s]://host[:port][/path]`.
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
    /// To a bank of `docs/bank.md` that asks for nothing and, with https, is known to the system.
    pub fn new(options: HttpOptions) -> Result<Self, String> {
        Self::with_access(options, &Access::default())
    }

    /// The same for one that must be let in.
    pub fn with_access(options: HttpOptions, access: &Access) -> Result<Self, String> {
        let promised = &options.profile.means_not_done;
        let description = Description::payments().promising_not_done(promised)?;
        Self::describing(description, options, access)
    }

    /// To a provider of `docs/bank.md` that charges customers.
    pub fn charging(options: HttpOptions, access: &Access) -> Result<Self, String> {
        let promised = &options.profile.means_not_done;
        let description = Description::invoices().promising_not_done(promised)?;
        Self::describing(description, options, access)
    }

    /// To a downstream by its description. Checks the options and reads the root certificates; connects to nothing
    /// yet.
    pub fn describing(
        description: Description,
        mut options: HttpOptions,
        access: &Access,
    ) -> Result<Self, String> {
        options.profile.asks_by_key = description.asks_by_key();
        let name = &options.name;
        let refuse = |why: &str| format!("connector {name:?}: {why}");
        let base = Base::parse(&options.url).map_err(|why| refuse(&why))?;
        if options.max_connections == 0 {
            return Err(refuse("with 0 connections it would never send"));
        }
        if !options.profile.honours_idempotency_key && !description.can_be_asked() {
            return Err(refuse(NO_WAY_OUT));
        }
        if options.profile.timeout.is_zero() {
            return Err(refuse("with a timeout of 0 every answer would be lost"));
        }
        let remote = Remote::at(&base, access).map_err(|why| refuse(&why))?;
        let endpoint = Endpoint {
            description,
            earlier: HashMap::new(),
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

    /// Knows these versions too: what one of them may have sent is sent again by it.
    pub fn knowing(mut self, earlier: Vec<Description>) -> Result<Self, String> {
        let endpoint = Arc::get_mut(&mut self.endpoint);
        let endpoint = endpoint.ok_or("the connector is in use already")?;
        let earlier = earlier.into_iter().map(|it| (it.version().to_owned(), it));
        endpoint.earlier.extend(earlier);
        Ok(self)
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

    fn version(&self) -> Option<&str> {
        Some(self.endpoint.description.version())
    }

    fn why_not(&self, request: &Request) -> Option<String> {
        let composed = self.endpoint.sent_by(request)?;
        composed.compose(AttemptKind::Send, request).err()
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
        self.exchange(AttemptKind::Send, permit, request).await
    }

    async fn probe(self: Box<Self>, permit: Permit, request: &Request) -> Result<Heard, Missed> {
        self.exchange(AttemptKind::Probe, permit, request).await
    }
}

impl HttpLine {
    async fn exchange(
        self,
        kind: AttemptKind,
        permit: Permit,
        request: &Request,
    ) -> Result<Heard, Missed> {
        let Self { endpoint, lease } = self;
        let use_by = permit.use_by().into();
        let exchange = match endpoint.made(kind, request) {
            Ok(out) => {
                lease
                    .exchange(out, use_by, endpoint.profile.timeout)
                    .await?
            }
            Err(why) => Exchange::NotSent(why),
        };
        let (description, marker) = (&endpoint.description, &endpoint.profile.recognised_by);
        Ok(judge(description, marker, kind, exchange, request).heard)
    }
}

/// All that a line must know of its downstream.
#[derive(Debug)]
struct Endpoint {
    description: Description,
    /// By their versions, for what they may have sent.
    earlier: HashMap<String, Description>,
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
    /// By whose bytes a request goes out; none if that version is not known any more.
    fn sent_by(&self, request: &Request) -> Option<&Description> {
        match &request.version {
            Some(version) if version != self.description.version() => self.earlier.get(version),
            _ => Some(&self.description),
        }
    }

    fn made(&self, kind: AttemptKind, request: &Request) -> Result<OutRequest, String> {
        let description = match kind {
            AttemptKind::Send => self
                .sent_by(request)
                .ok_or("the description by which it was sent first is not known any more")?,
            AttemptKind::Probe => &self.description,
        };
        let composed = description.compose(kind, request)?;
        let mut builder = http::Request::builder()
            .method(composed.method)
            .uri(format!("{}{}", self.path, composed.path))
            .header(HOST, &self.host_header);
        if let Some(headers) = builder.headers_mut() {
            headers.extend(self.headers.clone());
        }
        for (name, value) in composed.headers {
            builder = builder.header(name, value);
        }
        if let Some(kind) = composed.content_type {
            builder = builder.header(CONTENT_TYPE, kind);
        }
        let body = Full::new(Bytes::from(composed.body));
        builder.body(body).map_err(|error| error.to_string())
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
