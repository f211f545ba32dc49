//! `tollgate types …`: how items are dispatched.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Map, Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::{fields, history, rows, table};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// All item types.
    List,
    /// One item type, with all that can be set.
    Show {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
    },
    /// Changes an item type. What is left out keeps its value.
    Set {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
        #[command(flatten)]
        change: Change,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
    },
    /// Lets items be dispatched again.
    Enable {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
    },
    /// The kill switch: nothing more is dispatched, and nothing is lost.
    Disable {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
        /// What the next person should know.
        #[arg(long)]
        reason: String,
    },
    /// Every version, newest first.
    History {
        /// PAYMENT, INVOICE or NOTIFICATION.
        #[arg(value_name = "TYPE")]
        name: String,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct Change {
    /// Items per claim.
    #[arg(long)]
    batch_size: Option<u32>,
    /// Items per flow, 1 to 500, at most the batch size. With 1 each item has a flow of its own.
    #[arg(long)]
    items_per_flow: Option<u32>,
    /// The longest time between two full cycles, in seconds.
    #[arg(long)]
    dispatch_interval_secs: Option<u32>,
    /// Later runs are started at random within this time, in milliseconds.
    #[arg(long)]
    jitter_window_ms: Option<u32>,
    /// How far ahead of its time an item is claimed, in minutes.
    #[arg(long)]
    pre_start_buffer_mins: Option<f64>,
    /// After so many failed starts an item is DEAD.
    #[arg(long)]
    max_dispatch_retries: Option<u32>,
    /// A claim older than this is claimed again, in minutes.
    #[arg(long)]
    stale_claim_threshold_mins: Option<f64>,
    /// The Temporal task queue on which items are executed; a process must poll it already.
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
