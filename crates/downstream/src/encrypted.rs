//! A TLS stream that two use: hyper's driver, which reads and writes, and whoever must know, now,
//! whether the other side is silent.
//!
//! With TLS a look at the socket is not enough. Unread bytes may be session tickets or a change of
//! keys, which are harmless and come at any time, or the goodbye (`close_notify`), after which no
//! request may go out; only who decrypts them can tell. And waiting until the driver has done so
//! takes as long as the runtime likes, when a turn has come that must not be missed. So whoever
//! asks does the reading: everything the kernel has, through TLS, under the lock. A read that then
//! still has to wait proves that nothing but harmless bytes had come. What else is found is thrown
//! away with the connection, which is not used again.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::socket::Socket;

#[derive(Debug, Clone)]
pub(crate) struct Encrypted(Arc<Mutex<TlsStream<Raw>>>);

impl Encrypted {
    pub(crate) fn new(stream: TlsStream<Raw>) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Whether the other side is still there and has nothing to say before it is asked.
    pub(crate) fn is_silent(&self) -> bool {
        let mut stream = self.lock();
        let mut byte = [0];
        stream.get_mut().0.only_looks = true;
        let mut nobody = Context::from_waker(Waker::noop());
        let read = Pin::new(&mut *stream).poll_read(&mut nobody, &mut ReadBuf::new(&mut byte));
        stream.get_mut().0.only_looks = false;
        read.is_pending()
    }

    fn lock(&self) -> MutexGuard<'_, TlsStream<Raw>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.lock()).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(cx)
    }
}

/// What TLS runs on. It asks the kernel first: tokio says "not yet" until its reactor has heard of
/// the bytes.
#[derive(Debug)]
pub(crate) struct Raw {
    socket: Socket,
    /// A look must not take the driver's place in the reactor: it would hear of a hang-up only with
    /// the next request.
    only_looks: bool,
}

impl Raw {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            only_looks: false,
        }
    }
}

impl AsyncRead for Raw {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.socket.read_now(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if self.only_looks {
                    return Poll::Pending;
                }
                Pin::new(&mut self.socket).poll_read(cx, buf)
            }
            read => Poll::Ready(read),
        }
    }
}

impl AsyncWrite for Raw {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
