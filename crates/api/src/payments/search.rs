//! How a page of payments by id is found: by an index, and narrowed by what no index serves in a bounded number of looks.

use std::collections::{BTreeMap, HashSet};

use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId};
use tollgate_core::job::{Candidate, JobFilter};
use tollgate_core::ports::{MOST_LOOKED_AT, Page, RecordLine, RecordsWanted, RequestView};
use tollgate_domains::payments::{self, Sought};

use super::list::{BY_ID, Forecasts, Line, ListQuery, requests_wanted};
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::answer::source::Source;

/// A page looks so often for what no index serves, each time at a thousand payments.
pub(crate) const MOST_LOOKS: u32 = 20;

impl App {
    /// As many as were asked for, or what was found when the search has looked at enough.
    pub(crate) async fn payments(
        &self,
        query: &ListQuery,
    ) -> Result<contract::PaymentList, ApiError> {
        if let Some(newest) = query.newest(self).await? {
            return self.newest_payments(&newest).await;
        }
        let mut wanted = query.wanted(self).await?;
        let narrowed = query.narrowed(self).await?;
        let most = wanted.limit as usize;
        let is_filtered = narrowed.is_some() || wanted.is_filtered();
        if is_filtered {
            wanted.limit = MOST_LOOKED_AT;
        }
        let (mut lines, mut next) = (vec![], None);
        for _ in 0..MOST_LOOKS {
            let page = self.look(wanted.clone(), narrowed.as_ref()).await?;
            lines.extend(page.payments);
            next = page.next.map(ItemId::new);
            if next.is_none() || lines.len() >= most || !is_filtered {
                break;
            }
            wanted.after.clone_from(&next);
        }
        if lines.len() > most {
            lines.truncate(most);
            next = lines.last().map(|line| ItemId::new(&line.payment_id));
        }
        let complete = lines.len() >= most || next.is_none();
        let next = next.map(|id| id.to_string());
        Ok(contract::PaymentList {
            scanned_to: next.clone().filter(|_| !complete),
            payments: lines,
            order: BY_ID.to_owned(),
            next,
            previous: None,
            complete,
            count: None,
            at_least: false,
            source: contract::AnswerSource::of(Source::HOT),
            archived: None,
        })
    }

    /// One look: what is wanted among the next payments.
    async fn look(
        &self,
        wanted: RecordsWanted,
        narrowed: Option<&JobFilter>,
    ) -> Result<contract::PaymentList, ApiError> {
        // Requests first: one that is planned meanwhile is then seen as a payment, too, and told once.
        let requests = match requests_wanted(&wanted) {
            Some(wanted) => self.store.requests(wanted).await?,
            None => vec![],
        };
        let limit = wanted.limit;
        let page = self.store.records(wanted).await?;
        let now = self.store.now().await?;
        let unwanted = match narrowed {
            Some(filter) => self.unwanted(filter, &requests, &page.items, now).await?,
            None => HashSet::new(),
        };
        let forecasts = self.forecasts(&page.items, &unwanted).await?;
        Ok(merged(requests, page, &unwanted, &forecasts, now, limit))
    }

    /// Which of them the filter does not want.
    pub(super) async fn unwanted(
        &self,
        filter: &JobFilter,
        requests: &[RequestView],
        lines: &[RecordLine],
        now: Timestamp,
    ) -> Result<HashSet<ItemId>, ApiError> {
        let sought = Sought {
            account: filter.account.as_deref(),
            reference: filter.reference.as_deref(),
            gateway: filter.gateway.as_deref(),
        };
        let fits = |request: &&RequestView| {
            filter.wants_unplanned(request.money, request.accepted_at)
                && (!filter.asks_documents() || sought.is_asked_in(&request.document))
        };
        let unwanted = requests.iter().filter(|request| !fits(request));
        let mut unwanted: HashSet<ItemId> = unwanted.map(|request| request.id.clone()).collect();
        let (left, out): (Vec<_>, Vec<_>) = lines
            .iter()
            .partition(|line| filter.wants(&Candidate::from(*line), now));
        unwanted.extend(out.into_iter().map(|line| line.id.clone()));
        if filter.asks_documents() {
            let items: Vec<Item> = left.iter().map(|line| payments::item(&line.id)).collect();
            let bodies = self.store.bodies(&items).await?;
            let is_out =
                |body: &Option<String>| !body.as_deref().is_some_and(|it| sought.is_in(it));
            let found = left.into_iter().zip(&bodies);
            let out = found.filter(|(_, body)| is_out(body));
            unwanted.extend(out.map(|(line, _)| line.id.clone()));
        }
        Ok(unwanted)
    }
}

