//! One HTTP/1.1 connection to a downstream, with or without TLS: how it is made, whether a request
//! may go out on it, and one exchange.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_core::ports::{Missed, NoConnection};

use crate::access::Access;
use crate::encrypted::{Encrypted, Raw};
use crate::first_write::{FirstWrite, Unanswered};
use crate::judge::{Answer, Exchange};
use crate::socket::Socket;
use crate::tls::Tls;
use crate::url::Base;

/// The largest answer that is read, head and body each.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How long a new connection may take, name lookup and TLS handshake included.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long a new connection may take to be ready for its first request.
const START_WITHIN: Duration = Duration::from_millis(100);

pub(crate) type OutRequest = http::Request<Full<Bytes>>;
type Requests = SendRequest<Full<Bytes>>;

/// Where connections go.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<Tls>,
}

impl Remote {
    /// Reads the root certificates; connects to nothing yet.
    pub(crate) fn at(base: &Base, access: &Access) -> Result<Self, String> {
        let tls = match (base.encrypted, access.root_file()) {
            (true, file) => Some(Tls::to(&base.host, file, access.identity())?),
            (false, None) if access.identity().is_some() => {
                return Err("client_certificate requires an https:// URL".to_owned());
            }
            (false, None) => None,
            (false, Some(_)) => {
                return Err("root_certificates requires an https:// URL".to_owned());
            }
        };
        Ok(Self {
            host: base.host.clone(),
            port: base.port,
            tls,
        })
    }

    /// A connection on which a request can go out at once: with TLS, its handshake is over.
    #[tracing::instrument(level = "debug", skip_all)]
    pub(crate) async fn connect(&self) -> Result<Connection, NoConnection> {
        let deadline = Instant::now() + CONNECT_WITHIN;
        let opening = TcpStream::connect((self.host.as_str(), self.port));
        let stream = timeout_at(deadline, opening)
            .await
            .map_err(|_| {
                NoConnection::Unreachable(format!("no connection within {CONNECT_WITHIN:?}"))
            })?
            .map_err(|error| no_connection(&error))?;
        let socket = Socket::new(stream).map_err(|error| no_connection(&error))?;
        let first_write = Arc::clone(socket.first_write());
        let started = self.start_on(socket, deadline).await;
        let (requests, watch) = started.map_err(NoConnection::Unreachable)?;
        Ok(Connection {
            requests,
            watch,
            first_write,
            idle_since: Instant::now(),
        })
    }

    async fn start_on(&self, socket: Socket, by: Instant) -> Result<(Requests, Watch), String> {
        let Some(tls) = &self.tls else {
            return Ok((start(socket.clone()).await?, Watch::Plain(socket)));
        };
        let stream = timeout_at(by, tls.handshake(Raw::new(socket)))
            .await
            .map_err(|_| format!("no TLS handshake within {CONNECT_WITHIN:?}"))??;
        let stream = Encrypted::new(stream);
        Ok((start(stream.clone()).await?, Watch::Encrypted(stream)))
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    requests: Requests,
    watch: Watch,
    first_write: Arc<FirstWrite>,
    pub(crate) idle_since: Instant,
}

/// The driver's stream once more, to look at it.
#[derive(Debug)]
enum Watch {
    Plain(Socket),
    Encrypted(Encrypted),
}

impl Connection {
    pub(crate) fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    pub(crate) async fn is_ready(&mut self, within: Duration) -> bool {
        matches!(timeout(within, self.requests.ready()).await, Ok(Ok(())))
    }

    /// Whether a request may go out: the other side is still there, and has nothing to say
    /// before it is asked.
    pub(crate) fn is_silent(&self) -> bool {
        !self.is_closed()
            && match &self.watch {
                Watch::Plain(socket) => socket.is_silent(),
                Watch::Encrypted(stream) => stream.is_silent(),
            }
    }

