//! What a client asks of `POST /admin/jobs`, read into a wish.

use serde::Deserialize;
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemType, LaneName, StormId};
use tollgate_core::job::{JobAct, JobFilter};
use tollgate_core::money::{Currency, Money};
use tollgate_domains::payments::{self, PaymentStatus};
use utoipa::ToSchema;

use crate::api::App;
use crate::api::answer::error::ApiError;
use crate::api::contract::words;
use crate::api::imports::views;
use crate::api::request::body::wrong;
use crate::config::AskWhom;
use crate::jobs::Wish;

const MOST_CHARS: usize = 200;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct JobRequest {
    /// What to do to each item.
    #[schema(schema_with = words::job_act)]
    act: String,
    filter: FilterRequest,
    /// For `reschedule`: the earliest time, with an offset or with a time zone in brackets.
    #[schema(example = "2026-11-16T16:00:00-07:00")]
    execute_at: Option<String>,
    /// Reason, recorded in the audit log. Required to start the job.
    #[schema(min_length = 1, max_length = 500, example = "the customer called")]
    pub(crate) reason: Option<String>,
    /// Only preview the job.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The `digest` of the preview to start. Act and filter must be the same.
    #[schema(min_length = 64, max_length = 64)]
    pub(crate) digest: Option<String>,
}

/// Which items. All conditions must hold; at least one is required.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schema(as = JobFilter)]
pub(crate) struct FilterRequest {
    /// Set to true to select every item that the act applies to, with no other condition.
    pub(crate) all: bool,
    /// `PAYMENT` (default). `replay` also takes `INVOICE` and `NOTIFICATION`.
    #[serde(rename = "type")]
    #[schema(example = "PAYMENT")]
    pub(crate) item_type: Option<String>,
    /// Default: `SCHEDULED` to cancel or reschedule, `REJECTED` to reopen, `IN_DOUBT` to ask.
    #[schema(schema_with = words::payment_status, required = false)]
    pub(crate) status: Option<String>,
    #[schema(example = "default")]
    pub(crate) lane: Option<String>,
    /// The gateway chosen when the payment was accepted.
    pub(crate) gateway: Option<String>,
    /// Import: its `batchId`.
    pub(crate) import: Option<String>,
    /// Accepted at this time or later.
    pub(crate) accepted_from: Option<String>,
    /// Accepted before this time.
    pub(crate) accepted_to: Option<String>,
    /// Due at this time or later.
    pub(crate) due_from: Option<String>,
    /// Due before this time.
    pub(crate) due_to: Option<String>,
    /// Smallest amount; needs `currency`.
    #[schema(example = "10.00")]
    pub(crate) min_amount: Option<String>,
    /// Largest amount; needs `currency`.
    #[schema(example = "1000.00")]
    pub(crate) max_amount: Option<String>,
    #[schema(pattern = "^[A-Z]{3}$", example = "USD")]
    pub(crate) currency: Option<String>,
    /// Account of the debtor or the creditor, complete.
    #[schema(max_length = 200)]
    pub(crate) account: Option<String>,
    #[schema(max_length = 200)]
    pub(crate) reference: Option<String>,
    /// Whether the deadline has passed before the payment ended.
    pub(crate) late: Option<bool>,
    /// Whether the item is held.
    pub(crate) held: Option<bool>,
    /// Number of a refusal storm: payments that were refused in it. Only with `reopen`.
    #[schema(example = 1)]
    pub(crate) storm: Option<i64>,
}

impl JobRequest {
    pub(crate) async fn wish(&self, app: &App) -> Result<Wish, ApiError> {
        let act = JobAct::parse(&self.act).ok_or_else(|| {
            let acts = JobAct::ALL.map(JobAct::as_str);
            wrong("act", format!("must be one of {}", acts.join(", ")))
        })?;
        if act == JobAct::Ask && app.ask == AskWhom::Services {
            let what = "ask needs in_doubt.ask = \"bank\"; with \"services\", use POST /admin/in-doubt/ask";
            return Err(wrong("act", what));
        }
        let item_type = self.filter.item_type(act)?;
        let mut filter = self.filter.read(app, "filter.").await?;
        if filter.is_empty() {
            let what = "needs at least one condition; to select every item, set \"all\": true";
            return Err(wrong("filter", what));
        }
        if act == JobAct::Release {
            filter.held = Some(true);
        }
        self.filter.check_storm(app, act).await?;
        let is_payment = item_type == payments::item_type();
        let only_payments = filter.asks_documents() || filter.import.is_some();
        if !is_payment && (only_payments || filter.status.is_some()) {
            let what = "import, status, account, reference and gateway select payments only";
            return Err(wrong("filter", what));
        }
        let requested = self.requested(app, act).await?;
        Ok(Wish {
            item_type,
            act,
            filter,
            requested,
        })
    }

