//! What is wrong with something that somebody has written, by field: the API's `details`.

use std::collections::BTreeMap;

/// A sentence for each field, which fits behind the field's name.
pub type Details = BTreeMap<String, String>;

/// One thing is wrong.
pub fn one(field: &str, what: impl Into<String>) -> Details {
    Details::from([(field.to_owned(), what.into())])
}

/// For where there is room for one sentence only.
pub fn in_one_line(details: &Details) -> String {
    let parts = details
        .iter()
        .map(|(field, what)| format!("{field}: {what}"));
    parts.collect::<Vec<_>>().join("; ")
}
