//! The item types of this release, of all domains.

use tollgate_core::id::ItemType;
use tollgate_core::item_type::ItemTypeConfig;
use tollgate_domains::{invoices, notifications, payments};

/// All that is executed through the queue, each with its configuration before anyone changes it.
pub fn item_types() -> [(ItemType, ItemTypeConfig); 3] {
    [
        (payments::item_type(), payments::default_config()),
        (notifications::item_type(), notifications::default_config()),
        (invoices::item_type(), invoices::default_config()),
    ]
}
