//! Feeds on PostgreSQL and the embedded engine.

use anyhow::Result;

use super::Plan;
use crate::feeds::{Stores, report, round};

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let mut rounds = vec![];
    for _ in 0..plan.rounds {
        let stores = Stores {
            file: plan.server.database().await,
            feed: plan.server.database().await,
            steady: plan.server.database().await,
        };
        let (size, folder, on) = (plan.size, plan.scratch.folder()?, stores.clone());
        let measured = tokio::task::spawn_blocking(move || round(size, &on, folder.path()));
        rounds.push(measured.await??);
        for url in [stores.file, stores.feed, stores.steady] {
            plan.server.drop_database(&url).await;
        }
    }
    Ok(report::section(plan.size, &rounds))
}
