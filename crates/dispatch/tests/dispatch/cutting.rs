//! Where a sender dies. At an edge of the exchange, by a connector that stops there; or at the
//! so-manieth time it waits for anything. What it had handed to the store or the bank goes on.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::Notify;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{
    Connection, Connector, ExchangeResult, Missed, NoConnection, Permit, Profile, Request,
};
use tollgate_sandbox::Ledger;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Never,
    /// At this wait, counted from 0. Which one it is depends on how fast the others are.
    Wait(usize),
    /// The connection is there, no turn is taken.
    BeforeTurn,
    /// The turn is durable, no byte is out.
    BeforeSend,
    /// The bank has it, no answer has been read.
    BeforeAnswer,
    /// The answer is in hand, nothing of it is written.
    BeforeSettle,
}

/// Edges that every life which sends comes by.
pub(crate) const SURE: [Edge; 4] = [
    Edge::BeforeTurn,
    Edge::BeforeSend,
    Edge::BeforeAnswer,
    Edge::BeforeSettle,
];

#[derive(Clone)]
pub(crate) struct Cutting {
    pub(crate) inner: Arc<dyn Connector>,
    pub(crate) at: Edge,
    pub(crate) ledger: Ledger,
    pub(crate) reached: Arc<Notify>,
}

impl Cutting {
    async fn die_at(&self, edge: Edge) {
        if self.at == edge {
            self.reached.notify_one();
            std::future::pending::<()>().await;
        }
    }

    async fn exchange<T>(&self, exchange: impl Future<Output = T>) -> T {
        self.die_at(Edge::BeforeSend).await;
        let arrivals = self.ledger.arrivals();
        let heard = if self.at == Edge::BeforeAnswer {
            let mut exchange = std::pin::pin!(exchange);
            let heard = tokio::select! {
                () = self.ledger.wait_for_arrivals(arrivals + 1) => None,
                heard = &mut exchange => Some(heard),
            };
            match heard {
                // Nothing has arrived: a machine that is busy missed the turn.
                Some(heard) if self.ledger.arrivals() == arrivals => heard,
                Some(heard) => {
                    self.die_at(Edge::BeforeAnswer).await;
                    heard
                }
                // The exchange goes on while it dies.
                None => tokio::join!(self.die_at(Edge::BeforeAnswer), exchange).1,
            }
        } else {
            exchange.await
        };
        self.die_at(Edge::BeforeSettle).await;
        heard
    }
}

#[async_trait]
impl Connector for Cutting {
    fn lane(&self) -> &LaneName {
        self.inner.lane()
    }
    fn profile(&self) -> &Profile {
        self.inner.profile()
    }
    async fn connection(&self) -> Result<Box<dyn Connection>, NoConnection> {
        let connection = self.inner.connection().await?;
        self.die_at(Edge::BeforeTurn).await;
        let cutting = self.clone();
        Ok(Box::new(CuttingConnection {
            connection,
            cutting,
        }))
    }
}

struct CuttingConnection {
    connection: Box<dyn Connection>,
    cutting: Cutting,
}

#[async_trait]
impl Connection for CuttingConnection {
    async fn connect_for(&mut self, turn: Instant) -> Result<(), NoConnection> {
        self.connection.connect_for(turn).await
    }
    async fn send(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        let Self {
            connection,
            cutting,
        } = *self;
        cutting.exchange(connection.send(permit, request)).await
    }
    async fn probe(
        self: Box<Self>,
        permit: Permit,
        request: &Request,
    ) -> Result<ExchangeResult, Missed> {
        let Self {
            connection,
            cutting,
        } = *self;
        cutting.exchange(connection.probe(permit, request)).await
    }
}

/// Drops a future when it waits for the so-manieth time.
pub(crate) struct CutWait<F> {
    pub(crate) inner: Pin<Box<F>>,
    pub(crate) left: usize,
}

impl<F: Future> Future for CutWait<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.inner.as_mut().poll(cx) {
            Poll::Ready(end) => Poll::Ready(Some(end)),
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => {
                self.left -= 1;
                Poll::Pending
            }
        }
    }
}
