//! Rules and routes: `/admin/rules`. They are written in the configuration; here they are shown,
//! read anew, and tried without a trace.

mod views;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use tollgate_config::{Config, rule_floors};
use tollgate_contract as contract;
use tollgate_core::details::Details;
use tollgate_domains::payments::{
    self, PaymentRequest, RouteText, RuleText, RulesEffect, RulesError, RulesText, Trial, Tried,
    dry_run, text_of,
};
use tollgate_operations::ages;
use tollgate_operations::rules;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Reads, Takes};
use crate::door::auth::Caller;
use crate::request::body::{Body, author, parse, wrong};

/// At most this many payments are tried at once.
const MOST_TRIED: usize = payments::MAX_BATCH;
/// This many of those that wait are tried if nobody says what to try.
const TRIED_BY_DEFAULT: u32 = 100;
const MOST_VERSIONS: u32 = 100;

/// The rules and routes in force, with their versions.
#[utoipa::path(
    get, path = "/admin/rules", operation_id = "showRules", tag = "rules",
    responses((status = 200, description = "The rules and routes in force.", body = contract::RulesInForce), Reads),
)]
async fn show(State(app): State<App>) -> Result<Json<contract::RulesInForce>, ApiError> {
    let versions = app.rules.history(MOST_VERSIONS).await?;
    let text = versions
        .first()
        .map(text_of)
        .transpose()?
        .unwrap_or_default();
    let (rules, routes) = (text.rules.into_iter(), text.routes.into_iter());
    let history = versions.iter().map(contract::RulesVersion::of);
    Ok(Json(contract::RulesInForce {
        version: versions.first().map_or(0, |setting| setting.version),
        rules: rules.map(contract::Rule::of).collect(),
        routes: routes.map(contract::Route::of).collect(),
        history: history.collect(),
    }))
}

