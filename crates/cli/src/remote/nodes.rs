//! `tollgate nodes …`.

use clap::Subcommand;
use serde_json::Value;

use super::Shown;
use super::client::Client;
use super::table::{rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List all processes on this store: which one is the leader, and which ones can take over.
    List,
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => shown.show(&client.get("/admin/nodes").await?, list),
    }
    Ok(())
}

fn list(answer: &Value) -> String {
    let fields = [
        "name",
        "address",
        "version",
        "role",
        "lastSeenSecs",
        "cannotLead",
    ];
    let header = ["NAME", "ADDRESS", "VERSION", "ROLE", "SEEN", "CANNOT LEAD"];
    table(&header, &rows(&answer["nodes"], &fields))
}
