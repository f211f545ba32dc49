//! What needs a person, of every kind, for the API, the console and the gauges: read once for all who ask, and at
//! most a second before it is told.

pub mod advice;
mod archive;
mod erasures;
mod feeds;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::gauge;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rust_decimal::prelude::ToPrimitive;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tollgate_config::{Config, TypeRetention};
use tollgate_core::Timestamp;
use tollgate_core::id::ItemType;
use tollgate_core::lane_in_force::{LaneInForce, LaneState};
use tollgate_core::ports::{Need, Pile, Seen, Store, StoreResult, Worklists, WorklistsAsked};
use tollgate_dispatch::{Every, Forecaster, SwitchedOff, switched_off};
use tollgate_domains::{invoices, notifications, payments};

use crate::archive::{Exports, exports};
use crate::grouped;
use crate::item_types;
use crate::nodes::Nodes;

pub use advice::advice;

/// A look is good for so long.
const FRESH: Duration = Duration::from_secs(1);
/// How often the gauges are set.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Gauges that are not 0 because somebody has seen it: the disk is as full as before.
const WHETHER_OR_NOT_SEEN: [(&str, Need); 3] = [
    ("tollgate_archive_days_in_trouble", Need::ArchiveTroubled),
    ("tollgate_archive_days_overdue", Need::ArchiveOverdue),
    ("tollgate_erasures_in_trouble", Need::ErasuresStuck),
];
/// At most this many lanes are named one by one.
const MOST_NAMED: usize = 20;

/// Everything that needs a person at one moment.
#[derive(Debug)]
pub struct Needs {
    pub as_of: Timestamp,
    /// The most urgent first, what was seen included.
    pub all: Vec<Needed>,
    pub switches: Vec<KillSwitch>,
}

impl Needs {
    pub fn of(&self, kind: Need) -> Option<&Needed> {
        self.all.iter().find(|needed| needed.kind == kind)
    }
}

/// One kind of it.
#[derive(Debug)]
pub struct Needed {
    pub kind: Need,
    pub pile: Pile,
    /// Each of a few, in a sentence.
    pub named: Vec<Named>,
    /// A person has seen as many of them.
    pub seen: Option<Seen>,
}

impl Needed {
    pub fn is_open(&self) -> bool {
        self.seen.is_none()
    }
}

#[derive(Debug)]
pub struct Named {
    pub name: String,
    pub what: String,
}

/// An item type that is switched off.
#[derive(Debug)]
pub struct KillSwitch {
    pub item_type: ItemType,
    pub off: SwitchedOff,
}

pub struct NeedsYou {
    store: Arc<dyn Store>,
    forecaster: Arc<Forecaster>,
    /// Where a standby is wanted.
    nodes: Option<Nodes>,
    exports: Exports,
    retention: Vec<TypeRetention>,
    last: Mutex<Option<Looked>>,
    /// How often people have acted: a look from before is not told any more.
    acts: AtomicU64,
}

impl std::fmt::Debug for NeedsYou {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NeedsYou").finish_non_exhaustive()
    }
}

struct Looked {
    at: Instant,
    acts: u64,
    needs: Arc<Needs>,
}

impl NeedsYou {
    pub fn new(
        config: &Config,
        store: &Arc<dyn Store>,
        forecaster: &Arc<Forecaster>,
        nodes: Option<Nodes>,
    ) -> Self {
        Self {
            store: Arc::clone(store),
            forecaster: Arc::clone(forecaster),
            nodes,
            exports: exports(config, store),
            retention: config.retention().unwrap_or_default(),
            last: Mutex::default(),
            acts: AtomicU64::default(),
        }
    }

    /// The last look if it is fresh, else a new one. Others who ask meanwhile wait for it.
    pub async fn now(&self) -> StoreResult<Arc<Needs>> {
        let mut last = self.last.lock().await;
        let acts = self.acts.load(Ordering::SeqCst);
        if let Some(looked) = &*last
            && looked.at.elapsed() < FRESH
            && looked.acts == acts
        {
            return Ok(Arc::clone(&looked.needs));
        }
        let at = Instant::now();
        let needs = Arc::new(self.look().await?);
        *last = Some(Looked {
            at,
            acts,
            needs: Arc::clone(&needs),
        });
        Ok(needs)
    }

    /// After something has changed by a person's act. Nobody waits for a look here.
    pub fn forget(&self) {
        self.acts.fetch_add(1, Ordering::SeqCst);
    }

