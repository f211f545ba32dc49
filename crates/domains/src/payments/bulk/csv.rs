//! CSV records as the JSON that a single request would have: the same names as columns, an empty
//! cell is a field left out.

use std::sync::LazyLock;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use serde_json::{Map, Value};
use tollgate_core::details::{Details, one};

use super::split::MAX_LINE_BYTES;
use crate::json::{self, Refused};
use crate::payments::PaymentRequest;
use crate::payments::request::{PARTIES, PARTY_FIELDS};

/// The columns there are, those that must be there first: the fields of a request, and a column for each field of a
/// party.
static COLUMNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let fields = PaymentRequest::FIELDS.into_iter();
    fields.flat_map(columns_of).collect()
});
const REQUIRED: usize = 7;
/// A record with more fields than this has too many, whatever its header says.
const MOST_FIELDS: usize = 64;

/// A header, and what is needed to read the records under it.
pub(super) struct Table {
    columns: Vec<&'static str>,
    cells: Cells,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Reads the header; what is wrong is told by column.
    pub(super) fn read(header: &[u8]) -> Result<Self, Details> {
        let mut cells = Cells::new();
        let names = cells.read(header).map_err(|what| one("header", what))?;
        let mut columns = Vec::with_capacity(names.len());
        let mut wrong = Details::new();
        for name in names.iter().map(|name| name.trim()) {
            let shown: String = name.chars().take(MOST_SHOWN).collect();
            match COLUMNS.iter().find(|column| *column == name) {
                None => {
                    let what = format!("is not a column of a payment; known: {}", listed());
                    wrong.insert(shown, what);
                }
                Some(column) if columns.contains(&column.as_str()) => {
                    wrong.insert(shown, "appears twice".to_owned());
                }
                Some(column) => columns.push(column.as_str()),
            }
        }
        let required = COLUMNS[..REQUIRED].iter();
        for missing in required.filter(|column| !columns.contains(&column.as_str())) {
            wrong.insert(missing.clone(), "is a missing column".to_owned());
        }
        if wrong.is_empty() {
            Ok(Self { columns, cells })
        } else {
            Err(wrong)
        }
    }

    /// One record as JSON on one line, or why it cannot be read.
    pub(super) fn json(&mut self, record: &[u8]) -> Result<String, String> {
        let cells = self.cells.read(record)?;
        if cells.len() != self.columns.len() {
            let (has, wants) = (cells.len(), self.columns.len());
            return Err(format!("has {has} fields, and the header has {wants}"));
        }
        let mut fields = Map::new();
        for party in PARTIES {
            fields.insert(party.to_owned(), Value::Object(Map::new()));
        }
        for (column, cell) in self.columns.iter().zip(cells) {
            if cell.is_empty() {
                continue;
            }
            let value = match *column {
                "metadata" => match json::read(cell.as_bytes()) {
                    Ok(value) => value,
                    // Text that is not JSON stays text, and is then told to be no object.
                    Err(Refused::Syntax(_)) => Value::String(cell.to_owned()),
                    Err(refused) => return Err(format!("has invalid metadata: a field {refused}")),
                },
                _ => Value::String(cell.to_owned()),
            };
            match column.split_once('.') {
                Some((party, field)) => fields[party][field] = value,
                None => drop(fields.insert((*column).to_owned(), value)),
            }
        }
        Ok(Value::Object(fields).to_string())
    }
}

fn columns_of(field: &str) -> Vec<String> {
    if PARTIES.contains(&field) {
        PARTY_FIELDS.map(|part| format!("{field}.{part}")).to_vec()
    } else {
        vec![field.to_owned()]
    }
}

/// At most this many characters of a column's name are repeated in an error.
const MOST_SHOWN: usize = 64;

fn listed() -> String {
    COLUMNS.join(", ")
}

