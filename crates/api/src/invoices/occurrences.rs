//! `GET /invoices/{id}/occurrences`: the next times of the schedule that counts for an invoice, whoever
//! it was made for.

use axum::Json;
use axum::extract::State;
use tollgate_contract as contract;
use tollgate_domains::invoices;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::invoice_id;
use crate::App;
use crate::answer::error::{ApiError, internal};
use crate::contract::refusals::Finds;
use crate::request::extract::Path;

/// The next times of the schedule that applies to an invoice: its own, its customer's or the global one.
#[utoipa::path(
    get, path = "/invoices/{id}/occurrences", operation_id = "getInvoiceOccurrences", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    responses((status = 200, description = "The next five times.", body = contract::InvoiceOccurrences), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<contract::InvoiceOccurrences>, ApiError> {
    let id = invoice_id(&id)?;
    let view = app.billing.invoice(&id).await?;
    let kept = invoices::document(&view).map_err(|error| internal(&error.to_string()))?;
    let customer = app.billing.customers().get(&kept.customer_id).await?;
    let missing = || ApiError::not_found(format!("there is no customer {}", kept.customer_id));
    let customer = customer.ok_or_else(missing)?;
    let schedules = app.billing.schedules();
    let own = kept.schedule.as_ref();
    let schedule = schedules.of_invoice(Some(&id), own, &customer).await?;
    let now = app.store.now().await?;
    Ok(Json(contract::InvoiceOccurrences {
        next_occurrences: schedule.next_few(now, &customer.zone()),
    }))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(show))
}
