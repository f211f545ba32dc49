//! `/admin/erasures`: a person's data go. First a preview, then the same request with its digest.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use tollgate_contract as contract;
use tollgate_core::erasure::{ErasureWish, LeftOut};
use tollgate_core::id::{ErasureId, Item, ItemId, check_item_id};
use tollgate_core::ports::ErasureView;
use tollgate_operations::erasures::{self, Outside, Preview};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::codes::Code;
use super::answer::error::ApiError;
use super::answer::of::Of;
use super::contract::refusals::{Changes, Finds};
use super::in_doubt::of_money;
use super::request::body::{Body, author, parse, wrong};
use super::request::extract::Path;
use crate::door::auth::Caller;

const MOST_CHARS: usize = 200;

/// Whose data are to be erased.
fn wish(request: &contract::ErasureRequest) -> Result<ErasureWish, ApiError> {
    match (&request.account, &request.item) {
        (Some(account), None) => {
            let chars = account.chars().count();
            if !(1..=MOST_CHARS).contains(&chars) || account.contains('\0') {
                let what = format!("must have 1 to {MOST_CHARS} characters");
                return Err(wrong("account", what));
            }
            Ok(ErasureWish::Account(account.clone()))
        }
        (None, Some(item)) => {
            let kind = of_money(&item.item_type);
            let kind = kind.map_err(|_| wrong("item.type", "must be PAYMENT or INVOICE"))?;
            check_item_id(&item.id).map_err(|why| wrong("item.id", why))?;
            Ok(ErasureWish::Item(Item::new(&kind, &ItemId::new(&item.id))))
        }
        (Some(_), Some(_)) => Err(wrong("item", "is not allowed together with account")),
        (None, None) => Err(wrong("account", "is required unless item is given")),
    }
}

impl Of<&Item> for contract::ErasureItem {
    fn of(item: &Item) -> Self {
        Self {
            item_type: item.item_type.to_string(),
            id: item.id.to_string(),
        }
    }
}

impl Of<&LeftOut> for contract::ErasureLeftOut {
    fn of(left_out: &LeftOut) -> Self {
        Self {
            item: contract::ErasureItem::of(&left_out.item),
            reason: left_out.reason.clone(),
        }
    }
}

impl Of<&Outside> for contract::ErasureOutside {
    fn of(outside: &Outside) -> Self {
        Self {
            place: outside.place.to_owned(),
            ends: outside.ends.clone(),
        }
    }
}

impl Of<(&Preview, &[Outside])> for contract::ErasurePreview {
    fn of((preview, outside): (&Preview, &[Outside])) -> Self {
        let (first, outside) = (preview.first.iter(), outside.iter());
        Self {
            kind: "preview".to_owned(),
            digest: preview.digest.clone(),
            count: preview.count,
            more: preview.is_cut,
            first: first.map(contract::ErasureItem::of).collect(),
            left_out: preview.left_out,
            first_left_out: told(&preview.first_left_out),
            outside: outside.map(contract::ErasureOutside::of).collect(),
        }
    }
}

fn told(left_out: &[LeftOut]) -> Vec<contract::ErasureLeftOut> {
    let left_out = left_out.iter();
    left_out.map(contract::ErasureLeftOut::of).collect()
}

impl Of<(ErasureView, &[Outside])> for contract::Erasure {
    fn of((view, outside): (ErasureView, &[Outside])) -> Self {
        let purged = view.purged;
        let left = outside.iter().filter(|it| it.is_left_after(purged));
        Self {
            kind: "erasure".to_owned(),
            stage: view.stage.as_str().to_owned(),
            items: view.items,
            archived: view.archived,
            notifications: view.notifications,
            texts: view.texts,
            files: view.files,
            left_out: view.left_out,
            first_left_out: told(&view.first_left_out),
            troubled_since: view.trouble.as_ref().map(|trouble| trouble.since),
            trouble: view.trouble.map(|trouble| trouble.why),
            started_at: view.started_at,
            ended_at: view.ended_at,
            outside: left.map(contract::ErasureOutside::of).collect(),
            erasure_id: view.id.to_string(),
            actor: view.author.actor,
            reason: view.author.reason,
        }
    }
}

/// Previews an erasure of personal data, or starts the one that was previewed.
///
/// Erases names, accounts, references, metadata, free texts and content hashes. Keeps ids, amounts, statuses and times. Only
/// items that have ended are erased; the others are listed as left out. An erasure cannot be undone, and an erased id cannot
/// be used again (409 `erased`). With `dryRun: true`: returns a preview. With the preview's `digest` instead: starts the
/// erasure. 409 (`preview_stale`) if the request no longer finds the items of the preview.
#[utoipa::path(
    post, path = "/admin/erasures", operation_id = "startErasure", tag = "erasures",
    request_body = contract::ErasureRequest,
    responses(
        (status = 200, description = "The preview; nothing is changed.", body = contract::ErasureOrPreview),
        (status = 202, description = "The erasure runs.", body = contract::ErasureOrPreview),
        Changes,
    ),
)]
async fn start(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let request: contract::ErasureRequest = parse(&headers, body)?;
    let wish = wish(&request)?;
    let because = request.reason.clone();
    let author = because.map(|reason| author(&caller, reason)).transpose()?;
    if author
        .as_ref()
        .is_some_and(|it| wish.is_named_in(&it.reason))
    {
        let what = "must not contain the account, because reasons are kept";
        return Err(wrong("reason", what));
    }
    let digest = match (request.dry_run, request.digest) {
        (true, _) => {
            let preview = erasures::preview(&app.store, &wish).await?;
            let told = contract::ErasurePreview::of((&preview, &*app.erasure_outside));
            return Ok(Json(contract::ErasureOrPreview::Preview(told)).into_response());
        }
        (false, Some(digest)) => digest,
        (false, None) => {
            let what = "is required to start; send the request with \"dryRun\": true first";
            return Err(wrong("digest", what));
        }
    };
    let author = author.ok_or_else(|| wrong("reason", "is required to start"))?;
    match erasures::confirm(&app.store, wish, &digest, author).await? {
        Some(erasure) => {
            app.acted(caller.name(), "erasure started", erasure.id.as_str());
            let told = contract::Erasure::of((erasure, &*app.erasure_outside));
            let told = contract::ErasureOrPreview::Erasure(Box::new(told));
            Ok((StatusCode::ACCEPTED, Json(told)).into_response())
        }
        None => {
            let why = "the request now finds other items than the preview; nothing was erased, preview it again";
            Err(ApiError::conflict(why).coded(Code::PreviewStale))
        }
    }
}

/// Shows an erasure and its progress.
#[utoipa::path(
    get, path = "/admin/erasures/{erasure}", operation_id = "getErasure", tag = "erasures",
    params(("erasure" = String, Path, description = "The erasure's id.", example = "erasure-20261116-170000-000123")),
    responses((status = 200, description = "The erasure.", body = contract::Erasure), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(erasure): Path<String>,
) -> Result<Json<contract::Erasure>, ApiError> {
    let missing = || ApiError::not_found(format!("there is no erasure {erasure}"));
    if erasure.contains('\0') {
        return Err(missing());
    }
    let found = app.store.erasure(&ErasureId::new(&erasure)).await?;
    let found = found.ok_or_else(missing)?;
    let told = contract::Erasure::of((found, &*app.erasure_outside));
    Ok(Json(told))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(start))
        .routes(routes!(show))
}
