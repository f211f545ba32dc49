//! `POST /admin/banks/{bank}/ask`: one question to a bank about a payment, for a person.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use tollgate_contract::{BankAnswer, BankQuestion};
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::lane_in_force::LaneState;
use tollgate_domains::payments;
use tollgate_operations::downstreams::asking::only_the_id;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::contract::refusals::Changes;
use crate::door::auth::Caller;
use crate::request::body::{Body, parse, wrong};
use crate::request::extract::Path;

/// Asks a bank whether it knows a payment.
///
/// The query takes a turn in the bank's lane. The answer changes nothing: the flow of a payment in doubt asks the bank
/// itself.
#[utoipa::path(
    post, path = "/admin/banks/{bank}/ask", operation_id = "askBank", tag = "lanes",
    params(("bank" = String, Path, description = "Name of a gateway, or `default`.", example = "default")),
    request_body = BankQuestion,
    responses(
        (status = 200, description = "The answer, and its meaning.", body = BankAnswer),
        (status = 502, description = "The bank was not asked; the error says why.", body = tollgate_contract::Error),
        Changes,
    ),
)]
async fn ask(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BankAnswer>, ApiError> {
    let BankQuestion { payment_id: id } = parse(&headers, body)?;
    check_item_id(&id).map_err(|why| wrong("paymentId", why))?;
    let bank = app.asking.bank(&name);
    let bank = bank.map_err(|why| ApiError::not_found(why.to_string()))?;
    let view = app.store.item(&payments::item(&ItemId::new(&id))).await?;
    let known = view.as_ref().and_then(payments::question_about);
    let request = known.unwrap_or_else(|| only_the_id(&id));
    let now = app.store.now().await?;
    // At once, and not after the patience for a turn.
    let lane = app.store.lane(&bank.bank.lane).await?;
    if let Some(LaneState::Closed { why, .. }) = lane.map(|lane| lane.state(now)) {
        let error = format!("the bank was not asked: {why}");
        return Err(ApiError::conflict(error));
    }
    tracing::info!(
        bank = name,
        payment = id,
        actor = caller.name(),
        "a person queries the bank"
    );
    let asked = app.asking.ask(bank, &request, now).await;
    let asked = asked.map_err(|why| ApiError::new(StatusCode::BAD_GATEWAY, format!("{why:#}")))?;
    Ok(Json(asked))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(ask))
}
