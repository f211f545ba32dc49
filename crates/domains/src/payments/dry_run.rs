//! Rules tried on payments, without a trace. Rules that count what came before count only among
//! the payments of the trial, in their order, as if all of them came now.

use tollgate_core::Timestamp;
use tollgate_core::details::Details;
use tollgate_core::guard::Tally;
use tollgate_core::id::{FlowId, LaneName};
use tollgate_core::ports::NewItem;

use super::prepare::{self, NotTaken};
use super::request::PaymentRequest;
use super::rulebook::Rulebook;
use super::{Bank, Routes};

/// What would become of one payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    Accepted { gateway: String, lane: LaneName },
    Invalid(Details),
    Refused { rule: String, message: String },
}

/// A payment of a trial: a new one must also be valid now, one that was taken in before was.
#[derive(Debug, Clone)]
pub struct Tried {
    pub payment: PaymentRequest,
    pub is_new: bool,
}

/// In the order of the given payments.
pub fn dry_run(
    book: &Rulebook,
    routes: &Routes<Bank>,
    payments: &[Tried],
    now: Timestamp,
) -> Vec<Trial> {
    let checked: Vec<_> = payments
        .iter()
        .map(|tried| {
            let payment = &tried.payment;
            let find = |gateway: Option<&str>| routes.route(gateway);
            let chosen = if tried.is_new {
                prepare::check(payment, now, book, find)?
            } else {
                prepare::judge(payment, now, book, find)?
            };
            let (gateway, lane) = (chosen.gateway.clone(), chosen.lane.clone());
            let flow = FlowId::new("dry-run");
            let item = prepare::build(payment, chosen, book.guards(), &flow)
                .map_err(|e| NotTaken::invalid("body", &e.to_string()))?;
            Ok((item, gateway, lane))
        })
        .collect();
    let items = checked.iter().filter_map(|one| one.as_ref().ok());
    let mut tally = Tally::new(items.map(|(item, ..)| item), now);
    let trial = |one: Result<(NewItem, String, LaneName), NotTaken>| match one {
        Err(NotTaken::Invalid(details)) => Trial::Invalid(details),
        Err(NotTaken::Refused { rule, message }) => Trial::Refused { rule, message },
        Ok((item, gateway, lane)) => match tally.refusal(&item) {
            Some(guard) => Trial::Refused {
                rule: guard.rule.clone(),
                message: guard.message.clone(),
            },
            None => {
                tally.count(&item);
                Trial::Accepted { gateway, lane }
            }
        },
    };
    checked.into_iter().map(trial).collect()
}
