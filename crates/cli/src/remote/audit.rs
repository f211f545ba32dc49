//! `tollgate audit`: who did what.

use serde_json::Value;

use super::Shown;
use super::client::Client;
use super::table::{elsewhere, more, query, rows, table};

#[derive(Debug, clap::Args)]
pub(crate) struct AuditArgs {
    /// Filter by item: TYPE/ID, or a payment id.
    #[arg(long)]
    item: Option<String>,
    /// Filter by actor.
    #[arg(long)]
    actor: Option<String>,
    /// Filter by event, such as SETTING_CHANGED.
    #[arg(long)]
    action: Option<String>,
    /// Filter by kind of actor: people or machine.
    #[arg(long, value_name = "KIND")]
    by: Option<String>,
    /// Entries from this time on, such as 2026-11-16T16:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Entries before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Next page: entries older than the entry with this id.
    #[arg(long, value_name = "ID")]
    after: Option<i64>,
    /// Page size. Default: 100, maximum: 1000.
    #[arg(long)]
    limit: Option<u32>,
}

impl AuditArgs {
    fn path(self) -> String {
        let item = self.item.map(|item| {
            if item.contains('/') {
                item
            } else {
                format!("PAYMENT/{item}")
            }
        });
        let query = query(&[
            ("item", item),
            ("actor", self.actor),
            ("action", self.action),
            ("by", self.by),
            ("from", self.from),
            ("to", self.to),
            ("after", self.after.map(|after| after.to_string())),
            ("limit", self.limit.map(|limit| limit.to_string())),
        ]);
        format!("/admin/audit{query}")
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, asked: AuditArgs) -> anyhow::Result<()> {
    shown.show(&client.get(&asked.path()).await?, list);
    Ok(())
}

fn list(answer: &Value) -> String {
    let header = ["at", "actor", "action", "item", "from", "to", "detail"];
    let named = [
        "at",
        "actor",
        "action",
        "item",
        "statusBefore",
        "statusAfter",
        "detail",
    ];
    let rows = rows(&answer["entries"], &named);
    if rows.is_empty() && answer["next"].is_null() {
        let text = format!("no audit entries\n{}", elsewhere(&answer["archived"]));
        return text.trim_end().to_owned();
    }
    table(&header, &rows) + &elsewhere(&answer["archived"]) + &more(&answer["next"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_alone_is_a_payments() {
        let asked = |item: &str| AuditArgs {
            item: Some(item.to_owned()),
            actor: Some("ann & bob".to_owned()),
            action: None,
            by: None,
            from: None,
            to: None,
            after: Some(7),
            limit: None,
        };
        let rest = "actor=ann%20%26%20bob&after=7";
        let path = asked("pay_1").path();
        assert_eq!(path, format!("/admin/audit?item=PAYMENT%2Fpay_1&{rest}"));
        let path = asked("INVOICE/7").path();
        assert_eq!(path, format!("/admin/audit?item=INVOICE%2F7&{rest}"));
    }
}
