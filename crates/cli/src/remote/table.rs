//! Columns that line up.

use jiff::Timestamp;
use rust_decimal::Decimal;
use serde_json::{Map, Value};
use tollgate_client::contract::{AnswerSource, ArchivedPart, Version};

/// What can stand in a table. Nothing at all is `-`.
pub(super) trait Cell {
    fn cell(&self) -> String;
}

/// A value as a cell.
pub(super) fn cell(value: &(impl Cell + ?Sized)) -> String {
    value.cell()
}

/// The cells of one row.
pub(super) fn row(cells: &[&dyn Cell]) -> Vec<String> {
    cells.iter().map(Cell::cell).collect()
}

/// A table with a header; numbers to the right.
pub(super) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut lines: Vec<Vec<String>> = vec![header.iter().map(|&h| h.to_owned()).collect()];
    lines.extend(rows.iter().cloned());
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let is_number = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).peekable();
        cells.peek().is_some() && cells.all(|cell| cell == "-" || cell.parse::<f64>().is_ok())
    };
    let numbers: Vec<bool> = (0..header.len()).map(is_number).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).zip(&numbers);
        let cells = cells.map(|((cell, width), number)| match number {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// One fact per line.
pub(super) fn facts(named: &[(&str, &dyn Cell)]) -> String {
    let width = named.iter().map(|(title, _)| title.chars().count()).max();
    let width = width.unwrap_or(0);
    let line = |(title, value): &(&str, &dyn Cell)| format!("{title:<width$}  {}", value.cell());
    named.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// A status as people read it: the last one of a payment that went well sounds as if it were under way.
pub(super) fn status_word(status: &str) -> &str {
    match status {
        "PROCESSING" => "PROCESSING (done)",
        other => other,
    }
}

/// Versions of a setting.
pub(super) fn history(versions: &[Version]) -> String {
    let rows: Vec<Vec<String>> = versions
        .iter()
        .map(|it| row(&[&it.version, &it.since, &it.actor, &it.reason, &it.body]))
        .collect();
    table(&["version", "since", "actor", "reason", "body"], &rows)
}

/// Where an answer comes from.
pub(super) fn source(source: &AnswerSource) -> &'static str {
    match source.from.as_str() {
        "archive" if source.restored => "the archive, restored from a file",
        "archive" => "the archive",
        "both" => "the hot tables and the archive",
        _ => "the hot tables",
    }
}

/// What a list does not have because it is in the archive.
pub(super) fn elsewhere(archived: Option<&ArchivedPart>) -> String {
    match archived {
        Some(part) => format!("{}\n", part.what),
        None => String::new(),
    }
}

/// How the next page is asked for, if there is one.
pub(super) fn more(next: Option<&impl Cell>) -> String {
    match next {
        Some(next) => format!("more: --after {}", next.cell()),
        None => String::new(),
    }
}

impl Cell for str {
    fn cell(&self) -> String {
        self.to_owned()
    }
}

impl<T: Cell + ?Sized> Cell for &T {
    fn cell(&self) -> String {
        (**self).cell()
    }
}

impl<T: Cell> Cell for Option<T> {
    fn cell(&self) -> String {
        match self {
            Some(value) => value.cell(),
            None => "-".to_owned(),
        }
    }
}

/// A limit of 50.0 a second is one of 50.
impl Cell for Decimal {
    fn cell(&self) -> String {
        self.normalize().to_string()
    }
}

impl Cell for f64 {
    fn cell(&self) -> String {
        Value::from(*self).cell()
    }
}

/// Free JSON, as it is.
impl Cell for Value {
    fn cell(&self) -> String {
        match self {
            Self::Null => "-".to_owned(),
            Self::String(text) => text.clone(),
            Self::Number(number) => {
                let text = number.to_string();
                text.strip_suffix(".0").unwrap_or(&text).to_owned()
            }
            other => other.to_string(),
        }
    }
}

impl Cell for Map<String, Value> {
    fn cell(&self) -> String {
        Value::from(self.clone()).cell()
    }
}

/// As JSON writes a list.
impl Cell for Vec<String> {
    fn cell(&self) -> String {
        Value::from(self.clone()).cell()
    }
}

macro_rules! shown_by_display {
    ($($plain:ty),*) => {$(
        impl Cell for $plain {
            fn cell(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
shown_by_display!(String, bool, u32, u64, i64, usize, Timestamp);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_says_a_value_as_json_does_and_a_missing_one_is_a_dash() {
        assert_eq!(cell(&None::<String>), "-");
        assert_eq!(cell(&Some("a")), "a");
        assert_eq!(cell(&50.0), "50");
        assert_eq!(cell(&0.125), "0.125");
        assert_eq!(cell(&Decimal::new(500, 1)), "50");
        assert_eq!(
            cell(&vec!["1d".to_owned(), "3d".to_owned()]),
            r#"["1d","3d"]"#
        );
        assert_eq!(cell(&json!({"lane": "a"})), r#"{"lane":"a"}"#);
    }
}
