//! `[lanes.NAME]`: lanes that the first start creates. Afterwards a lane is a runtime setting, and the store's word counts.

use rust_decimal::Decimal;
use serde::Deserialize;
use tollgate_core::id::check_item_id;
use tollgate_core::lane::{Lane, LaneChange};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneText {
    pub max_per_window: u32,
    pub window_size_secs: u32,
    /// Twice the planned rate if it is left out.
    pub max_per_second: Option<Decimal>,
}

impl LaneText {
    pub fn change(&self) -> LaneChange {
        LaneChange {
            max_per_window: Some(self.max_per_window),
            window_size_secs: Some(self.window_size_secs),
            max_per_second: self.max_per_second,
            ..LaneChange::default()
        }
    }

    pub(crate) fn validate(&self, name: &str) -> anyhow::Result<()> {
        check_item_id(name).map_err(|why| anyhow::anyhow!("lanes.{name}: a lane's name {why}"))?;
        let made = Lane::changed(None, self.change());
        made.map(drop)
            .map_err(|why| anyhow::anyhow!("lanes.{name}: {why}"))
    }

    /// What the store says otherwise.
    pub fn difference(&self, name: &str, lane: &Lane) -> Option<String> {
        let per_second = self.max_per_second.unwrap_or(lane.max_per_second);
        let same = self.max_per_window == lane.max_per_window
            && self.window_size_secs == lane.window_size_secs
            && per_second == lane.max_per_second;
        (!same).then(|| {
            format!(
                "lanes.{name}: the file says {} per {} s and at most {per_second} a second, the store {} per {} s and at most {} a second; the store's values apply (change them with: tollgate lanes set {name})",
                self.max_per_window,
                self.window_size_secs,
                lane.max_per_window,
                lane.window_size_secs,
                lane.max_per_second,
            )
        })
    }
}
