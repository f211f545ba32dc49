//! Columns that line up.

use serde_json::Value;

use super::client::quoted;

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

/// A value as a cell.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        // A limit of 50.0 a second is one of 50.
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        other => other.to_string(),
    }
}

/// A status as people read it: the last one of a payment that went well sounds as if it were under way.
fn status_word(status: &Value) -> String {
    match cell(status) {
        done if done == "PROCESSING" => "PROCESSING (done)".to_owned(),
        other => other,
    }
}

/// Rows of the named fields of a list of objects.
pub(super) fn rows(list: &Value, fields: &[&str]) -> Vec<Vec<String>> {
    let items = list.as_array().into_iter().flatten();
    items
        .map(|item| fields.iter().map(|field| field_of(item, field)).collect())
        .collect()
}

fn field_of(item: &Value, field: &str) -> String {
    match field {
        "status" => status_word(&item[field]),
        field => cell(&item[field]),
    }
}

/// One field per line.
pub(super) fn fields(object: &Value, named: &[(&str, &str)]) -> String {
    let width = named.iter().map(|(title, _)| title.chars().count()).max();
    let width = width.unwrap_or(0);
    let line =
        |(title, field): &(&str, &str)| format!("{title:<width$}  {}", field_of(object, field));
    named.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Versions of a setting.
pub(super) fn history(answer: &Value) -> String {
    let fields = ["version", "since", "actor", "reason", "body"];
    table(&fields, &rows(answer, &fields))
}

/// What is given, as a query; nothing if nothing is.
pub(super) fn query(given: &[(&str, Option<String>)]) -> String {
    let one = |(name, value): &(&str, Option<String>)| {
        let value = value.as_ref()?;
        Some(format!("{name}={}", quoted(value)))
    };
    let given: Vec<String> = given.iter().filter_map(one).collect();
    if given.is_empty() {
        return String::new();
    }
    format!("?{}", given.join("&"))
}

/// Where an answer comes from.
pub(super) fn source(source: &Value) -> &'static str {
    match source["from"].as_str() {
        Some("archive") if source["restored"] == true => "the archive, restored from a file",
        Some("archive") => "the archive",
        Some("both") => "the hot tables and the archive",
        _ => "the hot tables",
    }
}

/// What a list does not have because it is in the archive.
pub(super) fn elsewhere(archived: &Value) -> String {
    match archived["what"].as_str() {
        Some(what) => format!("{what}\n"),
        None => String::new(),
    }
}

/// How the next page is asked for, if there is one.
pub(super) fn more(next: &Value) -> String {
    match next {
        Value::Null => String::new(),
        next => format!("more: --after {}", cell(next)),
    }
}
