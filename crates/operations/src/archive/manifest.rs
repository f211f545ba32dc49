//! What a manifest says of an exported file, and whether a file is what its manifest says. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_core::Timestamp;
use tollgate_core::archive::{ArchiveDay, DaySum, DayView, LINE_SCHEMA};
use tollgate_core::id::ItemType;

use super::line::LineHead;

/// A sentence names at most so many differences.
const MOST_NAMED: usize = 3;

/// The items of one type that ended on one UTC day: what an export is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeDay {
    pub item_type: ItemType,
    pub day: ArchiveDay,
}

impl std::fmt::Display for TypeDay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.item_type, self.day)
    }
}

impl From<&DayView> for TypeDay {
    fn from(view: &DayView) -> Self {
        Self {
            item_type: view.item_type.clone(),
            day: view.day,
        }
    }
}

impl TypeDay {
    pub(crate) fn manifest_name(&self) -> String {
        format!("{self}.manifest.json")
    }

    /// The digest is part of the name: a file that takes another's place never has its name, so the
    /// manifest alone says which of them counts.
    pub fn file_name(&self, sha256: &str) -> String {
        let digest = sha256.get(..12).unwrap_or(sha256);
        format!("{self}-{digest}.ndjson.gz")
    }

    /// Whether this is the name of a file of this day, whichever digest it has.
    pub(crate) fn has_file(&self, name: &str) -> bool {
        let digest = name
            .strip_prefix(&format!("{self}-"))
            .and_then(|rest| rest.strip_suffix(".ndjson.gz"));
        digest.is_some_and(|it| it.len() == 12 && it.bytes().all(|b| b.is_ascii_hexdigit()))
    }

    pub(crate) fn part_name(&self, what: &str) -> String {
        format!(".{self}.{what}.part")
    }
}

/// Written last: with it an export is complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub(crate) schema_version: u32,
    pub item_type: ItemType,
    pub day: ArchiveDay,
    pub file: String,
    /// Of the compressed file.
    pub sha256: String,
    pub bytes: u64,
    pub lines: u64,
    pub totals: Vec<DaySum>,
    pub exported_at: Timestamp,
}

/// A file as it is: what was found by reading all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents {
    pub sha256: String,
    pub bytes: u64,
    pub lines: u64,
    pub totals: Vec<DaySum>,
}

impl Manifest {
    pub(crate) fn of(of: &TypeDay, contents: Contents, exported_at: Timestamp) -> Self {
        Self {
            schema_version: LINE_SCHEMA,
            item_type: of.item_type.clone(),
            day: of.day,
            file: of.file_name(&contents.sha256),
            sha256: contents.sha256,
            bytes: contents.bytes,
            lines: contents.lines,
            totals: contents.totals,
            exported_at,
        }
    }

    /// As it is written: for people, too.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// Reads a manifest and checks what it says about itself; the error fits behind the file's name.
    pub(crate) fn read(of: &TypeDay, text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            schema_version: u32,
        }
        let not_one = |error: serde_json::Error| format!("is not a manifest: {error}");
        let Version { schema_version } = serde_json::from_str(text).map_err(not_one)?;
        if schema_version != LINE_SCHEMA {
            return Err(format!(
                "has schema version {schema_version}, and this release reads {LINE_SCHEMA}; use the release that wrote it"
            ));
        }
        let manifest: Self = serde_json::from_str(text).map_err(not_one)?;
        if (&manifest.item_type, manifest.day) != (&of.item_type, of.day) {
            return Err(format!(
                "describes {} of {}, not {} of {}; it was renamed or edited",
                manifest.item_type, manifest.day, of.item_type, of.day
            ));
        }
        // Also keeps a manifest from naming a file outside the folder.
        if manifest.file != of.file_name(&manifest.sha256) {
            return Err("names a file with a different sha256; it was edited".to_owned());
        }
        Ok(manifest)
    }

    /// What is different in the file, as one sentence behind its name.
    pub(crate) fn check(&self, found: &Contents) -> Result<(), String> {
        let mut differences = vec![];
        let mut compare = |what: &str, said: String, is: String| {
            if said != is {
                differences.push(format!("{what} {is} instead of {said}"));
            }
        };
        compare("sha256", self.sha256.clone(), found.sha256.clone());
        compare("bytes", self.bytes.to_string(), found.bytes.to_string());
        compare("lines", self.lines.to_string(), found.lines.to_string());
        for (bucket, said, is) in side_by_side(&self.totals, &found.totals) {
            compare(&bucket, said, is);
        }
        if differences.is_empty() && self.totals != found.totals {
            differences.push("totals in a different order".to_owned());
        }
        if differences.is_empty() {
            return Ok(());
        }
        let more = differences.len().saturating_sub(MOST_NAMED);
        differences.truncate(MOST_NAMED);
        if more > 0 {
            differences.push(format!("and {more} more"));
        }
        let told = differences.join("; ");
        Err(format!("differs from its manifest: {told}"))
    }
}

fn side_by_side(said: &[DaySum], is: &[DaySum]) -> Vec<(String, String, String)> {
    let mut buckets: BTreeMap<String, [String; 2]> = BTreeMap::new();
    for (side, totals) in [said, is].into_iter().enumerate() {
        for total in totals {
            let name = format!("{} {}", total.status, total.currency);
            let none = || ["nothing", "nothing"].map(str::to_owned);
            buckets.entry(name).or_insert_with(none)[side] =
                format!("{} items, {} minor units", total.count, total.amount_minor);
        }
    }
    let one = |(name, [said, is]): (String, [String; 2])| (name, said, is);
    buckets.into_iter().map(one).collect()
}

