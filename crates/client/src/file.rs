//! A file as the body of a request, a piece at a time.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// What is read and sent at once.
const PIECE: usize = 256 * 1024;

/// Is called with the number of bytes of each piece that is sent.
pub(crate) type Progress = Box<dyn FnMut(u64) + Send>;

pub(crate) struct FileBody {
    file: File,
    left: u64,
    progress: Progress,
}

impl fmt::Debug for FileBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileBody")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl FileBody {
    /// The first `size` bytes, or all that the file has now: what is appended later is not sent.
    pub(crate) fn open(path: &Path, size: Option<u64>, progress: Progress) -> io::Result<Self> {
        let file = File::open(path)?;
        let left = match size {
            Some(size) => size,
            None => file.metadata()?.len(),
        };
        Ok(Self {
            file,
            left,
            progress,
        })
    }

    fn piece(&mut self) -> io::Result<Bytes> {
        let wanted = PIECE.min(usize::try_from(self.left).unwrap_or(PIECE));
        let mut piece = vec![0; wanted];
        self.file.read_exact(&mut piece)?;
        self.left -= wanted as u64;
        (self.progress)(wanted as u64);
        Ok(Bytes::from(piece))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    /// Reads synchronously: a piece of a local file takes less time than a switch to another thread is worth.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(self.piece().map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
