//! The rate certificate of a lane: as data, as text for people, and as a picture.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::certificate::{Certificate, LimitInForce, Peak};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::picture;
use crate::api::App;
use crate::api::accounts::Day;
use crate::api::answer::error::ApiError;
use crate::api::answer::source::Source;
use crate::api::contract::refusals::Finds;
use crate::api::contract::words;
use crate::api::request::body::wrong;
use crate::api::request::extract::Query;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct CertificateQuery {
    /// Default: today.
    #[param(example = "2026-11-16")]
    date: Option<String>,
    /// IANA time zone of the day. Default: UTC.
    #[param(example = "Europe/Berlin")]
    zone: Option<String>,
    /// Lane name. Default: the lane of `downstream.payments`.
    lane: Option<String>,
    /// `json` (the default), `text` for people, or `svg` for a picture.
    #[param(schema_with = words::json_text_or_svg)]
    format: Option<String>,
}

/// Rate certificate of a lane, computed from its send log.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Certificate)]
struct CertificateResponse {
    lane: String,
    from: Timestamp,
    to: Timestamp,
    /// Time of the computation if the day was not over; later sends are not included. Null for a
    /// complete day.
    as_of: Option<Timestamp>,
    /// True if no sliding second has more sends than its limit.
    holds: bool,
    sends: u64,
    first_send: Option<Timestamp>,
    last_send: Option<Timestamp>,
    worst_second: Option<PeakResponse>,
    worst_window: Option<PeakResponse>,
    /// Number of sends at the end of a sliding second that exceeded its limit.
    sends_above_limit: u64,
    /// Sends as a share of what the limits allowed between the first and the last send.
    utilisation: Option<f64>,
    /// Lane versions that applied, oldest first.
    limits: Vec<LimitResponse>,
    /// Where the send log was read from. Archiving and dropping a day do not change its certificate.
    source: Source,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Peak)]
struct PeakResponse {
    sends: u32,
    /// Time of the first send of that second, or start of that window.
    from: Timestamp,
    /// Highest hard limit in force in that second, or plan of that window.
    #[schema(value_type = f64)]
    limit: Decimal,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Limit)]
struct LimitResponse {
    version: i64,
    since: Timestamp,
    #[schema(value_type = f64)]
    max_per_second: Decimal,
    max_per_window: u32,
    window_size_secs: u32,
    actor: String,
    reason: String,
}

impl CertificateResponse {
    fn new(it: Certificate, source: Source) -> Self {
        Self {
            source,
            lane: it.lane,
            from: it.from,
            to: it.to,
            as_of: it.as_of,
            holds: it.holds,
            sends: it.sends,
            first_send: it.first_send,
            last_send: it.last_send,
            worst_second: it.worst_second.map(PeakResponse::from),
            worst_window: it.worst_window.map(PeakResponse::from),
            sends_above_limit: it.sends_above_limit,
            utilisation: it.utilisation,
            limits: it.limits.into_iter().map(LimitResponse::from).collect(),
        }
    }
}

impl From<Peak> for PeakResponse {
    fn from(peak: Peak) -> Self {
        Self {
            sends: peak.sends,
            from: peak.from,
            limit: peak.limit,
        }
    }
}

impl From<LimitInForce> for LimitResponse {
    fn from(limit: LimitInForce) -> Self {
        Self {
            version: limit.version,
            since: limit.since,
            max_per_second: limit.max_per_second,
            max_per_window: limit.max_per_window,
            window_size_secs: limit.window_size_secs,
            actor: limit.actor,
            reason: limit.reason,
        }
    }
}

/// Rate certificate: the proof that a lane kept its limit on a given day.
#[utoipa::path(
    get, path = "/admin/rate-limit/certificate", operation_id = "getCertificate", tag = "lanes",
    params(CertificateQuery),
    responses(
        (status = 200, description = "As JSON, text or an SVG image.", content(
            (CertificateResponse = "application/json"),
            (String = "text/plain"),
            (String = "image/svg+xml"),
        )),
        Finds,
    ),
)]
async fn certificate(
    State(app): State<App>,
    Query(query): Query<CertificateQuery>,
) -> Result<Response, ApiError> {
    let day = Day {
        date: query.date,
        zone: query.zone,
    };
    let now = app.store.now().await?;
    let (from, to) = day.range(now)?;
    let lane = app.lane_named(query.lane).await?.name;
    let certificate = app.store.certificate(&lane, from, to).await?;
    let certificate = certificate.drawn_up_at(now);
    let source = Source::of(&[app.store.turns_in(&lane, from, to).await?]);
    match query.format.as_deref() {
        None | Some("json") => {
            Ok(Json(CertificateResponse::new(certificate, source)).into_response())
        }
        Some("text") => Ok(in_words(&certificate, source).into_response()),
        Some("svg") => Ok(picture::svg(picture::rate(&certificate))),
        Some(_) => Err(wrong("format", "must be \"json\", \"text\" or \"svg\"")),
    }
}

fn in_words(certificate: &Certificate, source: Source) -> String {
    let from = match source.name() {
        "hot" => return certificate.to_string(),
        "both" => "the send log and its archive",
        _ => "the archive of the send log",
    };
    format!("{}\nread from {from}\n", certificate.to_string().trim_end())
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(certificate))
}