    async fn look(&self) -> StoreResult<Needs> {
        let asked = WorklistsAsked {
            money: vec![payments::item_type(), invoices::item_type()],
            payments: payments::item_type(),
            notifications: notifications::item_type(),
        };
        let lists = self.store.worklists(asked).await?;
        let (as_of, seen) = (lists.now, lists.seen.clone());
        let mut switches = vec![];
        for (item_type, _) in item_types() {
            let off = switched_off(&*self.store, &item_type).await?;
            switches.extend(off.map(|off| KillSwitch { item_type, off }));
        }
        let mut all = self.of_lanes(as_of).await?;
        all.push(of_switches(&switches));
        all.extend(of_lists(lists));
        all.extend(self.of_nodes());
        all.extend(feeds::look(&*self.store, &seen, as_of).await?);
        all.push(archive::look(&*self.store).await?);
        let overdue = self.exports.overdue(&self.retention).await?;
        all.push(archive::overdue(&overdue));
        all.push(erasures::look(&*self.store).await?);
        for needed in &mut all {
            needed.seen = self.seen(needed, &seen).await;
        }
        all.retain(|needed| needed.pile.count > 0);
        all.sort_by_key(|needed| needed.kind);
        Ok(Needs {
            as_of,
            all,
            switches,
        })
    }

    /// What a person has seen of it, if there is no more than that. Fewer than were seen are noted, so that the next
    /// one more is new.
    async fn seen(&self, needed: &Needed, seen: &[Seen]) -> Option<Seen> {
        let seen = seen.iter().find(|seen| seen.kind == needed.kind)?;
        let count = needed.pile.count;
        if needed.kind.is_past() {
            return None;
        }
        if count < seen.count
            && let Err(error) = self.store.lower_seen(needed.kind, count).await
        {
            tracing::warn!(%error, "the count that was marked as seen could not be lowered");
        }
        needed.pile.is_covered_by(seen).then(|| seen.clone())
    }

    async fn of_lanes(&self, now: Timestamp) -> StoreResult<Vec<Needed>> {
        let (mut storms, mut paused) = (needed(Need::RefusalStorms), needed(Need::LanesPaused));
        let (mut shut, mut deadlines) = (needed(Need::LanesClosed), needed(Need::DeadlinesAtRisk));
        for lane in self.store.lanes().await? {
            let Some(forecast) = self.forecaster.lane_as_in(&lane).await? else {
                continue;
            };
            let at_risk = self.forecaster.late(&lane.name).await?.at_risk;
            if at_risk.count > 0 {
                deadlines.note(&lane, first_of(&lane, &at_risk), at_risk);
            }
            let Some((why, since)) = stopped(&lane, now) else {
                continue;
            };
            let list = if lane.storm.is_some() {
                &mut storms
            } else if is_paused(&lane, now) {
                &mut paused
            } else {
                &mut shut
            };
            let waiting = grouped(forecast.waiting);
            let one = Pile {
                newest: since,
                ..Pile::of(1, since)
            };
            list.note(&lane, format!("{why}; {waiting} waiting"), one);
        }
        Ok(vec![storms, paused, shut, deadlines])
    }

    fn of_nodes(&self) -> Option<Needed> {
        let seen = self.nodes.as_ref()?.seen();
        // Without an epoch nothing is known of the others yet, or nobody else can be there.
        let is_alone = seen.epoch.is_some() && seen.standbys() == 0;
        Some(Needed {
            pile: Pile::of(u64::from(is_alone), None),
            ..needed(Need::NoStandby)
        })
    }
}

/// Keeps the gauges up to date until told to stop.
pub async fn measure(needs_you: Arc<NeedsYou>, stop: watch::Receiver<bool>) {
    let mut every = Every::new(MEASURE_EVERY, stop);
    let look = async || match needs_you.now().await {
        Ok(needs) => set_gauges(&needs),
        Err(error) => {
            tracing::warn!(%error, "what needs attention could not be counted");
            // Not 0, and not what it was: nobody knows.
            for kind in Need::ALL {
                gauge!("tollgate_needs_you", "kind" => kind.as_str()).set(f64::NAN);
            }
            for (name, _) in WHETHER_OR_NOT_SEEN {
                gauge!(name).set(f64::NAN);
            }
        }
    };
    while every.once(look()).await {}
}

fn set_gauges(needs: &Needs) {
    for kind in Need::ALL {
        let open = needs.of(kind).filter(|needed| needed.is_open());
        let count = open.map_or(0, |needed| needed.pile.count);
        gauge!("tollgate_needs_you", "kind" => kind.as_str()).set(count.to_f64().unwrap_or(0.0));
    }
    for (name, kind) in WHETHER_OR_NOT_SEEN {
        let count = needs.of(kind).map_or(0, |needed| needed.pile.count);
        gauge!(name).set(count.to_f64().unwrap_or(0.0));
    }
}

