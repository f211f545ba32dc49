//! One request, one connection, one answer.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, header};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::Error;
use crate::error::{BoxError, Refused};
use crate::tls::Tls;

/// Where requests go, and with which token.
pub(crate) struct Connector {
    /// Host and port.
    pub(crate) host: String,
    pub(crate) tls: Option<Tls>,
    /// The whole header. Marked as sensitive, so that it is never shown.
    pub(crate) token: Option<HeaderValue>,
    /// How long an answer may take.
    pub(crate) patience: Duration,
}

/// A successful answer, not parsed yet.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) text: String,
}

/// What a request travels on.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connector {
    /// Waits for the answer as long as the client has patience.
    pub(crate) async fn call<B>(&self, request: Request<B>) -> Result<Reply, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let answer = tokio::time::timeout(self.patience, self.call_without_limit(request));
        answer.await.map_err(|elapsed| Error::Timeout {
            host: self.host.clone(),
            patience: self.patience,
            source: elapsed.into(),
        })?
    }

    /// Waits however long it takes: a file may be long.
    pub(crate) async fn call_without_limit<B>(&self, request: Request<B>) -> Result<Reply, Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (status, headers, text) = self.exchange(request).await?;
        if (200..300).contains(&status) {
            return Ok(Reply { status, text });
        }
        Err(Box::new(Refused::read(status, &headers, &text)).into())
    }

    async fn exchange<B>(&self, mut request: Request<B>) -> Result<(u16, HeaderMap, String), Error>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let interrupted = |source: hyper::Error| Error::Interrupted {
            host: self.host.clone(),
            source: source.into(),
        };
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream)
            .await
            .map_err(interrupted)?;
        let driver = tokio::spawn(connection);
        if let Some(token) = &self.token {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        // Boxed, since a body need not be movable while it is sent.
        let response = sender.send_request(request.map(Box::pin)).await;
        let (head, body) = response.map_err(interrupted)?.into_parts();
        let body = body.collect().await.map_err(interrupted)?.to_bytes();
        driver.abort();
        let text = String::from_utf8_lossy(&body).into_owned();
        Ok((head.status.as_u16(), head.headers, text))
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, Error> {
        let host = || self.host.clone();
        let stream = TcpStream::connect(&self.host).await;
        let stream = stream.map_err(|source| Error::Unreachable {
            host: host(),
            source,
        })?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let stream = tls.handshake(stream).await;
        let stream = stream.map_err(|source| Error::Tls {
            host: host(),
            source,
        })?;
        Ok(Box::new(stream))
    }
}