    /// One request, whose first byte leaves by `use_by` or never, and its whole answer.
    pub(crate) async fn exchange(
        &mut self,
        request: OutRequest,
        use_by: Instant,
        within: Duration,
    ) -> Result<Exchange, Missed> {
        self.first_write.expect_by(use_by);
        let exchange = timeout(within, exchange(&mut self.requests, request))
            .await
            .unwrap_or_else(|_| Exchange::Lost(format!("no complete answer within {within:?}")));
        let why = match exchange {
            Exchange::Answered(_) => {
                self.first_write.answered();
                return Ok(exchange);
            }
            Exchange::Lost(why) | Exchange::NotSent(why) => why,
        };
        match self.first_write.unanswered() {
            Unanswered::Began => Ok(Exchange::Lost(why)),
            Unanswered::NotBegun => Ok(Exchange::NotSent(why)),
            Unanswered::Late(by) => Err(Missed(format!("its permit had expired {by:?} before"))),
        }
    }
}

/// What this machine has run out of says nothing about the downstream.
fn no_connection(error: &io::Error) -> NoConnection {
    let ours = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOBUFS,
        Errno::ADDRNOTAVAIL,
    ];
    // A name that could not be looked up for want of a descriptor does not say so.
    let errno = Errno::from_io_error(error)
        .or_else(|| socket(AddressFamily::INET, SocketType::STREAM, None).err());
    match errno {
        Some(errno) if ours.contains(&errno) => NoConnection::Busy(format!(
            "this machine has no free sockets or file descriptors: {}",
            plain_io(&errno.into())
        )),
        _ => NoConnection::Unreachable(plain_io(error)),
    }
}

/// Speaks HTTP/1.1 on the stream.
async fn start<S>(stream: S) -> Result<Requests, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut requests, driver) = http1::Builder::new()
        .max_buf_size(MAX_ANSWER_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| with_causes(&error))?;
    // The driver ends with its sender; its errors reach whoever waits for the answer.
    tokio::spawn(driver);
    timeout(START_WITHIN, requests.ready())
        .await
        .map_err(|_| "the new connection did not become ready".to_owned())?
        .map_err(|error| with_causes(&error))?;
    Ok(requests)
}

async fn exchange(requests: &mut Requests, request: OutRequest) -> Exchange {
    match requests.try_send_request(request).await {
        Ok(response) => read_whole(response).await,
        // hyper hands the request back only if it never began to write it.
        Err(mut failed) => match (failed.take_message(), failed.into_error()) {
            (Some(_), error) => Exchange::NotSent(with_causes(&error)),
            (None, error) => Exchange::Lost(with_causes(&error)),
        },
    }
}

async fn read_whole(response: http::Response<Incoming>) -> Exchange {
    let (head, body) = response.into_parts();
    match Limited::new(body, MAX_ANSWER_BYTES).collect().await {
        Ok(body) => Exchange::Answered(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: body.to_bytes().into(),
        }),
        Err(error) if error.is::<LengthLimitError>() => Exchange::Lost(format!(
            "status {}, but the answer is larger than {MAX_ANSWER_BYTES} bytes",
            head.status.as_u16()
        )),
        Err(error) => Exchange::Lost(format!(
            "status {}, but incomplete answer: {}",
            head.status.as_u16(),
            with_causes(error.as_ref())
        )),
    }
}

/// `connection refused`, without the number and the capital the system adds.
pub(crate) fn plain_io(error: &io::Error) -> String {
    let text = error.to_string().to_lowercase();
    match text.split_once(" (os error") {
        Some((plain, _)) => plain.to_owned(),
        None => text,
    }
}

fn with_causes(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;

    #[test]
    fn what_this_machine_has_run_out_of_is_not_held_against_the_downstream() {
        let ours = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::ADDRNOTAVAIL,
        ];
        for errno in ours {
            let none = no_connection(&errno.into());
            assert!(matches!(none, NoConnection::Busy(_)), "{errno:?}: {none:?}");
        }
        let theirs = [Errno::CONNREFUSED, Errno::TIMEDOUT, Errno::HOSTUNREACH];
        let theirs = theirs.map(io::Error::from).into_iter();
        for error in theirs.chain([io::Error::other("no such host")]) {
            let none = no_connection(&error);
            assert!(matches!(none, NoConnection::Unreachable(_)), "{none:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_hyper_never_began_to_write_is_not_sent() {
        let (ours, _theirs) = duplex(1024);
        let (mut sender, driver) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        let unsent = exchange(&mut sender, OutRequest::default());
        drop(driver);
        assert!(matches!(unsent.await, Exchange::NotSent(_)));
        let refused = exchange(&mut sender, OutRequest::default()).await;
        assert!(matches!(refused, Exchange::NotSent(_)));
    }

    #[tokio::test]
    async fn a_request_of_which_one_byte_was_written_is_lost() {
        let (ours, mut theirs) = duplex(1);
        let (mut sender, driver) = http1::handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(driver);
        let server = async move { theirs.read_u8().await.unwrap() };
        let request = OutRequest::default();
        let (exchange, first) = tokio::join!(exchange(&mut sender, request), server);
        assert!(matches!(exchange, Exchange::Lost(_)), "{exchange:?}");
        assert_eq!(first, b'G');
    }
}
