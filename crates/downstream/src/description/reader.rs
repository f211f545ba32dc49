//! A description's TOML with the line of every value and the order in which it is written. Whatever is wrong is
//! said with its line.

use std::fmt;

use toml_edit::{ImDocument, Item, Table, Value};

/// One value of the file.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Text(String),
    Whole(i64),
    Yes(bool),
    List(Vec<Node>),
    /// In the order of the file.
    Table(Vec<(String, Node)>),
}

/// What is wrong with a description, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

pub(crate) fn read(text: &str) -> Result<Node, Wrong> {
    let document = ImDocument::parse(text).map_err(|error| Wrong {
        line: error.span().map_or(1, |span| line_at(text, span.start)),
        what: one_line(error.message()),
    })?;
    table(text, document.as_table(), 1)
}

fn one_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

fn line_at(text: &str, byte: usize) -> usize {
    let before = text.as_bytes().iter().take(byte);
    1 + before.filter(|byte| **byte == b'\n').count()
}

fn table(text: &str, table: &Table, line: usize) -> Result<Node, Wrong> {
    let mut fields = vec![];
    for (name, item) in table {
        let at = table.key(name).and_then(toml_edit::Key::span);
        let at = item
            .span()
            .or(at)
            .map_or(line, |span| line_at(text, span.start));
        fields.push((name.to_owned(), node(text, item, at)?));
    }
    Ok(Node {
        line,
        kind: Kind::Table(fields),
    })
}

fn node(text: &str, item: &Item, line: usize) -> Result<Node, Wrong> {
    match item {
        Item::Value(it) => value(text, it, line),
        Item::Table(it) => table(text, it, line),
        Item::ArrayOfTables(tables) => {
            let rows = tables.iter().map(|row| {
                let at = row.span().map_or(line, |span| line_at(text, span.start));
                table(text, row, at)
            });
            let kind = Kind::List(rows.collect::<Result<_, _>>()?);
            Ok(Node { line, kind })
        }
        Item::None => Err(Wrong {
            line,
            what: "there is no value".to_owned(),
        }),
    }
}

fn value(text: &str, value: &Value, outer: usize) -> Result<Node, Wrong> {
    let line = value.span().map_or(outer, |span| line_at(text, span.start));
    let kind = match value {
        Value::String(it) => Kind::Text(it.value().clone()),
        Value::Integer(it) => Kind::Whole(*it.value()),
        Value::Boolean(it) => Kind::Yes(*it.value()),
        Value::Array(list) => {
            let nodes = list.iter().map(|it| self::value(text, it, line));
            Kind::List(nodes.collect::<Result<_, _>>()?)
        }
        Value::InlineTable(fields) => {
            let nodes = fields.iter().map(|(name, it)| {
                let node = self::value(text, it, line)?;
                Ok((name.to_owned(), node))
            });
            Kind::Table(nodes.collect::<Result<_, Wrong>>()?)
        }
        Value::Float(_) | Value::Datetime(_) => {
            return Err(Wrong {
                line,
                what: "write numbers with decimals and dates as text in quotes".to_owned(),
            });
        }
    };
    Ok(Node { line, kind })
}

