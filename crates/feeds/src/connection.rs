//! One connection to one broker: TCP or TLS, the versions both sides know, a login, and then one request
//! at a time. Whatever goes wrong, the connection is dropped and another one is made later.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{
    ApiVersionsRequest, RequestHeader, ResponseHeader, SaslAuthenticateRequest,
    SaslHandshakeRequest,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_core::ports::{SourceError, SourceResult};

use crate::credentials::{Credentials, Login};
use crate::words::trouble;

/// How long a connection may take, with its login.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer may take. A fetch waits for half a second at the broker.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// The longest answer: a fetch is asked for a megabyte, but a single record may be as large as the broker takes.
const MOST_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// How a length begins that is none, but an alert of TLS.
const TLS_ALERT: usize = 0x1503;

const SASL_HANDSHAKE: RangeInclusive<i16> = 1..=1;
const SASL_AUTHENTICATE: RangeInclusive<i16> = 0..=2;

/// How brokers are reached, and who we are to them.
#[derive(Clone)]
pub struct Access {
    /// `host:port`, one of them is enough to find the others.
    pub brokers: Vec<String>,
    /// The name by which brokers know this client, in their logs and quotas.
    pub client_id: String,
    pub tls: Option<Arc<ClientConfig>>,
    pub credentials: Option<Credentials>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("tls", &self.tls.is_some())
            .field("credentials", &self.credentials)
            .finish()
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    broker: String,
    client_id: StrBytes,
    /// By API, what the broker knows.
    versions: HashMap<i16, RangeInclusive<i16>>,
    last_id: i32,
    is_logged_in: bool,
    is_cut: bool,
}

/// Asks on a kept connection, or on a new one that is kept then. Brokers close connections that were idle, which is no trouble: it is
/// asked once more on a new one. Whatever is written twice that way is written at least once.
pub(crate) async fn ask_kept<R: Request>(
    place: &mut Option<Connection>,
    opening: impl Future<Output = SourceResult<Connection>>,
    request: &R,
    ours: RangeInclusive<i16>,
) -> SourceResult<R::Response> {
    if let Some(mut kept) = place.take() {
        match kept.ask(request, ours.clone()).await {
            Ok(answer) => {
                *place = Some(kept);
                return Ok(answer);
            }
            Err(error) if !kept.is_cut => return Err(error),
            Err(_) => {}
        }
    }
    let mut connection = opening.await?;
    let answer = connection.ask(request, ours).await?;
    *place = Some(connection);
    Ok(answer)
}

impl Connection {
    pub(crate) async fn open(access: &Access, broker: &str) -> SourceResult<Self> {
        let opening = Self::open_slowly(access, broker);
        timeout(CONNECT_WITHIN, opening).await.unwrap_or_else(|_| {
            let secs = CONNECT_WITHIN.as_secs();
            Err(trouble(format!(
                "broker {broker} did not answer within {secs} s"
            )))
        })
    }

    async fn open_slowly(access: &Access, broker: &str) -> SourceResult<Self> {
        let stream = TcpStream::connect(broker).await;
        let stream = stream.map_err(|error| {
            trouble(format!(
                "broker {broker} cannot be reached: {error}; check brokers"
            ))
        })?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match &access.tls {
            None => Box::new(stream),
            Some(config) => Box::new(encrypted(config, broker, stream).await?),
        };
        let mut connection = Self {
            stream,
            broker: broker.to_owned(),
            client_id: StrBytes::from_string(access.client_id.clone()),
            versions: HashMap::new(),
            last_id: 0,
            is_logged_in: false,
            is_cut: false,
        };
        connection.learn_versions().await?;
        if let Some(credentials) = &access.credentials {
            connection.log_in(credentials).await?;
            connection.is_logged_in = true;
        }
        Ok(connection)
    }

    /// Asks in the newest version that both sides know.
    pub(crate) async fn ask<R>(
        &mut self,
        request: &R,
        ours: RangeInclusive<i16>,
    ) -> SourceResult<R::Response>
    where
        R: Request,
    {
        let version = self.version(R::KEY, &ours)?;
        let asking = self.exchange(request, version);
        match timeout(ANSWER_WITHIN, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(self.broken("gave no answer in time")),
        }
    }

    fn version(&self, key: i16, ours: &RangeInclusive<i16>) -> SourceResult<i16> {
        let theirs = self.versions.get(&key);
        let common = theirs.map(|theirs| {
            let newest = *theirs.end().min(ours.end());
            (newest >= *theirs.start().max(ours.start())).then_some(newest)
        });
        common.flatten().ok_or_else(|| {
            self.broken("does not speak this protocol; Kafka 2.1 or later is needed")
        })
    }

    async fn learn_versions(&mut self) -> SourceResult<()> {
        let answer = self.exchange(&ApiVersionsRequest::default(), 0).await?;
        let known = answer.api_keys.iter();
        self.versions = known
            .map(|api| (api.api_key, api.min_version..=api.max_version))
            .collect();
        Ok(())
    }

