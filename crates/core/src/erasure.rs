//! Erasure: a person's data go from an item that has ended; its id, amount, status and times stay. Pure: the store
//! finds the rows, and a domain knows which parts of its bodies stay.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::account::replaced_in;
use crate::archive::ArchivedItem;
use crate::id::{Item, ItemId, ItemType};
use crate::item::QueueStatus;
use crate::ports::IN_DOUBT;

/// What stands in place of a text that was erased.
pub const ERASED: &str = "[erased]";

/// The content hash of an erased item. No content has it: hashes are 64 hexadecimal digits.
pub const ERASED_HASH: &str = "erased";

/// An outstanding item may be given another time, whatever its place in the queue.
const PENDING: &str = "PENDING";

/// Of a body of this type, what stays. What it does not know goes.
pub type EraseBody = fn(&ItemType, &str) -> String;

/// What a domain knows of its bodies.
#[derive(Debug, Clone, Copy)]
pub struct BodyRules {
    pub erase: EraseBody,
    /// Whether an item of this type with this body is of this account.
    pub is_of: fn(&ItemType, &str, &str) -> bool,
    /// The payment that a notification with this body is about.
    pub payment: fn(&str) -> Option<ItemId>,
}

/// An item of the archive without a person's data, as its line is written again. Erasing it again changes nothing.
pub fn erase_archived(item: &mut ArchivedItem, at: Timestamp, erase: EraseBody) {
    let is_listed = item.counted || item.by_owner;
    item.owner = is_listed.then(String::new);
    (item.duplicate_key, item.last_error) = (None, None);
    item.content_hash = None;
    item.body = item
        .body
        .as_deref()
        .map(|body| erase(&item.item_type, body));
    item.erased_at.get_or_insert(at);
    let attempts = item.attempts.iter_mut().map(|attempt| &mut attempt.detail);
    let audit = item.audit.iter_mut().map(|entry| &mut entry.detail);
    for detail in attempts.chain(audit).filter(|detail| !detail.is_empty()) {
        ERASED.clone_into(detail);
    }
}

pub fn is_erased(content_hash: &str) -> bool {
    content_hash == ERASED_HASH
}

/// Whose data go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureWish {
    /// Of every payment to or from this account, and of every invoice of this customer.
    Account(String),
    Item(Item),
}

impl ErasureWish {
    /// Whether a text repeats what is to go; such a text must not be written down.
    pub fn is_named_in(&self, text: &str) -> bool {
        match self {
            Self::Account(account) => names(text, account),
            Self::Item(_) => false,
        }
    }
}

/// What is known of an item that an erasure has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasable {
    pub item: Item,
    pub queue_status: QueueStatus,
    pub status: String,
    pub has_ended: bool,
    pub content_hash: String,
    /// A workflow or a chunk of an import that has not ended may hold a copy of it.
    pub is_copied: bool,
}

impl Erasable {
    pub fn is_erased(&self) -> bool {
        is_erased(&self.content_hash)
    }

    /// Why it is left out.
    pub fn refusal(&self) -> Option<String> {
        let is_outstanding = [PENDING, IN_DOUBT].contains(&self.status.as_str());
        if self.is_erased() {
            return Some("it has already been erased".to_owned());
        }
        if !self.has_ended || is_outstanding {
            return Some(match self.queue_status {
                QueueStatus::Held | QueueStatus::Dead => {
                    format!("it has not ended: it is {}", self.queue_status)
                }
                _ => format!("it has not ended: it is {}", self.status),
            });
        }
        let copied = "its workflow or import has not ended; erase it again afterwards";
        self.is_copied.then(|| copied.to_owned())
    }
}

/// An item that an erasure has left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub item: Item,
    pub reason: String,
}

