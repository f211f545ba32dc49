//! Names that must not be swapped: each is its own type, and each carries its item type along
//! where two items could otherwise meet (payment 42 and invoice 42 never do).

use std::fmt;

use serde::{Deserialize, Serialize};

/// The longest id a caller may choose.
pub const MAX_ID_CHARS: usize = 128;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// `PAYMENT`, `INVOICE`, …: which domain an item belongs to.
    ItemType
);
name!(
    /// A caller's id of an item, unique within its type.
    ItemId
);
name!(
    /// One downstream's budget; the API's `configName`.
    LaneName
);
name!(
    /// Named open hours, which lanes refer to.
    CalendarName
);
name!(
    /// A flow's id: deterministic, so that starting twice is harmless.
    FlowId
);
name!(
    /// One claim of the dispatcher: `BATCH-…`.
    BatchId
);
name!(
    /// One file of items; the API's `batchId`.
    BulkId
);
name!(
    /// One act on many items.
    JobId
);
name!(
    /// One erasure of a person's data.
    ErasureId
);

/// One item, wherever it is spoken of: the type is part of its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub item_type: ItemType,
    pub id: ItemId,
}

impl Item {
    pub fn new(item_type: &ItemType, id: &ItemId) -> Self {
        Self {
            item_type: item_type.clone(),
            id: id.clone(),
        }
    }

    /// `exec-{type}-{id}`, and `exec-{type}-{id}~{run}` from the second run on.
    pub fn exec_flow(&self, run: u32) -> FlowId {
        let kind = self.item_type.as_str().to_ascii_lowercase();
        match run {
            0 | 1 => FlowId::new(format!("exec-{kind}-{}", self.id)),
            _ => FlowId::new(format!("exec-{kind}-{}~{run}", self.id)),
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.item_type, self.id)
    }
}

impl BatchId {
    /// `exec-{type}-batch-{batch}-{part}`: the flow of some items that were claimed together.
    pub fn exec_flow(&self, item_type: &ItemType, part: usize) -> FlowId {
        let kind = item_type.as_str().to_ascii_lowercase();
        FlowId::new(format!("exec-{kind}-batch-{self}-{part}"))
    }
}

/// The token of one claim. A later claim of the same item has a higher one, and a writer that
/// holds a lower one changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(pub i64);

/// One recorded intent to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptId(pub i64);

/// One configuration of a connector, as the store knows it: its answers are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(pub i64);

/// One refusal storm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StormId(pub i64);

/// Which start of a node wrote something; a higher one has taken over from all lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub i64);

/// Why a text is not an acceptable item id; the sentence fits behind the field's name.
pub fn check_item_id(id: &str) -> Result<(), String> {
    let Some(first) = id.chars().next() else {
        return Err("must not be empty".to_owned());
    };
    if id.len() > MAX_ID_CHARS {
        return Err(format!("must have at most {MAX_ID_CHARS} characters"));
    }
    if !first.is_ascii_alphanumeric() {
        return Err("must start with a letter or digit".to_owned());
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    if !id.chars().all(allowed) {
        return Err("may only contain A-Z a-z 0-9 _ - . :".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_run_has_a_flow_id_of_its_own() {
        let item = Item::new(&ItemType::new("PAYMENT"), &ItemId::new("pay_1"));
        assert_eq!(item.exec_flow(1).as_str(), "exec-payment-pay_1");
        assert_eq!(item.exec_flow(2).as_str(), "exec-payment-pay_1~2");
    }

    #[test]
    fn ids_are_checked_from_both_ends() {
        let long = "x".repeat(129);
        for bad in ["", "-a", "a b", "a/b", "ä", "a~2", long.as_str()] {
            assert!(check_item_id(bad).is_err(), "{bad:?} was accepted");
        }
        for good in ["a", "7", "pay_001", "a.b:c-d", &"x".repeat(128)] {
            assert!(check_item_id(good).is_ok(), "{good:?} was refused");
        }
    }
}
