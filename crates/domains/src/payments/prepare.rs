//! The pure part of intake, step by step: validate, choose the route, apply rules, build the
//! context, determine the execution time. Given the same payment, rules and time, the same result.

use serde::{Deserialize, Serialize};
use tollgate_core::details::{self, Details};
use tollgate_core::id::FlowId;
use tollgate_core::ports::{NewItem, NewRecord};
use tollgate_core::{SignedDuration, Timestamp};

use super::guard_rule::GuardRule;
use super::request::{Party, PaymentRequest};
use super::routes::PaymentRoute;
use super::rulebook::{Refusal, Rulebook};
use super::status::PaymentStatus;

/// An `executeAt` this far in the past still means now.
const MAX_HOURS_PAST: i64 = 24;
const MAX_DAYS_AHEAD: i64 = 400;

/// Why a payment is not taken in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum NotTaken {
    Invalid(Details),
    /// A rule said no: its name and message.
    Refused {
        rule: String,
        message: String,
    },
}

/// What is kept of a payment: what was taken in, and where it goes.
#[derive(Serialize)]
struct PaymentBody<'a> {
    #[serde(flatten)]
    payment: &'a PaymentRequest,
    route: Route,
}

/// The bank that was chosen when the payment was taken in. Beside the payment, which may have named another, or none.
#[derive(Serialize, Deserialize)]
struct Route {
    gateway: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    connector: Option<String>,
}

/// What the exec flow needs of a payment's body: everything, so that it fetches nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PaymentContext {
    pub(super) payment_id: String,
    pub(super) amount: String,
    pub(super) currency: String,
    pub(super) debtor: Party,
    pub(super) creditor: Party,
    /// What the bank is told.
    pub(super) gateway: String,
    /// Which bank, by its gateway; the default one if none is kept.
    pub(super) connector: Option<String>,
    pub(super) reference: Option<String>,
}

impl PaymentContext {
    pub(super) fn read(body: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Routed {
            route: Route,
        }
        let payment: PaymentRequest = serde_json::from_str(body)?;
        let Route { gateway, connector } = serde_json::from_str::<Routed>(body)?.route;
        Ok(Self {
            payment_id: payment.payment_id.to_string(),
            amount: payment.money.decimal(),
            currency: payment.money.currency.code().to_owned(),
            debtor: payment.debtor,
            creditor: payment.creditor,
            gateway,
            connector,
            reference: payment.reference,
        })
    }
}

impl NotTaken {
    pub(super) fn invalid(field: &str, what: &str) -> Self {
        Self::Invalid(details::one(field, what))
    }
}

impl From<Refusal> for NotTaken {
    fn from(Refusal { rule, message, .. }: Refusal) -> Self {
        Self::Refused { rule, message }
    }
}

/// The checks that depend on the time, and the rules. `find` knows the banks, by gateway.
pub(super) fn check(
    payment: &PaymentRequest,
    now: Timestamp,
    book: &Rulebook,
    find: impl FnOnce(Option<&str>) -> Result<PaymentRoute, NotTaken>,
) -> Result<PaymentRoute, NotTaken> {
    validate(payment, now).map_err(NotTaken::Invalid)?;
    judge(payment, now, book, find)
}

/// Route and rules. A payment that names its gateway keeps it.
pub(super) fn judge(
    payment: &PaymentRequest,
    now: Timestamp,
    book: &Rulebook,
    find: impl FnOnce(Option<&str>) -> Result<PaymentRoute, NotTaken>,
) -> Result<PaymentRoute, NotTaken> {
    let named = payment.gateway.as_deref();
    let route = find(named.or_else(|| book.gateway_of(payment)))?;
    distinct_accounts(payment)?;
    match book.refusal(payment, &route.gateway, &route.lane, now) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(route),
    }
}

/// Everything that is written for a payment that passed its checks.
pub(super) fn build(
    payment: &PaymentRequest,
    route: PaymentRoute,
    guards: &[GuardRule],
    init_flow: &FlowId,
) -> Result<NewItem, serde_json::Error> {
    let PaymentRoute {
        gateway,
        connector,
        lane,
    } = route;
    let route = Route { gateway, connector };
    let record = NewRecord::new(
        &payment.debtor.account,
        PaymentStatus::Scheduled.as_str(),
        payment.money,
        payment.content_hash(),
    );
    let (id, init_flow) = (payment.payment_id.clone(), init_flow.clone());
    let body = serde_json::to_string(&PaymentBody { payment, route })?;
    let guards = guards.iter().filter_map(|rule| rule.guard(payment));
    Ok(NewItem {
        requested: determine_exec_time(payment),
        deadline: payment.deadline,
        hold_if_late: payment.hold_if_late,
        guards: guards.collect(),
        ..NewItem::new(id, lane, record, body, init_flow)
    })
}

