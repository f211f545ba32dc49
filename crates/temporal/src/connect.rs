//! Reaching a Temporal server: address, TLS, key, namespace. Why it cannot be reached is said in
//! one sentence, and whether waiting helps.

use std::fmt;
use std::time::Duration;

use temporalio_client::errors::ClientConnectError;
use temporalio_client::grpc::WorkflowService;
use temporalio_client::tonic::{Code, IntoRequest, Status};
use temporalio_client::{
    Client, ClientOptions, ClientTlsOptions, Connection, ConnectionOptions, RetryOptions,
    TlsOptions, Url,
};
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeNamespaceRequest;
use thiserror::Error;

use crate::codec::CodecKeys;

/// For one whole try to connect, and for one question about the namespace.
const PATIENCE: Duration = Duration::from_secs(5);
/// A call that fails is repeated for so long. Short: whoever calls has a queue to go back to.
const CALL_AGAIN_FOR: Duration = Duration::from_secs(2);
/// A worker that cannot say what it has done would do it again: it insists for longer.
const WORKERS_CALL_AGAIN_FOR: Duration = Duration::from_secs(10);

/// Which server, and who we are there.
#[derive(Clone)]
pub struct Server {
    /// `host:port`.
    pub address: String,
    pub namespace: String,
    pub tls: Option<Tls>,
    /// A secret.
    pub api_key: Option<String>,
    /// With keys, what goes to the server is encrypted.
    pub codec: Option<CodecKeys>,
    /// Names this process; differs from every other on this namespace, earlier ones too.
    pub caller: String,
}

/// All in PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// Instead of the system's authorities.
    pub root_certificates: Option<Vec<u8>>,
    /// The name in the server's certificate, if it is not the host's.
    pub server_name: Option<String>,
    /// Our own certificate and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("address", &self.address)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// Waiting helps.
    #[error("{0}")]
    Away(String),
    /// Waiting does not: the configuration is wrong.
    #[error("{0}")]
    Refused(String),
}

impl Server {
    /// A server without TLS.
    pub fn plain(address: &str, namespace: &str, caller: &str) -> Self {
        Self {
            address: address.to_owned(),
            namespace: namespace.to_owned(),
            tls: None,
            api_key: None,
            codec: None,
            caller: caller.to_owned(),
        }
    }

    /// A client that is connected and has seen its namespace.
    pub async fn connect(&self) -> Result<Client, ConnectError> {
        self.connect_with(CALL_AGAIN_FOR).await
    }

    /// The same, for workers. Each set of workers needs a connection of its own.
    pub(crate) async fn connect_workers(&self) -> Result<Client, ConnectError> {
        self.connect_with(WORKERS_CALL_AGAIN_FOR).await
    }

    async fn connect_with(&self, again_for: Duration) -> Result<Client, ConnectError> {
        let connecting = Connection::connect(self.options(again_for)?);
        let connection = match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(connected) => connected.map_err(|error| self.not_connected(&error))?,
            Err(_) => return Err(self.away(format!("no answer within {PATIENCE:?}"))),
        };
        let options = ClientOptions::new(self.namespace.clone())
            .maybe_data_converter(self.codec.clone().map(CodecKeys::converter));
        let client = Client::new(connection, options.build())
            .map_err(|error| ConnectError::Refused(error.to_string()))?;
        self.look_at_namespace(&client).await?;
        Ok(client)
    }

    /// Whether the server answers, and knows the namespace and us.
    pub(crate) async fn look_at_namespace(&self, client: &Client) -> Result<(), ConnectError> {
        let mut client = client.clone();
        let request = DescribeNamespaceRequest {
            namespace: self.namespace.clone(),
            ..Default::default()
        };
        let asking = client.describe_namespace(request.into_request());
        match tokio::time::timeout(PATIENCE, asking).await {
            Ok(answer) => answer.map(drop).map_err(|status| self.not_seen(&status)),
            Err(_) => Err(self.away(format!("no answer within {PATIENCE:?}"))),
        }
    }

    fn options(&self, again_for: Duration) -> Result<ConnectionOptions, ConnectError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let url = Url::parse(&format!("{scheme}://{}", self.address)).map_err(|error| {
            ConnectError::Refused(format!("{:?} is not host:port: {error}", self.address))
        })?;
        let again = RetryOptions::builder().max_elapsed_time(Some(again_for));
        Ok(ConnectionOptions::new(url)
            .identity(self.caller.clone())
            .connect_timeout(PATIENCE)
            .retry_options(again.build())
            .maybe_tls_options(self.tls.as_ref().map(tls_options))
            .maybe_api_key(self.api_key.clone())
            .build())
    }

    fn away(&self, why: impl fmt::Display) -> ConnectError {
        ConnectError::Away(format!(
            "Temporal at {} cannot be reached: {why}",
            self.address
        ))
    }

    fn not_connected(&self, error: &ClientConnectError) -> ConnectError {
        match error {
            ClientConnectError::SystemInfoCallError(status) => self.not_seen(status),
            ClientConnectError::TonicTransportError(error) => self.away(innermost(error)),
            ClientConnectError::DnsResolutionError { source, .. } => self.away(source),
            other => ConnectError::Refused(other.to_string()),
        }
    }

    fn not_seen(&self, status: &Status) -> ConnectError {
        let (address, namespace) = (&self.address, &self.namespace);
        match status.code() {
            Code::NotFound | Code::InvalidArgument => ConnectError::Refused(format!(
                "Temporal at {address} has no namespace {namespace:?}; create it (temporal operator namespace create --namespace {namespace}) or name another"
            )),
            Code::Unauthenticated | Code::PermissionDenied => ConnectError::Refused(format!(
                "Temporal at {address} denies access to namespace {namespace:?}: {}; check the key or the certificate",
                status.message()
            )),
            _ => self.away(reason(status)),
        }
    }
}

fn tls_options(tls: &Tls) -> TlsOptions {
    let client = tls.client.as_ref().map(|(certificate, key)| {
        ClientTlsOptions::builder()
            .client_cert(certificate.clone())
            .client_private_key(key.clone())
            .build()
    });
    TlsOptions::builder()
        .maybe_server_root_ca_cert(tls.root_certificates.clone())
        .maybe_domain(tls.server_name.clone())
        .maybe_client_tls_options(client)
        .build()
}

/// The server's own words, or what kept us from hearing them.
fn reason(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => innermost(source),
        None => status.message().to_owned(),
    }
}

/// What really happened: "Connection refused", not "transport error".
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
