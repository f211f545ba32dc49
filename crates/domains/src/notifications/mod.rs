//! Notifications: one item per event and receiver, in lanes of their own. Telling somebody what
//! became of a payment can fail, hang or wait for days; the payment never waits for it.

mod exec;
mod moves;
mod news;
mod patience;

use std::collections::BTreeMap;
use std::sync::Arc;

use rust_decimal::Decimal;
use tollgate_core::flow::{Flow, Registrar};
use tollgate_core::id::{Item, ItemId, ItemType, LaneName};
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_core::lane::LaneChange;
use tollgate_core::ports::Store;
use tollgate_dispatch::{Executes, Sender, register_batch};

pub use exec::{Deliver, Delivery, NotificationExecFlow};
pub use moves::{FURTHER_EVENTS, FurtherNews};
pub use news::{Event, News, news_id};
pub use patience::{AT_LEAST_FOR, PAUSES};

pub const EXEC_TASK_QUEUE: &str = "notification-exec-task-queue";
/// Each receiver costs every payment one more item, and may hold up to 132 flows while it hangs
/// (two seconds of its lane's limit, and its connections): four leave half the engine to payments.
pub const MAX_RECEIVERS: usize = 4;

/// The statuses of a notification's record.
pub const PENDING: &str = "PENDING";
pub const DELIVERED: &str = "DELIVERED";
/// The receiver wants no more of it.
pub const REFUSED: &str = "REFUSED";
/// What it announced was undone before it was sent.
pub const WITHDRAWN: &str = "WITHDRAWN";

pub fn item_type() -> ItemType {
    ItemType::new("NOTIFICATION")
}

pub fn item(id: &ItemId) -> Item {
    Item::new(&item_type(), id)
}

/// A receiver, as whoever queues notifications knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receiver {
    /// `host:port/path`: its name, here and in what is kept of its notifications.
    pub place: String,
    pub lane: LaneName,
}

/// What the steps of this domain need.
pub struct Notifications {
    pub store: Arc<dyn Store>,
    /// How each receiver is reached, by its place.
    pub receivers: BTreeMap<String, Sender>,
}

impl std::fmt::Debug for Notifications {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifications")
            .field("receivers", &self.receivers)
            .finish_non_exhaustive()
    }
}

/// The whole domain, for either engine.
pub fn register(registrar: &mut impl Registrar, world: &Arc<Notifications>) {
    registrar
        .flow::<NotificationExecFlow>()
        .step::<Deliver>(world);
    register_batch(registrar, world);
}

/// The item type's configuration as it is before anyone changes it. Nothing is claimed ahead of
/// its time, so that few flows wait for a receiver that hangs.
pub fn default_config() -> ItemTypeConfig {
    ItemTypeConfig {
        exec_workflow_type: NotificationExecFlow::NAME.to_owned(),
        exec_batch_workflow_type: Notifications::BATCH_FLOW.to_owned(),
        exec_task_queue: EXEC_TASK_QUEUE.to_owned(),
        pre_start_buffer_mins: Decimal::ZERO,
        jitter_window_ms: 1000,
        ..ItemTypeConfig::default()
    }
}

/// The lane of all receivers on one host: each host is a downstream of its own, and one that hangs
/// closes no other's lane.
pub fn lane_of(host: &str) -> LaneName {
    LaneName::new(format!("notifications-{host}"))
}

/// A receiver's lane as it is created: it keeps up with a bank that takes 49 a second.
pub fn default_lane() -> LaneChange {
    LaneChange {
        max_per_window: Some(200),
        window_size_secs: Some(4),
        max_per_second: Some(Decimal::from(50)),
        ..LaneChange::default()
    }
}
