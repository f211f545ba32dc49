//! Our own HTTP/1.1 connections to one downstream: at most so many open at a time, each carrying
//! one exchange at a time. A connection is used again only after a whole answer; nothing here is
//! sent twice.

use std::error::Error;
use std::io;
use std::net::TcpStream as Socket;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::judge::{Answer, Exchange};

/// The largest answer that is read, head and body each.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
/// How long a new connection may take, name lookup included.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);
/// How long an open connection may take to be ready for the next request; it is a matter of
/// microseconds unless it is broken.
const READY_WITHIN: Duration = Duration::from_millis(100);
/// A connection that was quiet for longer is not used again: servers hang up after 5 s and more,
/// and a request that crosses the hang-up ends as Unknown.
const MAX_IDLE: Duration = Duration::from_secs(4);

pub(crate) type OutRequest = http::Request<Full<Bytes>>;

/// Where the connections go, and how many there may be.
#[derive(Debug)]
pub(crate) struct Pool {
    host: String,
    port: u16,
    max_connections: usize,
    /// One permit per leased line. The idle ones need none: a new connection is made only when
    /// none is idle, so leased and idle together stay within the bound.
    free: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// The same socket, only ever looked at. The driver learns of a hang-up when the runtime
    /// gets round to it, and would write until then; the kernel knows at once.
    socket: Socket,
    idle_since: Instant,
}

impl Connection {
    /// Whether a request may go out: the other side is still there, and has nothing to say
    /// before it is asked.
    fn is_silent(&self) -> bool {
        let peeked = self.socket.peek(&mut [0]);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Pool {
    pub(crate) fn new(host: String, port: u16, max_connections: usize) -> Self {
        Self {
            host,
            port,
            max_connections,
            free: Arc::new(Semaphore::new(max_connections)),
            idle: Mutex::default(),
        }
    }

    /// A connection ready for one exchange; waits at most `patience` for a free one.
    pub(crate) async fn lease(self: &Arc<Self>, patience: Duration) -> Result<Lease, String> {
        let permit = timeout(patience, Arc::clone(&self.free).acquire_owned())
            .await
            .map_err(|_| format!("all {} lines busy for {patience:?}", self.max_connections))?
            .expect("the semaphore is never closed");
        let connection = match self.ready_idle().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        Ok(Lease {
            connection: Some(connection),
            pool: Arc::clone(self),
            _permit: permit,
        })
    }

    async fn ready_idle(&self) -> Option<Connection> {
        while let Some(mut connection) = self.take_idle() {
            let ready = timeout(READY_WITHIN, connection.sender.ready()).await;
            if matches!(ready, Ok(Ok(()))) && connection.is_silent() {
                return Some(connection);
            }
        }
        None
    }

    /// The one used last, so that the others grow old and are closed.
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|connection| {
            !connection.sender.is_closed() && connection.idle_since.elapsed() < MAX_IDLE
        });
        idle.pop()
    }

    fn put_idle(&self, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }

    async fn connect(&self) -> Result<Connection, String> {
        let opening = TcpStream::connect((self.host.as_str(), self.port));
        let stream = timeout(CONNECT_WITHIN, opening)
            .await
            .map_err(|_| format!("no connection within {CONNECT_WITHIN:?}"))?
            .map_err(|error| plain_io(&error))?;
        let (stream, socket) = watched(stream).map_err(|error| plain_io(&error))?;
        let (mut sender, driver) = http1::Builder::new()
            .max_buf_size(MAX_ANSWER_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| with_causes(&error))?;
        // The driver ends with its sender; its errors reach whoever waits for the answer.
        tokio::spawn(driver);
        timeout(READY_WITHIN, sender.ready())
            .await
            .map_err(|_| "the new connection did not become ready".to_owned())?
            .map_err(|error| with_causes(&error))?;
        Ok(Connection {
            sender,
            socket,
            idle_since: Instant::now(),
        })
    }
}

/// A connection taken out of the pool. Dropped unused, it goes back; dropped in the middle of an
/// exchange, it is closed.
#[derive(Debug)]
pub(crate) struct Lease {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// One request and its whole answer, within the time given.
    pub(crate) async fn exchange(mut self, request: OutRequest, within: Duration) -> Exchange {
        let mut connection = self
            .connection
            .take()
            .expect("a lease holds a connection until its one exchange");
        if !connection.is_silent() {
            return Exchange::NotSent("the connection was closed by the other side".into());
        }
        let exchange = timeout(within, exchange(&mut connection.sender, request))
            .await
            .unwrap_or_else(|_| Exchange::Lost(format!("no whole answer within {within:?}")));
        if matches!(exchange, Exchange::Answered(_)) {
            connection.idle_since = Instant::now();
            self.connection = Some(connection);
        }
        exchange
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put_idle(connection);
        }
    }
}

/// The stream, with a second handle on its socket.
fn watched(stream: TcpStream) -> io::Result<(TcpStream, Socket)> {
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let socket = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, socket))
}

async fn exchange(sender: &mut SendRequest<Full<Bytes>>, request: OutRequest) -> Exchange {
    match sender.try_send_request(request).await {
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
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    match Limited::new(body, MAX_ANSWER_BYTES).collect().await {
        Ok(body) => Exchange::Answered(Answer {
            status: head.status.as_u16(),
            retry_after: head.headers.get(RETRY_AFTER).map(text),
            body: body.to_bytes().into(),
        }),
        Err(error) if error.is::<LengthLimitError>() => Exchange::Lost(format!(
            "status {}, but the answer is larger than {MAX_ANSWER_BYTES} bytes",
            head.status.as_u16()
        )),
        Err(error) => Exchange::Lost(format!(
            "status {}, but half an answer: {}",
            head.status.as_u16(),
            with_causes(error.as_ref())
        )),
    }
}

/// `connection refused`, without the number and the capital the system adds.
fn plain_io(error: &io::Error) -> String {
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
