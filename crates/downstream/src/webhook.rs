//! The connector to one receiver of notifications: signed posts by the Standard Webhooks
//! specification, on the same connections as any other downstream's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderValue;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::Full;
use tollgate_core::id::LaneName;
use tollgate_core::marker::Marker;
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    Connection, Connector, ExchangeResult, Health, Missed, NoConnection, Permit, Profile, Request,
};

use crate::access::Access;
use crate::connection::{OutRequest, Remote};
use crate::delivery::judge_delivery;
use crate::judge::Exchange;
use crate::pool::{Lease, Pool};
use crate::signature::Signer;
use crate::url::Base;

/// For one whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A receiver that hangs holds no more of our flows than this.
pub const MAX_RECEIVER_CONNECTIONS: usize = 32;

#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// Where to post: `http[s]://host[:port][/path]`.
    pub url: String,
    pub signer: Signer,
}

#[derive(Debug)]
pub struct WebhookConnector {
    endpoint: Arc<Endpoint>,
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Endpoint {
    place: String,
    path: String,
    host_header: HeaderValue,
    signer: Signer,
    lane: LaneName,
    profile: Profile,
}

impl WebhookConnector {
    /// Checks the URL and reads the root certificates; connects to nothing yet. `lane_of` names
    /// the lane of a host.
    pub fn with_access(
        options: WebhookOptions,
        access: &Access,
        lane_of: impl FnOnce(&str) -> LaneName,
    ) -> Result<Self, String> {
        let base = Base::parse(&options.url)?;
        let remote = Remote::at(&base, access)?;
        let endpoint = Endpoint {
            lane: lane_of(&base.host),
            place: base.place(),
            path: base.whole_path,
            host_header: base.host_header,
            signer: options.signer,
            profile: profile(),
        };
        Ok(Self {
            endpoint: Arc::new(endpoint),
            pool: Arc::new(Pool::new(remote, MAX_RECEIVER_CONNECTIONS)),
        })
    }

    /// The same for two URLs of one place, however they are written: `host:port/path`.
    pub fn place(&self) -> &str {
        &self.endpoint.place
    }
}

/// Receivers know a repeat by its id, by contract and for ever: what may have arrived is sent again.
fn profile() -> Profile {
    Profile {
        honours_idempotency_key: true,
        key_retention: Duration::MAX,
        settle: Duration::ZERO,
        timeout: TIMEOUT,
        means_not_done: vec![],
        recognised_by: Marker::AnyBody,
        asks_by_key: false,
    }
}

#[async_trait]
impl Connector for WebhookConnector {
    fn lane(&self) -> &LaneName {
        &self.endpoint.lane
    }

    fn profile(&self) -> &Profile {
        &self.endpoint.profile
    }

    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection> {
        let lease = self.pool.lease(TIMEOUT).await;
        let lease = lease.map_err(|none| none.at(&self.endpoint.place))?;
        Ok(Box::new(WebhookConnection {
            endpoint: Arc::clone(&self.endpoint),
            lease,
        }))
    }
}

#[derive(Debug)]
struct WebhookConnection {
    endpoint: Arc<Endpoint>,
    lease: Lease,
}

#[async_trait]
impl Connection for WebhookConnection {
    async fn connect_for(&mut self, turn: Instant) -> Result<(), NoConnection> {
        let connected = self.lease.connect_for(turn.into()).await;
        connected.map_err(|none| none.at(&self.endpoint.place))
    }

    async fn send(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        let (at_secs, use_by) = (permit.turn_at().as_second(), permit.use_by().into());
        let exchange = match self.endpoint.post(request, at_secs) {
            Ok(out) => self.lease.exchange(out, use_by, TIMEOUT).await?,
            Err(error) => Exchange::NotSent(error.to_string()),
        };
        let unsent = matches!(exchange, Exchange::NotSent(_));
        let outcome = judge_delivery(exchange);
        let health = match &outcome {
            _ if unsent => Health::Untold,
            Outcome::Unknown(_) => Health::Fails,
            Outcome::Done(_)
            | Outcome::Refused(_)
            | Outcome::Declined(_)
            | Outcome::Retry { .. } => Health::Answers,
        };
        let heard = ExchangeResult {
            outcome,
            health,
            is_duplicate: false,
        };
        let labels = [
            ("lane", self.endpoint.lane.to_string()),
            ("outcome", heard.outcome.state().as_str().to_lowercase()),
        ];
        metrics::counter!("tollgate_notification_sends_total", &labels).increment(1);
        Ok(heard)
    }

    /// Only after the clock was set is a repeat not allowed at once. A receiver cannot be asked, and
    /// need not be: it knows a repeat by its id, so that telling it again is always right.
    async fn probe(
        self: Box<Self>,
        _permit: Permit,
        _request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        Ok(ExchangeResult {
            outcome: Outcome::retry(
                "a receiver recognises a repeat by its id; the webhook is sent again",
            ),
            health: Health::Untold,
            is_duplicate: false,
        })
    }
}

impl Endpoint {
    fn post(&self, request: &Request, at_secs: i64) -> http::Result<OutRequest> {
        let (id, body) = (&request.idempotency_key, &request.body_json);
        http::Request::post(&self.path)
            .header(HOST, &self.host_header)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at_secs)
            .header("webhook-signature", self.signer.sign(id, at_secs, body))
            .body(Full::new(Bytes::from(body.clone())))
    }
}
