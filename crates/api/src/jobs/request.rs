//! What a client asks of `POST /admin/jobs`, read into a wish.

use tollgate_config::AskWhom;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::{BulkId, ItemType, LaneName, StormId};
use tollgate_core::job::{JobAct, JobFilter};
use tollgate_core::money::{Currency, Money};
use tollgate_domains::payments::{self, PaymentStatus};
use tollgate_operations::jobs::Wish;

use crate::App;
use crate::answer::error::ApiError;
use crate::imports::views;
use crate::request::body::wrong;

const MOST_CHARS: usize = 200;

pub(crate) async fn wish(request: &contract::JobRequest, app: &App) -> Result<Wish, ApiError> {
    let act = JobAct::parse(&request.act).ok_or_else(|| {
        let acts = JobAct::ALL.map(JobAct::as_str);
        wrong("act", format!("must be one of {}", acts.join(", ")))
    })?;
    if act == JobAct::Ask && app.ask == AskWhom::Services {
        let what =
            "ask needs in_doubt.ask = \"bank\"; with \"services\", use POST /admin/in-doubt/ask";
        return Err(wrong("act", what));
    }
    let item_type = item_type(&request.filter, act)?;
    let mut filter = read(&request.filter, app, "filter.").await?;
    if filter.is_empty() {
        let what = "needs at least one condition; to select every item, set \"all\": true";
        return Err(wrong("filter", what));
    }
    if act == JobAct::Release {
        filter.held = Some(true);
    }
    check_storm(&request.filter, app, act).await?;
    let is_payment = item_type == payments::item_type();
    let only_payments = filter.asks_documents() || filter.import.is_some();
    if !is_payment && (only_payments || filter.status.is_some()) {
        let what = "import, status, account, reference and gateway select payments only";
        return Err(wrong("filter", what));
    }
    let requested = requested(request, app, act).await?;
    Ok(Wish {
        item_type,
        act,
        filter,
        requested,
    })
}

async fn requested(
    request: &contract::JobRequest,
    app: &App,
    act: JobAct,
) -> Result<Option<Timestamp>, ApiError> {
    let is_used = act == JobAct::Reschedule;
    match &request.execute_at {
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

fn item_type(filter: &contract::JobFilter, act: JobAct) -> Result<ItemType, ApiError> {
    let Some(name) = &filter.item_type else {
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
pub(crate) async fn read(
    filter: &contract::JobFilter,
    app: &App,
    at: &str,
) -> Result<JobFilter, ApiError> {
    let moment =
        |field: &str, text: &Option<String>| moment(&format!("{at}{field}"), text.as_deref());
    let short =
        |field: &str, text: &Option<String>| short(&format!("{at}{field}"), text.as_deref());
    if let Some(lane) = &filter.lane {
        app.lane_named(Some(lane.clone())).await?;
    }
    if let Some(gateway) = &filter.gateway {
        app.gateway_named(gateway)?;
    }
    let import = filter.import.clone().map(BulkId::new);
    if let Some(import) = &import {
        views::found(app, import.as_str()).await?;
    }
    let (min_minor, max_minor) = (
        minor(filter, at, "minAmount", filter.min_amount.as_deref())?,
        minor(filter, at, "maxAmount", filter.max_amount.as_deref())?,
    );
    Ok(JobFilter {
        status: status(filter)?,
        held: filter.held,
        lane: filter.lane.clone().map(LaneName::new),
        import,
        currency: currency(filter, at)?.map(|it| it.code().to_owned()),
        min_minor,
        max_minor,
        accepted_from: moment("acceptedFrom", &filter.accepted_from)?,
        accepted_to: moment("acceptedTo", &filter.accepted_to)?,
        due_from: moment("dueFrom", &filter.due_from)?,
        due_to: moment("dueTo", &filter.due_to)?,
        late: filter.late,
        account: short("account", &filter.account)?,
        reference: short("reference", &filter.reference)?,
        gateway: short("gateway", &filter.gateway)?,
        storm: filter.storm,
        all: filter.all,
    })
}

async fn check_storm(filter: &contract::JobFilter, app: &App, act: JobAct) -> Result<(), ApiError> {
    let Some(storm) = filter.storm else {
        return Ok(());
    };
    if act != JobAct::Reopen {
        return Err(wrong("filter.storm", "is only allowed with reopen"));
    }
    let missing = || ApiError::not_found(format!("there is no refusal storm {storm}"));
    app.store.storm(StormId(storm)).await?.ok_or_else(missing)?;
    Ok(())
}

fn status(filter: &contract::JobFilter) -> Result<Option<String>, ApiError> {
    let all = PaymentStatus::ALL.map(PaymentStatus::as_str);
    match &filter.status {
        Some(status) if !all.contains(&status.as_str()) => {
            let what = format!("must be one of {}", all.join(", "));
            Err(wrong("filter.status", what))
        }
        status => Ok(status.clone()),
    }
}

fn currency(filter: &contract::JobFilter, at: &str) -> Result<Option<Currency>, ApiError> {
    let Some(code) = &filter.currency else {
        return Ok(None);
    };
    let known = Currency::from_code(code);
    let known = known.ok_or_else(|| {
        let what = "must be an ISO 4217 code";
        wrong(&format!("{at}currency"), what)
    })?;
    Ok(Some(known))
}

fn minor(
    filter: &contract::JobFilter,
    at: &str,
    field: &str,
    amount: Option<&str>,
) -> Result<Option<i64>, ApiError> {
    let Some(amount) = amount else {
        return Ok(None);
    };
    let field = format!("{at}{field}");
    let Some(currency) = currency(filter, at)? else {
        let what = "needs currency: amounts in different currencies cannot be compared";
        return Err(wrong(&field, what));
    };
    let money = Money::parse(amount, currency).map_err(|why| wrong(&field, why))?;
    Ok(Some(money.minor))
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
