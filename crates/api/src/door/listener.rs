//! Connections of the API: how slow they may be, and how they end. How many there are, and of whom, is said in
//! `places.rs`; what they say is the router's business.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use hyper::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tollgate_config::Http;
use tower::ServiceExt;

use crate::door::places::{Busy, Places, Room, Seat};

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
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
    http: Http,
    write_stall: Duration,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
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
    pub async fn serve(self, app: Router, until: impl Future<Output = ()>) {
        let places = Places::new(Room::of(self.http.max_connections));
        let (stop, stopping) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut until = pin!(until);
        loop {
            let (stream, seat) = tokio::select! {
                () = &mut until => break,
                next = self.next(&places) => next,
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
                tokio::select! {
                    () = connection.attend(stream, seat.clone()) => {}
                    () = seat.is_cut() => tracing::debug!("a connection was closed to make room"),
                }
            });
        }
        drop(self.socket);
        let _ = stop.send(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(self.http.drain(), all).await.is_err() {
            let cut = connections.len();
            tracing::warn!(
                cut,
                "connections were closed: their requests did not end in time"
            );
        }
        connections.shutdown().await;
    }

    /// The next connection, and the place that was found for it.
    async fn next(&self, places: &Arc<Places>) -> (TcpStream, Seat) {
        loop {
            match self.socket.accept().await {
                Ok((stream, address)) => {
                    let seat = places.enter(address.ip()).await;
                    return (stream, seat);
                }
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "connections cannot be accepted");
                    tokio::time::sleep(BREATH).await;
                }
            }
        }
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
async fn stop_requested(stopping: &mut watch::Receiver<bool>) {
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
    async fn attend(mut self, stream: TcpStream, seat: Seat) {
        // An answer is written at once and waits for nothing.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.write_stall));
        let stream = Box::pin(stream);
        let Some(tls) = self.tls.take() else {
            return self.talk(stream, seat).await;
        };
        let shaken = tokio::select! {
            shaken = timeout(HANDSHAKE, tls.accept(stream)) => shaken,
            () = stop_requested(&mut self.stopping) => return,
        };
        match shaken {
            Ok(Ok(stream)) => self.talk(stream, seat).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake timed out"),
        }
    }

    async fn talk(mut self, stream: impl AsyncRead + AsyncWrite + Unpin, seat: Seat) {
        let app = self.app;
        let answer = service_fn(move |mut request: Request<Incoming>| {
            let busy = seat.busy();
            request.extensions_mut().insert(seat.clone());
            let answer = app.clone().oneshot(request);
            async move { Ok::<_, Infallible>(answer.await?.map(|body| Answer { body, _busy: busy })) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(MAX_UNREAD_BYTES)
            .serve_connection(TokioIo::new(stream), answer);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop_requested(&mut self.stopping) => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// An answer whose end is noticed.
struct Answer {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::Notify;

    /// Says so when it is gone.
    struct Held(Arc<Notify>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    #[tokio::test]
    async fn who_does_not_take_the_answer_is_cut_off() {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let http = Http {
            console: false,
            max_connections: 8,
            head_secs: 60,
            body_secs: 60,
            drain_secs: 1,
        };
        let mut listener = Listener::new(socket, None, http);
        listener.write_stall = Duration::from_millis(100);
        let gone = Arc::new(Notify::new());
        let of_the_answer = Arc::clone(&gone);
        let endless = async move || {
            let held = Held(Arc::clone(&of_the_answer));
            let pieces = futures::stream::unfold(held, async |held| {
                let piece = Bytes::from(vec![b'x'; 64 * 1024]);
                Some((Ok::<_, Infallible>(piece), held))
            });
            Body::from_stream(pieces)
        };
        let app = Router::new().route("/endless", get(endless));
        let serving = tokio::spawn(listener.serve(app, std::future::pending()));

        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET /endless HTTP/1.1\r\nhost: x\r\n\r\n")
            .await
            .unwrap();
        timeout(Duration::from_secs(20), gone.notified())
            .await
            .expect("its connection has ended");
        drop(idle);
        serving.abort();
    }
}
