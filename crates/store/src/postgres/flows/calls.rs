//! Calls from one process to the others: `NOTIFY`, heard on a connection of its own. A call only says that
//! looking is worth it now; everybody looks anyway, a little later.

use std::fmt;
use std::future::poll_fn;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, mpsc};
use tokio_postgres::{AsyncMessage, Client, Connection};
use tollgate_core::ports::Call;
use tollgate_core::retry;

use crate::postgres::connection::connect::Address;

pub(super) const CHANNEL: &str = "tollgate";
pub(super) const NOTIFY: &str = "SELECT pg_notify($1, $2)";
const LISTEN: &str = "LISTEN tollgate";

/// So many calls may wait to be heard; more of them would say nothing new.
const MOST_WAITING: usize = 64;
/// Between two tries to connect. The first is short: a session that was ended is soon replaced.
const TRIES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_millis(100),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(2),
};

/// Where this process hears calls. Connected when it is first asked.
pub(crate) struct Calls {
    address: Address,
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    /// The client keeps the connection open.
    heard: Option<(mpsc::Receiver<Call>, Client)>,
    failures: u32,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").finish_non_exhaustive()
    }
}

impl Calls {
    pub(crate) fn at(address: Address) -> Self {
        let line = Mutex::default();
        Self { address, line }
    }

    pub(crate) async fn next(&self) -> Call {
        let mut line = self.line.lock().await;
        loop {
            if let Some((heard, _)) = &mut line.heard {
                if let Some(call) = heard.recv().await {
                    return call;
                }
                line.heard = None;
            }
            if line.failures > 0 {
                tokio::time::sleep(TRIES.pause_after(line.failures)).await;
            }
            // Counted before the try: one that is cut off counts.
            line.failures = line.failures.saturating_add(1);
            // An error is no news: looking without being called goes on, and says that the store is away.
            if let Ok(heard) = self.listen().await {
                line.heard = Some(heard);
                line.failures = 0;
                return Call::Anything;
            }
        }
    }

    async fn listen(&self) -> Result<(mpsc::Receiver<Call>, Client), tokio_postgres::Error> {
        let (sender, heard) = mpsc::channel(MOST_WAITING);
        let client = self.address.connect_hearing(sender).await?;
        client.batch_execute(LISTEN).await?;
        Ok((heard, client))
    }
}

/// Drives a connection until its client is dropped or it breaks, and passes on what it hears.
pub(crate) async fn drive<S, T>(mut connection: Connection<S, T>, heard: mpsc::Sender<Call>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            // When so many wait, whoever hears them looks anyway.
            let _ = heard.try_send(Call::parse(notification.payload()));
        }
    }
}
