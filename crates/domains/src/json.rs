//! Reads JSON that callers write. Stricter than the format: a field given twice in one object is refused, since
//! readers disagree about which one counts, and so is the character NUL, which no store keeps in a text.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};
use tollgate_core::details::{Details, one};

/// Why a text was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is not JSON; the parser's sentence.
    Syntax(String),
    /// It is JSON, but one of its fields cannot be taken.
    Field { path: String, why: String },
}

impl Refused {
    /// By field; what is not JSON at all is about `whole`.
    pub fn details(self, whole: &str) -> Details {
        match self {
            Self::Syntax(why) => one(whole, format!("is not JSON: {why}")),
            Self::Field { path, why } if path.is_empty() => one(whole, why),
            Self::Field { path, why } => one(&path, why),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(why) => write!(f, "is not JSON: {why}"),
            Self::Field { path, why } => write!(f, "{path} {why}"),
        }
    }
}

impl std::error::Error for Refused {}

const TWICE: &str = "is given twice in the same object";
const NUL: &str = "must not contain the character NUL";
/// Stands between a path and what is wrong with it in the parser's error; neither can contain it.
const BETWEEN: char = '\0';

/// One JSON value.
pub fn read(text: &[u8]) -> Result<Value, Refused> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    let value = Place::Whole.deserialize(&mut parser).map_err(refused)?;
    parser.end().map_err(refused)?;
    Ok(value)
}

/// Whether the text is JSON, by the same parser; its fields are not looked at.
pub fn check(text: &[u8]) -> Result<(), Refused> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    Syntax.deserialize(&mut parser).map_err(refused)?;
    parser.end().map_err(refused)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "the shape that map_err wants"
)]
fn refused(error: serde_json::Error) -> Refused {
    let said = error.to_string();
    // A value takes whatever is JSON, so an error about its data is one of ours.
    match (error.classify(), said.split_once(BETWEEN)) {
        (Category::Data, Some((path, why))) => Refused::Field {
            path: path.to_owned(),
            why: why.split(BETWEEN).next().unwrap_or(why).to_owned(),
        },
        _ => Refused::Syntax(said),
    }
}

/// Where in the text a value stands.
#[derive(Clone, Copy)]
enum Place<'a> {
    Whole,
    Field(&'a Place<'a>, &'a str),
    Element(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => Ok(()),
            Self::Field(Self::Whole, name) => f.write_str(name),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Element(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

impl Place<'_> {
    fn refuse<E: serde::de::Error>(&self, why: &str) -> E {
        // The parser adds where in the text it stopped; that belongs to neither part.
        let path = self.to_string().replace(BETWEEN, "\u{fffd}");
        E::custom(format_args!("{path}{BETWEEN}{why}{BETWEEN}"))
    }

    fn text<E: serde::de::Error>(&self, text: String) -> Result<Value, E> {
        if text.contains('\0') {
            return Err(self.refuse(NUL));
        }
        Ok(Value::String(text))
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).map(Value::Number);
        number.ok_or_else(|| E::custom("a number that is not finite"))
    }
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.text(text.to_owned())
    }
    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = vec![];
        while let Some(element) = elements.next_element_seed(Place::Element(&self, list.len()))? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let here = Place::Field(&self, &name);
            if name.contains('\0') {
                return Err(here.refuse(NUL));
            }
            if fields.contains_key(&name) {
                return Err(here.refuse(TWICE));
            }
            let value = entries.next_value_seed(here)?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

/// Reads a value and keeps nothing of it. Unlike serde's `IgnoredAny` it reads what strings say, so that an escape which
/// stands for no character is found here, too.
#[derive(Clone, Copy)]
struct Syntax;

impl<'de> DeserializeSeed<'de> for Syntax {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Syntax {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while elements.next_element_seed(self)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_entry_seed(self, self)?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_given_twice_or_with_nul_is_refused_wherever_it_stands() {
        let table = [
            (r#"{"amount":"1.00","amount":"9999.00"}"#, "amount", TWICE),
            (r#"{"a":1,"\u0061":2}"#, "a", TWICE),
            (r#"{"a":null,"a":null}"#, "a", TWICE),
            (
                r#"{"debtor":{"account":1,"account":2}}"#,
                "debtor.account",
                TWICE,
            ),
            (r#"{"m":{"l":[{},[{"x":1,"x":1}]]}}"#, "m.l[1][0].x", TWICE),
            (r#"[{"x":1,"x":1}]"#, "[0].x", TWICE),
            (r#"{"m":{"note":"a\u0000b"}}"#, "m.note", NUL),
            (r#"{"a\u0000":1}"#, "a\u{fffd}", NUL),
            (r#"{"l":["x","\u0000"]}"#, "l[1]", NUL),
        ];
        for (text, path, why) in table {
            let expected = Refused::Field {
                path: path.to_owned(),
                why: why.to_owned(),
            };
            assert_eq!(read(text.as_bytes()), Err(expected), "{text}");
            assert_eq!(check(text.as_bytes()), Ok(()), "{text}");
        }
    }

    #[test]
    fn one_name_in_two_objects_is_fine_and_values_are_what_others_read() {
        let text = r#" {"a":{"x":1},"b":{"x":[1,-2,1.5,1e300,true,null,"x\n\u00fc"]},"":{}} "#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes()), Ok(expected));
        assert_eq!(check(text.as_bytes()), Ok(()));
    }

    #[test]
    fn what_is_not_json_is_told_by_the_parser() {
        let deep = "[".repeat(30_000);
        for text in [
            "",
            "{",
            "{} x",
            "{\"a\":}",
            "\u{0}",
            "1e999",
            "\"a\u{0}\"",
            r#""\ud800""#,
            &deep,
        ] {
            let said = read(text.as_bytes());
            assert!(
                matches!(said, Err(Refused::Syntax(_))),
                "{text:.20}: {said:?}"
            );
            assert_eq!(check(text.as_bytes()), said.map(drop), "{text:.20}");
        }
        assert!(matches!(read(b"\"\xff\""), Err(Refused::Syntax(_))));
    }
}
