//! The ways to the downstreams: connectors over HTTP/1.1 on connections of our own, so that "no
//! byte was sent" and "perhaps sent" are never confused. No retries and no redirects; what
//! becomes of an outcome is the sender's business.

mod access;
mod ask;
mod connection;
mod delivery;
mod description;
mod encrypted;
mod first_write;
mod http;
mod judge;
mod login;
mod pool;
mod secret_source;
mod service_answers;
mod services;
mod signature;
mod socket;
mod stranger;
mod tls;
mod url;
mod webhook;

pub use access::Access;
pub use ask::AskResult;
pub use connection::MAX_ANSWER_BYTES;
pub use description::{Checked, Description, Promises, SHIPPED, Subject, Wrong};
pub use http::{HttpConnector, HttpOptions};
pub use login::{HmacOptions, LoginOptions, OAuthOptions};
pub use secret_source::SecretSource;
pub use services::{HttpCheckServices, Service, ServiceOptions};
pub use signature::Signer;
pub use webhook::{MAX_RECEIVER_CONNECTIONS, WebhookConnector, WebhookOptions};
