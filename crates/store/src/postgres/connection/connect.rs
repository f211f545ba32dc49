//! How a connection is made: address, TLS, and the limits every session starts with.

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;
use tollgate_core::ports::Call;

use super::tls::{verified, without_root_file};
use crate::postgres::PostgresOptions;
use crate::postgres::flows::calls::drive;

/// Where and how to connect.
pub(crate) struct Address {
    config: Config,
    tls: Option<MakeRustlsConnect>,
}

impl Address {
    /// Reads the URL. The sentence it answers with never holds the password.
    pub(crate) fn parse(options: &PostgresOptions) -> Result<Self, String> {
        // Ours always checks chain and name, which is what libpq calls verify-full.
        let url = options
            .url
            .replace("sslmode=verify-full", "sslmode=require");
        let (url, root_file) = without_root_file(&url);
        let mut config: Config = url.parse().map_err(|e| {
            format!("the store's URL cannot be read: {e}; it should look like postgres://user:password@host:5432/database")
        })?;
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(MakeRustlsConnect::new(verified(root_file.as_deref())?)),
            _ if root_file.is_some() => {
                return Err(
                    "the store's URL has an sslrootcert, which requires sslmode=require".into(),
                );
            }
            _ => None,
        };
        if tls.is_none() {
            config.ssl_mode(SslMode::Disable);
        }
        let session = session_settings(options, config.get_options());
        config
            .options(session)
            .connect_timeout(options.connect_timeout)
            .tcp_user_timeout(options.deadline)
            .keepalives_idle(options.deadline);
        if config.get_application_name().is_none() {
            config.application_name("tollgate");
        }
        Ok(Self { config, tls })
    }

    pub(super) fn pool(&self, options: &PostgresOptions) -> Result<Pool, String> {
        let recycle = ManagerConfig {
            // A connection whose socket is gone is noticed without a question to the server.
            recycling_method: RecyclingMethod::Fast,
        };
        let config = self.config.clone();
        let manager = match &self.tls {
            Some(tls) => Manager::from_config(config, tls.clone(), recycle),
            None => Manager::from_config(config, NoTls, recycle),
        };
        Pool::builder(manager)
            .max_size(options.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(options.wait_timeout))
            .create_timeout(Some(options.connect_timeout))
            .recycle_timeout(Some(options.connect_timeout))
            .build()
            .map_err(|e| e.to_string())
    }

    /// One connection outside the pool, and the task that drives it until the client is dropped.
    pub(crate) async fn connect(&self) -> Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                Ok((client, tokio::spawn(async move { drop(connection.await) })))
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                Ok((client, tokio::spawn(async move { drop(connection.await) })))
            }
        }
    }

    /// A connection that hears notifications; it lasts as long as its client.
    pub(crate) async fn connect_hearing(
        &self,
        heard: mpsc::Sender<Call>,
    ) -> Result<Client, tokio_postgres::Error> {
        match &self.tls {
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                tokio::spawn(drive(connection, heard));
                Ok(client)
            }
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                tokio::spawn(drive(connection, heard));
                Ok(client)
            }
        }
    }

    /// `host:port`, for people.
    pub(crate) fn server(&self) -> String {
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => format!("{name}:{port}"),
            Some(Host::Unix(path)) => format!("{}:{port}", path.display()),
            None => format!("localhost:{port}"),
        }
    }

    pub(crate) fn database(&self) -> &str {
        self.config.get_dbname().unwrap_or_else(|| self.user())
    }

    pub(crate) fn user(&self) -> &str {
        self.config.get_user().unwrap_or("")
    }
}

/// What the operator wrote comes last and wins. A server, database or role may say that commits are
/// not to be waited for (`synchronous_commit`); what was answered here must survive a crash.
///
/// Every statement is short, but a table that was never analysed makes the planner expect a costly one, and then
/// `jit` would compile it for longer than it runs: 23 ms instead of 1 ms for the lanes that are due, five times a second
/// for each item type.
fn session_settings(options: &PostgresOptions, theirs: Option<&str>) -> String {
    format!(
        "-c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} \
         -c plan_cache_mode=force_custom_plan -c jit=off -c default_transaction_isolation=read\\ committed \
         -c synchronous_commit=on {}",
        options.statement_timeout.as_millis(),
        options.lock_timeout.as_millis(),
        options.idle_timeout.as_millis(),
        theirs.unwrap_or("")
    )
}
