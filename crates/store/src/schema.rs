//! Whether the schema of a database is the one that this build makes.

use std::collections::BTreeMap;

use refinery::{Migration, Runner};

/// What is said of one that another build has made.
pub(crate) const MADE_BY_ANOTHER_BUILD: &str = "was created by another build of the same version of tollgate; start that build, or, before the first release, create the database again";

/// The checksum of each migration, by its number.
pub(crate) type Sums = BTreeMap<i64, String>;

pub(crate) fn ours(runner: &Runner) -> Sums {
    let sum = |m: &Migration| (i64::from(m.version()), m.checksum().to_string());
    runner.get_migrations().iter().map(sum).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    UpToDate,
    /// Some of our migrations are missing, or all.
    Behind,
    /// It holds a migration that this release does not know.
    Newer,
    /// A migration of the same number had another content.
    Another,
}

impl Schema {
    pub(crate) fn judge(ours: &Sums, theirs: &Sums) -> Self {
        let newest = |sums: &Sums| sums.last_key_value().map(|(version, _)| *version);
        let differs = |(version, sum): (&i64, &String)| ours.get(version) != Some(sum);
        if newest(theirs) > newest(ours) {
            Self::Newer
        } else if theirs.iter().any(differs) {
            Self::Another
        } else if theirs.len() < ours.len() {
            Self::Behind
        } else {
            Self::UpToDate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_known_by_the_contents_of_its_migrations() {
        let sums = |sums: &[(i64, &str)]| -> Sums {
            let owned = sums.iter().map(|(n, sum)| (*n, (*sum).to_owned()));
            owned.collect()
        };
        let ours = sums(&[(1, "a"), (2, "b")]);
        let table: [(&[_], _); 6] = [
            (&[], Schema::Behind),
            (&[(1, "a")], Schema::Behind),
            (&[(1, "a"), (2, "b")], Schema::UpToDate),
            (&[(1, "x")], Schema::Another),
            (&[(1, "a"), (2, "x")], Schema::Another),
            (&[(1, "a"), (2, "b"), (3, "c")], Schema::Newer),
        ];
        for (theirs, expected) in table {
            assert_eq!(Schema::judge(&ours, &sums(theirs)), expected, "{theirs:?}");
        }
    }
}
