//! The service that moves ended payments into the archive, in the process that makes claims.

use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::sync::watch;
use tollgate_core::retention::Ages;
use tollgate_dispatch::{ArchivedType, Archiver, OldAges};
use tollgate_domains::payments::item_type;

use super::{claims, target};
use crate::ended::{HOT_DAYS, STAY_DAYS};
use crate::process::PACE;
use crate::sample::Sample;

/// Longer than any benchmark takes.
const NEVER: Duration = Duration::from_hours(24 * 365);
/// Looks at whether it has begun, at most.
const LOOKS: u32 = 1200;

/// W6 while it moves.
pub(super) async fn beside(url: &str, claims: u32) -> Result<Sample> {
    let before = moved(url).await?;
    let (stop, stopped) = watch::channel(false);
    let mover = tokio::spawn(archiver(url).await?.run(stopped));
    begun(url, before).await?;
    let from = moved(url).await?;
    let sample = claims::measure(url, false, claims).await?;
    let meanwhile = moved(url).await? - from;
    stop.send(true)?;
    mover.await?;
    ensure!(meanwhile > 0, "nothing was moved meanwhile");
    Ok(Sample {
        moved: Some(u32::try_from(meanwhile)?),
        ..sample
    })
}

async fn archiver(url: &str) -> Result<Archiver> {
    let payments = ArchivedType {
        item_type: item_type(),
        ages: Ages {
            hot_days: HOT_DAYS,
            archive_days: STAY_DAYS,
            known_years: 10,
        },
        remembered: true,
    };
    let old = OldAges {
        refused: NEVER,
        imports: NEVER,
        jobs: NEVER,
    };
    Ok(Archiver::new(target::open(url).await?, vec![payments], old))
}

async fn begun(url: &str, before: i64) -> Result<()> {
    for _ in 0..LOOKS {
        if moved(url).await? > before {
            return Ok(());
        }
        tokio::time::sleep(PACE).await;
    }
    anyhow::bail!("the move does not begin")
}

async fn moved(url: &str) -> Result<i64> {
    let client = target::connect(url).await?;
    let count = "SELECT count(*) FROM known_item";
    Ok(client.query_one(count, &[]).await?.get(0))
}