/// Reloads rules, routes and invoice checks from the configuration, all or nothing: an error leaves
/// the old ones in force. Rules that would stop more than 100 waiting payments need `confirm`.
#[utoipa::path(
    post, path = "/admin/rules/reload", operation_id = "reloadRules", tag = "rules",
    request_body = contract::RulesReload,
    responses((status = 200, description = "The rules and routes now in force.", body = contract::RulesReloaded), Changes),
)]
async fn reload(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::RulesReloaded>, ApiError> {
    let request: contract::RulesReload = parse(&headers, body)?;
    let author = author(&caller, request.reason)?;
    let config = Config::read(app.config_file.as_deref())
        .map_err(|why| ApiError::new(StatusCode::BAD_REQUEST, format!("{why:#}")))?;
    let checks = config.invoices.validate();
    checks.map_err(|why| ApiError::new(StatusCode::BAD_REQUEST, format!("{why:#}")))?;
    let text = config.rules_text();
    let effect = rules::effect(&app.rules, &text, &*app.store).await?;
    let of = app.retention_of(&payments::item_type())?;
    let floors = rule_floors(&text.rules);
    if let Some(why) = ages::too_long(&*app.store, of, &floors).await? {
        return Err(wrong("rules", why));
    }
    if let (Some(why), false) = (rules::asks_first(&effect), request.confirm) {
        return Err(ApiError::unconfirmed(format!(
            "{why}; repeat with \"confirm\": true to apply them"
        )));
    }
    let put = app.rules.put(&text, author.clone()).await?;
    app.acted(caller.name(), "rules reloaded", "rules");
    let checks = app.checks.put(&config.invoices.checks, author).await?;
    let changed = put.is_some();
    let now = match put {
        Some(setting) => Some(setting),
        None => app.rules.setting().await?,
    };
    Ok(Json(contract::RulesReloaded {
        version: now.map_or(0, |setting| setting.version),
        changed,
        rules: text.rules.len(),
        routes: text.routes.len(),
        checks: config.invoices.checks.len(),
        checks_changed: checks.is_some(),
        would_stop: contract::RulesEffect::of(effect),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RulesTrial)]
struct DryRunRequest {
    /// Fields that are not given are taken from the rules in force.
    #[schema(value_type = Option<Vec<contract::Rule>>)]
    rules: Option<Vec<RuleText>>,
    #[schema(value_type = Option<Vec<contract::Route>>)]
    routes: Option<Vec<RouteText>>,
    /// As for `POST /payments`.
    #[schema(value_type = Option<Vec<contract::NewPayment>>)]
    payments: Option<Vec<Value>>,
    /// Instead of `payments`: test this many waiting payments.
    waiting: Option<u32>,
}

/// Tests rules and routes against payments. Nothing is stored.
#[utoipa::path(
    post, path = "/admin/rules/dry-run", operation_id = "tryRules", tag = "rules",
    request_body = DryRunRequest,
    responses((status = 200, description = "One verdict per payment.", body = contract::RulesTried), Takes),
)]
async fn try_out(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::RulesTried>, ApiError> {
    let request: DryRunRequest = parse(&headers, body)?;
    let in_force = match app.rules.setting().await? {
        Some(setting) => text_of(&setting)?,
        None => RulesText::default(),
    };
    let text = RulesText {
        rules: request.rules.unwrap_or(in_force.rules),
        routes: request.routes.unwrap_or(in_force.routes),
    };
    let book = app.rules.read(&text, 0)?;
    let sample = app.sample(request.payments, request.waiting).await?;
    let good = sample.iter().filter_map(|one| one.1.as_ref().ok());
    let good: Vec<Tried> = good.cloned().collect();
    let now = app.store.now().await?;
    let mut trials = dry_run(&book, &app.routes, &good, now).into_iter();
    let results = sample.into_iter().filter_map(|(id, parsed)| {
        let trial = match parsed {
            Ok(_) => trials.next()?,
            Err(details) => Trial::Invalid(details),
        };
        Some(contract::TriedPayment::of((id, trial)))
    });
    let effect = RulesEffect::of(&book, &*app.store).await?;
    let results: Vec<_> = results.collect();
    Ok(Json(contract::RulesTried::of((results, effect))))
}

type Sample = Vec<(Option<String>, Result<Tried, Details>)>;

impl App {
    /// The payments that were given, or those that wait.
    async fn sample(
        &self,
        given: Option<Vec<Value>>,
        waiting: Option<u32>,
    ) -> Result<Sample, ApiError> {
        let too_many = || {
            wrong(
                "payments",
                format!("at most {MOST_TRIED} payments per request"),
            )
        };
        match (given, waiting) {
            (Some(_), Some(_)) => Err(wrong("waiting", "give payments or waiting, not both")),
            (Some(given), None) if given.len() > MOST_TRIED => Err(too_many()),
            (Some(given), None) => Ok(given.iter().map(parsed).collect()),
            (None, most) => {
                let most = most.unwrap_or(TRIED_BY_DEFAULT);
                if usize::try_from(most).is_ok_and(|most| most > MOST_TRIED) {
                    return Err(too_many());
                }
                self.those_that_wait(most).await
            }
        }
    }

    async fn those_that_wait(&self, most: u32) -> Result<Sample, ApiError> {
        let item_type = payments::item_type();
        let mut sample = vec![];
        let mut left = most;
        for lane in self.store.lanes().await? {
            let waiting = self
                .store
                .waiting(&lane.name, &item_type, None, left)
                .await?;
            for item in waiting {
                let Some(view) = self.store.item(&payments::item(&item.id)).await? else {
                    continue;
                };
                let Ok(payment) = serde_json::from_str(view.body.as_deref().unwrap_or_default())
                else {
                    continue;
                };
                let tried = Tried {
                    payment,
                    is_new: false,
                };
                sample.push((Some(item.id.to_string()), Ok(tried)));
                left = left.saturating_sub(1);
            }
            if left == 0 {
                break;
            }
        }
        Ok(sample)
    }
}

fn parsed(body: &Value) -> (Option<String>, Result<Tried, Details>) {
    let id = body["paymentId"].as_str().map(str::to_owned);
    let tried = PaymentRequest::parse(body).map(|payment| Tried {
        payment,
        is_new: true,
    });
    (id, tried)
}

impl From<RulesError> for ApiError {
    fn from(error: RulesError) -> Self {
        match error {
            RulesError::Store(error) => error.into(),
            RulesError::Wrong(problems) => {
                let details = problems.into_iter().map(|one| (one.place, one.what));
                Self::invalid(details.collect())
            }
        }
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(reload))
        .routes(routes!(try_out))
}
