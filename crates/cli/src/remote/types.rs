//! `tollgate types …`: how items are dispatched.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{fields, history, rows, table};

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
    match command {
        Command::List => shown.show(&client.get("/admin/item-types").await?, list),
        Command::Show { name } => shown.show(&client.get(&path(&name)).await?, item_type),
        Command::Set {
            name,
            change,
            reason,
        } => put(client, shown, &name, change.fields(), reason).await?,
        Command::Enable { name, reason } => switch(client, shown, &name, true, reason).await?,
        Command::Disable { name, reason } => switch(client, shown, &name, false, reason).await?,
        Command::History { name } => {
            let path = format!("{}/history", path(&name));
            shown.show(&client.get(&path).await?, history);
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

async fn put(
    client: &Client,
    shown: &Shown,
    name: &str,
    mut body: Map<String, Value>,
    reason: String,
) -> anyhow::Result<()> {
    body.insert("reason".to_owned(), reason.into());
    let answer = client.send(Method::PUT, &path(name), &body.into()).await?;
    shown.show(&answer, item_type);
    Ok(())
}

fn path(name: &str) -> String {
    format!("/admin/item-types/{}", quoted(name))
}

fn list(answer: &Value) -> String {
    let header = [
        "type", "enabled", "batch", "every s", "version", "since", "by", "because",
    ];
    let named = [
        "itemType",
        "enabled",
        "batchSize",
        "dispatchIntervalSecs",
        "version",
        "since",
        "actor",
        "reason",
    ];
    table(&header, &rows(answer, &named))
}

fn item_type(answer: &Value) -> String {
    let named = [
        ("type", "itemType"),
        ("enabled", "enabled"),
        ("batch size", "batchSize"),
        ("items per flow", "itemsPerFlow"),
        ("dispatch interval, s", "dispatchIntervalSecs"),
        ("jitter window, ms", "jitterWindowMs"),
        ("pre-start buffer, min", "preStartBufferMins"),
        ("most dispatch retries", "maxDispatchRetries"),
        ("stale claim threshold, min", "staleClaimThresholdMins"),
        ("flow", "execWorkflowType"),
        ("task queue", "execTaskQueue"),
        ("version", "version"),
        ("since", "since"),
        ("by", "actor"),
        ("because", "reason"),
    ];
    fields(answer, &named)
}