/// How far an erasure is. Notifications and texts come last: they are judged by which items were erased, hot or archived. Of each
/// kind the hot ones come before those in the archive, where they may be moved meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErasureStage {
    Items,
    /// The settings of a customer.
    Customer,
    /// Payments and invoices that were moved out of the hot tables, and exported files.
    Archive,
    Notifications,
    /// Those that were moved out of the hot tables, and exported files.
    ArchivedNotifications,
    Texts,
    /// What the database's own files still hold of what was deleted.
    Purge,
    Done,
}

impl ErasureStage {
    pub const ALL: [Self; 8] = [
        Self::Items,
        Self::Customer,
        Self::Archive,
        Self::Notifications,
        Self::ArchivedNotifications,
        Self::Texts,
        Self::Purge,
        Self::Done,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Items => "ITEMS",
            Self::Customer => "CUSTOMER",
            Self::Notifications => "NOTIFICATIONS",
            Self::ArchivedNotifications => "ARCHIVED_NOTIFICATIONS",
            Self::Texts => "TEXTS",
            Self::Archive => "ARCHIVE",
            Self::Purge => "PURGE",
            Self::Done => "DONE",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }

    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        let mut later = Self::ALL.into_iter().skip_while(|stage| *stage != self);
        later.nth(1).unwrap_or(Self::Done)
    }
}

/// Whether a text contains the account, as people or banks write it.
pub fn names(text: &str, account: &str) -> bool {
    without(text, account).is_some()
}

/// The text without the account; none if it does not contain it.
pub fn without(text: &str, account: &str) -> Option<String> {
    let replaced = replaced_in(text, account, ERASED);
    (replaced != text).then_some(replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Erasable {
        Erasable {
            item: Item::new(&ItemType::new("PAYMENT"), &ItemId::new("p")),
            queue_status: QueueStatus::Dispatched,
            status: "PROCESSING".into(),
            has_ended: true,
            content_hash: "0".repeat(64),
            is_copied: false,
        }
    }

    /// An item may be moved into the archive between two stages, and never back.
    #[test]
    fn of_each_kind_the_hot_ones_come_before_those_in_the_archive() {
        let mut stage = ErasureStage::Items;
        for later in [
            ErasureStage::Archive,
            ErasureStage::Notifications,
            ErasureStage::ArchivedNotifications,
            ErasureStage::Texts,
        ] {
            while stage != later {
                assert_ne!(stage, ErasureStage::Done, "{later:?} comes before");
                stage = stage.next();
            }
        }
    }

    type Change = fn(&mut Erasable);

    #[test]
    fn only_what_has_ended_is_erased_and_only_once() {
        let with = |change: fn(&mut Erasable)| {
            let mut item = ended();
            change(&mut item);
            item.refusal()
        };
        assert_eq!(with(|_| ()), None);
        let table: [(Change, &str); 5] = [
            (|it| it.has_ended = false, "is PROCESSING"),
            (|it| it.status = "IN_DOUBT".into(), "is IN_DOUBT"),
            (|it| it.status = "PENDING".into(), "is PENDING"),
            (
                |it| it.content_hash = ERASED_HASH.into(),
                "already been erased",
            ),
            (|it| it.is_copied = true, "workflow or import"),
        ];
        for (change, said) in table {
            let why = with(change).unwrap();
            assert!(why.contains(said), "{why}");
        }
        let held = with(|it| {
            it.has_ended = false;
            it.queue_status = QueueStatus::Held;
        });
        assert!(held.unwrap().contains("is HELD"));
    }

    #[test]
    fn an_account_goes_from_a_text_however_it_is_written_there() {
        let account = "DE89370400440532013000";
        let table = [
            ("DE89370400440532013000 is shut", Some("[erased] is shut")),
            (
                "de89 3704 0044 0532 0130 00 is shut",
                Some("[erased] is shut"),
            ),
            (
                r#"[{"a":"DE89370400440532013000"}]"#,
                Some(r#"[{"a":"[erased]"}]"#),
            ),
            ("nothing of it", None),
        ];
        for (text, expected) in table {
            assert_eq!(without(text, account).as_deref(), expected, "{text}");
        }
    }
}