fn needed(kind: Need) -> Needed {
    Needed {
        kind,
        pile: Pile::default(),
        named: vec![],
        seen: None,
    }
}

impl Needed {
    /// Page of the console where something is done about it.
    pub fn page(&self) -> String {
        let of_lanes = matches!(
            self.kind,
            Need::RefusalStorms | Need::LanesPaused | Need::LanesClosed | Need::DeadlinesAtRisk
        );
        match &self.named[..] {
            [lane] if of_lanes => {
                let lane = utf8_percent_encode(&lane.name, NON_ALPHANUMERIC);
                let is_cured_there = self.kind == Need::DeadlinesAtRisk;
                let act = if is_cured_there { "/adjust" } else { "" };
                format!("/console/lanes/{lane}{act}")
            }
            _ => match &self.pile.by_type[..] {
                // The page of a worklist begins with payments.
                [(only, _)] if *only != payments::item_type() => {
                    format!("{}?type={only}", advice(self.kind).console)
                }
                _ => advice(self.kind).console.to_owned(),
            },
        }
    }

    fn note(&mut self, lane: &LaneInForce, what: String, pile: Pile) {
        if self.named.len() < MOST_NAMED {
            let name = lane.name.to_string();
            self.named.push(Named { name, what });
        }
        self.pile = std::mem::take(&mut self.pile).with(pile);
    }
}

fn first_of(lane: &LaneInForce, at_risk: &Pile) -> String {
    let first = at_risk.oldest.map(|at| format!(", first deadline {at}"));
    let (name, count) = (&lane.name, grouped(at_risk.count));
    format!(
        "lane \"{name}\": {count} at risk{}",
        first.unwrap_or_default()
    )
}

fn is_paused(lane: &LaneInForce, now: Timestamp) -> bool {
    lane.pause().is_some_and(|pause| pause.holds_at(now))
}

/// Why a lane sends nothing, and since when, unless its calendar says that it opens again.
fn stopped(lane: &LaneInForce, now: Timestamp) -> Option<(String, Option<Timestamp>)> {
    let LaneState::Closed { why, until } = lane.state(now) else {
        return None;
    };
    let pause = lane.pause().filter(|pause| pause.holds_at(now));
    let is_closed = lane.closed_until.is_some_and(|until| until > now);
    let by_calendar = pause.is_none() && !is_closed && until.is_some();
    let since = pause.and_then(|pause| pause.from.max(pause.since));
    let until = until.map_or_else(String::new, |until| format!(" until {until}"));
    (!by_calendar).then(|| (format!("{why}{until}"), since))
}

fn of_switches(switches: &[KillSwitch]) -> Needed {
    let named = |switch: &KillSwitch| Named {
        name: switch.item_type.to_string(),
        what: switch.off.sentence(&switch.item_type),
    };
    let since = || switches.iter().map(|switch| switch.off.since);
    Needed {
        pile: Pile {
            newest: since().max(),
            ..Pile::of(switches.len() as u64, since().min())
        },
        named: switches.iter().map(named).collect(),
        ..needed(Need::KillSwitches)
    }
}

/// Where there are several types, each with its number.
fn of_types(pile: &Pile) -> Vec<Named> {
    let several = pile.by_type.iter().filter(|_| pile.by_type.len() > 1);
    let named = several.map(|(item_type, count)| Named {
        name: item_type.to_string(),
        what: format!("{} of type {item_type}", grouped(*count)),
    });
    named.collect()
}

fn of_lists(lists: Worklists) -> Vec<Needed> {
    let imports = (lists.rejected_lines > 0).then(|| Named {
        name: "lines".to_owned(),
        what: match lists.rejected_lines {
            1 => "1 rejected line".to_owned(),
            more => format!("{} rejected lines", grouped(more)),
        },
    });
    let chunks = (lists.chunks > 0).then(|| Named {
        name: "imports".to_owned(),
        what: format!("including {} chunks of imports", grouped(lists.chunks)),
    });
    let piles = [
        (Need::Held, lists.held, None),
        (Need::InDoubt, lists.in_doubt, None),
        (Need::DeadLetters, lists.dead, None),
        (Need::NotPlanned, lists.not_planned, chunks),
        (
            Need::NotificationsFailing,
            lists.failing_notifications,
            None,
        ),
        (Need::AnswersDiffer, lists.differing, None),
        (Need::ImportsRejected, lists.rejected_imports, imports),
    ];
    let with = |(kind, pile, named): (Need, Pile, Option<Named>)| Needed {
        named: named.into_iter().chain(of_types(&pile)).collect(),
        pile,
        ..needed(kind)
    };
    piles.into_iter().map(with).collect()
}
