//! The door: what is served, to whom, and over what. Beside it connections and their limits (`listener.rs`, `places.rs`),
//! TLS, tokens and roles (`auth.rs`), wrong tokens, and sessions of the console.

pub(crate) mod auth;
mod for_console;
mod listener;
pub(crate) mod places;
pub(crate) mod sessions;
pub(crate) mod tls;
mod wrong_tokens;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tollgate_console::Console;

use crate::api::{self, Bounds};
use crate::config::{Config, Http, Role};
use crate::door::auth::Tokens;
use crate::door::for_console::ForConsole;
use crate::door::listener::Listener;
use crate::door::sessions::Sessions;

pub(crate) struct Door {
    tokens: Arc<Tokens>,
    tls: Option<TlsAcceptor>,
    /// Whether nobody can read on the way, be it our TLS or a proxy's.
    by_tls: bool,
    http: Http,
    serves_api: bool,
}

impl Door {
    /// Reads the tokens and certificates; listens to nobody yet.
    pub(crate) fn new(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            tokens: Arc::new(config.auth.tokens()?),
            tls: tls::acceptor(&config.tls)?,
            by_tls: config.tls.protects(),
            http: config.http.clone(),
            serves_api: config.engine.does(Role::Api),
        })
    }

    /// All that is served. `closing` says that it is about to end.
    pub(crate) fn router(&self, app: api::App, closing: watch::Receiver<bool>) -> Router {
        let tokens = Arc::clone(&self.tokens);
        let bounds = Bounds {
            body_patience: self.http.body(),
            by_tls: self.by_tls,
        };
        if !self.serves_api {
            return api::health_alone(app, tokens, bounds);
        }
        let sessions = Sessions::new(Arc::clone(&app.store), Arc::clone(&tokens));
        let api = api::router(app, Arc::clone(&tokens), bounds);
        if !self.http.console {
            return api;
        }
        let door = Arc::new(ForConsole { tokens, sessions });
        let console = Console::new(api.clone(), door, self.by_tls, closing);
        let bounded = from_fn_with_state(bounds, api::bound);
        api.merge(console.pages().layer(bounded))
    }

    pub(crate) fn listener(self, socket: TcpListener) -> Listener {
        Listener::new(socket, self.tls, self.http)
    }
}
