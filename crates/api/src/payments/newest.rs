//! A page of payments, the newest first, to and fro. What an index finds and is not too many is put into order as
//! a whole; everything else is looked for along the time of acceptance, in a bounded number of looks.

use std::collections::{HashMap, HashSet};

use tollgate_contract as contract;
use tollgate_core::id::{Item, ItemId};
use tollgate_core::job::JobFilter;
use tollgate_core::ports::{
    BesideWanted, Found, FoundBy, ListKey, MOST_LOOKED_AT, MOST_SORTED, RecordLine, RecordsWanted,
    RequestView,
};
use tollgate_domains::payments;

use super::list::{Forecasts, Line, NEWEST, Place, RequestsOf, requests_of};
use super::search::MOST_LOOKS;
use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::answer::source;

/// What a page of this order is made from.
pub(super) struct Newest {
    pub(super) wanted: RecordsWanted,
    /// All conditions, those of an index too.
    pub(super) filter: JobFilter,
    pub(super) at_risk: bool,
    pub(super) place: Option<Place>,
}

/// Where payments come from.
enum Source {
    /// In order: the newest first.
    Sorted(Vec<ListKey>),
    All,
}

/// A payment in the page, with its place.
type Entry = (ListKey, Line);

/// One look along the list.
struct Look {
    entries: Vec<Entry>,
    /// Where the next one begins; none at the end of the list.
    on: Option<ListKey>,
}

impl App {
    pub(super) async fn newest_payments(
        &self,
        newest: &Newest,
    ) -> Result<contract::PaymentList, ApiError> {
        let (source, dense) = self.source(newest).await?;
        let (count, at_least) = self.counted(newest, &source, dense).await?;
        let most = newest.wanted.limit as usize;
        let newer = newest.is_newer();
        let mut place = newest.place.as_ref().map(|place| place.key.clone());
        let mut found: Vec<Entry> = vec![];
        let mut more = true;
        for _ in 0..MOST_LOOKS {
            let look = self.look_beside(newest, &source, place.as_ref()).await?;
            found.extend(look.entries);
            more = look.on.is_some();
            place = look.on.or(place);
            if !more || found.len() > most {
                break;
            }
        }
        let complete = !more || found.len() >= most;
        let is_cut = found.len() > most;
        found.truncate(most);
        let last = found.last().map(|(key, _)| key.clone());
        let ahead = if is_cut || (more && complete) {
            last.or(place)
        } else {
            place.filter(|_| more)
        };
        if newer {
            found.reverse();
        }
        let first = found.first().map(|(key, _)| key.clone());
        let last = found.last().map(|(key, _)| key.clone());
        let came_from = newest.place.as_ref().map(|place| place.key.clone());
        // Behind a page lies at least the payment that it was asked from.
        let (next, previous) = if newer {
            (last.or(came_from), ahead.clone())
        } else {
            (
                ahead.clone(),
                came_from.and_then(|from| first.or(Some(from))),
            )
        };
        let told = |key: ListKey| key.page_token().to_string();
        Ok(contract::PaymentList {
            payments: found.into_iter().map(|(_, line)| line.shown).collect(),
            order: NEWEST.to_owned(),
            next: next.map(told),
            previous: previous.map(told),
            complete,
            scanned_to: ahead.filter(|_| !complete).map(|key| key.at.to_string()),
            count,
            at_least,
            source: contract::AnswerSource::of(source::Source::HOT),
            archived: None,
        })
    }

    /// The narrowest that an index finds; and whether one finds too many to put into order.
    async fn source(&self, newest: &Newest) -> Result<(Source, bool), ApiError> {
        let filter = &newest.filter;
        let by = [
            filter.reference.clone().map(FoundBy::Reference),
            filter.account.clone().map(FoundBy::Account),
            (filter.held == Some(true)).then_some(FoundBy::Held),
            filter.status.clone().map(FoundBy::Status),
        ];
        let mut dense = false;
        for by in by.into_iter().flatten() {
            let kind = &newest.wanted.item_type;
            match self.store.items_found(kind, by, MOST_SORTED).await? {
                Found::All(mut keys) => {
                    keys.sort_unstable_by(|a, b| b.cmp(a));
                    return Ok((Source::Sorted(keys), dense));
                }
                Found::TooMany => dense = true,
                Found::Unlisted => {}
            }
        }
        Ok((Source::All, dense))
    }

