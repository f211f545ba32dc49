//! W4, continued: everything that waits is placed anew after the limit was doubled, a thousand at a
//! time. What counts is how long one step holds the plan, and that memory does not grow.

use anyhow::{Result, ensure};
use tollgate_core::id::ItemType;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::{Author, Lanes, Plans};
use tollgate_domains::payments::item_type;

use super::target::{lane, lane_name};
use crate::sample::{Latency, Sample};
use crate::stopwatch::Lap;

const STEP: u32 = 1000;

pub(crate) async fn measure(store: &(impl Lanes + Plans), count: u32) -> Result<Sample> {
    let (name, author) = (lane_name(), || Author::new("bench", "twice as fast"));
    let before = lane()?;
    let change = LaneChange {
        max_per_window: Some(before.max_per_window * 2),
        max_per_second: Some(before.max_per_second * rust_decimal::Decimal::TWO),
        ..LaneChange::default()
    };
    store.change_lane(&name, change, author()).await?;
    let (kind, lap): (ItemType, Lap) = (item_type(), Lap::begin()?);
    let generation = store.begin_replan(&name, author()).await?;
    let (mut after, mut placed, mut steps_ms) = (None, 0, vec![]);
    loop {
        let step = Lap::begin()?;
        let page = store
            .replan_some(&name, &kind, generation, after, STEP)
            .await?;
        steps_ms.push(step.wall().as_secs_f64() * 1000.0);
        let Some(last) = page.last() else { break };
        after = Some(last.item.spot());
        placed += page.len();
    }
    store
        .end_replan(&name, generation, "measured".into(), author())
        .await?;
    ensure!(placed == usize::try_from(count)?, "{placed} were placed");
    steps_ms.sort_by(f64::total_cmp);
    let at = |share: usize| steps_ms[(steps_ms.len() - 1) * share / 100];
    Ok(Sample {
        latency: Some(Latency {
            p50_ms: at(50),
            p99_ms: at(99),
        }),
        longest_ms: Some(at(100)),
        ..lap.sample(count)?
    })
}
