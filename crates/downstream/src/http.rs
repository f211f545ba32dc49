//! The connector to a downstream that is described: where it is, and what a send and a probe look like on the wire.
//! What goes out and what an answer means is the description's; what no description can change is in `judge.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use http_body_util::Full;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_core::Timestamp;
use tollgate_core::id::{LaneName, WatchId};
use tollgate_core::outcome::{AttemptKind, Outcome};
use tollgate_core::ports::{
    Connection, Connector, ExchangeResult, Health, Missed, NoConnection, Permit, Profile, Request,
};

use crate::access::Access;
use crate::connection::{OutRequest, Remote};
use crate::description::{Description, NO_WAY_OUT};
use crate::judge::{Exchange, Judged, judge};
use crate::login::{Login, Ticket};
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
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) pool: Arc<Pool>,
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
        let logins = access.logins().iter().cloned().map(Login::new);
        let logins = logins
            .collect::<Result<_, _>>()
            .map_err(|why| refuse(&why))?;
        let endpoint = Endpoint {
            description,
            known: HashMap::new(),
            label: format!("{name} {}", options.url),
            place: base.place(),
            path: base.path,
            host_header: base.host_header,
            headers: access.headers().clone(),
            logins,
            lane: options.lane,
            profile: options.profile,
        };
        let pool = Pool::new(remote, options.max_connections);
        Ok(Self {
            endpoint: Arc::new(endpoint),
            pool: Arc::new(pool),
        })
    }

    /// Knows by which description each configuration sends: what one of them may have sent is sent again by it.
    pub fn knowing(
        mut self,
        known: impl IntoIterator<Item = (WatchId, Description)>,
    ) -> Result<Self, String> {
        let endpoint = Arc::get_mut(&mut self.endpoint);
        let endpoint = endpoint.ok_or("the connector is in use already")?;
        endpoint.known.extend(known);
        Ok(self)
    }

    /// By which description it sends.
    pub fn description(&self) -> &Description {
        &self.endpoint.description
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

    fn why_not(&self, request: &Request) -> Option<String> {
        let composed = self.endpoint.sent_by(request)?;
        composed.compose(AttemptKind::Send, request).err()
    }

    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection> {
        for login in &self.endpoint.logins {
            let ready = login.ready().await;
            ready.map_err(|why| NoConnection::NoLogin(why).at(&self.endpoint.label))?;
        }
        // An exchange lasts no longer than the timeout, so a connection should come free within it.
        let lease = self.pool.lease(self.endpoint.profile.timeout).await;
        let lease = lease.map_err(|none| none.at(&self.endpoint.label))?;
        Ok(Box::new(HttpConnection {
            endpoint: Arc::clone(&self.endpoint),
            lease,
        }))
    }
}

#[derive(Debug)]
struct HttpConnection {
    endpoint: Arc<Endpoint>,
    lease: Lease,
}

#[async_trait]
impl Connection for HttpConnection {
    async fn connect_for(&mut self, turn: Instant) -> Result<(), NoConnection> {
        let connected = self.lease.connect_for(turn.into()).await;
        connected.map_err(|none| none.at(&self.endpoint.label))
    }

    async fn send(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        self.exchange(AttemptKind::Send, permit, request).await
    }

    async fn probe(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        self.exchange(AttemptKind::Probe, permit, request).await
    }
}

impl HttpConnection {
    async fn exchange(
        self,
        kind: AttemptKind,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        let Self { endpoint, lease } = self;
        let (at, use_by) = (permit.turn_at(), permit.use_by().into());
        let made = endpoint.made(kind, request, at, use_by).await;
        let (exchange, tickets) = match made {
            Ok((out, tickets)) => {
                let within = endpoint.profile.timeout;
                (lease.exchange(out, use_by, within).await?, tickets)
            }
            Err(why) => (Exchange::NotSent(why), vec![]),
        };
        let entry = match &exchange {
            Exchange::Answered(answer) => {
                Some((answer.status, answer.headers.contains_key(WWW_AUTHENTICATE)))
            }
            Exchange::Lost(_) | Exchange::NotSent(_) => None,
        };
        let (description, marker) = (&endpoint.description, &endpoint.profile.recognised_by);
        let judged = judge(description, marker, kind, exchange, request);
        if let Some((status, challenges)) = entry {
            let turned_away = status == 401 && (challenges || judged.means == "stop");
            if endpoint.may_try_again(&tickets, turned_away) {
                return Ok(token_was_refused(kind));
            }
        }
        if request.reference.starts_with(TRY) {
            return Ok(with_row(judged, entry.map(|(status, _)| status)));
        }
        Ok(judged.heard)
    }
}

/// All that a connection must know of its downstream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) description: Description,
    /// By the configurations that send by them, this one and earlier ones.
    known: HashMap<WatchId, Description>,
    /// Name and URL, for messages.
    label: String,
    place: String,
    /// The URL's path without its last slash.
    path: String,
    host_header: HeaderValue,
    /// What the downstream asks for to let us in; secret.
    headers: HeaderMap,
    pub(crate) logins: Vec<Login>,
    lane: LaneName,
    pub(crate) profile: Profile,
}

