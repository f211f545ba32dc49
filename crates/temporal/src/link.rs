//! The link to the server: a client once there is one, and what is wrong while something is.

use temporalio_client::Client;
use tokio::sync::watch;
use tollgate_core::ports::Unreachable;

/// What everybody who needs the server looks at; [`crate::TemporalService`] keeps it true.
#[derive(Clone)]
pub(crate) struct Link(watch::Receiver<State>);

#[derive(Clone)]
struct State {
    client: Option<Client>,
    trouble: Option<String>,
}

/// The other end.
pub(crate) struct LinkKeeper(watch::Sender<State>);

impl LinkKeeper {
    /// Nothing is connected yet, for this reason.
    pub(crate) fn down(trouble: String) -> Self {
        Self(watch::Sender::new(State {
            client: None,
            trouble: Some(trouble),
        }))
    }

    pub(crate) fn link(&self) -> Link {
        Link(self.0.subscribe())
    }

    pub(crate) fn up(&self, client: Client) {
        self.0.send_replace(State {
            client: Some(client),
            trouble: None,
        });
    }

    /// The client, whether or not something is wrong.
    pub(crate) fn client(&self) -> Option<Client> {
        self.0.borrow().client.clone()
    }

    /// Tells what is wrong, or that nothing is. True if that is news.
    pub(crate) fn tell(&self, trouble: Option<String>) -> bool {
        self.0.send_if_modified(|state| {
            let is_news = state.trouble.is_some() != trouble.is_some();
            state.trouble = trouble;
            is_news
        })
    }
}

impl Link {
    /// A link to a client that is connected, for good.
    pub(crate) fn to(client: Client) -> Self {
        let keeper = LinkKeeper::down(String::new());
        let link = keeper.link();
        keeper.up(client);
        link
    }

    /// At once, one way or the other: nobody waits here for a server that is away.
    pub(crate) fn client(&self) -> Result<Client, Unreachable> {
        let state = self.0.borrow();
        match (&state.client, &state.trouble) {
            (_, Some(trouble)) => Err(Unreachable(trouble.clone())),
            (Some(client), None) => Ok(client.clone()),
            (None, None) => Err(Unreachable("not connected yet".to_owned())),
        }
    }

    /// What is wrong, if anything is.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.0.borrow().trouble.clone()
    }
}
