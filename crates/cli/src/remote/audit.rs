//! `tollgate audit`: who did what.

use tollgate_client::contract::AuditLog;
use tollgate_client::{AuditQuery, Client};

use super::Shown;
use super::table::{elsewhere, more, row, table};

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

impl From<AuditArgs> for AuditQuery {
    /// An id alone is a payment's.
    fn from(args: AuditArgs) -> Self {
        let item = args.item.map(|item| {
            if item.contains('/') {
                item
            } else {
                format!("PAYMENT/{item}")
            }
        });
        Self {
            item,
            actor: args.actor,
            action: args.action,
            by: args.by,
            from: args.from,
            to: args.to,
            after: args.after,
            limit: args.limit,
        }
    }
}

pub(super) async fn run(client: &Client, shown: &Shown, asked: AuditArgs) -> anyhow::Result<()> {
    shown.show(&client.audit().list(&asked.into()).await?, list);
    Ok(())
}

fn list(page: &AuditLog) -> String {
    if page.entries.is_empty() && page.next.is_none() {
        let text = format!("no audit entries\n{}", elsewhere(page.archived.as_ref()));
        return text.trim_end().to_owned();
    }
    let header = ["at", "actor", "action", "item", "from", "to", "detail"];
    let rows: Vec<Vec<String>> = page
        .entries
        .iter()
        .map(|it| {
            row(&[
                &it.at,
                &it.actor,
                &it.action,
                &it.item,
                &it.status_before,
                &it.status_after,
                &it.detail,
            ])
        })
        .collect();
    table(&header, &rows) + &elsewhere(page.archived.as_ref()) + &more(page.next.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_alone_is_a_payments() {
        let asked = |item: &str| AuditArgs {
            item: Some(item.to_owned()),
            actor: None,
            action: None,
            by: None,
            from: None,
            to: None,
            after: Some(7),
            limit: None,
        };
        let item = |given: &str| AuditQuery::from(asked(given)).item;
        assert_eq!(item("pay_1").as_deref(), Some("PAYMENT/pay_1"));
        assert_eq!(item("INVOICE/7").as_deref(), Some("INVOICE/7"));
    }
}
