//! What `tollgate invoices …` prints.

use jiff::Timestamp;
use tollgate_client::contract::{AcceptedInvoice, Amount, Invoice, InvoiceList};

use super::payment_views::{attempts, timeline};
use super::table::{elsewhere, facts, more, row, table};

/// What there is to show of an invoice. A new one has no place in the queue yet.
struct Shown<'i> {
    id: &'i str,
    customer: &'i str,
    amount: &'i Amount,
    status: &'i str,
    charged_at: Option<Timestamp>,
    queue_status: Option<&'i str>,
    sends: Option<u32>,
    why_not_running: Option<&'i str>,
    /// The day of the archive.
    archived: Option<&'i str>,
    warning: Option<&'i str>,
}

impl Shown<'_> {
    fn facts(&self) -> String {
        let facts = facts(&[
            ("invoice", &self.id),
            ("customer", &self.customer),
            ("status", &self.status),
            ("charged at", &self.charged_at),
            ("queue", &self.queue_status),
            ("sends", &self.sends),
            ("why not running", &self.why_not_running),
            ("archived on", &self.archived),
        ]);
        let warning = match self.warning {
            Some(warning) => format!("\nwarning: {warning}"),
            None => String::new(),
        };
        let Amount { value, currency } = self.amount;
        format!("{facts}amount           {value} {currency}{warning}\n")
    }
}

/// An invoice, for people.
pub(super) fn invoice(it: &Invoice) -> String {
    let shown = Shown {
        id: &it.invoice_id,
        customer: &it.customer_id,
        amount: &it.amount,
        status: &it.status,
        charged_at: it.scheduled_time,
        queue_status: Some(&it.queue_status),
        sends: Some(it.sends),
        why_not_running: it.why_not_running.as_deref(),
        archived: it.archived.as_deref(),
        warning: None,
    };
    format!(
        "{}{}\n{}",
        shown.facts(),
        attempts(&it.attempts),
        timeline(&it.timeline)
    )
}

/// An invoice that was just created.
pub(super) fn accepted(it: &AcceptedInvoice) -> String {
    let shown = Shown {
        id: &it.invoice_id,
        customer: &it.customer_id,
        amount: &it.amount,
        status: &it.status,
        charged_at: it.scheduled_time,
        queue_status: None,
        sends: None,
        why_not_running: None,
        archived: it.archived.as_deref(),
        warning: it.warning.as_deref(),
    };
    shown.facts()
}

pub(super) fn list(page: &InvoiceList) -> String {
    let header = ["invoice", "status", "amount", "currency", "queue", "slot"];
    if page.invoices.is_empty() && page.next.is_none() {
        let text = format!("no invoices\n{}", elsewhere(page.archived.as_ref()));
        return text.trim_end().to_owned();
    }
    let rows: Vec<Vec<String>> = page
        .invoices
        .iter()
        .map(|it| {
            row(&[
                &it.invoice_id,
                &it.status,
                &it.amount.value,
                &it.amount.currency,
                &it.queue_status,
                &it.scheduled_time,
            ])
        })
        .collect();
    table(&header, &rows) + &elsewhere(page.archived.as_ref()) + &more(page.next.as_ref())
}
