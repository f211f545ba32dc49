//! The client of a command, with its address, token and certificate authorities. The token never comes from the
//! command line, where others on the machine could read it.

use anyhow::{Context, ensure};
use tollgate_client::Client;

use super::Args;

/// Where the token is, if no file is named.
pub(super) const TOKEN: &str = "TOLLGATE_TOKEN";

/// The client for these flags. It does not connect yet.
pub(crate) fn client(args: &Args) -> anyhow::Result<Client> {
    let mut builder = Client::builder(&args.server);
    if let Some(ca) = &args.ca {
        builder = builder.ca_file(ca);
    }
    if let Some(token) = token(args)? {
        builder = builder.token(token);
    }
    Ok(builder.build()?)
}

/// From the file or the environment; none is fine where none is asked for.
fn token(args: &Args) -> anyhow::Result<Option<String>> {
    let (place, text) = match &args.token_file {
        Some(file) => {
            let place = format!("--token-file {}", file.display());
            let text = std::fs::read_to_string(file);
            (
                place.clone(),
                text.with_context(|| format!("{place} cannot be read"))?,
            )
        }
        None => (TOKEN.to_owned(), std::env::var(TOKEN).unwrap_or_default()),
    };
    let token = text.trim();
    if token.is_empty() && args.token_file.is_none() {
        return Ok(None);
    }
    let plain = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(plain, "{place} must contain exactly one token");
    Ok(Some(token.to_owned()))
}
