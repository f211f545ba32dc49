//! The engine's life in one process: connect, run the workers, watch the server, stop. A server
//! that is away is waited for; whatever must run meanwhile waits in the queue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use temporalio_client::Client;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_core::ports::Engine;
use tollgate_core::retry;

use crate::connect::{ConnectError, Server};
use crate::engine::TemporalEngine;
use crate::link::{Link, LinkKeeper};
use crate::queues::TaskQueues;
use crate::schedules::Schedules;
use crate::worker::{RunningWorker, WantedWorkers};

/// Between two tries to reach a server that is away.
const PAUSES: retry::Policy = retry::Policy {
    max_attempts: u32::MAX,
    first_pause: Duration::from_millis(500),
    factor: retry::TWICE,
    longest_pause: Duration::from_secs(5),
};
/// How often the server is asked whether it is there.
const LOOK_PAUSE: Duration = Duration::from_secs(2);
/// Beyond the drain, a stop waits so long for workers whose server does not answer.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

pub struct TemporalService {
    server: Server,
    keeper: Arc<LinkKeeper>,
    running: Option<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

impl std::fmt::Debug for TemporalService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemporalService")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Whether the server can be used now.
#[derive(Clone)]
pub struct Reach(Link);

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Reach").field(&self.trouble()).finish()
    }
}

impl Reach {
    /// What is wrong, if anything is.
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }
}

impl TemporalService {
    /// Tries once. A server that is away is waited for later, by [`TemporalService::run`]; one that
    /// refuses us will do so again, and is an error.
    pub async fn connect(server: Server) -> Result<Self, ConnectError> {
        let keeper = LinkKeeper::down("not connected yet".to_owned());
        match server.connect().await {
            Ok(client) => keeper.up(client),
            Err(ConnectError::Away(why)) => {
                tracing::warn!(%why, "Temporal cannot be reached; nothing is started until it can");
                keeper.tell(Some(why));
            }
            Err(refused @ ConnectError::Refused(_)) => return Err(refused),
        }
        Ok(Self {
            server,
            keeper: Arc::new(keeper),
            running: None,
            stop: watch::Sender::new(false),
        })
    }

    pub fn engine(&self) -> Arc<dyn Engine> {
        let caller = self.server.caller.clone();
        Arc::new(TemporalEngine::on(self.keeper.link(), caller))
    }

    pub fn reach(&self) -> Reach {
        Reach(self.keeper.link())
    }

    pub fn schedules(&self) -> Schedules {
        Schedules::on(self.keeper.link(), self.server.caller.clone())
    }

    pub fn task_queues(&self) -> TaskQueues {
        TaskQueues::on(self.keeper.link())
    }

    /// Begins to work, on these task queues.
    pub fn run(&mut self, workers: impl WantedWorkers + 'static) {
        let run = Run {
            server: self.server.clone(),
            keeper: Arc::clone(&self.keeper),
            workers: Box::new(workers),
            stop: self.stop.subscribe(),
        };
        self.running = Some(tokio::spawn(run.until_stopped()));
    }

    /// Takes no more work and lets steps under way end, for as long as the workers' drain allows.
    pub async fn shutdown(mut self) {
        let _ = self.stop.send(true);
        if let Some(running) = self.running.take() {
            // It has its own bounds.
            let _ = running.await;
        }
    }
}

/// By task queue.
type Workers = BTreeMap<String, RunningWorker>;

struct Run {
    server: Server,
    keeper: Arc<LinkKeeper>,
    workers: Box<dyn WantedWorkers>,
    stop: watch::Receiver<bool>,
}

impl Run {
    async fn until_stopped(mut self) {
        let mut tries = 0;
        while !*self.stop.borrow() {
            match self.start_workers().await {
                Ok((client, mut workers)) => {
                    tries = 0;
                    self.watch(&client, &mut workers).await;
                    stop_all(workers.into_values().collect()).await;
                }
                Err(why) => self.tell(Some(why)),
            }
            tries += 1;
            self.pause(PAUSES.pause_after(tries)).await;
        }
    }

    /// Connects anew: workers that have ended leave nothing behind that could be in the way.
    async fn start_workers(&self) -> Result<(Client, Workers), String> {
        let sentence = |error: ConnectError| error.to_string();
        if self.keeper.link().client().is_err() {
            self.keeper
                .up(self.server.connect().await.map_err(sentence)?);
            tracing::info!(server = %self.server.address, "Temporal can be reached");
        }
        let client = self.server.connect_workers().await.map_err(sentence)?;
        let mut workers = Workers::new();
        self.start_wanted(&client, &mut workers).await?;
        Ok((client, workers))
    }

    /// Starts those that are wanted and do not run yet.
    async fn start_wanted(&self, client: &Client, workers: &mut Workers) -> Result<(), String> {
        for registered in self.workers.wanted().await {
            let queue = registered.task_queue().to_owned();
            if workers.contains_key(&queue) {
                continue;
            }
            let started = RunningWorker::start(client.clone(), registered);
            let started = started.map_err(|error| format!("{queue}: {error:#}"))?;
            tracing::info!(queue, "this process works on a task queue");
            workers.insert(queue, started);
        }
        Ok(())
    }

    /// Asks the server now and then, until told to stop or until a worker has ended by itself.
    async fn watch(&mut self, client: &Client, workers: &mut Workers) {
        loop {
            let any_ended = async {
                if workers.is_empty() {
                    return std::future::pending().await;
                }
                let ends = workers.values().map(|worker| Box::pin(worker.ended()));
                futures::future::select_all(ends).await;
            };
            tokio::select! {
                () = any_ended => {
                    tracing::warn!("a worker ended unexpectedly; all workers are restarted");
                    return;
                }
                _ = self.stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(LOOK_PAUSE) => {}
            }
            self.look().await;
            if let Err(why) = self.start_wanted(client, workers).await {
                tracing::warn!(%why, "a worker could not be started; Tollgate retries");
            }
        }
    }

    async fn look(&self) {
        let Some(client) = self.keeper.client() else {
            return;
        };
        let seen = self.server.look_at_namespace(&client).await;
        self.tell(seen.err().map(|error| error.to_string()));
    }

    fn tell(&self, trouble: Option<String>) {
        if !self.keeper.tell(trouble.clone()) {
            return;
        }
        match trouble {
            Some(why) => tracing::warn!(%why, "nothing is started until the engine is back"),
            None => tracing::info!(server = %self.server.address, "Temporal can be reached"),
        }
    }

    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = self.stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// All at once, each for as long as its drain allows. A thread that does not end even then is left
/// behind: the process ends, and what it did is tried again elsewhere.
async fn stop_all(workers: Vec<RunningWorker>) {
    for worker in &workers {
        worker.begin_stop();
    }
    let stopping = workers.into_iter().map(|worker| async move {
        let drain = worker.drain() + STOP_PATIENCE;
        match tokio::time::timeout(drain, worker.ended()).await {
            Ok(()) => {
                if let Err(error) = worker.stop() {
                    tracing::warn!(%error, "a worker ended with an error");
                }
            }
            Err(_) => worker.abandon(),
        }
    });
    futures::future::join_all(stopping).await;
}