    /// How many there are, and whether there may be more; nothing if that would take a look at each of many.
    async fn counted(
        &self,
        newest: &Newest,
        source: &Source,
        dense: bool,
    ) -> Result<(Option<u64>, bool), ApiError> {
        let most = u64::from(MOST_SORTED);
        let conditions = newest.conditions();
        let requests = match newest.requests() {
            RequestsOf::None => vec![],
            RequestsOf::These(state) => {
                let wanted = newest.beside(None, false, MOST_LOOKED_AT);
                self.store.requests_beside(wanted, state).await?
            }
        };
        let few = |count: usize| count < MOST_LOOKED_AT as usize;
        match source {
            Source::Sorted(keys) if few(keys.len()) && few(requests.len()) => {
                let all = self.entries(newest, keys.clone(), requests).await?;
                Ok((Some(all.len() as u64), false))
            }
            Source::Sorted(keys) if conditions <= 1 && requests.is_empty() => {
                Ok((Some(keys.len() as u64), false))
            }
            Source::All if conditions == 0 && few(requests.len()) => {
                let wanted = newest.beside(None, false, MOST_SORTED + 1);
                let found = self.store.items_beside(wanted).await?.len() as u64;
                let found = found + requests.len() as u64;
                Ok((Some(found.min(most)), found > most))
            }
            Source::All if dense && conditions == 1 => Ok((Some(most), true)),
            Source::Sorted(_) | Source::All => Ok((None, false)),
        }
    }

    async fn look_beside(
        &self,
        newest: &Newest,
        source: &Source,
        place: Option<&ListKey>,
    ) -> Result<Look, ApiError> {
        let limit = if newest.conditions() == 0 {
            newest.wanted.limit + 1
        } else {
            MOST_LOOKED_AT
        };
        // Requests first: one that is planned meanwhile is then seen as a payment, too, and told once.
        let requests = match newest.requests() {
            RequestsOf::None => vec![],
            RequestsOf::These(state) => {
                let wanted = newest.beside(place, newest.is_newer(), limit);
                self.store.requests_beside(wanted, state).await?
            }
        };
        let keys = match source {
            Source::Sorted(keys) => newest.some_of(keys, place, limit),
            Source::All => {
                let wanted = newest.beside(place, newest.is_newer(), limit);
                self.store.items_beside(wanted).await?
            }
        };
        let full = limit as usize;
        let ends = [
            requests
                .last()
                .map(request_key)
                .filter(|_| requests.len() >= full),
            keys.last().cloned().filter(|_| keys.len() >= full),
        ];
        let ends = ends.into_iter().flatten();
        let on = if newest.is_newer() {
            ends.min()
        } else {
            ends.max()
        };
        let is_here = |key: &ListKey| match &on {
            None => true,
            Some(on) if newest.is_newer() => key <= on,
            Some(on) => key >= on,
        };
        let keys: Vec<ListKey> = keys.into_iter().filter(is_here).collect();
        let requests = requests.into_iter();
        let requests: Vec<_> = requests.filter(|it| is_here(&request_key(it))).collect();
        let entries = self.entries(newest, keys, requests).await?;
        Ok(Look { entries, on })
    }

