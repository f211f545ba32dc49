//! The rate certificate of a lane: as data, as text for people, and as a picture.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_core::certificate::{Certificate, LimitInForce, Peak};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::picture;
use crate::App;
use crate::accounts::Day;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::answer::source::Source;
use crate::contract::refusals::Finds;
use crate::contract::words;
use crate::request::body::wrong;
use crate::request::extract::Query;

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

impl Of<(Certificate, Source)> for contract::Certificate {
    fn of((it, source): (Certificate, Source)) -> Self {
        Self {
            source: contract::AnswerSource::of(source),
            lane: it.lane,
            from: it.from,
            to: it.to,
            as_of: it.as_of,
            holds: it.holds,
            sends: it.sends,
            first_send: it.first_send,
            last_send: it.last_send,
            worst_second: it.worst_second.map(contract::Peak::of),
            worst_window: it.worst_window.map(contract::Peak::of),
            sends_above_limit: it.sends_above_limit,
            utilisation: it.utilisation,
            limits: it.limits.into_iter().map(contract::Limit::of).collect(),
        }
    }
}

impl Of<Peak> for contract::Peak {
    fn of(peak: Peak) -> Self {
        Self {
            sends: peak.sends,
            from: peak.from,
            limit: peak.limit,
        }
    }
}

impl Of<LimitInForce> for contract::Limit {
    fn of(limit: LimitInForce) -> Self {
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
            (contract::Certificate = "application/json"),
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
            let told = contract::Certificate::of((certificate, source));
            Ok(Json(told).into_response())
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
