//! What people put right about an invoice: cancel it, correct its amount, or note that it was paid
//! elsewhere.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_domains::invoices::SettledBy;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{invoice_id, read_amount, shown};
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::Changes;
use crate::door::auth::Caller;
use crate::payments::changes::Because;
use crate::request::body::{Body, author, parse, wrong};
use crate::request::extract::Path;

const MAX_REFERENCE_CHARS: usize = 200;

/// Cancels an invoice that has not been charged. It will never be charged.
///
/// 409 if the invoice has been charged, or while a charge is open or in doubt.
#[utoipa::path(
    post, path = "/invoices/{id}/cancel", operation_id = "cancelInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    request_body = Because,
    responses((status = 200, description = "Cancelled.", body = contract::Invoice), Changes),
)]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Invoice>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    app.billing.cancel(&invoice_id(&id)?, author).await?;
    app.acted(caller.name(), "invoice cancelled", &id);
    shown(&app, &id).await
}

/// Changes the amount of an invoice.
///
/// The next charge uses a new idempotency key. Repeating the original `POST /invoices` still
/// answers 200, with the corrected amount. 409 if the invoice has been charged, or while a charge
/// is open or in doubt.
#[utoipa::path(
    post, path = "/invoices/{id}/correct", operation_id = "correctInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    request_body = contract::InvoiceCorrection,
    responses((status = 200, description = "The amount was changed.", body = contract::Invoice), Changes),
)]
async fn correct(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Invoice>, ApiError> {
    let request: contract::InvoiceCorrection = parse(&headers, body)?;
    let money = read_amount(&request.amount)?;
    let author = author(&caller, request.reason)?;
    app.billing
        .correct(&invoice_id(&id)?, money, author)
        .await?;
    app.acted(caller.name(), "invoice corrected", &id);
    shown(&app, &id).await
}

impl Of<SettledBy> for contract::SettledBy {
    fn of(by: SettledBy) -> Self {
        let SettledBy {
            actor,
            reason,
            reference,
            at,
        } = by;
        Self {
            actor,
            reason,
            reference,
            at,
        }
    }
}

/// Marks an invoice that was paid elsewhere as PAID. The customer is not charged.
///
/// 409 if the invoice has been charged, or while a charge is open or in doubt. Resolve the doubt first.
#[utoipa::path(
    post, path = "/invoices/{id}/settle", operation_id = "settleInvoice", tag = "invoices",
    params(("id" = String, Path, description = "The invoice's id.", example = "inv_1")),
    request_body = contract::InvoiceSettlement,
    responses((status = 200, description = "The invoice is PAID.", body = contract::Invoice), Changes),
)]
async fn settle(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Invoice>, ApiError> {
    let contract::InvoiceSettlement { reason, reference } = parse(&headers, body)?;
    let is_said = !reference.trim().is_empty();
    if !is_said || reference.chars().count() > MAX_REFERENCE_CHARS {
        let why = format!("must have 1 to {MAX_REFERENCE_CHARS} characters");
        return Err(wrong("reference", why));
    }
    let author = author(&caller, reason)?;
    app.billing
        .settle(&invoice_id(&id)?, reference, author)
        .await?;
    app.acted(caller.name(), "invoice settled", &id);
    shown(&app, &id).await
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(cancel))
        .routes(routes!(correct))
        .routes(routes!(settle))
}