    /// What of them is wanted, in the order of the page.
    async fn entries(
        &self,
        newest: &Newest,
        keys: Vec<ListKey>,
        requests: Vec<RequestView>,
    ) -> Result<Vec<Entry>, ApiError> {
        let items: Vec<Item> = keys.iter().map(|key| payments::item(&key.id)).collect();
        let lines = self.store.record_lines(&items).await?;
        let now = self.store.now().await?;
        let unwanted = self
            .unwanted(&newest.filter, &requests, &lines, now)
            .await?;
        let forecasts = self.forecasts(&lines, &unwanted).await?;
        let mut entries: HashMap<ItemId, Entry> = HashMap::new();
        for request in requests.into_iter().filter(|it| !unwanted.contains(&it.id)) {
            let key = request_key(&request);
            entries.insert(request.id.clone(), (key, Line::from(request)));
        }
        let mut places: HashMap<ItemId, ListKey> =
            keys.into_iter().map(|key| (key.id.clone(), key)).collect();
        for line in lines.into_iter().filter(|it| !unwanted.contains(&it.id)) {
            if let Some(key) = places.remove(&line.id) {
                let id = line.id.clone();
                entries.insert(id, (key, Line::new(line, &forecasts, now)));
            }
        }
        let is_wanted = |entry: &Entry| !newest.at_risk || entry.1.at_risk;
        let mut entries: Vec<Entry> = entries.into_values().filter(is_wanted).collect();
        entries.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        if newest.is_newer() {
            entries.reverse();
        }
        Ok(entries)
    }

    /// What is foreseen for the lanes of these lines.
    pub(super) async fn forecasts(
        &self,
        lines: &[RecordLine],
        unwanted: &HashSet<ItemId>,
    ) -> Result<Forecasts, ApiError> {
        let mut forecasts = Forecasts::new();
        let shown = lines.iter();
        let shown = shown.filter(|line| line.deadline.is_some() && !unwanted.contains(&line.id));
        for line in shown {
            if !forecasts.contains_key(&line.lane) {
                let foreseen = self.forecaster.lane(&line.lane).await?;
                forecasts.insert(line.lane.clone(), foreseen);
            }
        }
        Ok(forecasts)
    }
}

fn request_key(request: &RequestView) -> ListKey {
    ListKey {
        at: request.accepted_at,
        id: request.id.clone(),
    }
}

impl Newest {
    fn is_newer(&self) -> bool {
        self.place.as_ref().is_some_and(|place| place.newer)
    }

    /// How many conditions narrow the list. A stretch of time is where the list is looked at, and none of them,
    /// unless an index finds something else.
    fn conditions(&self) -> usize {
        let filter = &self.filter;
        let others = [
            filter.status.is_some(),
            filter.held.is_some(),
            filter.lane.is_some(),
            filter.currency.is_some(),
            filter.min_minor.is_some(),
            filter.max_minor.is_some(),
            filter.late.is_some(),
            filter.account.is_some(),
            filter.reference.is_some(),
            filter.gateway.is_some(),
            self.at_risk,
        ];
        let others = others.into_iter().filter(|asked| *asked).count();
        let is_timed = filter.accepted_from.is_some() || filter.accepted_to.is_some();
        // Its ends are compared exactly, which no count of an index does.
        others + usize::from(is_timed) * 2
    }

    fn requests(&self) -> RequestsOf {
        if self.at_risk || self.filter.held == Some(true) {
            return RequestsOf::None;
        }
        requests_of(&self.wanted)
    }

    fn beside(&self, place: Option<&ListKey>, newer: bool, limit: u32) -> BesideWanted {
        BesideWanted {
            item_type: self.wanted.item_type.clone(),
            place: place.cloned(),
            newer,
            from: self.filter.accepted_from,
            to: self.filter.accepted_to,
            limit,
        }
    }

    /// Those beside a place, of all in order.
    fn some_of(&self, keys: &[ListKey], place: Option<&ListKey>, limit: u32) -> Vec<ListKey> {
        let limit = limit as usize;
        if self.is_newer() {
            let newer = keys.iter().rev();
            let newer = newer.filter(|key| place.is_none_or(|place| *key > place));
            return newer.take(limit).cloned().collect();
        }
        let older = keys.iter();
        let older = older.filter(|key| place.is_none_or(|place| *key < place));
        older.take(limit).cloned().collect()
    }
}