fn validate(payment: &PaymentRequest, now: Timestamp) -> Result<(), Details> {
    let mut wrong = Details::new();
    let mut blame = |field: &str, what: String| drop(wrong.insert(field.to_owned(), what));
    if let Some(what) = payment.execute_at.and_then(|at| out_of_bounds(at, now)) {
        blame("executeAt", what);
    }
    if let Some(deadline) = payment.deadline
        && deadline < payment.execute_at.unwrap_or(now)
    {
        let what = "is before the payment can run (executeAt, or now)";
        blame("deadline", what.to_owned());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

/// Why a payment cannot be asked for at this time, when it is taken in or rescheduled.
pub fn out_of_bounds(at: Timestamp, now: Timestamp) -> Option<String> {
    if at < now - SignedDuration::from_hours(MAX_HOURS_PAST) {
        return Some(format!("is more than {MAX_HOURS_PAST} hours in the past"));
    }
    if at > now + SignedDuration::from_hours(24 * MAX_DAYS_AHEAD) {
        return Some(format!("is more than {MAX_DAYS_AHEAD} days ahead"));
    }
    None
}

/// The one rule that everybody has.
fn distinct_accounts(payment: &PaymentRequest) -> Result<(), NotTaken> {
    if payment.debtor.account == payment.creditor.account {
        return Err(NotTaken::Refused {
            rule: "distinct_accounts".to_owned(),
            message: "debtor and creditor are the same account".to_owned(),
        });
    }
    Ok(())
}

/// What was asked for. An omitted or past time means now, and now is the store's to say.
fn determine_exec_time(payment: &PaymentRequest) -> Option<Timestamp> {
    payment.execute_at
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollgate_core::id::LaneName;

    use super::*;

    fn payment(fields: &serde_json::Value) -> PaymentRequest {
        let mut body = json!({
            "paymentId": "p", "amount": "1", "currency": "EUR",
            "debtor": {"account": "a", "name": "A"}, "creditor": {"account": "b", "name": "B"},
        });
        for (key, value) in fields.as_object().unwrap() {
            body[key] = value.clone();
        }
        PaymentRequest::parse(&body).unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "the shape that check wants")]
    fn to_the_bank(gateway: Option<&str>) -> Result<PaymentRoute, NotTaken> {
        let gateway = gateway.unwrap_or("default").to_owned();
        let lane = LaneName::new(format!("lane of {gateway}"));
        let connector = None;
        Ok(PaymentRoute {
            gateway,
            connector,
            lane,
        })
    }

    #[test]
    fn a_payment_takes_the_gateway_it_names_or_else_its_route_and_rules_see_which() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let text = json!({
            "routes": [{"gateway": "acme", "currency": "EUR"}],
            "rules": [{"name": "not-sepa", "require": "gateway != 'sepa' && lane.endsWith(gateway)", "message": "no"}],
        });
        let text = serde_json::from_value(text).unwrap();
        let book = Rulebook::read(&text, 1, |name| name == "acme").unwrap();
        let table = [
            (json!({}), Ok("acme")),
            (json!({"currency": "USD"}), Ok("default")),
            (json!({"gateway": "default"}), Ok("default")),
            (json!({"gateway": "other"}), Ok("other")),
            (json!({"gateway": "sepa"}), Err("not-sepa")),
        ];
        for (fields, expected) in table {
            let checked = check(&payment(&fields), now, &book, to_the_bank);
            let gateway = checked.map(|to| to.gateway);
            let gateway = gateway.map_err(|not_taken| match not_taken {
                NotTaken::Refused { rule, .. } => rule,
                NotTaken::Invalid(details) => panic!("{details:?}"),
            });
            let told = gateway.as_deref().map_err(String::as_str);
            assert_eq!(told, expected, "{fields}");
        }
    }

    #[test]
    fn the_chosen_gateway_is_kept_beside_the_payment_and_is_no_part_of_sameness() {
        let (flow, plain) = (FlowId::new("init"), payment(&json!({})));
        let item = |gateway: &str| {
            let route = to_the_bank(Some(gateway)).unwrap();
            build(&plain, route, &[], &flow).unwrap()
        };
        let (one, other) = (item("acme"), item("sepa"));
        for (item, gateway) in [(&one, "acme"), (&other, "sepa")] {
            assert_eq!(PaymentContext::read(&item.body).unwrap().gateway, gateway);
            let kept: PaymentRequest = serde_json::from_str(&item.body).unwrap();
            assert_eq!(kept, plain, "as it was taken in");
        }
        assert_eq!(one.record.content_hash, other.record.content_hash);
    }

    #[test]
    fn times_are_judged_by_the_clock_they_are_given() {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let book = Rulebook::default();
        let wrong = |fields| match check(&payment(&fields), now, &book, to_the_bank) {
            Ok(_) => vec![],
            Err(NotTaken::Invalid(details)) => details.into_keys().collect(),
            Err(NotTaken::Refused { rule, .. }) => vec![rule],
        };
        assert!(wrong(json!({})).is_empty());
        assert!(
            wrong(json!({"executeAt": "2026-11-15T12:00:00Z"})).is_empty(),
            "24 h ago means now"
        );
        assert_eq!(
            wrong(json!({"executeAt": "2026-11-15T11:59:59Z"})),
            ["executeAt"]
        );
        assert_eq!(
            wrong(json!({"executeAt": "2999-01-01T00:00:00Z"})),
            ["executeAt"]
        );
        assert_eq!(
            wrong(json!({"deadline": "2026-11-16T11:00:00Z"})),
            ["deadline"]
        );
        assert_eq!(
            wrong(json!({"creditor": {"account": "a", "name": "X"}})),
            ["distinct_accounts"]
        );
    }
}
