//! Whether a JSON body has the shape that the document promises: every wrong field at once, named as its caller
//! wrote it. Types are read after this, so their own errors, which speak of Rust, reach nobody.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use tollgate_core::Timestamp;
use tollgate_core::details::Details;

use crate::contract::document::openapi_json;

/// At most this many wrong fields are named.
const MOST_WRONG: usize = 50;
/// The domain reads these field by field, and a wrong one is part of an answer.
const READ_ELSEWHERE: &str = "#/components/schemas/NewPayment";
/// The greatest whole numbers of the formats, where the document names no lower one.
const MOST_INT32: f64 = 4_294_967_295.0;
const MOST_INT64: f64 = 9_007_199_254_740_991.0;

static DOCUMENT: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(openapi_json()).unwrap_or_default());

/// What is wrong with a body of the schema with this name.
pub(super) fn flaws(schema: &str, body: &Value) -> Details {
    let pointer = format!("/components/schemas/{schema}");
    let mut check = Check::default();
    if let Some(schema) = DOCUMENT.pointer(&pointer) {
        check.value(schema, "", body);
    }
    check.wrong
}

#[derive(Default)]
struct Check {
    wrong: Details,
}

impl Check {
    fn blame(&mut self, path: &str, what: impl Into<String>) {
        if self.wrong.len() < MOST_WRONG {
            let path = if path.is_empty() { "body" } else { path };
            self.wrong.insert(path.to_owned(), what.into());
        }
    }

    fn value(&mut self, schema: &Value, path: &str, value: &Value) {
        if schema["$ref"] == READ_ELSEWHERE {
            return;
        }
        if let Some(target) = referenced(schema) {
            return self.value(target, path, value);
        }
        if let Some(ways) = schema["oneOf"].as_array() {
            // The document has it for what may be null only.
            let written = ways.iter().find(|way| way["type"] != "null");
            return match written {
                Some(written) if !value.is_null() => self.value(written, path, value),
                _ => {}
            };
        }
        if schema["allOf"].is_array() {
            return self.object(schema, path, value);
        }
        let kinds = kinds(schema);
        if value.is_null() && kinds.contains(&"null") {
            return;
        }
        match kinds.first().copied() {
            Some("integer") => self.whole_number(schema, path, value),
            Some("number") => self.number(schema, path, value),
            Some("string") => self.text(schema, path, value),
            Some("boolean") if !value.is_boolean() => self.blame(path, "must be true or false"),
            Some("array") => self.list(schema, path, value),
            Some("object") => self.object(schema, path, value),
            _ => {}
        }
    }

    fn whole_number(&mut self, schema: &Value, path: &str, value: &Value) {
        let least = schema["minimum"].as_f64().unwrap_or(0.0);
        let most = schema["maximum"].as_f64();
        let most = most.unwrap_or(match schema["format"].as_str() {
            Some("int32") => MOST_INT32,
            _ => MOST_INT64,
        });
        let whole = value.as_f64().filter(|_| value.is_u64() || value.is_i64());
        if !whole.is_some_and(|number| (least..=most).contains(&number)) {
            self.blame(
                path,
                format!("must be a whole number from {least} to {most}"),
            );
        }
    }

    fn number(&mut self, schema: &Value, path: &str, value: &Value) {
        let (least, most) = (schema["minimum"].as_f64(), schema["maximum"].as_f64());
        let fits = |number: f64| {
            least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most)
        };
        if value.as_f64().is_some_and(fits) {
            return;
        }
        let range = match (least, most) {
            (Some(least), Some(most)) => format!(" from {least} to {most}"),
            (Some(least), None) => format!(" of at least {least}"),
            (None, Some(most)) => format!(" of at most {most}"),
            (None, None) => String::new(),
        };
        self.blame(path, format!("must be a number{range}"));
    }

    fn text(&mut self, schema: &Value, path: &str, value: &Value) {
        let words: Option<Vec<&str>> = schema["enum"]
            .as_array()
            .map(|words| words.iter().filter_map(Value::as_str).collect());
        if let Some(words) = words {
            if !value.as_str().is_some_and(|text| words.contains(&text)) {
                self.blame(path, format!("must be {}", one_of(&words)));
            }
            return;
        }
        let Some(text) = value.as_str() else {
            return self.blame(path, "must be a string");
        };
        let most = schema["maxLength"].as_u64();
        let length = u64::try_from(text.chars().count()).unwrap_or(u64::MAX);
        if schema["minLength"] == 1 && text.trim().is_empty() {
            self.blame(path, "must not be empty");
        } else if let Some(most) = most.filter(|most| length > *most) {
            self.blame(path, format!("must have at most {most} characters"));
        } else if schema["format"] == "date-time" && text.parse::<Timestamp>().is_err() {
            let form = "must be a time such as \"2026-11-16T16:00:00-07:00\"";
            self.blame(path, form);
        }
    }

    fn list(&mut self, schema: &Value, path: &str, value: &Value) {
        let Some(list) = value.as_array() else {
            return self.blame(path, "must be a list");
        };
        let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
        if u64::try_from(list.len()).is_ok_and(|length| length > most) {
            return self.blame(path, format!("must have at most {most} entries"));
        }
        for (index, entry) in list.iter().enumerate() {
            self.value(&schema["items"], &format!("{path}[{index}]"), entry);
        }
    }

    fn object(&mut self, schema: &Value, path: &str, value: &Value) {
        let Some(given) = value.as_object() else {
            return self.blame(path, "must be a JSON object");
        };
        let parts = parts(schema);
        let known: Vec<(&String, &Value)> = parts
            .iter()
            .filter_map(|part| part["properties"].as_object())
            .flatten()
            .collect();
        if let Some(each) = parts.iter().find_map(|part| by_name(part)) {
            return self.entries(each, path, given);
        }
        for required in parts.iter().filter_map(|part| part["required"].as_array()) {
            let names = required.iter().filter_map(Value::as_str);
            for name in names.filter(|name| !given.contains_key(*name)) {
                self.blame(&within(path, name), "is required");
            }
        }
        // What consists of several parts has no other fields either: each of them would let through the others'.
        let closed = parts.len() > 1 || schema["additionalProperties"] == false;
        for (name, value) in given {
            match known.iter().find(|(known, _)| *known == name) {
                Some((_, schema)) => self.value(schema, &within(path, name), value),
                None if closed => {
                    let known: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
                    let known = known.join(", ");
                    self.blame(&within(path, name), format!("is unknown; known: {known}"));
                }
                None => {}
            }
        }
    }

    fn entries(&mut self, schema: &Value, path: &str, given: &Map<String, Value>) {
        for (name, value) in given {
            self.value(schema, &within(path, name), value);
        }
    }
}

