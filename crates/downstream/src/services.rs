//! The services of status checks over HTTP, as their contracts write them: one exchange per call, with
//! a bounded answer. What becomes of a failed call is the caller's business.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::Full;
use serde_json::json;
use tokio::time::Instant;
use tollgate_core::gate::DEFAULT_TOLERANCE;
use tollgate_core::ports::{CallError, CheckServices, GatewayAnswer, TakeTurn};

use crate::access::Access;
use crate::connection::{OutRequest, Remote};
use crate::http::path_segment;
use crate::judge::{Answer, Exchange};
use crate::pool::Pool;
use crate::service_answers::{asked, found, worked};
use crate::url::Base;

const GATEWAY_NAME: HeaderName = HeaderName::from_static("x-gateway-name");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Where one of the services is.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// `http[s]://host[:port][/path]`.
    pub url: String,
    /// The most connections open at a time, idle ones included.
    pub max_connections: usize,
}

/// The three of them.
#[derive(Debug)]
pub struct HttpCheckServices {
    elasticsearch: Service,
    index: String,
    idb_facade: Service,
    pgi_gateway: Service,
}

impl HttpCheckServices {
    pub fn new(
        elasticsearch: Service,
        index: &str,
        idb_facade: Service,
        pgi_gateway: Service,
    ) -> Self {
        Self {
            elasticsearch,
            index: path_segment(index),
            idb_facade,
            pgi_gateway,
        }
    }
}

#[async_trait]
impl CheckServices for HttpCheckServices {
    async fn gateway_of(&self, payment_id: &str, within: Duration) -> Result<String, CallError> {
        let id = path_segment(payment_id);
        let path = format!("/{}/_doc/{id}", self.index);
        let call = Call {
            method: Method::GET,
            path,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        };
        let answer = self.elasticsearch.call(call, within, None).await?;
        found(&answer)
    }

    async fn announce(
        &self,
        gateway: &str,
        payment_ids: &[String],
        within: Duration,
        turn: &dyn TakeTurn,
    ) -> Result<(), CallError> {
        let body = json!({"gatewayName": gateway, "paymentIds": payment_ids});
        let call = Call {
            method: Method::POST,
            path: "/api/v1/payments/notify".to_owned(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, JSON)]),
            body: Bytes::from(body.to_string()),
        };
        let answer = self.idb_facade.call(call, within, Some(turn)).await?;
        worked(&answer)
    }

    async fn ask(
        &self,
        gateway: &str,
        payment_id: &str,
        within: Duration,
        turn: &dyn TakeTurn,
    ) -> Result<GatewayAnswer, CallError> {
        let no_header = |_| {
            CallError::Refused(
                "the gateway's name has characters that are not allowed in a header".to_owned(),
            )
        };
        let name = HeaderValue::from_str(gateway).map_err(no_header)?;
        let id = path_segment(payment_id);
        let call = Call {
            method: Method::POST,
            path: format!("/api/v1/payments/{id}/check-status"),
            headers: HeaderMap::from_iter([(GATEWAY_NAME, name), (CONTENT_TYPE, JSON)]),
            body: Bytes::new(),
        };
        let answer = self.pgi_gateway.call(call, within, Some(turn)).await?;
        asked(&answer, payment_id)
    }
}

/// The way to one service.
#[derive(Debug)]
pub struct Service {
    path: String,
    host_header: HeaderValue,
    headers: HeaderMap,
    pool: Arc<Pool>,
}

struct Call {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Service {
    /// Checks the options and reads the root certificates; connects to nothing yet.
    pub fn connect(options: &ServiceOptions, access: &Access) -> Result<Self, String> {
        let base = Base::parse(&options.url)?;
        let remote = Remote::at(&base, access)?;
        Ok(Self {
            path: base.path,
            host_header: base.host_header,
            headers: access.headers().clone(),
            pool: Arc::new(Pool::new(remote, options.max_connections)),
        })
    }

    /// The connection first, then the turn, then the call: `within` is for the call alone.
    async fn call(
        &self,
        call: Call,
        within: Duration,
        turn: Option<&dyn TakeTurn>,
    ) -> Result<Answer, CallError> {
        let lease = self.pool.lease(within).await;
        let mut lease = lease.map_err(|none| CallError::Failed(none.to_string()))?;
        let request = self.request(call);
        let request = request.map_err(|error| CallError::Refused(error.to_string()))?;
        let connected = lease.connect_for(Instant::now()).await;
        connected.map_err(|none| CallError::Failed(none.to_string()))?;
        let use_by = match turn {
            Some(turn) => {
                turn.take().await.map_err(CallError::Failed)?;
                Instant::now() + DEFAULT_TOLERANCE
            }
            None => Instant::now() + within,
        };
        let exchanged = lease.exchange(request, use_by, within).await;
        match exchanged.map_err(|missed| CallError::Failed(missed.to_string()))? {
            Exchange::Answered(answer) => Ok(answer),
            Exchange::NotSent(why) | Exchange::Lost(why) => Err(CallError::Failed(why)),
        }
    }

    fn request(&self, call: Call) -> http::Result<OutRequest> {
        let is_post = call.method == Method::POST;
        let mut builder = http::Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.path, call.path))
            .header(HOST, &self.host_header);
        if let Some(headers) = builder.headers_mut() {
            headers.extend(self.headers.clone());
            headers.extend(call.headers);
            // Some servers refuse a POST that does not say how long it is.
            if is_post && call.body.is_empty() {
                headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
        }
        builder.body(Full::new(call.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_without_a_body_says_that_it_has_none() {
        let options = ServiceOptions {
            url: "http://127.0.0.1:1/pgi".to_owned(),
            max_connections: 1,
        };
        let service = Service::connect(&options, &Access::default()).unwrap();
        let length = |method: Method, body: &'static str| {
            let request = service.request(Call {
                method,
                path: "/x".to_owned(),
                headers: HeaderMap::new(),
                body: Bytes::from(body),
            });
            request.unwrap().headers().get(CONTENT_LENGTH).cloned()
        };
        let none = HeaderValue::from_static("0");
        assert_eq!(length(Method::POST, ""), Some(none));
        assert_eq!(length(Method::POST, "{}"), None, "the connection tells it");
        assert_eq!(length(Method::GET, ""), None);
    }
}
