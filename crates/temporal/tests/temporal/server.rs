//! A real Temporal server for one test: started on a free port, ended with its guard.

use std::env;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use temporalio_client::Client;

use tollgate_temporal::connect;

const CONNECT_TRIES: u32 = 100;
const CONNECT_PAUSE: Duration = Duration::from_millis(200);

/// A running development server; dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    address: String,
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) async fn start() -> anyhow::Result<(Self, Client)> {
        let program = find_program()?;
        let port = free_port()?.to_string();
        let process = Command::new(&program)
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1"])
            .args(["--port", &port, "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start: run `./dev setup`", program.display()))?;
        let mut server = Self {
            process,
            address: format!("http://127.0.0.1:{port}"),
        };
        let client = server.wait_until_ready().await?;
        Ok((server, client))
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<Client> {
        let mut last = None;
        for _ in 0..CONNECT_TRIES {
            if let Some(status) = self.process.try_wait()? {
                bail!("the Temporal server ended at once: {status}");
            }
            match connect(&self.address).await {
                Ok(client) => return Ok(client),
                Err(error) => last = Some(error),
            }
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
        bail!(
            "the Temporal server at {} never answered: {last:?}",
            self.address
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn find_program() -> anyhow::Result<PathBuf> {
    if let Some(program) = env::var_os("TGTEST_TEMPORAL_BIN") {
        return Ok(program.into());
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let on_path = env::var_os("PATH").unwrap_or_default();
    let mut places = vec![workspace.join(".dev/temporal/bin")];
    places.extend(env::split_paths(&on_path));
    places
        .into_iter()
        .map(|place| place.join("temporal"))
        .find(|program| program.is_file())
        .context("no `temporal` program found: run `./dev setup`, or set TGTEST_TEMPORAL_BIN")
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.port())
}
