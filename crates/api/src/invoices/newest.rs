//! A page of invoices, the newest first, to and fro. What an index finds and is not too many is put into order as a
//! whole; everything else is looked for along the time of acceptance, in a bounded number of looks (decision 0053).

use std::collections::HashMap;

use tollgate_core::Timestamp;
use tollgate_core::id::{Item, ItemId};
use tollgate_core::ports::{
    BesideWanted, Found, FoundBy, ListKey, MOST_LOOKED_AT, MOST_SORTED, Page, PageFrom, RecordLine,
    RecordsWanted,
};

use crate::App;
use crate::answer::error::ApiError;
use crate::payments::search::MOST_LOOKS;
use crate::request::body::wrong;
use crate::request::page::Length;

pub(super) struct Newest {
    pub(super) wanted: RecordsWanted,
    pub(super) from: PageFrom<ListKey>,
}

pub(super) struct NewestPage {
    pub(super) page: Page<RecordLine, ListKey>,
    /// How far the search went, if it stopped before the page was full.
    pub(super) scanned_to: Option<Timestamp>,
    /// None if each of many would have to be looked at.
    pub(super) length: Option<Length>,
}

/// Where invoices come from.
enum Source {
    /// In order: the newest first.
    Sorted(Vec<ListKey>),
    /// All of them, along the time of acceptance.
    All,
}

/// An invoice with its place. On PostgreSQL that is the time of its body.
type Line = (ListKey, RecordLine);

impl Newest {
    /// So many keys are read at once: one more than a page shows, or enough to narrow them.
    fn look(&self) -> u32 {
        match self.wanted.status {
            None => self.wanted.limit + 1,
            Some(_) => MOST_LOOKED_AT,
        }
    }

    fn beside(&self, place: Option<&ListKey>, newer: bool, limit: u32) -> BesideWanted {
        BesideWanted {
            item_type: self.wanted.item_type.clone(),
            place: place.cloned(),
            newer,
            from: None,
            to: None,
            limit,
        }
    }
}

impl App {
    pub(super) async fn newest_invoices(&self, newest: &Newest) -> Result<NewestPage, ApiError> {
        let source = self.invoice_source(newest).await?;
        let length = self.invoice_count(newest, &source).await?;
        let most = newest.wanted.limit as usize;
        let mut found: Vec<Line> = vec![];
        let mut place = newest.from.place().cloned();
        let mut more = true;
        for _ in 0..MOST_LOOKS {
            let keys = self.invoice_keys(newest, &source, place.as_ref()).await?;
            more = keys.len() >= newest.look() as usize;
            place = keys.last().cloned().or(place);
            found.extend(self.invoice_lines(newest, keys).await?);
            if !more || found.len() > most {
                break;
            }
        }
        let is_full = found.len() > most;
        found.truncate(most);
        let stopped = place.filter(|_| more && !is_full);
        let key = |(key, _): &Line| key.clone();
        let last = found.last().map(key);
        let page = Page {
            next: if is_full { last } else { stopped.clone() },
            items: found,
            previous: None,
        };
        Ok(NewestPage {
            page: page.turned(&newest.from, key).map(|(_, line)| line),
            scanned_to: stopped.map(|place| place.at),
            length,
        })
    }

    async fn invoice_source(&self, newest: &Newest) -> Result<Source, ApiError> {
        let wanted = &newest.wanted;
        let owner = wanted.owner.clone().map(FoundBy::Owner);
        let status = wanted.status.clone().map(FoundBy::Status);
        for by in [owner, status].into_iter().flatten() {
            let is_of_owner = matches!(by, FoundBy::Owner(_));
            let kind = &wanted.item_type;
            if let Found::All(mut keys) = self.store.items_found(kind, by, MOST_SORTED).await? {
                keys.sort_unstable_by(|a, b| b.cmp(a));
                return Ok(Source::Sorted(keys));
            }
            if is_of_owner {
                let what = "has more than 10,000 invoices, which are listed with order=id only";
                return Err(wrong("customer", what));
            }
        }
        Ok(Source::All)
    }

    async fn invoice_count(
        &self,
        newest: &Newest,
        source: &Source,
    ) -> Result<Option<Length>, ApiError> {
        let has_both = newest.wanted.status.is_some() && newest.wanted.owner.is_some();
        Ok(match source {
            Source::Sorted(keys) if !has_both => Some(Length::of(keys.len() as u64)),
            Source::Sorted(keys) if keys.len() <= MOST_LOOKED_AT as usize => {
                let lines = self.invoice_lines(newest, keys.clone()).await?;
                Some(Length::of(lines.len() as u64))
            }
            Source::Sorted(_) => None,
            // More than are put into order have this status.
            Source::All if newest.wanted.status.is_some() => {
                Some(Length::of(u64::from(MOST_SORTED) + 1))
            }
            Source::All => {
                let all = newest.beside(None, false, MOST_SORTED + 1);
                let found = self.store.items_beside(all).await?.len();
                Some(Length::of(found as u64))
            }
        })
    }

    /// The next ones from a place on, nearest first.
    async fn invoice_keys(
        &self,
        newest: &Newest,
        source: &Source,
        place: Option<&ListKey>,
    ) -> Result<Vec<ListKey>, ApiError> {
        let (is_back, limit) = (newest.from.is_back(), newest.look());
        let Source::Sorted(keys) = source else {
            let wanted = newest.beside(place, is_back, limit);
            return Ok(self.store.items_beside(wanted).await?);
        };
        let limit = limit as usize;
        let keys = keys.iter();
        Ok(if is_back {
            let newer = keys.rev().filter(|key| place.is_none_or(|it| *key > it));
            newer.take(limit).cloned().collect()
        } else {
            let older = keys.filter(|key| place.is_none_or(|it| *key < it));
            older.take(limit).cloned().collect()
        })
    }

    /// Those that are wanted, in the order of their keys.
    async fn invoice_lines(
        &self,
        newest: &Newest,
        keys: Vec<ListKey>,
    ) -> Result<Vec<Line>, ApiError> {
        let kind = &newest.wanted.item_type;
        let items: Vec<Item> = keys.iter().map(|key| Item::new(kind, &key.id)).collect();
        let lines = self.store.record_lines(&items).await?;
        let status = newest.wanted.status.as_ref();
        let lines = lines.into_iter();
        let lines = lines.filter(|line| status.is_none_or(|it| *it == line.status));
        let mut lines: HashMap<ItemId, RecordLine> =
            lines.map(|line| (line.id.clone(), line)).collect();
        let line = |key: ListKey| lines.remove(&key.id).map(|line| (key, line));
        Ok(keys.into_iter().filter_map(line).collect())
    }
}
