//! Parts of addresses: ids in paths, and queries.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Every character that could mean something in a path or a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b':');

/// Escapes an id or a query value, so that it is one part of an address.
pub fn quoted(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// The query with every parameter that has a value. Empty if none has.
pub(crate) fn query(given: &[(&str, Option<String>)]) -> String {
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

/// A number as a query value.
pub(crate) fn number(given: Option<impl ToString>) -> Option<String> {
    given.map(|number| number.to_string())
}

/// A flag as a query value: `true`, or left out.
pub(crate) fn flag(given: bool) -> Option<String> {
    given.then(|| "true".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_and_missing_ones_are_left_out() {
        let actor = Some("ann & bob".to_owned());
        let given = [("actor", actor), ("by", None), ("after", number(Some(7)))];
        assert_eq!(query(&given), "?actor=ann%20%26%20bob&after=7");
        assert_eq!(query(&[("held", flag(false))]), "");
        assert_eq!(quoted("PAYMENT/a:1"), "PAYMENT%2Fa:1");
    }
}
