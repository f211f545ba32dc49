//! Reads the fields of a JSON body one after another, and notes everything that is wrong with them.

use serde_json::{Map, Value};
use tollgate_core::details::{Details, one};
use tollgate_core::id::{ItemId, check_item_id};
use tollgate_core::money::Currency;

/// At most this many of the fields that nobody knows are named.
const MOST_UNKNOWN: usize = 20;

pub(crate) struct Reader<'a> {
    fields: &'a Map<String, Value>,
    /// What stands before a field's name in the whole body, such as `debtor.`.
    prefix: String,
    wrong: Details,
}

impl<'a> Reader<'a> {
    /// Of a body that has these fields and no others.
    pub(crate) fn new(body: &'a Value, known: &[&str]) -> Result<Self, Details> {
        let fields = body.as_object();
        let fields = fields.ok_or_else(|| one("body", "must be a JSON object"))?;
        Ok(Self::of(fields, String::new(), known))
    }

    fn of(fields: &'a Map<String, Value>, prefix: String, known: &[&str]) -> Self {
        let wrong = Details::new();
        let mut reader = Self {
            fields,
            prefix,
            wrong,
        };
        let unknown = fields.keys().filter(|name| !known.contains(&name.as_str()));
        for name in unknown.take(MOST_UNKNOWN) {
            let known = known.join(", ");
            reader.blame::<()>(name, format!("is unknown; known: {known}"));
        }
        reader
    }

    /// What was read, if nothing is wrong.
    pub(crate) fn end<T>(self, read: impl FnOnce() -> Option<T>) -> Result<T, Details> {
        match read() {
            Some(read) if self.wrong.is_empty() => Ok(read),
            _ => Err(self.wrong),
        }
    }

    pub(crate) fn blame<T>(&mut self, field: &str, what: impl Into<String>) -> Option<T> {
        let name = format!("{}{field}", self.prefix);
        self.wrong.insert(name, what.into());
        None
    }

    pub(crate) fn kept<T>(&mut self, field: &str, read: Result<T, impl Into<String>>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(why) => self.blame(field, why),
        }
    }

    /// A field that is given and not null.
    pub(crate) fn given(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, field: &str) -> Option<&'a str> {
        match self.given(field) {
            None => self.blame(field, "is required"),
            Some(Value::String(text)) => Some(text),
            Some(_) => self.blame(field, "must be a string"),
        }
    }

    /// A text of at most this many characters, which says something.
    pub(crate) fn short_text(&mut self, field: &str, most: usize) -> Option<String> {
        let text = self.text(field)?;
        self.kept(field, check_text(text, most).map(|()| text.to_owned()))
    }

    pub(crate) fn optional_text(&mut self, field: &str, most: usize) -> Option<String> {
        self.given(field)?;
        self.short_text(field, most)
    }

    pub(crate) fn id(&mut self, field: &str) -> Option<ItemId> {
        let text = self.text(field)?;
        self.kept(field, check_item_id(text).map(|()| ItemId::new(text)))
    }

    pub(crate) fn currency(&mut self, field: &str) -> Option<Currency> {
        let currency = Currency::from_code(self.text(field)?);
        let known = currency.ok_or("must be an ISO 4217 code such as \"USD\"");
        self.kept(field, known)
    }

    /// A field with fields of its own; `shape` says how it is written.
    pub(crate) fn part<T>(
        &mut self,
        field: &str,
        known: &[&str],
        shape: &str,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let fields = match self.given(field) {
            None => return self.blame(field, "is required"),
            Some(Value::Object(fields)) => fields,
            Some(_) => return self.blame(field, shape),
        };
        let mut part = Self::of(fields, format!("{}{field}.", self.prefix), known);
        let read = read(&mut part);
        self.wrong.extend(part.wrong);
        read
    }
}

fn check_text(text: &str, most: usize) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("must not be empty".to_owned());
    }
    if text.chars().count() > most {
        return Err(format!("must have at most {most} characters"));
    }
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_that_is_wrong_is_told_under_its_full_name() {
        let body = json!({
            "id": "-", "code": "QQQ", "name": " ", "long": "abcd", "bell": "a\u{7}", "number": 7,
            "part": {"other": 1, "name": null}, "list": [], "nobody": 1,
        });
        let known = [
            "id", "code", "name", "long", "bell", "number", "part", "list", "none", "missing",
        ];
        let mut read = Reader::new(&body, &known).unwrap();
        read.id("id");
        read.currency("code");
        for field in ["name", "long", "bell", "number", "missing"] {
            read.short_text(field, 3);
        }
        assert_eq!(read.optional_text("none", 3), None, "nothing is wrong");
        for field in ["part", "list"] {
            read.part(field, &["name"], "must be a part", |part| part.text("name"));
        }
        let wrong = read.end(|| Some(())).unwrap_err();
        let told: Vec<_> = wrong.iter().map(|(k, v)| format!("{k} {v}")).collect();
        let expected = [
            "bell must not contain control characters",
            "code must be an ISO 4217 code such as \"USD\"",
            "id must start with a letter or digit",
            "list must be a part",
            "long must have at most 3 characters",
            "missing is required",
            "name must not be empty",
            "nobody is unknown; known: id, code, name, long, bell, number, part, list, none, missing",
            "number must be a string",
            "part.name is required",
            "part.other is unknown; known: name",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_body_full_of_unknown_fields_is_not_answered_with_all_of_them() {
        let fields = (0..1000).map(|n| (n.to_string(), json!(1)));
        let body = Value::Object(fields.collect());
        let wrong = Reader::new(&body, &[]).unwrap().end(|| Some(()));
        assert_eq!(wrong.unwrap_err().len(), MOST_UNKNOWN);
        assert!(Reader::new(&json!([1]), &[]).is_err_and(|wrong| wrong.contains_key("body")));
    }
}
