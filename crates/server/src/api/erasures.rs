//! `/admin/erasures`: a person's data go. First a preview, then the same request with its digest.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::erasure::{ErasureWish, LeftOut};
use tollgate_core::id::{ErasureId, Item, ItemId, check_item_id};
use tollgate_core::ports::{ErasureView, Purged};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use super::answer::codes::Code;
use super::answer::error::ApiError;
use super::contract::refusals::{Changes, Finds};
use super::contract::words;
use super::in_doubt::of_money;
use super::request::body::{Body, author, parse, wrong};
use super::request::extract::Path;
use crate::door::auth::Caller;
use crate::erasures::{self, Outside, Preview};

const MOST_CHARS: usize = 200;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ErasureRequest)]
struct ErasureRequest {
    /// Erase every ended payment to or from this account, and every ended invoice of this customer. Either this or `item`.
    #[schema(min_length = 1, max_length = 200, example = "DE02120300000000202051")]
    account: Option<String>,
    /// Erase one item.
    item: Option<ItemNamed>,
    /// Reason, recorded in the audit log. Required to start. It must not contain the account.
    #[schema(
        min_length = 1,
        max_length = 500,
        example = "request 4711 under article 17"
    )]
    reason: Option<String>,
    /// Only preview it.
    #[serde(default)]
    dry_run: bool,
    /// The `digest` of the preview to start.
    #[schema(min_length = 64, max_length = 64)]
    digest: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ErasureItem)]
struct ItemNamed {
    /// `PAYMENT` or `INVOICE`.
    #[serde(rename = "type")]
    #[schema(example = "PAYMENT")]
    item_type: String,
    #[schema(example = "pay_001")]
    id: String,
}

impl From<&Item> for ItemNamed {
    fn from(item: &Item) -> Self {
        Self {
            item_type: item.item_type.to_string(),
            id: item.id.to_string(),
        }
    }
}

impl ErasureRequest {
    fn wish(&self) -> Result<ErasureWish, ApiError> {
        match (&self.account, &self.item) {
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
            (None, None) => Err(wrong("account", "is required, or item")),
        }
    }
}

/// What an erasure would do. Confirm it with the same request, `digest` instead of `dryRun`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ErasurePreview)]
struct PreviewResponse {
    #[schema(schema_with = words::preview_kind)]
    kind: &'static str,
    /// Confirms exactly these items.
    digest: String,
    /// Number of items to erase in the hot tables. The archive, exported files and texts are searched when it runs.
    count: u64,
    /// There are more items than a preview counts (10,000). The erasure has no limit.
    more: bool,
    /// Up to 20 of them.
    first: Vec<ItemNamed>,
    /// Number of items that are left out because they have not ended.
    left_out: u64,
    /// Up to 20 of them.
    first_left_out: Vec<LeftOutResponse>,
    /// Places that the erasure does not reach, and what ends the data there.
    outside: Vec<OutsideResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ErasureLeftOut)]
struct LeftOutResponse {
    item: ItemNamed,
    #[schema(example = "it has not ended: it is SCHEDULED")]
    reason: String,
}

impl From<&LeftOut> for LeftOutResponse {
    fn from(left_out: &LeftOut) -> Self {
        Self {
            item: (&left_out.item).into(),
            reason: left_out.reason.clone(),
        }
    }
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ErasureOutside)]
struct OutsideResponse {
    place: &'static str,
    /// The command, or the time, that ends the data there.
    ends: String,
}

impl From<&Outside> for OutsideResponse {
    fn from(outside: &Outside) -> Self {
        Self {
            place: outside.place,
            ends: outside.ends.clone(),
        }
    }
}

impl PreviewResponse {
    fn new(preview: &Preview, outside: &[Outside]) -> Self {
        Self {
            kind: "preview",
            digest: preview.digest.clone(),
            count: preview.count,
            more: preview.is_cut,
            first: preview.first.iter().map(ItemNamed::from).collect(),
            left_out: preview.left_out,
            first_left_out: told(&preview.first_left_out),
            outside: outside.iter().map(OutsideResponse::from).collect(),
        }
    }
}

fn told(left_out: &[LeftOut]) -> Vec<LeftOutResponse> {
    left_out.iter().map(LeftOutResponse::from).collect()
}

