//! How a downstream's own 4xx answers are recognised. A load balancer or a proxy on the way answers with the
//! same statuses, and knows nothing about the item: its 404 neither refuses a payment nor proves that nothing was
//! done. Here is what may be configured; answers are compared with it in `downstream`.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "String")]
pub enum Marker {
    /// By the contract (`docs/bank.md`): a 404 or 410 is a JSON object that names the item, any other 4xx is a
    /// JSON object.
    #[default]
    Contract,
    /// The answer has this header, with this value if one is given.
    Header { name: String, value: Option<String> },
    /// The answer has this content type, whatever its parameters.
    ContentType(String),
    /// The answer is a JSON object with this field, and the field is not null.
    Field(String),
    /// Every answer is the downstream's own, even without a body.
    AnyBody,
}

const FORMS: &str = "\"contract\", \"header:NAME\", \"header:NAME=VALUE\", \"content-type:TYPE/SUBTYPE\", \
                     \"field:NAME\" or \"any body\"";

impl Marker {
    /// The sentence names the remedy.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "contract" => Ok(Self::Contract),
            None if text == "any body" => Ok(Self::AnyBody),
            Some(("header", header)) => parse_header(header),
            Some(("content-type", kind)) => parse_content_type(kind),
            Some(("field", "")) => {
                Err("the field's name is missing; write \"field:NAME\"".to_owned())
            }
            Some(("field", field)) => Ok(Self::Field(field.to_owned())),
            _ => Err(format!("unknown marker {text:?}; write {FORMS}")),
        }
    }
}

impl TryFrom<String> for Marker {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

fn parse_header(text: &str) -> Result<Marker, String> {
    let (name, value) = match text.split_once('=') {
        None => (text, None),
        Some((name, value)) => (name, Some(value.trim())),
    };
    if !is_token(name) {
        return Err(format!("{name:?} is not the name of a header"));
    }
    if value == Some("") {
        return Err(format!(
            "the value of the header is missing; write \"header:{name}=VALUE\", or \"header:{name}\" for any value"
        ));
    }
    Ok(Marker::Header {
        name: name.to_ascii_lowercase(),
        value: value.map(str::to_owned),
    })
}

fn parse_content_type(text: &str) -> Result<Marker, String> {
    match text.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) => {
            Ok(Marker::ContentType(text.to_ascii_lowercase()))
        }
        _ => Err(format!(
            "{text:?} is not a content type; write TYPE/SUBTYPE without parameters, as in application/problem+json"
        )),
    }
}

/// As RFC 9110 has it.
fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_and_names_that_cannot_differ_by_case_are_lowered() {
        let header = |name: &str, value: Option<&str>| Marker::Header {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        let table = [
            ("contract", Marker::Contract),
            ("any body", Marker::AnyBody),
            ("header:X-Bank", header("x-bank", None)),
            ("header:Server=Core 1=2", header("server", Some("Core 1=2"))),
            (
                "content-type:application/Problem+JSON",
                Marker::ContentType("application/problem+json".to_owned()),
            ),
            ("field:errorCode", Marker::Field("errorCode".to_owned())),
            ("field:a:b", Marker::Field("a:b".to_owned())),
        ];
        for (text, marker) in table {
            assert_eq!(Marker::parse(text), Ok(marker), "{text}");
        }
        assert_eq!(Marker::default(), Marker::Contract);
    }

    #[test]
    fn what_is_none_of_them_says_what_to_write() {
        let table = [
            ("", "write \"contract\""),
            ("json", "unknown marker \"json\""),
            ("Any body", "\"any body\""),
            ("cookie:x", "unknown marker"),
            ("header:", "not the name of a header"),
            ("header:a b", "not the name of a header"),
            ("header:X-Bank=", "write \"header:X-Bank=VALUE\""),
            ("content-type:json", "write TYPE/SUBTYPE"),
            (
                "content-type:text/html; charset=utf-8",
                "without parameters",
            ),
            ("field:", "write \"field:NAME\""),
        ];
        for (text, why) in table {
            let said = Marker::parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
