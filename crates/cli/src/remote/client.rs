//! One request, one connection, one answer; an error of the API becomes a sentence. The token never
//! comes from the command line, where others on the machine could read it.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::Args;
use super::tls::Tls;

/// A replan of a million items takes its time.
const PATIENCE: Duration = Duration::from_mins(10);

/// Where the token is, if no file is named.
const TOKEN: &str = "TOLLGATE_TOKEN";

pub(super) struct Client {
    host: String,
    tls: Option<Tls>,
    /// The whole header. Marked as sensitive, so that it is never shown.
    token: Option<HeaderValue>,
}

/// What a request travels on.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Client {
    pub(super) fn new(args: &Args) -> anyhow::Result<Self> {
        let server = &args.server;
        let wrong =
            || format!("--server \"{server}\" must be an address such as http://127.0.0.1:8090");
        let uri: Uri = server.parse().with_context(wrong)?;
        let authority = uri.authority().with_context(wrong)?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(Tls::to(authority.host(), args.ca.as_deref())?), 443),
            _ => bail!(wrong()),
        };
        ensure!(
            tls.is_some() || args.ca.is_none(),
            "--ca requires an https:// address"
        );
        let port = authority.port_u16().unwrap_or(port);
        Ok(Self {
            host: format!("{}:{port}", authority.host()),
            tls,
            token: token(args)?,
        })
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let answer = self.call(Method::GET, path, "", Bytes::new()).await?;
        serde_json::from_str(&answer).context("the answer is not JSON")
    }

    /// For answers that are text or a picture.
    pub(super) async fn get_text(&self, path: &str) -> anyhow::Result<String> {
        self.call(Method::GET, path, "", Bytes::new()).await
    }

    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let body = Bytes::from(body.to_string());
        let answer = self.call(method, path, "application/json", body).await?;
        serde_json::from_str(&answer).context("the answer is not JSON")
    }

    /// Nothing is answered but that it is done.
    pub(super) async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.call(Method::DELETE, path, "", Bytes::new()).await?;
        Ok(())
    }

    pub(super) async fn put_text(&self, path: &str, body: String) -> anyhow::Result<Value> {
        let answer = self
            .call(Method::PUT, path, "text/plain", Bytes::from(body))
            .await?;
        serde_json::from_str(&answer).context("the answer is not JSON")
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> anyhow::Result<String> {
        let (_, answer) = self.call_with_status(method, path, kind, body).await?;
        Ok(answer)
    }

    async fn call_with_status(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> anyhow::Result<(u16, String)> {
        let exchange = self.exchange(method, path, kind, body);
        tokio::time::timeout(PATIENCE, exchange)
            .await
            .with_context(|| format!("no answer from {} within {PATIENCE:?}", self.host))?
    }

    /// The status of a success: it shows whether something is new.
    pub(super) async fn post_status(&self, path: &str, body: &Value) -> anyhow::Result<u16> {
        let body = Bytes::from(body.to_string());
        let kind = "application/json";
        let answered = self
            .call_with_status(Method::POST, path, kind, body)
            .await?;
        Ok(answered.0)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: Bytes,
    ) -> anyhow::Result<(u16, String)> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", kind)
            .body(Full::new(body))?;
        self.converse(request).await
    }

    /// A file, however long it takes; the key makes it safe to send again.
    pub(super) async fn upload<B>(
        &self,
        path: &str,
        kind: &str,
        key: &str,
        file: B,
    ) -> anyhow::Result<Value>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("host", &self.host)
            .header("content-type", kind)
            .header("idempotency-key", key)
            .body(file)?;
        let (_, answer) = self.converse(request).await?;
        serde_json::from_str(&answer).context("the answer is not JSON")
    }

    async fn converse<B>(&self, mut request: Request<B>) -> anyhow::Result<(u16, String)>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let host = &self.host;
        let stream = TcpStream::connect(host).await.with_context(|| {
            format!("cannot reach {host}; is `tollgate serve` running there? Set the address with --server")
        })?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => Box::new(tls.handshake(stream).await?),
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        if let Some(token) = &self.token {
            let headers = request.headers_mut();
            headers.insert(header::AUTHORIZATION, token.clone());
        }
        let incomplete = || format!("{host} ended the connection without a complete answer");
        // Boxed, since a body need not be movable while it is sent.
        let response = sender
            .send_request(request.map(Box::pin))
            .await
            .with_context(incomplete)?;
        let status = response.status();
        let body = response
            .into_body()
            .collect()
            .await
            .with_context(incomplete)?
            .to_bytes();
        driver.abort();
        let text = String::from_utf8_lossy(&body).into_owned();
        if status.is_success() {
            return Ok((status.as_u16(), text));
        }
        let status = status.as_u16();
        let sentence = sentence(status, &text);
        Err(Refused { status, sentence }.into())
    }
}

/// The service was reached and said no.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) status: u16,
    sentence: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.sentence)
    }
}
impl std::error::Error for Refused {}

/// From the file or the environment; none is fine where none is asked for.
fn token(args: &Args) -> anyhow::Result<Option<HeaderValue>> {
    let (place, text) = match &args.token_file {
        Some(file) => {
            let place = format!("--token-file {}", file.display());
            let text = std::fs::read_to_string(file);
            (
                place.clone(),
                text.with_context(|| format!("{place} cannot be read"))?,
            )
        }
        None => (TOKEN.to_owned(), std::env::var(TOKEN).unwrap_or_default()),
    };
    let token = text.trim();
    if token.is_empty() && args.token_file.is_none() {
        return Ok(None);
    }
    let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(plain, "{place} must contain exactly one token");
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))?;
    header.set_sensitive(true);
    Ok(Some(header))
}

/// `{"error", "details"}` as one line per field.
fn sentence(status: u16, body: &str) -> String {
    let answer: Value = serde_json::from_str(body).unwrap_or_default();
    let Some(error) = answer["error"].as_str() else {
        return format!("the service answered {status}: {body}");
    };
    let mut text = error.to_owned();
    if status == 401 {
        let _ = write!(
            text,
            " (this command reads it from {TOKEN} or --token-file)"
        );
    }
    for (field, what) in answer["details"].as_object().into_iter().flatten() {
        let what = what.as_str().unwrap_or_default();
        let _ = write!(text, "\n  {field}: {what}");
    }
    text
}

/// All that could mean something in a path or a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':');

/// A part of a path or a query value, with everything that is not plain escaped.
pub(crate) fn quoted(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}
