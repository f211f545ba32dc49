//! The lanes of the configuration: created with the first start, compared afterwards.

use tollgate_config::Config;
use tollgate_core::actor;
use tollgate_core::id::LaneName;
use tollgate_core::ports::{Author, Store};

/// Creates what is not there yet. What an operator has changed since stays, and the difference is logged.
pub(crate) async fn create(config: &Config, store: &dyn Store) -> anyhow::Result<()> {
    for (name, text) in &config.lanes {
        let lane = LaneName::new(name.as_str());
        match store.lane(&lane).await? {
            None => {
                let author = Author::new(actor::TOLLGATE, "[lanes] of the configuration");
                store.change_lane(&lane, text.change(), author).await?;
            }
            Some(found) => {
                if let Some(difference) = text.difference(name, &found.lane) {
                    tracing::info!("{difference}");
                }
            }
        }
    }
    Ok(())
}
