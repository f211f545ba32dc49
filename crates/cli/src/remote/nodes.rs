//! `tollgate nodes …`.

use clap::Subcommand;
use tollgate_client::Client;
use tollgate_client::contract::Nodes;

use super::Shown;
use super::table::{row, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all processes that share the store: which one is the leader, and which ones can take over.
    List,
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => shown.show(&client.nodes().list().await?, list),
    }
    Ok(())
}

fn list(answer: &Nodes) -> String {
    let header = ["NAME", "ADDRESS", "VERSION", "ROLE", "SEEN", "CANNOT LEAD"];
    let rows: Vec<Vec<String>> = answer
        .nodes
        .iter()
        .map(|it| {
            row(&[
                &it.name,
                &it.address,
                &it.version,
                &it.role,
                &it.last_seen_secs,
                &it.cannot_lead,
            ])
        })
        .collect();
    table(&header, &rows)
}
