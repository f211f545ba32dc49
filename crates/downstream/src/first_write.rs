//! Whether a request may still leave, and whether any byte of it has: asked at the socket, right before
//! and after the system call. Nothing above it can tell so late, or so surely.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Of one connection; shared by its socket and by whoever has an exchange on it.
#[derive(Debug, Default)]
pub(crate) struct FirstWrite(Mutex<State>);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Between two exchanges: a handshake, new keys, a goodbye.
    #[default]
    Unbound,
    /// The first byte of a request must leave by then.
    By(Instant),
    /// The kernel has taken a byte of it.
    Began,
    /// The request came too late and was not sent; otherwise the same as `Barred`.
    Late(Duration),
    /// The request was not sent, and nothing leaves this socket any more: TLS keeps what it could not
    /// write, and would send it with its goodbye.
    Barred,
}

/// How far a request without an answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The other side may have it.
    Began,
    /// No byte of it left.
    NotBegun,
    /// No byte of it left, because it came to the socket so long after its deadline.
    Late(Duration),
}

impl FirstWrite {
    /// A request follows.
    pub(crate) fn expect_by(&self, by: Instant) {
        *self.lock() = State::By(by);
    }

    /// Its whole answer has come.
    pub(crate) fn answered(&self) {
        *self.lock() = State::Unbound;
    }

    /// There is no answer. Says how far the request came; if no byte has left, none will.
    pub(crate) fn unanswered(&self) -> Unanswered {
        let mut state = self.lock();
        match *state {
            State::Began => Unanswered::Began,
            State::Late(by) => Unanswered::Late(by),
            State::Unbound | State::By(_) | State::Barred => {
                *state = State::Barred;
                Unanswered::NotBegun
            }
        }
    }

    /// Writes, if it may. The lock is held meanwhile: [`Self::unanswered`] comes before or after. Between
    /// the look at the clock and the system call there is nothing else.
    pub(crate) fn write(&self, write: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let mut state = self.lock();
        match *state {
            State::Unbound | State::Began => write(),
            State::Barred | State::Late(_) => {
                Err(io::Error::other("nothing is sent on this connection"))
            }
            State::By(by) => {
                let late = Instant::now().saturating_duration_since(by);
                if !late.is_zero() {
                    *state = State::Late(late);
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "too late to send"));
                }
                let written = write();
                match &written {
                    Ok(0) => {}
                    Ok(_) => *state = State::Began,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => *state = State::Barred,
                }
                written
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(first: &FirstWrite, result: io::Result<usize>) -> (bool, io::Result<usize>) {
        let mut called = false;
        let said = first.write(|| {
            called = true;
            result
        });
        (called, said)
    }
    fn soon() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_leaves_in_time_or_never() {
        let first = FirstWrite::default();
        assert!(written(&first, Ok(5)).0, "a handshake needs no permit");
        first.expect_by(Instant::now());
        assert!(written(&first, Err(io::ErrorKind::WouldBlock.into())).0);
        tokio::time::advance(Duration::from_millis(1)).await;
        let (called, said) = written(&first, Ok(5));
        assert!(!called && said.is_err());
        let late = Unanswered::Late(Duration::from_millis(1));
        assert_eq!(first.unanswered(), late);
        assert!(!written(&first, Ok(5)).0, "not even a goodbye");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_begun_goes_on_and_may_have_arrived() {
        let first = FirstWrite::default();
        first.expect_by(soon());
        assert!(written(&first, Ok(1)).0);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(written(&first, Ok(1)).0, "the rest of it");
        assert_eq!(first.unanswered(), Unanswered::Began);
        first.answered();
        first.expect_by(soon());
        let next = first.unanswered();
        assert_eq!(
            next,
            Unanswered::NotBegun,
            "the next request is another one"
        );
    }

    #[tokio::test]
    async fn a_write_that_the_kernel_refused_has_not_begun() {
        let first = FirstWrite::default();
        first.expect_by(soon());
        assert!(written(&first, Err(io::ErrorKind::BrokenPipe.into())).0);
        assert!(!written(&first, Ok(5)).0);
        assert_eq!(first.unanswered(), Unanswered::NotBegun);
    }
}