/// The schema of every entry of a map.
fn by_name(part: &Value) -> Option<&Value> {
    let each = &part["additionalProperties"];
    each.is_object().then_some(each)
}

fn within(path: &str, name: &str) -> String {
    if path.is_empty() {
        return name.to_owned();
    }
    format!("{path}.{name}")
}

fn referenced(schema: &Value) -> Option<&'static Value> {
    let target = schema["$ref"].as_str()?.strip_prefix('#')?;
    DOCUMENT.pointer(target)
}

/// What an object consists of, references followed.
fn parts(schema: &Value) -> Vec<&Value> {
    match schema["allOf"].as_array() {
        None => vec![schema],
        Some(parts) => parts
            .iter()
            .flat_map(|part| self::parts(referenced(part).unwrap_or(part)))
            .collect(),
    }
}

fn kinds(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => vec![],
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match &quoted[..] {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        all => all.concat(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn finds(schema: &str, body: &Value, expected: &[&str]) {
        let flaws = flaws(schema, body);
        let flaws: Vec<String> = flaws.iter().map(|(k, v)| format!("{k}: {v}")).collect();
        assert_eq!(flaws, expected, "{body}");
    }

    #[test]
    fn every_wrong_field_is_told_at_once_in_the_callers_words() {
        let lane = json!({
            "maxPerWindow": "5", "windowSizeSecs": 1.5, "maxPerSecond": true, "spread": "wide",
            "calendar": 7, "confirm": null, "reason": "", "colour": 1,
        });
        finds(
            "LaneChange",
            &lane,
            &[
                "calendar: must be a string",
                "colour: is unknown; known: calendar, maxPerSecond, maxPerWindow, spread, windowSizeSecs, configName, confirm, reason",
                "configName: is required",
                "confirm: must be true or false",
                "maxPerSecond: must be a number of at most 100000",
                "maxPerWindow: must be a whole number from 1 to 4294967295",
                "reason: must not be empty",
                "spread: must be \"even\" or \"jitter\"",
                "windowSizeSecs: must be a whole number from 1 to 86400",
            ],
        );
        let pause = json!({"from": "tomorrow", "until": 3, "reason": "x".repeat(501)});
        let time = "must be a time such as \"2026-11-16T16:00:00-07:00\"";
        finds(
            "PauseRequest",
            &pause,
            &[
                &format!("from: {time}"),
                "reason: must have at most 500 characters",
                "until: must be a string",
            ],
        );
    }

    #[test]
    fn what_lies_deeper_is_told_by_its_path() {
        let calendar = json!({
            "zone": "UTC", "weekly": {"monday": "9-12", "tuesday": [7]}, "holidays": {"2026-12-25": 1},
            "blackouts": [{"from": "2026-11-16T16:00:00Z"}, 7],
        });
        finds(
            "CalendarChange",
            &calendar,
            &[
                "blackouts[0].to: is required",
                "blackouts[1]: must be a JSON object",
                "holidays.2026-12-25: must be a string",
                "weekly.monday: must be a list",
                "weekly.tuesday[0]: must be a string",
            ],
        );
        let forecast = json!({"count": 0, "change": {"maxPerWindow": -1, "pauseUntil": {}}});
        finds(
            "ForecastRequest",
            &forecast,
            &[
                "change.maxPerWindow: must be a whole number from 1 to 4294967295",
                "change.pauseUntil: must be a string",
                "count: must be a whole number from 1 to 10000000",
            ],
        );
        for body in [json!([]), json!("x"), json!(null)] {
            finds("Because", &body, &["body: must be a JSON object"]);
        }
    }

    #[test]
    fn nothing_is_wrong_with_what_is_right() {
        let lane = json!({
            "configName": "default", "maxPerWindow": 100, "maxPerSecond": 2.5, "spread": null,
            "calendar": null, "reason": null,
        });
        finds("LaneChange", &lane, &[]);
        // A wrong payment is part of the answer.
        finds(
            "RulesTrial",
            &json!({"payments": [7], "waiting": null}),
            &[],
        );
    }

    #[test]
    fn a_body_full_of_mistakes_is_not_answered_with_all_of_them() {
        let fields = (0..1000).map(|n| (n.to_string(), json!(1)));
        let body = Value::Object(fields.collect());
        assert_eq!(flaws("Because", &body).len(), MOST_WRONG);
    }
}
