//! `tollgate types …`: how items are dispatched.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use tollgate_client::contract::ItemType;
use tollgate_client::{Client, quoted};

use super::Shown;
use super::table::{facts, history, row, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List item types.
    List,
    /// Show an item type with all its settings.
    Show {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
    },
    /// Change an item type. Values that are not given stay as they are.
    Set {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
        #[command(flatten)]
        change: Change,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Enable dispatching again.
    Enable {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// Kill switch: stop dispatching. Items stay in the queue.
    Disable {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
        /// Reason, recorded in the audit log.
        #[arg(long)]
        reason: String,
    },
    /// List all versions, newest first.
    History {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// Maximum number of items per claim.
    #[arg(long)]
    batch_size: Option<u32>,
    /// Maximum number of items per flow, 1 to 500, at most the batch size. With 1, each item has its own flow.
    #[arg(long)]
    items_per_flow: Option<u32>,
    /// Maximum time between two full dispatch cycles, in seconds.
    #[arg(long)]
    dispatch_interval_secs: Option<u32>,
    /// Random start delay of later runs, at most this many milliseconds.
    #[arg(long)]
    jitter_window_ms: Option<u32>,
    /// How long before its due time an item may be claimed, in minutes.
    #[arg(long)]
    pre_start_buffer_mins: Option<f64>,
    /// Number of failed starts after which an item is DEAD.
    #[arg(long)]
    max_dispatch_retries: Option<u32>,
    /// Age after which a claim may be taken over, in minutes.
    #[arg(long)]
    stale_claim_threshold_mins: Option<f64>,
    /// Temporal task queue that executes items. A process must already poll it.
    #[arg(long)]
    exec_task_queue: Option<String>,
}

impl Change {
    fn fields(&self) -> Map<String, Value> {
        let given = [
            ("batchSize", self.batch_size.map(Value::from)),
            ("itemsPerFlow", self.items_per_flow.map(Value::from)),
            (
                "dispatchIntervalSecs",
                self.dispatch_interval_secs.map(Value::from),
            ),
            ("jitterWindowMs", self.jitter_window_ms.map(Value::from)),
            (
                "preStartBufferMins",
                self.pre_start_buffer_mins.map(Value::from),
            ),
            (
                "maxDispatchRetries",
                self.max_dispatch_retries.map(Value::from),
            ),
            (
                "staleClaimThresholdMins",
                self.stale_claim_threshold_mins.map(Value::from),
            ),
            (
                "execTaskQueue",
                self.exec_task_queue.clone().map(Value::from),
            ),
        ];
        let given = given.into_iter();
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, command: Command) -> anyhow::Result<()> {
    let types = client.item_types();
    match command {
        Command::List => shown.show(&types.list().await?, |all| list(all)),
        Command::Show { name } => shown.show(&types.get(&name).await?, item_type),
        Command::Set {
            name,
            change,
            reason,
        } => put(client, shown, &name, change.fields(), reason).await?,
        Command::Enable { name, reason } => switch(client, shown, &name, true, reason).await?,
        Command::Disable { name, reason } => switch(client, shown, &name, false, reason).await?,
        Command::History { name } => {
            shown.show(&types.history(&name).await?, |all| history(all));
        }
    }
    Ok(())
}

async fn switch(
    client: &Client,
    shown: &Shown,
    name: &str,
    enabled: bool,
    reason: String,
) -> anyhow::Result<()> {
    let body = Map::from_iter([("enabled".to_owned(), json!(enabled))]);
    put(client, shown, name, body, reason).await
}

/// As a person typed it: the service judges the numbers.
async fn put(
    client: &Client,
    shown: &Shown,
    name: &str,
    mut body: Map<String, Value>,
    reason: String,
) -> anyhow::Result<()> {
    body.insert("reason".to_owned(), reason.into());
    let path = format!("/admin/item-types/{}", quoted(name));
    shown.show(&client.put(&path, &body).await?, item_type);
    Ok(())
}

fn list(types: &[ItemType]) -> String {
    let header = [
        "type", "enabled", "batch", "every s", "version", "since", "by", "because",
    ];
    let rows: Vec<Vec<String>> = types
        .iter()
        .map(|it| {
            row(&[
                &it.item_type,
                &it.enabled,
                &it.batch_size,
                &it.dispatch_interval_secs,
                &it.version,
                &it.since,
                &it.actor,
                &it.reason,
            ])
        })
        .collect();
    table(&header, &rows)
}

fn item_type(it: &ItemType) -> String {
    facts(&[
        ("type", &it.item_type),
        ("enabled", &it.enabled),
        ("batch size", &it.batch_size),
        ("items per flow", &it.items_per_flow),
        ("dispatch interval, s", &it.dispatch_interval_secs),
        ("jitter window, ms", &it.jitter_window_ms),
        ("pre-start buffer, min", &it.pre_start_buffer_mins),
        ("maximum dispatch retries", &it.max_dispatch_retries),
        ("stale claim threshold, min", &it.stale_claim_threshold_mins),
        ("flow", &it.exec_workflow_type),
        ("task queue", &it.exec_task_queue),
        ("version", &it.version),
        ("since", &it.since),
        ("by", &it.actor),
        ("because", &it.reason),
    ])
}
