//! Feeds on PostgreSQL and the embedded engine.

use anyhow::Result;

use super::Plan;
use crate::feeds::{Stores, report, round};

pub(super) async fn section(plan: &Plan<'_>) -> Result<String> {
    let mut rounds = vec![];
    for _ in 0..plan.rounds {
        let stores = Stores {
            random: [plan.server.database().await, plan.server.database().await],
            ascending: [plan.server.database().await, plan.server.database().await],
        };
        let (size, folder, on) = (plan.size, plan.scratch.folder()?, stores.clone());
        let measured = tokio::task::spawn_blocking(move || round(size, &on, folder.path()));
        rounds.push(measured.await??);
        for url in stores.random.into_iter().chain(stores.ascending) {
            plan.server.drop_database(&url).await;
        }
    }
    Ok(report::section(plan.size, &rounds))
}
