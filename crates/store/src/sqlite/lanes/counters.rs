//! A lane's window counters during one batch: read from the table when first needed and written
//! back once, at the end.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};
use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::LaneName;
use tollgate_core::lane::Spread;
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::slot::{Counter, Counters, Place, assign};
use tollgate_core::window::Windows;

use crate::sqlite::connection::value::Us;
use crate::telemetry;

/// One lane's plan during one batch.
pub(crate) struct Plan<'c> {
    spread: Spread,
    windows: Windows,
    counters: Stored<'c>,
}

impl<'c> Plan<'c> {
    pub(crate) fn of(
        c: &'c Connection,
        lane: &LaneInForce,
        margin: Decimal,
    ) -> rusqlite::Result<Self> {
        let generation = c
            .prepare_cached("SELECT generation FROM lane_plan WHERE lane = ?1")?
            .query_row([lane.name.as_str()], |row| row.get(0))?;
        Ok(Self {
            spread: lane.lane.spread,
            windows: lane.windows(margin),
            counters: Stored {
                c,
                name: lane.name.clone(),
                generation,
                touched: HashMap::new(),
            },
        })
    }

    pub(crate) fn generation(&self) -> i64 {
        self.counters.generation
    }

    pub(crate) fn place(
        &mut self,
        from: Timestamp,
        random: u32,
    ) -> rusqlite::Result<Option<Place>> {
        let counters = &mut self.counters;
        let place = assign(&self.windows, self.spread, from, random, counters)?;
        telemetry::placed(&self.windows, from, place.as_ref());
        Ok(place)
    }

    pub(crate) fn write_back(self) -> rusqlite::Result<()> {
        let Stored {
            c,
            name,
            generation,
            touched,
        } = self.counters;
        let mut upsert = c.prepare_cached(
            "INSERT INTO lane_window (lane, generation, window_start, used, next_open)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (lane, generation, window_start)
             DO UPDATE SET used = excluded.used, next_open = excluded.next_open",
        )?;
        for (window, (counter, changed)) in touched {
            if changed {
                let next_open = counter.next_open.map(Us);
                let used = counter.used;
                upsert.execute(params![
                    name.as_str(),
                    generation,
                    Us(window),
                    used,
                    next_open
                ])?;
            }
        }
        Ok(())
    }
}

struct Stored<'c> {
    c: &'c Connection,
    name: LaneName,
    generation: i64,
    touched: HashMap<Timestamp, (Counter, bool)>,
}

impl Counters for Stored<'_> {
    type Error = rusqlite::Error;

    fn get(&mut self, window: Timestamp) -> rusqlite::Result<Counter> {
        if let Some((counter, _)) = self.touched.get(&window) {
            return Ok(*counter);
        }
        let key = params![self.name.as_str(), self.generation, Us(window)];
        let stored = self
            .c
            .prepare_cached(
                "SELECT used, next_open FROM lane_window
                 WHERE lane = ?1 AND generation = ?2 AND window_start = ?3",
            )?
            .query_row(key, |row| {
                let next_open = row.get::<_, Option<Us>>(1)?.map(|us| us.0);
                Ok(Counter {
                    used: row.get(0)?,
                    next_open,
                })
            })
            .optional()?
            .unwrap_or_default();
        self.touched.insert(window, (stored, false));
        Ok(stored)
    }

    fn set(&mut self, window: Timestamp, counter: Counter) {
        self.touched.insert(window, (counter, true));
    }
}
