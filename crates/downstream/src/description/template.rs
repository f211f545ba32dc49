//! Text with expressions in braces: `/payouts/{paymentId}`. A text that is one expression and nothing else keeps the
//! type of its value.

use serde_json::Value as Json;
use tollgate_expression::{Expression, Facts, Value, Vocabulary};

#[derive(Debug, Clone)]
pub(crate) struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    Value(Expression),
}

impl Template {
    pub(crate) fn compile(
        vocabulary: &'static Vocabulary,
        sample: &Facts,
        source: &str,
    ) -> Result<Self, String> {
        let mut parts = vec![];
        let mut rest = source;
        while let Some(open) = rest.find(['{', '}']) {
            let (text, found) = rest.split_at(open);
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            let Some(inner) = found.strip_prefix('{') else {
                return Err("has a } without a {; write {'}'} for a literal brace".to_owned());
            };
            let close = closing_brace(inner).ok_or("has a { without its }")?;
            let expression = Expression::compile_value(vocabulary, &inner[..close])?;
            expression.check_types(sample)?;
            parts.push(Part::Value(expression));
            rest = &inner[close + 1..];
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self { parts })
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// None if it is one expression, and that is null.
    pub(crate) fn text(&self, facts: &Facts) -> Result<Option<String>, String> {
        if let Json::Null = self.json(facts)? {
            return Ok(None);
        }
        let mut all = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => all.push_str(text),
                Part::Value(expression) => all.push_str(&as_text(expression, facts)?),
            }
        }
        Ok(Some(all))
    }

    pub(crate) fn json(&self, facts: &Facts) -> Result<Json, String> {
        match self.parts.as_slice() {
            [Part::Value(expression)] => {
                let value = expression.value(facts).map_err(|why| why.to_string())?;
                to_json(&value)
            }
            [Part::Text(text)] => Ok(Json::String(text.clone())),
            [] => Ok(Json::String(String::new())),
            many => {
                let texts = many.iter().map(|part| match part {
                    Part::Text(text) => Ok(text.clone()),
                    Part::Value(expression) => as_text(expression, facts),
                });
                Ok(Json::String(texts.collect::<Result<String, _>>()?))
            }
        }
    }
}

pub(crate) fn as_text(expression: &Expression, facts: &Facts) -> Result<String, String> {
    let value = expression.value(facts).map_err(|why| why.to_string())?;
    match to_json(&value)? {
        Json::String(text) => Ok(text),
        Json::Number(number) => Ok(number.to_string()),
        Json::Bool(yes) => Ok(yes.to_string()),
        Json::Null => Err("is null, but must be text".to_owned()),
        Json::Array(_) | Json::Object(_) => Err("is a list or a map, but must be text".to_owned()),
    }
}

/// Maps in the order of their keys: the bytes depend on nothing but the value.
fn to_json(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(yes) => Json::Bool(*yes),
        Value::Int(number) => Json::from(*number),
        Value::UInt(number) => Json::from(*number),
        Value::Float(_) => {
            return Err("is a number with a fraction, which is never exact".to_owned());
        }
        Value::String(text) => Json::String(text.to_string()),
        Value::List(values) => Json::Array(values.iter().map(to_json).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            let mut fields: Vec<(String, Json)> = vec![];
            for (key, value) in map.map.iter() {
                fields.push((key.to_string(), to_json(value)?));
            }
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Json::Object(fields.into_iter().collect())
        }
        _ => return Err("is a value that a request cannot contain".to_owned()),
    })
}

/// Where the expression ends: braces within it, and within its texts, are its own.
fn closing_brace(source: &str) -> Option<usize> {
    let (mut depth, mut quote, mut escaped) = (0_usize, None, false);
    for (place, character) in source.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), it) if it == open => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(place),
            (None, '}') => depth -= 1,
            (Some(_) | None, _) => {}
        }
    }
    None
}