/// Both in the order of ids, as one page. What lies behind the end of either page is on the next one.
fn merged(
    requests: Vec<RequestView>,
    page: Page<RecordLine, ItemId>,
    unwanted: &HashSet<ItemId>,
    forecasts: &Forecasts,
    now: Timestamp,
    limit: u32,
) -> contract::PaymentList {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let is_full = requests.len() >= limit;
    let last_request = requests.last().map(|request| request.id.clone());
    let ends = [last_request.filter(|_| is_full), page.next];
    let end = ends.into_iter().flatten().min();
    let requests = requests
        .into_iter()
        .map(|request| (request.id.clone(), Line::from(request).shown));
    let mut lines: BTreeMap<ItemId, contract::PaymentLine> = requests.collect();
    let records = page.items.into_iter();
    let shown = |line: RecordLine| (line.id.clone(), Line::new(line, forecasts, now).shown);
    lines.extend(records.map(shown));
    lines.retain(|id, _| !unwanted.contains(id));
    if let Some(end) = &end {
        lines.retain(|id, _| id <= end);
    }
    let is_cut = lines.len() > limit;
    let payments: Vec<_> = lines.into_values().take(limit).collect();
    let last = payments.last().map(|line| line.payment_id.clone());
    let next = if is_cut {
        last
    } else {
        end.map(|id| id.to_string())
    };
    contract::PaymentList {
        payments,
        order: BY_ID.to_owned(),
        next,
        previous: None,
        complete: true,
        scanned_to: None,
        count: None,
        at_least: false,
        source: contract::AnswerSource::of(Source::HOT),
        archived: None,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::details::Details;
    use tollgate_core::id::LaneName;
    use tollgate_core::item::QueueStatus;
    use tollgate_core::money::Money;
    use tollgate_core::ports::RequestState;

    use super::*;

    fn request(id: &str) -> RequestView {
        RequestView {
            id: ItemId::new(id),
            state: RequestState::Waiting,
            content_hash: String::new(),
            money: Money::NONE,
            document: String::new(),
            details: Details::new(),
            invalid: false,
            correction: 1,
            tries: 1,
            failed_try: 0,
            last_error: None,
            moved_to: None,
            ended_at: None,
            accepted_at: Timestamp::UNIX_EPOCH,
            due: Timestamp::UNIX_EPOCH,
        }
    }

    fn record(id: &str) -> RecordLine {
        RecordLine {
            id: ItemId::new(id),
            status: "SCHEDULED".into(),
            money: Money::NONE,
            lane: LaneName::new("bank"),
            queue_status: QueueStatus::Ready,
            run: 1,
            slot: Timestamp::UNIX_EPOCH,
            due: Timestamp::UNIX_EPOCH,
            deadline: None,
            has_ended: false,
            last_turn: None,
            was_sent: false,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn what_is_not_planned_is_listed_among_the_others_and_nothing_is_left_out() {
        let (waiting, planned) = (["b", "d", "e", "h"], ["a", "c", "d", "f", "g"]);
        for limit in 1..=10_u32 {
            let (mut after, mut seen) = (String::new(), vec![]);
            loop {
                let most = usize::try_from(limit).unwrap();
                let on = |ids: &[&'static str]| -> Vec<&'static str> {
                    let later = ids.iter().copied().filter(|id| *id > after.as_str());
                    later.take(most + 1).collect()
                };
                let requests = on(&waiting).into_iter().take(most).map(request).collect();
                let records = on(&planned);
                let next = (records.len() > most).then(|| ItemId::new(records[most - 1]));
                let items = records.into_iter().take(most).map(record).collect();
                let page = Page {
                    items,
                    next,
                    previous: None,
                };
                let none = Forecasts::default();
                let all = HashSet::new();
                let now = Timestamp::UNIX_EPOCH;
                let told = merged(requests, page, &all, &none, now, limit);
                assert!(told.payments.len() <= most);
                seen.extend(told.payments.iter().map(|it| it.payment_id.clone()));
                match told.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            assert_eq!(seen.concat(), "abcdefgh", "{limit} on a page");
        }
    }
}
