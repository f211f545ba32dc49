//! What SQLite's own shell would show of a statement: rows of text.

use rusqlite::Connection;
use rusqlite::types::Value;

pub(crate) fn shown(shell: &Connection, sql: &str) -> rusqlite::Result<Vec<Vec<Option<String>>>> {
    let mut statement = shell.prepare(sql)?;
    let columns = statement.column_count();
    let text = |row: &rusqlite::Row<'_>, n| {
        Ok(match row.get(n)? {
            Value::Null => None,
            Value::Integer(number) => Some(number.to_string()),
            Value::Real(number) => Some(number.to_string()),
            Value::Text(text) => Some(text),
            Value::Blob(bytes) => Some(format!("{} bytes", bytes.len())),
        })
    };
    let rows = statement.query_map([], |row| (0..columns).map(|n| text(row, n)).collect())?;
    rows.collect()
}
