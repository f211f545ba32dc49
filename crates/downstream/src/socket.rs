//! The socket of one connection: one descriptor, shared by hyper's driver, which reads and writes, and
//! by whoever must know, now, whether the other side is still there.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::first_write::FirstWrite;

#[derive(Debug, Clone)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
    first_write: Arc<FirstWrite>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: Arc::new(stream),
            first_write: Arc::default(),
        })
    }

    pub(crate) fn first_write(&self) -> &Arc<FirstWrite> {
        &self.first_write
    }

    /// Whether the other side is there and has said nothing that is not read yet. The driver learns of a
    /// hang-up when the runtime gets round to it, and would write until then; the kernel knows at once.
    pub(crate) fn is_silent(&self) -> bool {
        let peeked = recv(
            &*self.stream,
            &mut [0],
            RecvFlags::PEEK | RecvFlags::DONTWAIT,
        );
        matches!(peeked, Err(Errno::WOULDBLOCK))
    }

    /// What the kernel has, whether or not the reactor has heard of it.
    pub(crate) fn read_now(&self, buf: &mut ReadBuf<'_>) -> io::Result<()> {
        let (read, _) = recv(
            &*self.stream,
            buf.initialize_unfilled(),
            RecvFlags::DONTWAIT,
        )?;
        buf.advance(read);
        Ok(())
    }

    fn poll_write_by(
        &self,
        cx: &mut Context<'_>,
        write: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.first_write.write(|| write(&self.stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buf.initialize_unfilled()) {
                Ok(read) => {
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_by(cx, |stream| stream.try_write(buf))
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_by(cx, |stream| stream.try_write_vectored(bufs))
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(&*self.stream, Shutdown::Write).map_err(Into::into))
    }
}
