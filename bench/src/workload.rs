//! What can be measured, by its word on the command line, and on which store.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    Sqlite,
    Postgres,
    /// Not a store: Temporal's own database, beside PostgreSQL.
    Temporal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    W1,
    W2,
    W3,
    W4,
    W5,
    W6,
    /// W6 beside a move into the archive.
    W6Archive,
    W7,
    /// What payments cost Temporal from intake to their end.
    W7Executed,
    W8,
    /// What one payment costs.
    W9,
    /// A job over many items, and a move into the archive, beside a storm.
    W10,
    /// One part of W10.
    W10Job,
    /// The other.
    W10Archive,
    /// What ids cost that are known for years, and what they do to W1.
    Known,
    /// Records of a topic beside the same payments as a file, and a steady stream of them.
    Feeds,
    /// How much of Temporal's rate of starts is left when the dispatcher makes them.
    Starts,
    /// What open consoles cost, and how long their pages take.
    Consoles,
}

const WORDS: [(&str, Workload); 18] = [
    ("w1", Workload::W1),
    ("w2", Workload::W2),
    ("w3", Workload::W3),
    ("w4", Workload::W4),
    ("w5", Workload::W5),
    ("w6", Workload::W6),
    ("w6-archive", Workload::W6Archive),
    ("w7", Workload::W7),
    ("w7-executed", Workload::W7Executed),
    ("w8", Workload::W8),
    ("w9", Workload::W9),
    ("w10", Workload::W10),
    ("w10-job", Workload::W10Job),
    ("w10-archive", Workload::W10Archive),
    ("known", Workload::Known),
    ("feeds", Workload::Feeds),
    ("starts", Workload::Starts),
    ("consoles", Workload::Consoles),
];

impl Store {
    /// Those of its whole table.
    pub(crate) fn workloads(self) -> &'static [Workload] {
        match self {
            Self::Sqlite => &[
                Workload::W1,
                Workload::W3,
                Workload::W4,
                Workload::W5,
                Workload::W8,
                Workload::W9,
                Workload::W10,
                Workload::Known,
                Workload::Feeds,
                Workload::Consoles,
            ],
            Self::Postgres => &[
                Workload::W1,
                Workload::W2,
                Workload::W3,
                Workload::W4,
                Workload::W6,
                Workload::W6Archive,
                Workload::W9,
                Workload::W10,
                Workload::Known,
                Workload::Feeds,
            ],
            Self::Temporal => &[Workload::W7, Workload::W7Executed, Workload::Starts],
        }
    }

    pub(crate) fn measures(self, workload: Workload) -> bool {
        self.workloads().contains(&workload.whole())
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Temporal => "temporal",
        }
    }
}

impl Workload {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        let found = WORDS.iter().find(|(of, _)| *of == word);
        found.map(|(_, workload)| *workload)
    }

    pub(crate) fn word(self) -> &'static str {
        let found = WORDS.iter().find(|(_, workload)| *workload == self);
        found.map_or("", |(word, _)| word)
    }

    /// What it is a part of, or itself.
    fn whole(self) -> Self {
        match self {
            Self::W10Job | Self::W10Archive => Self::W10,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_its_word() {
        for (word, workload) in WORDS {
            assert_eq!(Workload::from_word(word), Some(workload));
            assert_eq!(workload.word(), word);
        }
        let stores = [Store::Sqlite, Store::Postgres, Store::Temporal];
        for workload in stores.iter().flat_map(|store| store.workloads()) {
            assert!(!workload.word().is_empty(), "{workload:?}");
        }
    }
}
