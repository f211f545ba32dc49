//! `GET /payments?format=csv|ndjson`: the whole list, with accounts as far as the caller may see them.

use axum::response::Response;
use serde_json::json;
use tollgate_contract as contract;
use tollgate_core::id::{Item, ItemId};
use tollgate_domains::payments::{self, PaymentRequest};

use super::list::ListQuery;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::export::{self, Format, List, ROWS_AT_ONCE, Row};
use crate::answer::sight::Sight;
use crate::answer::source::mark;
use crate::door::auth::Caller;

const PAYMENTS: List = List {
    name: "payments",
    columns: &[
        "paymentId",
        "status",
        "amount",
        "currency",
        "lane",
        "queueStatus",
        "scheduledTime",
        "deadline",
        "meetsDeadline",
        "createdAt",
        "debtorAccount",
        "debtorName",
        "creditorAccount",
        "creditorName",
        "reference",
    ],
};

impl App {
    pub(super) async fn export_payments(
        self,
        caller: Caller,
        query: ListQuery,
        format: Format,
    ) -> Result<Response, ApiError> {
        let archived = query.archived(&self).await?;
        let first = query.sized(ROWS_AT_ONCE);
        let page = move |query: ListQuery| {
            let (app, caller) = (self.clone(), caller.clone());
            async move {
                let page = app.payments(&query).await?;
                let rows = app.payment_rows(&caller, page.payments).await?;
                Ok((rows, page.next.map(|after| query.from(after))))
            }
        };
        let mut response = PAYMENTS.whole(format, first, page).await?;
        mark(archived.as_ref(), &mut response);
        Ok(response)
    }

    async fn payment_rows(
        &self,
        caller: &Caller,
        lines: Vec<contract::PaymentLine>,
    ) -> Result<Vec<Row>, ApiError> {
        let item = |line: &contract::PaymentLine| payments::item(&ItemId::new(&line.payment_id));
        let items: Vec<Item> = lines.iter().map(item).collect();
        let bodies = self.store.bodies(&items).await?;
        let mut rows = vec![];
        for ((line, item), body) in lines.into_iter().zip(&items).zip(bodies) {
            let body = match body {
                Some(body) => Some(body),
                None => (self.store.request(item).await?).map(|request| request.document),
            };
            rows.push(row(&line, body.as_deref(), caller)?);
        }
        Ok(rows)
    }
}

fn row(line: &contract::PaymentLine, body: Option<&str>, caller: &Caller) -> Result<Row, ApiError> {
    let mut row = export::row(line)?;
    let payment = body.and_then(|body| serde_json::from_str::<PaymentRequest>(body).ok());
    if let Some(payment) = payment {
        let sight = Sight::of(caller, &payment);
        let parties = [("debtor", &payment.debtor), ("creditor", &payment.creditor)];
        for (name, party) in parties {
            let account = sight.account(party);
            row.insert(format!("{name}Account"), json!(account));
            row.insert(format!("{name}Name"), json!(party.name));
        }
        let reference = payment.reference.as_deref().map(|it| sight.text(it));
        row.insert("reference".to_owned(), json!(reference));
    }
    Ok(row)
}
