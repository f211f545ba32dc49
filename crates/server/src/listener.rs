//! Connections of the API: how many, how slow they may be, and how they end. What they say is the
//! router's business.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics::gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use crate::config::Http;

/// The request line and all headers together.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// What is read of a connection before somebody takes it.
const MAX_UNREAD_BYTES: usize = 64 * 1024;
/// For the handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A client that takes nothing of its answer for so long is cut off.
const WRITE_STALL: Duration = Duration::from_secs(30);
/// After an accept that failed for want of file descriptors or memory.
const BREATH: Duration = Duration::from_millis(100);

/// Where the API is served.
pub(crate) struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    http: Http,
    write_stall: Duration,
}

impl Listener {
    pub(crate) fn new(socket: TcpListener, tls: Option<TlsAcceptor>, http: Http) -> Self {
        Self {
            socket,
            tls,
            http,
            write_stall: WRITE_STALL,
        }
    }

    /// Serves until `until` resolves; then nobody new is let in, and who is being answered has
    /// `http.drain_secs` left. Who is cut off then has no answer, and nothing half done: what a
    /// request writes, it writes in one transaction.
    pub(crate) async fn serve(self, app: Router, until: impl Future<Output = ()>) {
        let room = Arc::new(Semaphore::new(
            self.http.max_connections.min(Semaphore::MAX_PERMITS),
        ));
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut until = pin!(until);
        loop {
            let (stream, place) = tokio::select! {
                () = &mut until => break,
                next = self.next(&room) => next,
            };
            while connections.try_join_next().is_some() {}
            let connection = Connection {
                app: app.clone(),
                tls: self.tls.clone(),
                head: self.http.head(),
                write_stall: self.write_stall,
                stopping: stopping.clone(),
            };
            connections.spawn(async move {
                connection.attend(stream).await;
                drop(place);
            });
        }
        drop(self.socket);
        let _ = stop.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(self.http.drain(), all).await.is_err() {
            let cut = connections.len();
            tracing::warn!(cut, "connections were cut off: not answered in time");
        }
        connections.shutdown().await;
    }

    /// The next connection, once there is room for it; until then it waits in the kernel.
    async fn next(&self, room: &Arc<Semaphore>) -> (TcpStream, Place) {
        // Never closed.
        let permit = Arc::clone(room).acquire_owned().await.ok();
        loop {
            match self.socket.accept().await {
                Ok((stream, _)) => return (stream, Place::taken(permit)),
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "no connection can be accepted");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
    }
}

/// One of `http.max_connections`, given back however the connection ends.
struct Place {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Place {
    fn taken(permit: Option<OwnedSemaphorePermit>) -> Self {
        gauge!("tollgate_api_connections").increment(1);
        Self { _permit: permit }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        gauge!("tollgate_api_connections").decrement(1);
    }
}

/// The client was gone before we took it: nothing is wrong here.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Resolves when connections are to end.
async fn told(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

struct Connection {
    app: Router,
    tls: Option<TlsAcceptor>,
    head: Duration,
    write_stall: Duration,
    stopping: watch::Receiver<bool>,
}

impl Connection {
    async fn attend(mut self, stream: TcpStream) {
        // An answer is written at once and waits for nothing.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_stall));
        let stream = Box::pin(stream);
        let Some(tls) = self.tls.take() else {
            return self.talk(stream).await;
        };
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE, tls.accept(stream)) => shaken,
            () = told(&mut self.stopping) => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.talk(stream).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake was not over in time"),
        }
    }

    async fn talk(mut self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(MAX_UNREAD_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(self.app));
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = told(&mut self.stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// More than the kernel keeps for a client that does not read.
    const LARGE: usize = 32 * 1024 * 1024;

    #[tokio::test]
    async fn who_does_not_take_the_answer_gives_up_the_place() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let http = Http {
            console: false,
            max_connections: 1,
            head_secs: 60,
            body_secs: 60,
            drain_secs: 1,
        };
        let mut listener = Listener::new(socket, None, http);
        listener.write_stall = Duration::from_millis(100);
        let app = Router::new().route("/large", get(async || vec![b'x'; LARGE]));
        let app = app.route("/small", get(async || "small"));
        let serving = tokio::spawn(listener.serve(app, std::future::pending()));

        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        let mut next = TcpStream::connect(address).await.unwrap();
        next.write_all(b"GET /small HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut answer = String::new();
        let read = next.read_to_string(&mut answer);
        timeout(Duration::from_secs(20), read)
            .await
            .expect("the only place is free again")
            .unwrap();
        assert!(answer.ends_with("small"), "{answer}");
        drop(idle);
        serving.abort();
    }
}
