//! The command line: which store, what to measure, how large, how often, and where the table goes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::postgres::{self, Phase};
use crate::task::Task;
pub(crate) use crate::workload::{Store, Workload};

const USAGE: &str = "usage: tollgate-bench [sqlite|postgres|temporal] [w1|w2|w3|w4|w5|w6|w6-archive|w7|w7-executed|\
                     w8|w9|w10|w10-job|w10-archive|known|feeds|starts|consoles|all] \
                     [--size small|full] [--rounds N] [--out FILE]";

#[derive(Debug)]
pub(crate) enum Command {
    Report(Arguments),
    /// Hidden: one measurement, in a process of its own.
    Measure {
        task: Task,
        dir: PathBuf,
    },
    /// Hidden: the same on a PostgreSQL database.
    Postgres {
        phase: Phase,
        task: postgres::Task,
        url: String,
    },
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) stores: Vec<Store>,
    /// `None`: all that a store has.
    only: Option<Workload>,
    pub(crate) size: Size,
    pub(crate) rounds: u32,
    out: Option<PathBuf>,
    /// As it was typed, for the report.
    pub(crate) typed: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Full,
}

impl Size {
    pub(crate) fn pick<T>(self, small: T, full: T) -> T {
        match self {
            Self::Small => small,
            Self::Full => full,
        }
    }
}

impl Command {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let strs: Vec<&str> = words.iter().map(String::as_str).collect();
        let phase = match strs[..] {
            ["measure", task, dir] => {
                return Ok(Self::Measure {
                    task: serde_json::from_str(task)?,
                    dir: dir.into(),
                });
            }
            ["postgres", "prepare", ..] => Phase::Prepare,
            ["postgres", "measure", ..] => Phase::Measure,
            _ => return Arguments::parse(words).map(Self::Report),
        };
        let [_, _, task, url] = strs[..] else {
            bail!("{USAGE}");
        };
        Ok(Self::Postgres {
            phase,
            task: serde_json::from_str(task)?,
            url: url.to_owned(),
        })
    }
}

impl Arguments {
    fn parse(words: &[String]) -> Result<Self> {
        let mut parsed = Self {
            stores: vec![Store::Sqlite, Store::Postgres, Store::Temporal],
            only: None,
            size: Size::Full,
            rounds: 3,
            out: None,
            typed: words.join(" "),
        };
        let mut rest = words.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
            match word {
                "all" => parsed.only = None,
                "sqlite" => parsed.stores = vec![Store::Sqlite],
                "postgres" => parsed.stores = vec![Store::Postgres],
                "temporal" => parsed.stores = vec![Store::Temporal],
                "--size" => {
                    parsed.size = match value()? {
                        "small" => Size::Small,
                        "full" => Size::Full,
                        other => bail!("--size is small or full, not {other:?}"),
                    }
                }
                "--rounds" => parsed.rounds = value()?.parse().context("--rounds is a number")?,
                "--out" => parsed.out = Some(PathBuf::from(value()?)),
                other => match Workload::from_word(other) {
                    Some(workload) => parsed.only = Some(workload),
                    None => bail!("unknown word {other:?}\n{USAGE}"),
                },
            }
        }
        parsed.checked()
    }

    fn checked(mut self) -> Result<Self> {
        if self.rounds == 0 {
            bail!("--rounds must be at least 1, and 3 for a figure that counts");
        }
        if let Some(only) = self.only {
            self.stores.retain(|store| store.measures(only));
        }
        if self.stores.is_empty() {
            bail!("this workload is not measured on this store\n{USAGE}");
        }
        if self.out.is_some() && self.stores.len() > 1 {
            bail!("--out takes one table; name the store too");
        }
        Ok(self)
    }

    pub(crate) fn workloads(&self, store: Store) -> Vec<Workload> {
        match self.only {
            Some(only) => vec![only],
            None => store.workloads().to_vec(),
        }
    }

    /// A part or a small run never overwrites the whole table.
    pub(crate) fn out(&self, store: Store) -> PathBuf {
        let part = self.only.map(|only| format!("-{}", only.word()));
        let small = self.size.pick("-small", "");
        let file = format!("{}{}{small}.md", store.name(), part.unwrap_or_default());
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        self.out.clone().unwrap_or_else(|| results.join(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::parse(&words)
    }

    #[test]
    fn without_words_everything_is_measured_in_full_three_times() {
        let arguments = parse("").unwrap();
        let all = [Store::Sqlite, Store::Postgres, Store::Temporal];
        assert_eq!(arguments.stores, all);
        assert_eq!(arguments.workloads(Store::Sqlite).len(), 10);
        assert_eq!(arguments.workloads(Store::Postgres).len(), 10);
        assert_eq!((arguments.size, arguments.rounds), (Size::Full, 3));
        assert!(arguments.out(Store::Sqlite).ends_with("results/sqlite.md"));
        assert!(
            arguments
                .out(Store::Postgres)
                .ends_with("results/postgres.md")
        );
    }

    #[test]
    fn a_part_has_a_file_of_its_own() {
        let arguments = parse("w4 --size small --rounds 5").unwrap();
        assert_eq!(arguments.workloads(Store::Sqlite), [Workload::W4]);
        assert_eq!(arguments.rounds, 5);
        let out = arguments.out(Store::Sqlite);
        assert!(out.ends_with("results/sqlite-w4-small.md"));
        let arguments = parse("postgres w10-archive").unwrap();
        let out = arguments.out(Store::Postgres);
        assert!(out.ends_with("results/postgres-w10-archive.md"));
    }

    #[test]
    fn a_workload_is_measured_where_it_exists() {
        assert_eq!(parse("w2").unwrap().stores, [Store::Postgres]);
        assert_eq!(parse("w5 all sqlite").unwrap().stores, [Store::Sqlite]);
        assert_eq!(parse("w7").unwrap().stores, [Store::Temporal]);
        assert_eq!(parse("w6-archive").unwrap().stores, [Store::Postgres]);
        let both = [Store::Sqlite, Store::Postgres];
        let part = parse("w10-archive").unwrap();
        assert_eq!(part.stores, both);
        assert_eq!(part.workloads(Store::Sqlite), [Workload::W10Archive]);
        assert_eq!(parse("known").unwrap().stores, both);
    }

    #[test]
    fn every_word_is_in_the_usage() {
        let words = USAGE.split(['[', ']', '|', ' ']).collect::<Vec<_>>();
        for store in [Store::Sqlite, Store::Postgres, Store::Temporal] {
            for workload in store.workloads() {
                assert!(words.contains(&workload.word()), "{workload:?}");
            }
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in [
            "w11",
            "postgres w5",
            "--out x",
            "--size huge",
            "--rounds",
            "--rounds 0",
            "--rounds x",
        ] {
            assert!(parse(line).is_err(), "{line:?} was accepted");
        }
    }
}
