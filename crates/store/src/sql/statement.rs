//! The text of a statement, and where the dialects differ.
//!
//! What needs no second text: `$1` is a placeholder of both, upserts and row values are the same,
//! a flag is a condition by itself (`WHERE failed`), `CAST(sum(n) AS bigint)` is a whole number on
//! both, `CASE` says what `least` and `min` say, and `tg_now()` is the shared time on both. Locks are
//! questions of their own.

/// One text for both databases, or one for each where they need their own: another plan, or
/// something that only one of them has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sql {
    Both(&'static str),
    Each(Each),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Each {
    sqlite: &'static str,
    postgres: &'static str,
}

impl From<&'static str> for Sql {
    fn from(text: &'static str) -> Self {
        Self::Both(text)
    }
}

impl Sql {
    /// The tests of plans know whose text is whose by the order of these two.
    pub(crate) const fn each(sqlite: &'static str, postgres: &'static str) -> Self {
        Self::Each(Each { sqlite, postgres })
    }

    pub(crate) fn sqlite(self) -> &'static str {
        match self {
            Self::Both(text) => text,
            Self::Each(each) => each.sqlite,
        }
    }

    pub(crate) fn postgres(self) -> &'static str {
        match self {
            Self::Both(text) => text,
            Self::Each(each) => each.postgres,
        }
    }
}