    async fn requested(&self, app: &App, act: JobAct) -> Result<Option<Timestamp>, ApiError> {
        let is_used = act == JobAct::Reschedule;
        match &self.execute_at {
            None if is_used => Err(wrong("executeAt", "is required to reschedule")),
            None => Ok(None),
            Some(_) if !is_used => Err(wrong("executeAt", "is only allowed with reschedule")),
            Some(text) => {
                let at = time("executeAt", text)?;
                let now = app.store.now().await?;
                match payments::out_of_bounds(at, now) {
                    Some(why) => Err(wrong("executeAt", why)),
                    None => Ok(Some(at)),
                }
            }
        }
    }
}

impl FilterRequest {
    fn item_type(&self, act: JobAct) -> Result<ItemType, ApiError> {
        let Some(name) = &self.item_type else {
            return Ok(payments::item_type());
        };
        let found = App::item_type_named(name)?;
        if act != JobAct::Replay && found != payments::item_type() {
            let what = format!("must be PAYMENT; {} acts on payments only", act.as_str());
            return Err(wrong("filter.type", what));
        }
        Ok(found)
    }

    /// `at`: where its fields are, for what is told about a wrong one.
    pub(crate) async fn read(&self, app: &App, at: &str) -> Result<JobFilter, ApiError> {
        let moment =
            |field: &str, text: &Option<String>| moment(&format!("{at}{field}"), text.as_deref());
        let short =
            |field: &str, text: &Option<String>| short(&format!("{at}{field}"), text.as_deref());
        if let Some(lane) = &self.lane {
            app.lane_named(Some(lane.clone())).await?;
        }
        if let Some(gateway) = &self.gateway {
            app.gateway_named(gateway)?;
        }
        let import = self.import.clone().map(BulkId::new);
        if let Some(import) = &import {
            views::found(app, import.as_str()).await?;
        }
        let (min_minor, max_minor) = (
            self.minor(at, "minAmount", self.min_amount.as_deref())?,
            self.minor(at, "maxAmount", self.max_amount.as_deref())?,
        );
        Ok(JobFilter {
            status: self.status()?,
            held: self.held,
            lane: self.lane.clone().map(LaneName::new),
            import,
            currency: self.currency(at)?.map(|it| it.code().to_owned()),
            min_minor,
            max_minor,
            accepted_from: moment("acceptedFrom", &self.accepted_from)?,
            accepted_to: moment("acceptedTo", &self.accepted_to)?,
            due_from: moment("dueFrom", &self.due_from)?,
            due_to: moment("dueTo", &self.due_to)?,
            late: self.late,
            account: short("account", &self.account)?,
            reference: short("reference", &self.reference)?,
            gateway: short("gateway", &self.gateway)?,
            storm: self.storm,
            all: self.all,
        })
    }

    async fn check_storm(&self, app: &App, act: JobAct) -> Result<(), ApiError> {
        let Some(storm) = self.storm else {
            return Ok(());
        };
        if act != JobAct::Reopen {
            return Err(wrong("filter.storm", "is only allowed with reopen"));
        }
        let missing = || ApiError::not_found(format!("there is no refusal storm {storm}"));
        app.store.storm(StormId(storm)).await?.ok_or_else(missing)?;
        Ok(())
    }

    fn status(&self) -> Result<Option<String>, ApiError> {
        let all = PaymentStatus::ALL.map(PaymentStatus::as_str);
        match &self.status {
            Some(status) if !all.contains(&status.as_str()) => {
                let what = format!("must be one of {}", all.join(", "));
                Err(wrong("filter.status", what))
            }
            status => Ok(status.clone()),
        }
    }

    fn currency(&self, at: &str) -> Result<Option<Currency>, ApiError> {
        let Some(code) = &self.currency else {
            return Ok(None);
        };
        let known = Currency::from_code(code);
        let known = known.ok_or_else(|| {
            let what = "must be an ISO 4217 code";
            wrong(&format!("{at}currency"), what)
        })?;
        Ok(Some(known))
    }

    fn minor(&self, at: &str, field: &str, amount: Option<&str>) -> Result<Option<i64>, ApiError> {
        let Some(amount) = amount else {
            return Ok(None);
        };
        let field = format!("{at}{field}");
        let Some(currency) = self.currency(at)? else {
            let what = "needs currency: amounts in different currencies cannot be compared";
            return Err(wrong(&field, what));
        };
        let money = Money::parse(amount, currency).map_err(|why| wrong(&field, why))?;
        Ok(Some(money.minor))
    }
}

fn moment(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, ApiError> {
    text.map(|text| time(field, text)).transpose()
}

fn time(field: &str, text: &str) -> Result<Timestamp, ApiError> {
    let what = "must be a time such as \"2026-11-16T16:00:00-07:00\"";
    payments::parse_time(text).ok_or_else(|| wrong(field, what))
}

/// Without what no text of a payment contains.
fn short(field: &str, text: Option<&str>) -> Result<Option<String>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let is_fine = !text.is_empty() && text.chars().count() <= MOST_CHARS && !text.contains('\0');
    if !is_fine {
        let what = format!("must have 1 to {MOST_CHARS} characters");
        return Err(wrong(field, what));
    }
    Ok(Some(text.to_owned()))
}
