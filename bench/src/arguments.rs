//! The command line: what to measure, how large, how often, and where the table goes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::task::Task;

const USAGE: &str =
    "usage: tollgate-bench [w1|w4|w5|all] [--size small|full] [--rounds N] [--out FILE]";

#[derive(Debug)]
pub(crate) enum Command {
    Report(Arguments),
    /// Hidden: one measurement, in a process of its own.
    Measure {
        task: Task,
        dir: PathBuf,
    },
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) size: Size,
    pub(crate) rounds: u32,
    pub(crate) out: PathBuf,
    /// As it was typed, for the report.
    pub(crate) typed: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Workload {
    W1,
    W4,
    W5,
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
        if let [measure, task, dir] = words
            && measure == "measure"
        {
            return Ok(Self::Measure {
                task: serde_json::from_str(task)?,
                dir: dir.into(),
            });
        }
        Arguments::parse(words).map(Self::Report)
    }
}

impl Arguments {
    fn parse(words: &[String]) -> Result<Self> {
        let (mut which, mut size, mut rounds, mut out) = ("all", Size::Full, 3, None);
        let mut rest = words.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{word} needs a value"));
            match word {
                "w1" | "w4" | "w5" | "all" => which = word,
                "--size" => {
                    size = match value()? {
                        "small" => Size::Small,
                        "full" => Size::Full,
                        other => bail!("--size is small or full, not {other:?}"),
                    }
                }
                "--rounds" => rounds = value()?.parse().context("--rounds is a number")?,
                "--out" => out = Some(PathBuf::from(value()?)),
                other => bail!("unknown word {other:?}\n{USAGE}"),
            }
        }
        if rounds == 0 {
            bail!("--rounds must be at least 1, and 3 for a figure that counts");
        }
        Ok(Self {
            workloads: match which {
                "w1" => vec![Workload::W1],
                "w4" => vec![Workload::W4],
                "w5" => vec![Workload::W5],
                _ => vec![Workload::W1, Workload::W4, Workload::W5],
            },
            size,
            rounds,
            out: out.unwrap_or_else(|| default_out(which, size)),
            typed: words.join(" "),
        })
    }
}

/// A part or a small run never overwrites the whole table.
fn default_out(which: &str, size: Size) -> PathBuf {
    let part = if which == "all" {
        String::new()
    } else {
        format!("-{which}")
    };
    let file = format!("sqlite{part}{}.md", size.pick("-small", ""));
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("results")
        .join(file)
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
        assert_eq!(arguments.workloads.len(), 3);
        assert_eq!((arguments.size, arguments.rounds), (Size::Full, 3));
        assert!(arguments.out.ends_with("results/sqlite.md"));
    }

    #[test]
    fn a_part_has_a_file_of_its_own() {
        let arguments = parse("w4 --size small --rounds 5").unwrap();
        assert_eq!(arguments.workloads, [Workload::W4]);
        assert_eq!(arguments.rounds, 5);
        assert!(arguments.out.ends_with("results/sqlite-w4-small.md"));
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["w2", "--size huge", "--rounds", "--rounds 0", "--rounds x"] {
            assert!(parse(line).is_err(), "{line:?} was accepted");
        }
    }
}