/// An erasure and its progress.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Erasure)]
struct ErasureResponse {
    #[schema(schema_with = words::erasure_kind)]
    kind: &'static str,
    #[schema(value_type = String, example = "erasure-20261116-170000-000123")]
    erasure_id: ErasureId,
    /// Stage that runs; `DONE` at the end.
    #[schema(schema_with = words::erasure_stage)]
    stage: &'static str,
    actor: String,
    reason: String,
    /// Payments and invoices erased in the hot tables.
    items: u64,
    /// Payments and invoices erased in the archive.
    archived: u64,
    /// Notifications about erased payments.
    notifications: u64,
    /// Other texts: rejected lines, job results, audit entries, settings.
    texts: u64,
    /// Exported files that were rewritten.
    files: u64,
    /// Items that were left out because they have not ended.
    left_out: u64,
    /// Up to 100 of them.
    first_left_out: Vec<LeftOutResponse>,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    /// Places that the erasure does not reach, and what ends the data there.
    outside: Vec<OutsideResponse>,
}

impl ErasureResponse {
    fn new(view: ErasureView, outside: &[Outside]) -> Self {
        let left =
            |purged: Option<Purged>| outside.iter().filter(move |it| it.is_left_after(purged));
        Self {
            kind: "erasure",
            stage: view.stage.as_str(),
            items: view.items,
            archived: view.archived,
            notifications: view.notifications,
            texts: view.texts,
            files: view.files,
            left_out: view.left_out,
            first_left_out: told(&view.first_left_out),
            started_at: view.started_at,
            ended_at: view.ended_at,
            outside: left(view.purged).map(OutsideResponse::from).collect(),
            erasure_id: view.id,
            actor: view.author.actor,
            reason: view.author.reason,
        }
    }
}

/// The preview of an erasure, or the erasure itself; `kind` tells which.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ErasureOrPreview, discriminator(property_name = "kind", mapping(
    ("preview" = "#/components/schemas/ErasurePreview"),
    ("erasure" = "#/components/schemas/Erasure"),
)))]
enum ErasureOrPreview {
    Preview(PreviewResponse),
    Erasure(Box<ErasureResponse>),
}

/// Previews an erasure of personal data, or starts the one that was previewed.
///
/// Names, accounts, references, metadata, free texts and content hashes go; ids, amounts, statuses and times stay. Only
/// items that have ended are erased; the others are listed as left out. It cannot be undone, and an erased id cannot be
/// used again (409 `erased`). With `dryRun: true`: returns a preview. With the preview's `digest` instead: starts it.
/// 409 (`preview_stale`) if other items are found now.
#[utoipa::path(
    post, path = "/admin/erasures", operation_id = "startErasure", tag = "erasures",
    request_body = ErasureRequest,
    responses(
        (status = 200, description = "The preview; nothing is changed.", body = ErasureOrPreview),
        (status = 202, description = "The erasure runs.", body = ErasureOrPreview),
        Changes,
    ),
)]
async fn start(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let request: ErasureRequest = parse(&headers, body)?;
    let wish = request.wish()?;
    let because = request.reason.clone();
    let author = because.map(|reason| author(&caller, reason)).transpose()?;
    if author
        .as_ref()
        .is_some_and(|it| wish.is_named_in(&it.reason))
    {
        let what = "must not contain the account: reasons are kept";
        return Err(wrong("reason", what));
    }
    let digest = match (request.dry_run, request.digest) {
        (true, _) => {
            let preview = erasures::preview(&app.store, &wish).await?;
            let told = PreviewResponse::new(&preview, &app.erasure_outside);
            return Ok(Json(ErasureOrPreview::Preview(told)).into_response());
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
            let told = ErasureResponse::new(erasure, &app.erasure_outside);
            let told = ErasureOrPreview::Erasure(Box::new(told));
            Ok((StatusCode::ACCEPTED, Json(told)).into_response())
        }
        None => {
            let why = "other items are found now; nothing was done, preview it again";
            Err(ApiError::conflict(why).coded(Code::PreviewStale))
        }
    }
}

/// Shows an erasure and its progress.
#[utoipa::path(
    get, path = "/admin/erasures/{erasure}", operation_id = "getErasure", tag = "erasures",
    params(("erasure" = String, Path, description = "The erasure's id.", example = "erasure-20261116-170000-000123")),
    responses((status = 200, description = "The erasure.", body = ErasureResponse), Finds),
)]
async fn show(
    State(app): State<App>,
    Path(erasure): Path<String>,
) -> Result<Json<ErasureResponse>, ApiError> {
    let missing = || ApiError::not_found(format!("there is no erasure {erasure}"));
    if erasure.contains('\0') {
        return Err(missing());
    }
    let found = app.store.erasure(&ErasureId::new(&erasure)).await?;
    let found = found.ok_or_else(missing)?;
    Ok(Json(ErasureResponse::new(found, &app.erasure_outside)))
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(start))
        .routes(routes!(show))
}