    async fn log_in(&mut self, credentials: &Credentials) -> SourceResult<()> {
        if !self.versions.contains_key(&SaslHandshakeRequest::KEY) {
            return Err(
                self.broken("offers no login at this port; remove sasl or use another port")
            );
        }
        let mechanism = StrBytes::from_static_str(credentials.mechanism());
        let hello = SaslHandshakeRequest::default().with_mechanism(mechanism);
        let answer = self.ask(&hello, SASL_HANDSHAKE).await?;
        if answer.error_code != 0 {
            let offered: Vec<_> = answer.mechanisms.iter().map(StrBytes::as_str).collect();
            let (mechanism, offered) = (credentials.mechanism(), offered.join(", "));
            return Err(self.broken(&format!(
                "does not offer the login {mechanism}; it offers: {offered}"
            )));
        }
        let mut login = Login::begin(credentials).map_err(trouble)?;
        let mut said = login.first();
        loop {
            let bytes = SaslAuthenticateRequest::default().with_auth_bytes(said.into());
            let answer = self.ask(&bytes, SASL_AUTHENTICATE).await?;
            if answer.error_code != 0 {
                let why = answer.error_message.unwrap_or_default();
                let dot = if why.is_empty() { "" } else { ": " };
                return Err(self.broken(&format!(
                    "refused the login{dot}{}; check sasl",
                    why.as_str()
                )));
            }
            match login.next(&answer.auth_bytes) {
                Ok(Some(next)) => said = next,
                Ok(None) => return Ok(()),
                Err(why) => return Err(self.broken(&why)),
            }
        }
    }

    async fn exchange<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> SourceResult<R::Response> {
        self.last_id = self.last_id.wrapping_add(1);
        let frame = frame(request, version, self.last_id, self.client_id.clone());
        let frame = frame.map_err(|error| self.broken(&format!("cannot be asked: {error}")))?;
        let sent = async {
            self.stream.write_all(&frame).await?;
            self.stream.flush().await?;
            self.stream.read_u32().await
        };
        let length = sent.await.map_err(|error| self.cut(&error))?;
        if is_text(length) {
            return Err(self.broken("does not speak Kafka; check its port"));
        }
        let length = length as usize;
        if length >> 16 == TLS_ALERT {
            return Err(self.broken("speaks TLS; set tls = true"));
        }
        if length > MOST_ANSWER_BYTES {
            return Err(self.broken(&format!(
                "gave an answer of {length} bytes; at most {MOST_ANSWER_BYTES} are read"
            )));
        }
        let mut answer = vec![0; length];
        let read = self.stream.read_exact(&mut answer).await;
        read.map_err(|error| self.cut(&error))?;
        let mut answer = Bytes::from(answer);
        let answered = decoded::<R>(&mut answer, version, self.last_id);
        answered.map_err(|why| self.broken(&format!("gave an answer that cannot be read: {why}")))
    }

    fn broken(&self, what: &str) -> SourceError {
        trouble(format!("broker {} {what}", self.broker))
    }

    /// Brokers give no reason. A first request is not answered by something else than a broker, a second one not without a login.
    fn cut(&mut self, error: &std::io::Error) -> SourceError {
        self.is_cut = true;
        let hint = match self.last_id {
            1 => "; check its port and tls",
            2 if !self.is_logged_in => "; if it asks for a login, set sasl",
            _ => "",
        };
        self.broken(&format!("closed the connection: {error}{hint}"))
    }
}

/// Whether the length of an answer is none, but the first letters of one, such as `HTTP`. As a length that is far too much.
fn is_text(length: u32) -> bool {
    let letters = length.to_be_bytes();
    letters.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn frame<R: Request>(
    request: &R,
    version: i16,
    id: i32,
    client_id: StrBytes,
) -> Result<BytesMut, String> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(id)
        .with_client_id(Some(client_id));
    let mut body = BytesMut::new();
    body.extend_from_slice(&[0; 4]);
    let header_version = R::header_version(version);
    let encoded = header.encode(&mut body, header_version);
    let encoded = encoded.and_then(|()| request.encode(&mut body, version));
    encoded.map_err(|error| error.to_string())?;
    let length = u32::try_from(body.len() - 4).map_err(|error| error.to_string())?;
    body[..4].copy_from_slice(&length.to_be_bytes());
    Ok(body)
}

fn decoded<R: Request>(answer: &mut Bytes, version: i16, id: i32) -> Result<R::Response, String> {
    let header_version = R::Response::header_version(version);
    let header = ResponseHeader::decode(answer, header_version).map_err(|e| e.to_string())?;
    if header.correlation_id != id {
        return Err("its answer belongs to another request".to_owned());
    }
    R::Response::decode(answer, version).map_err(|e| e.to_string())
}

async fn encrypted(
    config: &Arc<ClientConfig>,
    broker: &str,
    stream: TcpStream,
) -> SourceResult<TlsStream<TcpStream>> {
    let host = broker.rsplit_once(':').map_or(broker, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| trouble(format!("broker {broker} has no valid host name")))?;
    let connector = TlsConnector::from(Arc::clone(config));
    connector.connect(name, stream).await.map_err(|error| {
        trouble(format!(
            "broker {broker}: TLS failed: {error}; check tls and root_certificates"
        ))
    })
}
