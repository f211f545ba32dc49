//! The limit of W1 and W4: the rows that admission writes, by COPY in one transaction. Slots are
//! placed and rows are written down while the watch stands still.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::pin::pin;

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::Client;
use tollgate_core::Timestamp;
use tollgate_core::gate::DEFAULT_MARGIN;
use tollgate_core::open_time::OpenTime;
use tollgate_core::ports::NewItem;
use tollgate_core::slot::{Counter, Place, assign};
use tollgate_core::window::Windows;
use tollgate_domains::payments::item_type;

use super::target;
use crate::measure::rows::last_over_first;
use crate::measure::target as lanes;
use crate::sample::Sample;
use crate::stopwatch::{Lap, Stopwatch};

/// Any time will do; rows are as long with every time of our century.
const CREATED_AT: i64 = 1_800_000_000_000_000;

const BODIES: &str = "COPY item_body (item_type, item_id, content_hash, body, init_workflow_id)
     FROM STDIN";
const ITEMS: &str = "COPY item_queue (item_type, item_id, lane, currency, amount_minor, created_at,
     requested_time, window_start, scheduled_time, generation, queue_status, status, updated_at,
     scheduled_exec_time, run, fence, retry_count) FROM STDIN";
const WINDOWS: &str =
    "COPY lane_window (lane, generation, window_start, used, next_open) FROM STDIN";

pub(super) async fn measure(
    url: &str,
    batches: impl Iterator<Item = Result<Vec<NewItem>>>,
    count: u32,
) -> Result<Sample> {
    let client = target::connect(url).await?;
    let lane = lanes::lane()?;
    let windows = Windows::of(&lane, DEFAULT_MARGIN, OpenTime::default());
    let mut counters: BTreeMap<Timestamp, Counter> = BTreeMap::new();

    let mut watch = Stopwatch::default();
    let mut ends = Vec::new();
    client.batch_execute("BEGIN").await?;
    for batch in batches {
        let mut text = Text::default();
        for item in batch? {
            let from = item.requested.context("every item has its time")?;
            let Ok(place) = assign(&windows, lane.spread, from, 0, &mut counters);
            text.add(&item, from, &place.context("the lane is always open")?)?;
        }
        let lap = Lap::begin()?;
        text.copy(&client).await?;
        lap.end(&mut watch)?;
        ends.push(watch.wall());
    }
    let counters = counter_text(&counters)?;
    let lap = Lap::begin()?;
    copy(&client, WINDOWS, counters).await?;
    client.batch_execute("COMMIT").await?;
    lap.end(&mut watch)?;

    let sample = watch.sample(count)?;
    target::check_rows(url, "SELECT count(*) FROM item_queue", count).await?;
    Ok(Sample {
        last_over_first: last_over_first(&ends),
        ..sample
    })
}

/// The rows of a batch, table by table, as COPY reads them.
#[derive(Default)]
struct Text {
    bodies: String,
    items: String,
}

impl Text {
    fn add(&mut self, item: &NewItem, requested: Timestamp, place: &Place) -> Result<()> {
        let (kind, id, lane) = (item_type(), item.id.as_str(), item.lane.as_str());
        let (hash, status) = (&item.record.content_hash, &item.record.status);
        let (body, flow) = (escaped(&item.body), &item.init_flow);
        writeln!(self.bodies, "{kind}\t{id}\t{hash}\t{body}\t{flow}")?;
        let (minor, currency) = (item.record.money.minor, item.record.money.currency.code());
        let (window, requested) = (place.window.as_microsecond(), requested.as_microsecond());
        let scheduled = place.scheduled.as_microsecond();
        writeln!(
            self.items,
            "{kind}\t{id}\t{lane}\t{currency}\t{minor}\t{CREATED_AT}\t{requested}\t{window}\t\
             {scheduled}\t0\tREADY\t{status}\t{CREATED_AT}\t{scheduled}\t1\t0\t0"
        )?;
        Ok(())
    }

    async fn copy(self, client: &Client) -> Result<()> {
        copy(client, BODIES, self.bodies).await?;
        copy(client, ITEMS, self.items).await
    }
}

async fn copy(client: &Client, sql: &str, text: String) -> Result<()> {
    let mut sink = pin!(client.copy_in::<_, Bytes>(sql).await?);
    sink.send(Bytes::from(text)).await?;
    sink.finish().await?;
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\t', "\\t")
        .replace('\n', "\\n")
}

fn counter_text(counters: &BTreeMap<Timestamp, Counter>) -> Result<String> {
    let (mut text, lane) = (String::new(), lanes::lane_name());
    for (window, counter) in counters {
        let next = counter.next_open.map(Timestamp::as_microsecond);
        let next = next.map_or("\\N".to_owned(), |next| next.to_string());
        let window = window.as_microsecond();
        writeln!(text, "{lane}\t0\t{window}\t{}\t{next}", counter.used)?;
    }
    Ok(text)
}