/// Takes one record apart.
struct Cells {
    reader: Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Cells {
    fn new() -> Self {
        Self {
            reader: reader(),
            text: vec![0; MAX_LINE_BYTES + 1],
            ends: vec![0; MOST_FIELDS],
        }
    }

    fn read(&mut self, record: &[u8]) -> Result<Vec<&str>, String> {
        let (mut text, mut ends) = (0, 0);
        for input in [record, b"\n"] {
            let (into, at) = (&mut self.text[text..], &mut self.ends[ends..]);
            let (result, _, written, ended) = self.reader.read_record(input, into, at);
            text += written;
            ends += ended;
            match result {
                ReadRecordResult::InputEmpty | ReadRecordResult::Record => {}
                ReadRecordResult::End => break,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    self.reader = reader();
                    return Err(format!("has more than {MOST_FIELDS} fields"));
                }
            }
        }
        let mut from = 0;
        let mut cells = Vec::with_capacity(ends);
        for end in &self.ends[..ends] {
            let cell = std::str::from_utf8(&self.text[from..*end]);
            cells.push(cell.map_err(|_| "is not valid UTF-8".to_owned())?);
            from = *end;
        }
        Ok(cells)
    }
}

/// Records come one by one and without their line break, so any other is data.
fn reader() -> Reader {
    ReaderBuilder::new()
        .terminator(Terminator::Any(b'\n'))
        .build()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SEVEN: &str =
        "paymentId,amount,currency,debtor.account,debtor.name,creditor.account,creditor.name";

    fn wrong(header: &str) -> String {
        let wrong = Table::read(header.as_bytes()).unwrap_err();
        wrong.into_keys().collect::<Vec<_>>().join(" ")
    }

    fn row(header: &str, row: &str) -> Result<Value, String> {
        let mut table = Table::read(header.as_bytes()).unwrap();
        let json = table.json(row.as_bytes())?;
        Ok(serde_json::from_str(&json).unwrap())
    }

    #[test]
    fn the_columns_are_the_fields_of_a_payment_with_its_parties_taken_apart() {
        let (required, optional) = COLUMNS.split_at(REQUIRED);
        assert_eq!(required.join(","), SEVEN);
        let required_fields = REQUIRED - PARTIES.len();
        assert_eq!(optional, &PaymentRequest::FIELDS[required_fields..]);
    }

    #[test]
    fn a_header_names_every_column_that_is_wrong() {
        assert_eq!(
            wrong("paymentId,amount,currency,debtor.account,debtor.name,creditor.account"),
            "creditor.name"
        );
        assert_eq!(wrong(&format!("{SEVEN},colour,amount")), "amount colour");
        assert_eq!(
            wrong("a;b"),
            "a;b amount creditor.account creditor.name currency debtor.account debtor.name paymentId"
        );
        assert!(Table::read(format!("metadata, {SEVEN} ,executeAt").as_bytes()).is_ok());
        assert_eq!(wrong(&"x,".repeat(100)), "header");
    }

    #[test]
    fn a_record_becomes_the_json_of_a_single_request() {
        let header = format!("{SEVEN},reference,metadata");
        let made = row(
            &header,
            "p1,1.50,EUR,A,\"Ann, \"\"the\"\"\nfirst\",B,Bob,,\"{\"\"x\"\":1}\"",
        );
        let expected = json!({"paymentId": "p1", "amount": "1.50", "currency": "EUR",
            "debtor": {"account": "A", "name": "Ann, \"the\"\nfirst"},
            "creditor": {"account": "B", "name": "Bob"}, "metadata": {"x": 1}});
        assert_eq!(made, Ok(expected));
        assert!(
            !Table::read(SEVEN.as_bytes())
                .unwrap()
                .json(b"\"a\nb\",1,EUR,A,N,B,N")
                .unwrap()
                .contains('\n')
        );
        let made = row(&header, "p1,1.50,EUR,,Ann,B,Bob,r,no json").unwrap();
        assert_eq!(
            (&made["debtor"], &made["metadata"]),
            (&json!({"name": "Ann"}), &json!("no json"))
        );
    }

    #[test]
    fn a_record_that_cannot_be_read_says_why_and_the_next_one_can() {
        let mut table = Table::read(SEVEN.as_bytes()).unwrap();
        assert_eq!(
            table.json(b"a,b").unwrap_err(),
            "has 2 fields, and the header has 7"
        );
        assert_eq!(
            table.json(&b",".repeat(99)).unwrap_err(),
            "has more than 64 fields"
        );
        assert_eq!(
            table.json(b"\xff,1,EUR,A,N,B,N").unwrap_err(),
            "is not valid UTF-8"
        );
        assert!(table.json(b"p,1,EUR,A,N,B,N").is_ok());
    }
}