impl Node {
    pub(crate) fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong {
            line: self.line,
            what: what.into(),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Wrong> {
        match &self.kind {
            Kind::Text(text) => Ok(text),
            _ => Err(self.wrong(format!("{name} must be text in quotes"))),
        }
    }

    pub(crate) fn list(&self, name: &str) -> Result<&[Node], Wrong> {
        match &self.kind {
            Kind::List(nodes) => Ok(nodes),
            _ => Err(self.wrong(format!("{name} must be a list"))),
        }
    }

    pub(crate) fn table(&self, name: &str) -> Result<&[(String, Node)], Wrong> {
        match &self.kind {
            Kind::Table(fields) => Ok(fields),
            _ => Err(self.wrong(format!("{name} must be a table"))),
        }
    }

    /// The fields of a table that has these and no others.
    pub(crate) fn fields(&self, name: &'static str, known: &[&str]) -> Result<Fields<'_>, Wrong> {
        let fields = self.table(name)?;
        for (field, node) in fields {
            if !known.contains(&field.as_str()) {
                let known = known.join(", ");
                return Err(node.wrong(format!("{name} has no field {field:?}; it has {known}")));
            }
        }
        Ok(Fields {
            name,
            line: self.line,
            all: fields,
        })
    }

    /// The same for everything that means the same, whatever its lines and comments.
    pub(crate) fn canonical(&self) -> String {
        match &self.kind {
            Kind::Text(text) => format!("{text:?}"),
            Kind::Whole(number) => number.to_string(),
            Kind::Yes(yes) => yes.to_string(),
            Kind::List(nodes) => {
                let parts: Vec<_> = nodes.iter().map(Self::canonical).collect();
                format!("[{}]", parts.join(","))
            }
            Kind::Table(fields) => {
                let parts = fields.iter().map(|(name, node)| {
                    let value = node.canonical();
                    format!("{name:?}={value}")
                });
                format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    pub(crate) name: &'static str,
    pub(crate) line: usize,
    all: &'a [(String, Node)],
}

impl<'a> Fields<'a> {
    pub(crate) fn get(&self, field: &str) -> Option<&'a Node> {
        let found = self.all.iter().find(|(name, _)| name == field);
        found.map(|(_, node)| node)
    }

    pub(crate) fn required(&self, field: &str) -> Result<&'a Node, Wrong> {
        self.get(field).ok_or_else(|| Wrong {
            line: self.line,
            what: format!("{} needs the field {field:?}", self.name),
        })
    }

    pub(crate) fn text(&self, field: &str) -> Result<Option<&'a str>, Wrong> {
        let path = format!("{}.{field}", self.name);
        self.get(field).map(|node| node.text(&path)).transpose()
    }

    pub(crate) fn yes(&self, field: &str) -> Result<Option<bool>, Wrong> {
        let path = format!("{}.{field}", self.name);
        let read = |node: &Node| match node.kind {
            Kind::Yes(yes) => Ok(yes),
            _ => Err(node.wrong(format!("{path} must be true or false"))),
        };
        self.get(field).map(read).transpose()
    }

    pub(crate) fn secs(&self, field: &str) -> Result<Option<u64>, Wrong> {
        let path = format!("{}.{field}", self.name);
        let read = |node: &Node| match node.kind {
            Kind::Whole(number) if number >= 0 => Ok(number.unsigned_abs()),
            _ => Err(node.wrong(format!("{path} must be a whole number of seconds"))),
        };
        self.get(field).map(read).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_line_and_fields_keep_their_order() {
        let text = "a = 1\n[send]\nz = \"x\"\n\nb = {y = true, c = [1,\n 2]}\n[[send.answers]]\nq = 1\n[[send.answers]]\nr = 2\n";
        let root = read(text).unwrap();
        let [(_, a), (_, send)] = root.table("file").unwrap() else {
            panic!("two fields");
        };
        assert_eq!((a.line, send.line), (1, 2));
        let fields = send.table("send").unwrap();
        let lines: Vec<_> = fields.iter().map(|(n, it)| (n.as_str(), it.line)).collect();
        assert_eq!(lines, [("z", 3), ("b", 5), ("answers", 7)]);
        let rows = fields[2].1.list("answers").unwrap();
        assert_eq!((rows[0].line, rows[1].line), (7, 9));
        let expected = r#"{"z"="x","b"={"y"=true,"c"=[1,2]},"answers"=[{"q"=1},{"r"=2}]}"#;
        assert_eq!(send.canonical(), expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert!(said("a = 1\nb = \n").starts_with("line 2: "));
        assert!(said("a = 1\n\na = 2\n").starts_with("line 3: duplicate key"));
        assert!(said("a = 1.5").contains("as text in quotes"));
        let root = read("a = 1\nb = 2\n").unwrap();
        let unknown = root.fields("file", &["a"]).unwrap_err().to_string();
        assert_eq!(unknown, "line 2: file has no field \"b\"; it has a");
    }
}