/// Counts lines, each of another item.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    lines: u64,
    last_id: String,
    sums: BTreeMap<(String, String), (u64, i64)>,
}

impl Tally {
    /// In the order of ids, so that no item is counted twice; the error fits behind "line N".
    pub(crate) fn add(&mut self, line: &LineHead<'_>) -> Result<(), String> {
        let (id, status) = (&*line.id, &*line.status);
        if self.lines > 0 && id <= self.last_id.as_str() {
            return Err(format!(
                "has {id:?} after {:?}: lines must be sorted by id, each id once",
                self.last_id
            ));
        }
        id.clone_into(&mut self.last_id);
        self.lines += 1;
        let bucket = (status.to_owned(), line.currency.to_string());
        let (count, minor) = self.sums.entry(bucket).or_default();
        *count += 1;
        *minor = minor.saturating_add(line.amount_minor);
        Ok(())
    }

    pub(crate) fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn totals(&self) -> Vec<DaySum> {
        let total =
            |((status, currency), (count, minor)): (&(String, String), &(u64, i64))| DaySum {
                status: status.clone(),
                currency: currency.clone(),
                count: *count,
                amount_minor: *minor,
            };
        self.sums.iter().map(total).collect()
    }

    pub(crate) fn contents(self, sha256: String, bytes: u64) -> Contents {
        Contents {
            sha256,
            bytes,
            lines: self.lines,
            totals: self.totals(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> TypeDay {
        TypeDay {
            item_type: ItemType::new("PAYMENT"),
            day: "2026-11-17".parse().unwrap(),
        }
    }

    fn line(id: &'static str, status: &'static str, amount_minor: i64) -> LineHead<'static> {
        LineHead {
            id: id.into(),
            status: status.into(),
            currency: "USD".into(),
            amount_minor,
        }
    }

    fn contents() -> Contents {
        let mut tally = Tally::default();
        for line in [
            line("a", "PROCESSING", 100),
            line("b", "REJECTED", 7),
            line("c", "PROCESSING", 50),
        ] {
            tally.add(&line).unwrap();
        }
        tally.contents("0123456789abcdef".to_owned(), 42)
    }

    fn manifest() -> Manifest {
        Manifest::of(&of(), contents(), "2026-11-18T00:00:00Z".parse().unwrap())
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written_and_fits_its_file() {
        let manifest = manifest();
        assert_eq!(manifest.file, "PAYMENT-2026-11-17-0123456789ab.ndjson.gz");
        assert!(of().has_file(&manifest.file));
        assert!(!of().has_file("PAYMENT-2026-11-17.manifest.json"));
        let read = Manifest::read(&of(), &manifest.text()).unwrap();
        assert_eq!(read, manifest);
        read.check(&contents()).unwrap();
        let sums: Vec<_> = read
            .totals
            .iter()
            .map(|t| (t.count, t.amount_minor))
            .collect();
        assert_eq!(sums, [(2, 150), (1, 7)]);
    }

    #[test]
    fn whatever_is_edited_in_a_manifest_is_found() {
        let text = manifest().text();
        for (from, to, told) in [
            (
                "\"schemaVersion\": 1",
                "\"schemaVersion\": 2",
                "schema version 2",
            ),
            ("PAYMENT\"", "INVOICE\"", "renamed or edited"),
            ("\"2026-11-17\"", "\"2026-11-16\"", "renamed or edited"),
            (
                "-0123456789ab.ndjson",
                "-0123456789ac.ndjson",
                "it was edited",
            ),
            (
                "PAYMENT-2026-11-17-",
                "../PAYMENT-2026-11-17-",
                "it was edited",
            ),
            (
                "0123456789abcdef",
                "0123456789abcdee",
                "sha256 0123456789abcdef instead of",
            ),
            ("\"bytes\": 42", "\"bytes\": 43", "bytes 42 instead of 43"),
            ("\"lines\": 3", "\"lines\": 2", "lines 3 instead of 2"),
            (
                "\"count\": 2",
                "\"count\": 1",
                "PROCESSING USD 2 items, 150 minor units instead of 1",
            ),
            (
                "\"amountMinor\": 7",
                "\"amountMinor\": 8",
                "REJECTED USD 1 items, 7 minor units",
            ),
            (
                "\"REJECTED\"",
                "\"CANCELLED\"",
                "CANCELLED USD nothing instead of 1 items",
            ),
            ("\"lines\"", "\"line\"", "is not a manifest"),
            ("}", "", "is not a manifest"),
        ] {
            let edited = text.replacen(from, to, 1);
            assert_ne!(edited, text, "{from}");
            let checked = Manifest::read(&of(), &edited).and_then(|it| it.check(&contents()));
            let why = checked.expect_err(to);
            assert!(why.contains(told), "{to}: {why}");
        }
    }

    #[test]
    fn an_item_is_in_a_file_once() {
        for (first, second, is_fine) in [("a", "b", true), ("b", "a", false), ("a", "a", false)] {
            let mut tally = Tally::default();
            tally.add(&line(first, "PROCESSING", 1)).unwrap();
            let added = tally.add(&line(second, "PROCESSING", 1));
            assert_eq!(added.is_ok(), is_fine, "{first} {second}: {added:?}");
        }
    }
}
