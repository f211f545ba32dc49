//! Items as records of a topic: each is one line of a chunk, as if it had come in a file. Only what cannot be read at
//! all is a dead letter; what can be read and is wrong is rejected with its details, like a line of a file.

use std::io::Write;

use serde_json::Value;
use tollgate_core::ports::{FeedRecord, PartitionId, RecordReader};

use crate::json::{self, Refused};
use crate::payments::bulk::MAX_LINE_BYTES;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordFormat {
    /// The value is the item.
    Json,
    /// The value is a CloudEvent with the item as its data, or its data with the event's attributes as headers.
    CloudEvents,
}

/// Reads records of payments or invoices, written as for the API.
#[derive(Debug, Clone, Copy)]
pub struct JsonRecords {
    pub format: RecordFormat,
}

impl RecordReader for JsonRecords {
    fn read(&self, record: &FeedRecord, text: &mut Vec<u8>) -> Result<(), String> {
        let value = record
            .value
            .as_deref()
            .ok_or("has no value (a tombstone)")?;
        if value.len() > MAX_LINE_BYTES {
            let length = value.len();
            return Err(format!(
                "has {length} bytes; at most {MAX_LINE_BYTES} are read"
            ));
        }
        let value = std::str::from_utf8(value).map_err(|error| {
            let at = error.valid_up_to() + 1;
            format!("is not valid UTF-8 (byte {at})")
        })?;
        let is_event = match self.format {
            RecordFormat::Json => false,
            RecordFormat::CloudEvents => is_structured(record)?,
        };
        let line = PartitionId::line(record.offset);
        if is_event {
            let data = data_of(value)?;
            // Writing to memory does not fail.
            let _ = writeln!(text, "{line} {data}");
        } else {
            // A field that cannot be taken is for the intake to reject; here it only matters whether it is JSON.
            json::check(value.as_bytes()).map_err(|refused| refused.to_string())?;
            let _ = write!(text, "{line} ");
            on_one_line(value.as_bytes(), text);
        }
        Ok(())
    }
}

/// As it was written, if only on one line: a line break can only stand between two words of JSON.
fn on_one_line(value: &[u8], text: &mut Vec<u8>) {
    let from = text.len();
    text.extend_from_slice(value);
    for byte in &mut text[from..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    text.push(b'\n');
}

/// Whether the value is the whole event.
fn is_structured(record: &FeedRecord) -> Result<bool, String> {
    let kind = record.header("content-type").unwrap_or_default();
    let kind = kind.trim_start().to_ascii_lowercase();
    if kind.starts_with("application/cloudevents") {
        return Ok(true);
    }
    match record.header("ce_specversion") {
        Some(_) => Ok(false),
        None => Err(
            "is not a CloudEvent: it has neither the content type nor the headers of one".into(),
        ),
    }
}

fn data_of(event: &str) -> Result<String, String> {
    let event = json::read(event.as_bytes()).map_err(|refused| match refused {
        Refused::Field { .. } => "is a CloudEvent with a field that is not allowed".to_owned(),
        Refused::Syntax(_) => refused.to_string(),
    })?;
    if event.get("specversion").and_then(Value::as_str).is_none() {
        return Err("is not a CloudEvent: it has no specversion".into());
    }
    let data = event.get("data");
    let data = data.ok_or("is a CloudEvent without data")?;
    Ok(data.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: RecordFormat, value: Option<&[u8]>, headers: &[(&str, &str)]) -> String {
        let header = |(name, value): &(&str, &str)| {
            let value = Some(value.as_bytes().to_vec());
            ((*name).to_owned(), value)
        };
        let record = FeedRecord {
            offset: 41,
            key: None,
            value: value.map(<[u8]>::to_vec),
            headers: headers.iter().map(header).collect(),
        };
        let mut text = vec![];
        match (JsonRecords { format }).read(&record, &mut text) {
            Ok(()) => String::from_utf8(text).unwrap(),
            Err(why) => {
                assert!(text.is_empty());
                format!("dead: {why}")
            }
        }
    }

    #[test]
    fn a_record_is_one_line_or_a_dead_letter() {
        let long = vec![b' '; MAX_LINE_BYTES + 1];
        let table: [(Option<&[u8]>, &str); 8] = [
            (Some(b"{\"a\":1}"), "42 {\"a\":1}\n"),
            (Some(b"{\r\n \"a\": 1\n}"), "42 {   \"a\": 1 }\n"),
            (Some(b"7"), "42 7\n"),
            (Some(b"{\"a\":1,\"a\":2}"), "42 {\"a\":1,\"a\":2}\n"),
            (None, "dead: has no value (a tombstone)"),
            (Some(b""), "dead: is not JSON: EOF"),
            (Some(b"\"\xff\""), "dead: is not valid UTF-8 (byte 2)"),
            (Some(&long), "dead: has 65537 bytes; at most 65536 are read"),
        ];
        for (value, expected) in table {
            let found = read(RecordFormat::Json, value, &[]);
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn the_data_of_an_event_is_the_item() {
        const STRUCTURED: [(&str, &str); 1] = [(
            "content-type",
            "application/cloudevents+json; charset=UTF-8",
        )];
        const BINARY: [(&str, &str); 2] = [("ce_specversion", "1.0"), ("ce_type", "payment")];
        let event = |value: &str, headers: &[(&str, &str)]| {
            read(RecordFormat::CloudEvents, Some(value.as_bytes()), headers)
        };
        let whole =
            r#"{"specversion":"1.0","id":"1","type":"t","source":"s","data":{"paymentId":"p"}}"#;
        assert_eq!(event(whole, &STRUCTURED), "42 {\"paymentId\":\"p\"}\n");
        assert_eq!(
            event("{\"paymentId\":\"p\"}", &BINARY),
            "42 {\"paymentId\":\"p\"}\n"
        );
        for (name, kind) in [
            ("Content-Type", "application/cloudevents+json"),
            ("content-type", " Application/CloudEvents+JSON"),
        ] {
            let found = event(whole, &[(name, kind)]);
            assert_eq!(found, "42 {\"paymentId\":\"p\"}\n", "{name}: {kind}");
        }
        for (value, headers, why) in [
            ("{}", &[][..], "neither the content type"),
            ("{}", &STRUCTURED[..], "no specversion"),
            ("{\"specversion\":\"1.0\"}", &STRUCTURED[..], "without data"),
        ] {
            let found = event(value, headers);
            assert!(
                found.starts_with("dead: ") && found.contains(why),
                "{found}"
            );
        }
    }
}
