//! The engine's life: start, the engine thread, shutdown.

use std::rc::Rc;
use std::sync::Arc;
use std::{fmt, io, thread};

use thiserror::Error;
use tokio::runtime;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tollgate_core::id::Epoch;
use tollgate_core::ports::{Flows, StoreError};

use crate::handle::Handle;
use crate::loader;
use crate::local::{Local, Tether};
use crate::options::Options;
use crate::registry::{Builder, Registry};
use crate::shared::{Shared, Stop};

#[derive(Debug, Error)]
pub enum StartError {
    /// The options or the registrations contradict themselves; the sentence names them.
    #[error("the engine cannot start: {0}")]
    Invalid(String),
    #[error("the engine cannot take over its flows: {0}")]
    Store(#[from] StoreError),
    #[error("the engine's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// A running engine. Dropped without [`EmbeddedEngine::shutdown`] it stops as in a crash: at
/// once, and nobody waits for its steps.
pub struct EmbeddedEngine {
    shared: Arc<Shared>,
    /// `None` once somebody waits for it.
    thread: Option<thread::JoinHandle<()>>,
    /// Ends when the thread and every task it has sent outside are gone.
    outside: mpsc::Receiver<()>,
}

impl EmbeddedEngine {
    /// Takes over from all earlier nodes and begins to run flows. Steps run on the runtime this
    /// is called on, which needs its time driver.
    pub async fn start(
        flows: Arc<dyn Flows>,
        builder: Builder,
        options: Options,
    ) -> Result<Self, StartError> {
        let ready = Ready::new(builder, options)?;
        let epoch = flows.take_node().await?;
        ready.run(flows, epoch)
    }

    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Stops loading and running flows; running steps go on for as long as the process does. The next
    /// node runs again what is not journaled by then.
    pub fn stop(&self) {
        self.shared.stop(Stop::Shutdown);
    }

    /// Stops loading and running flows, then gives running steps the time of `drain` to be
    /// journaled. What is abandoned after that runs again on the next start.
    pub async fn shutdown(mut self) {
        self.shared.stop(Stop::Shutdown);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was logged by its own stop.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        let drained = tokio::time::timeout(self.shared.options.drain, self.outside.recv()).await;
        if drained.is_err() {
            tracing::warn!("running steps were abandoned; they run again on the next start");
        }
    }
}

/// An engine that lacks nothing but its epoch: whoever has taken the store over must not fail after that.
pub struct Ready {
    registry: Registry,
    options: Options,
}

impl Ready {
    pub fn new(builder: Builder, options: Options) -> Result<Self, StartError> {
        options.validate().map_err(StartError::Invalid)?;
        let registry = builder.build().map_err(StartError::Invalid)?;
        Ok(Self { registry, options })
    }

    /// Begins to run flows under an epoch that was taken before. Steps run on the runtime this is
    /// called on, which needs its time driver.
    pub fn run(self, flows: Arc<dyn Flows>, epoch: Epoch) -> Result<EmbeddedEngine, StartError> {
        let Self { registry, options } = self;
        let step_runtime = runtime::Handle::current();
        let shared = Arc::new(Shared::new(flows, epoch, registry, options));
        let (token, outside) = mpsc::channel(1);
        let on_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("tollgate-engine".to_owned())
            .spawn(move || {
                let _ended = Ended(Arc::clone(&on_thread));
                // Made here: where others await, a runtime cannot even be dropped.
                let flow_runtime = runtime::Builder::new_current_thread().enable_time().build();
                let flow_runtime = match flow_runtime {
                    Ok(flow_runtime) => flow_runtime,
                    Err(why) => return on_thread.stop(Stop::Died(why.to_string())),
                };
                let local = Rc::new(Local::new(Tether::new(on_thread, token), step_runtime));
                // Leaving drops the set and with it all flows; their journals resume them.
                LocalSet::new().block_on(&flow_runtime, load_until_stopped(local));
            })?;
        tracing::info!(epoch = epoch.0, "the embedded engine is running");
        Ok(EmbeddedEngine {
            shared,
            thread: Some(thread),
            outside,
        })
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").finish_non_exhaustive()
    }
}

impl Drop for EmbeddedEngine {
    fn drop(&mut self) {
        self.shared.stop(Stop::Shutdown);
    }
}

impl fmt::Debug for EmbeddedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedEngine")
            .field("handle", &self.handle())
            .finish_non_exhaustive()
    }
}

async fn load_until_stopped(local: Rc<Local>) {
    let shared = Arc::clone(&local.shared);
    tokio::select! {
        _ = shared.stopped() => {}
        () = loader::run(local) => {}
    }
}

/// Also when our own code panics, nobody shall wait for an engine that is not there.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0
            .stop(Stop::Died("the engine thread ended by itself".to_owned()));
    }
}
