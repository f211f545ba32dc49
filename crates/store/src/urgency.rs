//! What goes before what in both stores.

/// What cannot wait behind bulk intake: turns and what follows from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    Urgent,
    Normal,
}
