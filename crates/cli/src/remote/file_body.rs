//! A file as the body of a request, a piece at a time.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use indicatif::ProgressBar;

/// What is read and sent at once.
const PIECE: usize = 256 * 1024;

pub(super) struct FileBody {
    file: File,
    left: u64,
    bar: ProgressBar,
}

impl FileBody {
    pub(super) fn open(path: &Path, size: u64, bar: ProgressBar) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(Self {
            file,
            left: size,
            bar,
        })
    }

    fn piece(&mut self) -> io::Result<Bytes> {
        let wanted = PIECE.min(usize::try_from(self.left).unwrap_or(PIECE));
        let mut piece = vec![0; wanted];
        self.file.read_exact(&mut piece)?;
        self.left -= wanted as u64;
        self.bar.inc(wanted as u64);
        Ok(Bytes::from(piece))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    /// Reads synchronously: a file is not a network, and this process has nothing else to do.
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