impl Endpoint {
    /// By whose bytes a request goes out; none if that version is not known any more.
    fn sent_by(&self, request: &Request) -> Option<&Description> {
        match &request.sent_by {
            Some(watch) => self.known.get(watch),
            None => Some(&self.description),
        }
    }

    /// As it goes out, with what lets us in.
    pub(crate) async fn made(
        &self,
        kind: AttemptKind,
        request: &Request,
        at: Timestamp,
        use_by: tokio::time::Instant,
    ) -> Result<(OutRequest, Vec<Ticket>), String> {
        let (mut out, body) = self.plain(kind, request)?;
        let mut tickets = vec![];
        for login in &self.logins {
            let shown = login.show(&mut out, &body, at.as_second(), use_by);
            tickets.push(shown.await?);
        }
        Ok((out, tickets))
    }

    /// Tells the logins how it went. Whether another try may fare better than one that was turned away.
    fn may_try_again(&self, tickets: &[Ticket], turned_away: bool) -> bool {
        let mut again = false;
        for (login, ticket) in self.logins.iter().zip(tickets) {
            if turned_away {
                again |= login.was_refused(*ticket);
            } else {
                login.has_worked(*ticket);
            }
        }
        again
    }

    fn plain(&self, kind: AttemptKind, request: &Request) -> Result<(OutRequest, String), String> {
        let description = match kind {
            AttemptKind::Send => self
                .sent_by(request)
                .ok_or("the description under which it was first sent is no longer known")?,
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
        let body = Full::new(Bytes::from(composed.body.clone()));
        let out = builder.body(body).map_err(|error| error.to_string())?;
        Ok((out, composed.body))
    }
}

/// A payment of `tollgate bank try`: its attempt also says which row applied.
const TRY: &str = "try-";

fn with_row(judged: Judged, status: Option<u16>) -> ExchangeResult {
    let Judged {
        mut heard,
        line,
        means,
        ..
    } = judged;
    let status = status.map_or_else(|| "no answer".to_owned(), |it| format!("status {it}"));
    let row = line.map_or_else(
        || "no row applied".to_owned(),
        |line| format!("the row in line {line} applied"),
    );
    let told = format!("{status} means {means}: {row}");
    match &mut heard.outcome {
        Outcome::Done(answer) => {
            if let Ok(mut fields) = serde_json::from_str::<serde_json::Map<_, _>>(answer) {
                fields.insert("try".to_owned(), told.into());
                *answer = serde_json::Value::Object(fields).to_string();
            }
        }
        Outcome::Refused(why) | Outcome::Declined(why) | Outcome::Unknown(why) => {
            *why = format!("{why} ({told})");
        }
        Outcome::Retry { why, .. } => *why = format!("{why} ({told})"),
    }
    heard
}

/// Who does not know us has done nothing; the next turn shows a fresh token.
fn token_was_refused(kind: AttemptKind) -> ExchangeResult {
    let why = "status 401: the token was refused, and another one is fetched";
    ExchangeResult {
        outcome: match kind {
            AttemptKind::Send => Outcome::retry(why),
            AttemptKind::Probe => Outcome::Unknown(why.to_owned()),
        },
        health: Health::Untold,
        is_duplicate: false,
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
    use std::time::Duration;

    use tollgate_core::marker::Marker;

    use super::*;
    use crate::description::Subject;

    #[test]
    fn an_id_is_always_one_segment_of_the_path() {
        assert_eq!(path_segment("pay_001:a.b-c"), "pay_001:a.b-c");
        assert_eq!(path_segment("a/b?c#d é"), "a%2Fb%3Fc%23d%20%C3%A9");
    }

    /// A description that was changed while a payment was in doubt.
    #[test]
    fn what_is_in_doubt_is_sent_again_with_the_bytes_of_its_first_send() {
        let contract = Description::shipped("contract").unwrap();
        let changed = contract.replace("path = \"/payments\"", "path = \"/v2/payments\"");
        let changed = Description::read(&changed).unwrap();
        let options = HttpOptions {
            name: "bank".into(),
            url: "http://bank/api".into(),
            lane: LaneName::new("default"),
            profile: Profile {
                honours_idempotency_key: true,
                key_retention: Duration::from_hours(24),
                settle: Duration::from_mins(1),
                timeout: Duration::from_secs(10),
                means_not_done: vec![429],
                recognised_by: Marker::Contract,
                asks_by_key: false,
            },
            max_connections: 1,
        };
        let known = [
            (WatchId(1), Description::payments()),
            (WatchId(2), changed.clone()),
        ];
        let connector = HttpConnector::describing(changed, options, &Access::default());
        let connector = connector.unwrap().knowing(known).unwrap();
        let path = |sent_by: Option<i64>| {
            let request = Request {
                sent_by: sent_by.map(WatchId),
                ..Subject::Payments.sample()
            };
            let made = connector.endpoint.plain(AttemptKind::Send, &request);
            made.map(|(out, _)| out.uri().path().to_owned())
        };
        assert_eq!(path(None).as_deref(), Ok("/api/v2/payments"));
        assert_eq!(path(Some(1)).as_deref(), Ok("/api/payments"));
        assert_eq!(path(Some(2)).as_deref(), Ok("/api/v2/payments"));
        assert!(
            path(Some(3)).is_err(),
            "rather not at all than with other bytes"
        );
    }
}
