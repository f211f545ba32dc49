//! The door: what is served, to whom, and over what. Beside it connections and their limits (`listener.rs`, `places.rs`),
//! TLS, tokens and roles (`auth.rs`), wrong tokens, and sessions of the console.

pub(crate) mod auth;
mod for_console;
mod listener;
pub(crate) mod places;
pub(crate) mod sessions;
pub mod tls;
mod wrong_tokens;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tollgate_config::{Config, Http, Role};
use tollgate_console::Console;

use crate::Bounds;
use crate::door::auth::Tokens;
use crate::door::for_console::ForConsole;
use crate::door::listener::Listener;
use crate::door::sessions::Sessions;

pub struct Door {
    tokens: Arc<Tokens>,
    tls: Option<TlsAcceptor>,
    /// Whether nobody can read on the way, be it our TLS or a proxy's.
    by_tls: bool,
    http: Http,
    serves_api: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").finish_non_exhaustive()
    }
}

impl Door {
    /// Reads the tokens and certificates; listens to nobody yet.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        Ok(Self {
            tokens: Arc::new(Tokens::of(&config.auth)?),
            tls: tls::acceptor(&config.tls)?,
            by_tls: config.tls.protects(),
            http: config.http.clone(),
            serves_api: config.engine.does(Role::Api),
        })
    }

    /// All that is served. `closing` says that it is about to end.
    pub fn router(&self, app: crate::App, closing: watch::Receiver<bool>) -> Router {
        let tokens = Arc::clone(&self.tokens);
        let bounds = Bounds {
            body_patience: self.http.body(),
            by_tls: self.by_tls,
        };
        if !self.serves_api {
            return crate::health_alone(app, tokens, bounds);
        }
        let sessions = Sessions::new(Arc::clone(&app.store), Arc::clone(&tokens));
        let api = crate::router(app, Arc::clone(&tokens), bounds);
        if !self.http.console {
            return api;
        }
        let door = Arc::new(ForConsole { tokens, sessions });
        let console = Console::new(api.clone(), door, self.by_tls, closing);
        let bounded = from_fn_with_state(bounds, crate::bound);
        api.merge(console.pages().layer(bounded))
    }

    pub fn listener(self, socket: TcpListener) -> Listener {
        Listener::new(socket, self.tls, self.http)
    }
}
