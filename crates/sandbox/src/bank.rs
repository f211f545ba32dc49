//! The bank as a running server: binds, accepts, keeps connections, and stops. What it answers is
//! the contract's business.

use std::{
    error::Error,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use anyhow::Context;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use crate::{
    contract::{Counter, HungUp},
    dialect::{Dialect, Tokens},
    fate::FaultSource,
    faults::Faults,
    ledger::Ledger,
};

/// Further clients wait in the listen queue.
const MAX_CONNECTIONS: usize = 4_096;
/// After a failed accept, most likely for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct BankOptions {
    /// Where to listen; port 0 takes any free one. Default `127.0.0.1:0`.
    pub listen: SocketAddr,
    /// Arrivals admitted in any sliding second; the rest get a 429. Default: no limit.
    pub limit_per_second: Option<u32>,
    /// Whether a repeated key takes effect only once. If not, keys are ignored. Default true.
    pub honours_keys: bool,
    /// The faults to start with. Default: none.
    pub faults: Faults,
    /// Decides when the faults strike; each start begins its sequence anew. Default 0.
    pub seed: u64,
    /// Closes a connection that has been idle for so long, as most servers do. Default: never.
    pub close_idle_after: Option<Duration>,
    /// Which language it speaks. Default: the contract.
    pub speaks: Dialect,
    /// How long its OAuth tokens live, if its language has any. Default: nine hours.
    pub tokens_live: Duration,
}

impl Default for BankOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            limit_per_second: None,
            honours_keys: true,
            faults: Faults::default(),
            seed: 0,
            close_idle_after: None,
            speaks: Dialect::Contract,
            tokens_live: Duration::from_hours(9),
        }
    }
}

/// A running bank. Dropping it stops it too, without waiting.
#[derive(Debug)]
pub struct Bank {
    address: SocketAddr,
    counter: Arc<Counter>,
    /// Dropped to stop the accept loop.
    open: oneshot::Sender<()>,
    accepting: JoinHandle<()>,
}

impl Bank {
    /// Starts with an empty ledger. Call it inside a tokio runtime.
    pub fn start(options: BankOptions) -> anyhow::Result<Self> {
        Self::start_with_ledger(options, Ledger::new())
    }

    /// Starts with what an earlier bank remembers: its arrivals, effects, keys and limit.
    pub fn start_with_ledger(options: BankOptions, ledger: Ledger) -> anyhow::Result<Self> {
        let BankOptions {
            listen: address,
            limit_per_second,
            honours_keys,
            faults,
            seed,
            close_idle_after,
            speaks,
            tokens_live,
        } = options;
        let listener = listen(address)
            .with_context(|| format!("the sandbox bank cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        let counter = Arc::new(Counter {
            ledger,
            faults: FaultSource::new(faults, seed),
            limit_per_second,
            honours_keys,
            speaks,
            tokens: Tokens::living(tokens_live),
            slow_work: Mutex::default(),
        });
        let (open, closed) = oneshot::channel();
        let accepting = tokio::spawn(accept_until(
            closed,
            listener,
            Arc::clone(&counter),
            close_idle_after,
        ));
        Ok(Self {
            address,
            counter,
            open,
            accepting,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base to which `/payments` is added.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn ledger(&self) -> &Ledger {
        &self.counter.ledger
    }

    /// For the arrivals from now on; numbers in them count from now.
    pub fn set_faults(&self, faults: Faults) {
        self.counter.faults.set(faults);
    }

    /// Ends every OAuth token at once.
    pub fn revoke_tokens(&self) {
        self.counter.tokens.revoke();
    }

    /// Whether the token endpoint hangs up instead of answering.
    pub fn set_token_endpoint_away(&self, away: bool) {
        self.counter.tokens.set_away(away);
    }

    /// How many tokens it has given out.
    pub fn tokens_issued(&self) -> u64 {
        self.counter.tokens.issued()
    }

    /// Stops like a pulled plug: all connections are closed and answers on their way are lost.
    /// When it returns the port is free and the ledger is final.
    pub async fn stop(self) {
        drop(self.open);
        let ended = self.accepting.await;
        ended.expect("the accept loop does not panic and is never aborted");
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn accept_until(
    mut closed: oneshot::Receiver<()>,
    listener: TcpListener,
    counter: Arc<Counter>,
    close_idle_after: Option<Duration>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut closed => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    let counter = Arc::clone(&counter);
                    connections.spawn(serve_connection(stream, counter, close_idle_after));
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
    let mut slow_work = std::mem::take(&mut *counter.slow_work());
    slow_work.shutdown().await;
}

async fn serve_connection(
    stream: TcpStream,
    counter: Arc<Counter>,
    close_idle_after: Option<Duration>,
) {
    // Best effort: without it answers are only later.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| Box::pin(Arc::clone(&counter).serve(request)));
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(close_idle_after)
        .serve_connection(TokioIo::new(stream), service);
    // An error is a client that left, or a fault that we made ourselves; the ledger has both.
    let ended = (&mut connection).await;
    if ended.is_err_and(|error| is_hung_up(&error)) {
        // Closing with no time to linger is what sends a TCP reset.
        let _ = connection.into_parts().io.inner().set_zero_linger();
    }
}

fn is_hung_up(error: &hyper::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<HungUp>)
}
