//! Rules and routes: `/admin/rules`. They are written in the configuration; here they are shown,
//! read anew, and tried without a trace.

mod body;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_core::Timestamp;
use tollgate_core::details::Details;
use tollgate_core::id::LaneName;
use tollgate_domains::payments::{
    self, PaymentRequest, RouteText, RuleText, RulesEffect, RulesError, RulesText, Trial, Tried,
    dry_run, text_of,
};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::ages;
use crate::api::answer::error::ApiError;
use crate::api::contract::refusals::{Changes, Reads, Takes};
use crate::api::request::body::{Body, author, parse, wrong};
use crate::config::{Config, rule_floors};
use crate::door::auth::Caller;
use crate::rules;
use body::{Route, Rule};

/// At most this many payments are tried at once.
const MOST_TRIED: usize = payments::MAX_BATCH;
/// This many of those that wait are tried if nobody says what to try.
const TRIED_BY_DEFAULT: u32 = 100;
const MOST_VERSIONS: u32 = 100;

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulesInForce)]
struct RulesResponse {
    /// 0 if no rules have ever been set.
    version: i64,
    #[schema(value_type = Vec<Rule>)]
    rules: Vec<RuleText>,
    #[schema(value_type = Vec<Route>)]
    routes: Vec<RouteText>,
    /// Newest first.
    history: Vec<VersionResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulesVersion)]
struct VersionResponse {
    version: i64,
    since: Timestamp,
    actor: String,
    reason: String,
    rules: usize,
    routes: usize,
}

/// The rules and routes in force, with their versions.
#[utoipa::path(
    get, path = "/admin/rules", operation_id = "showRules", tag = "rules",
    responses((status = 200, description = "The rules and routes in force.", body = RulesResponse), Reads),
)]
async fn show(State(app): State<App>) -> Result<Json<RulesResponse>, ApiError> {
    let versions = app.rules.history(MOST_VERSIONS).await?;
    let text = versions
        .first()
        .map(text_of)
        .transpose()?
        .unwrap_or_default();
    let told = |setting: &tollgate_core::ports::Setting| {
        let text = text_of(setting).unwrap_or_default();
        VersionResponse {
            version: setting.version,
            since: setting.created_at,
            actor: setting.author.actor.clone(),
            reason: setting.author.reason.clone(),
            rules: text.rules.len(),
            routes: text.routes.len(),
        }
    };
    Ok(Json(RulesResponse {
        version: versions.first().map_or(0, |setting| setting.version),
        rules: text.rules,
        routes: text.routes,
        history: versions.iter().map(told).collect(),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RulesReload)]
struct ReloadRequest {
    #[schema(min_length = 1, max_length = 500)]
    reason: String,
    /// Required if the new rules would stop more than 100 waiting payments.
    #[serde(default)]
    confirm: bool,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulesReloaded)]
struct ReloadResponse {
    version: i64,
    /// False if the configuration matches the rules in force.
    changed: bool,
    rules: usize,
    routes: usize,
    /// Whether the invoice checks were reloaded too.
    checks: usize,
    checks_changed: bool,
    would_stop: EffectResponse,
}

/// Effect of the rules on waiting payments at execution.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulesEffect)]
struct EffectResponse {
    /// Number of waiting payments that will be held for a person.
    held: u64,
    /// Number of waiting payments that will be rejected.
    rejected: u64,
    by_rule: BTreeMap<String, u64>,
}

impl From<RulesEffect> for EffectResponse {
    fn from(effect: RulesEffect) -> Self {
        let RulesEffect {
            held,
            rejected,
            by_rule,
        } = effect;
        Self {
            held,
            rejected,
            by_rule,
        }
    }
}

/// Reloads rules, routes and invoice checks from the configuration, all or nothing: an error leaves
/// the old ones in force. Rules that would stop more than 100 waiting payments need `confirm`.
#[utoipa::path(
    post, path = "/admin/rules/reload", operation_id = "reloadRules", tag = "rules",
    request_body = ReloadRequest,
    responses((status = 200, description = "The rules and routes now in force.", body = ReloadResponse), Changes),
)]
async fn reload(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ReloadResponse>, ApiError> {
    let request: ReloadRequest = parse(&headers, body)?;
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
    Ok(Json(ReloadResponse {
        version: now.map_or(0, |setting| setting.version),
        changed,
        rules: text.rules.len(),
        routes: text.routes.len(),
        checks: config.invoices.checks.len(),
        checks_changed: checks.is_some(),
        would_stop: effect.into(),
    }))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = RulesTrial)]
struct DryRunRequest {
    /// Fields that are not given are taken from the rules in force.
    #[schema(value_type = Option<Vec<Rule>>)]
    rules: Option<Vec<RuleText>>,
    #[schema(value_type = Option<Vec<Route>>)]
    routes: Option<Vec<RouteText>>,
    /// As for `POST /payments`.
    #[schema(value_type = Option<Vec<tollgate_contract::NewPayment>>)]
    payments: Option<Vec<Value>>,
    /// Instead of `payments`: test this many waiting payments.
    waiting: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RulesTried)]
struct DryRunResponse {
    payments: usize,
    accepted: usize,
    invalid: usize,
    refused: usize,
    refused_by_rule: BTreeMap<String, usize>,
    /// Effect on all waiting payments at execution, whichever payments were tested.
    would_stop: EffectResponse,
    /// In the order of the given payments.
    results: Vec<TrialResponse>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TriedPayment)]
struct TrialResponse {
    payment_id: Option<String>,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    lane: Option<LaneName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    details: BTreeMap<String, String>,
}

/// Tests rules and routes against payments. Nothing is stored.
#[utoipa::path(
    post, path = "/admin/rules/dry-run", operation_id = "tryRules", tag = "rules",
    request_body = DryRunRequest,
    responses((status = 200, description = "One verdict per payment.", body = DryRunResponse), Takes),
)]
async fn try_out(
    State(app): State<App>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DryRunResponse>, ApiError> {
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
        Some(TrialResponse::new(id, trial))
    });
    let effect = RulesEffect::of(&book, &*app.store).await?;
    Ok(Json(summed_up(results.collect(), effect)))
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

impl TrialResponse {
    fn new(payment_id: Option<String>, trial: Trial) -> Self {
        let empty = Self {
            payment_id,
            verdict: "ACCEPTED",
            gateway: None,
            lane: None,
            rule: None,
            message: None,
            details: BTreeMap::new(),
        };
        match trial {
            Trial::Accepted { gateway, lane } => Self {
                gateway: Some(gateway),
                lane: Some(lane),
                ..empty
            },
            Trial::Invalid(details) => Self {
                verdict: "INVALID",
                details,
                ..empty
            },
            Trial::Refused { rule, message } => Self {
                verdict: "REFUSED",
                rule: Some(rule),
                message: Some(message),
                ..empty
            },
        }
    }
}

fn summed_up(results: Vec<TrialResponse>, effect: RulesEffect) -> DryRunResponse {
    let count = |verdict| results.iter().filter(|one| one.verdict == verdict).count();
    let mut refused_by_rule = BTreeMap::new();
    for rule in results.iter().filter_map(|one| one.rule.clone()) {
        *refused_by_rule.entry(rule).or_insert(0) += 1;
    }
    DryRunResponse {
        payments: results.len(),
        accepted: count("ACCEPTED"),
        invalid: count("INVALID"),
        refused: count("REFUSED"),
        refused_by_rule,
        would_stop: effect.into(),
        results,
    }
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
