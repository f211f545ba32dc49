//! Whether ended items stay hot for as long as something still looks at them. The file is compared at the start; here is
//! what is put in force while the service runs, in both directions: other ages, and what needs them.

use std::sync::Arc;

use anyhow::bail;
use tollgate_config::{Config, TypeRetention, rule_floors};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{Store, StoreResult};
use tollgate_core::retention::Floor;
use tollgate_dispatch::ages_in_force;
use tollgate_domains::invoices::{self, Customer, Customers};
use tollgate_domains::payments::{self, RulesInForce, text_of};

/// So many customers are read at once.
const CUSTOMERS_AT_ONCE: u32 = 1000;

/// Why something that is to be put in force needs items for longer than they stay hot; nothing if it does not.
pub async fn too_long(
    store: &dyn Store,
    of: &TypeRetention,
    floors: &[Floor],
) -> StoreResult<Option<String>> {
    let item_type = &of.archived.item_type;
    let ages = ages_in_force(store, item_type, of.archived.ages).await?;
    let hot = ages.ages.hot_days;
    let longest = floors.iter().max_by_key(|floor| floor.needed);
    let longest = longest.filter(|floor| floor.days() > hot);
    Ok(longest.map(|floor| {
        let (key, least) = (&floor.key, floor.days());
        format!(
            "{key} needs hotDays of {item_type} to be at least {least}, not {hot}; raise it first with PUT /admin/item-types/{item_type}/retention"
        )
    }))
}

/// What the rules in force look back at.
pub async fn of_rules(rules: &RulesInForce) -> StoreResult<Vec<Floor>> {
    let text = match rules.setting().await? {
        Some(setting) => text_of(&setting)?,
        None => return Ok(vec![]),
    };
    Ok(rule_floors(&text.rules))
}

/// The retry schedule of a customer; none if it is the one of the configuration.
pub fn of_customer(customer: &Customer) -> Option<Floor> {
    let schedule = customer.ladder.as_ref()?;
    Some(Floor {
        key: format!("the retry schedule of customer {}", customer.customer_id),
        needed: schedule.length(),
    })
}

/// The longest retry schedule of all customers.
pub async fn of_customers(customers: &Customers) -> StoreResult<Option<Floor>> {
    let (mut longest, mut after) = (None::<Floor>, None::<String>);
    loop {
        let page = customers.list(after.as_deref(), CUSTOMERS_AT_ONCE).await?;
        let floors = page.items.iter().filter_map(of_customer);
        longest = floors.chain(longest).max_by_key(|floor| floor.needed);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(longest),
        }
    }
}

/// At the start: the ages in force are compared with the file, and with the customers, whom the file does not know.
pub async fn check(config: &Config, store: &Arc<dyn Store>) -> anyhow::Result<()> {
    for of in config.retention()? {
        let item_type: &ItemType = &of.archived.item_type;
        let mut floors = of.floors.clone();
        if *item_type == payments::item_type() {
            floors.extend(rule_floors(&config.rules));
        } else if *item_type == invoices::item_type() {
            floors.extend(of_customers(&Customers::new(Arc::clone(store))).await?);
        }
        let ages = ages_in_force(&**store, item_type, of.archived.ages).await?;
        let Some((field, why)) = ages.ages.problem(&floors) else {
            continue;
        };
        match ages.setting {
            Some(setting) => {
                let (actor, at) = (setting.author.actor, setting.created_at);
                bail!(
                    "{field} of {item_type} (changed by {actor} at {at}) {why}; restore the previous configuration, change the value, then restart"
                );
            }
            None => {
                let key = config.retention_key(item_type, field);
                bail!("{key} {why}; change the configuration, then restart");
            }
        }
    }
    Ok(())
}
