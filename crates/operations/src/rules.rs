//! Putting the rules of the configuration in force, at the start and by a reload. Rules that would stop
//! many payments that wait ask first: each of those would need a person, or be gone.

use std::sync::Arc;

use anyhow::bail;
use tollgate_config::Config;
use tollgate_core::actor;
use tollgate_core::ports::{Author, Store};
use tollgate_domains::invoices::ChecksInForce;
use tollgate_domains::payments::{Bank, Routes, RulesEffect, RulesError, RulesInForce, RulesText};

/// Rules that would stop more payments than this need a confirmation.
pub(crate) const STOPS_UNCONFIRMED: u64 = 100;

/// The rules of the configuration are in force from here on, if they were not before.
pub async fn in_force(
    config: &Config,
    store: &Arc<dyn Store>,
    routes: &Routes<Bank>,
) -> anyhow::Result<Arc<RulesInForce>> {
    let rules = RulesInForce::new(Arc::clone(store), routes.gateway_names());
    let text = config.rules_text();
    let effect = effect(&rules, &text, &**store).await?;
    if let (Some(why), false) = (asks_first(&effect), config.confirm_rules) {
        bail!("{why}; start with --confirm-rules, or restore the previous rules");
    }
    let author = Author::new(actor::CONFIGURATION, "read at startup");
    if let Some(setting) = rules.put(&text, author).await? {
        tracing::info!(
            version = setting.version,
            held = effect.held,
            rejected = effect.rejected,
            "new rules and routes are in force; number of waiting payments that they will stop"
        );
    }
    Ok(Arc::new(rules))
}

/// The checks of the configuration are in force from here on, if they were not before.
pub async fn checks_in_force(
    config: &Config,
    store: &Arc<dyn Store>,
) -> anyhow::Result<Arc<ChecksInForce>> {
    let checks = ChecksInForce::new(Arc::clone(store));
    let author = Author::new(actor::CONFIGURATION, "read at startup");
    if let Some(setting) = checks.put(&config.invoices.checks, author).await? {
        tracing::info!(
            version = setting.version,
            "new checks of invoices are in force"
        );
    }
    Ok(Arc::new(checks))
}

/// What rules would do to what waits; nothing if they are in force already.
pub async fn effect(
    rules: &RulesInForce,
    text: &RulesText,
    store: &dyn Store,
) -> Result<RulesEffect, RulesError> {
    let book = rules.read(text, 0)?;
    if rules.is_in_force(text).await? {
        return Ok(RulesEffect::default());
    }
    Ok(RulesEffect::of(&book, store).await?)
}

/// Why rules are not put in force without a confirmation.
pub fn asks_first(effect: &RulesEffect) -> Option<String> {
    let RulesEffect { held, rejected, .. } = effect;
    (effect.stopped() > STOPS_UNCONFIRMED)
        .then(|| format!("the new rules would hold {held} and reject {rejected} waiting payments"))
}
