//! One request of a description: where it goes at its bank, and what it carries. Its bytes depend on the payment and
//! on the description, and on nothing else.

use http::{HeaderName, HeaderValue, Method};
use tollgate_core::ports::Request;
use tollgate_expression::Facts;

use super::body::{Body, Words, form};
use super::reader::{Fields, Kind, Node, Wrong};
use super::template::{Part, Template, as_text};
use crate::http::path_segment;

/// Headers that frame the message or let us in: not for a description to set.
const NOT_THEIRS: [&str; 10] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    method: Method,
    path: Template,
    query: Vec<(String, Template)>,
    headers: Vec<(HeaderName, Template)>,
    body: Body,
}

/// As it goes out, but for what the login adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Composed {
    pub(crate) method: Method,
    /// With its query.
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) content_type: Option<&'static str>,
    pub(crate) body: String,
}

pub(crate) const SEND_FIELDS: [&str; 9] = [
    "method", "path", "query", "headers", "body", "json", "form", "xml", "answers",
];
pub(crate) const PROBE_FIELDS: [&str; 6] =
    ["method", "path", "query", "headers", "answers", "by_key"];

impl Outgoing {
    pub(crate) fn read(
        fields: Fields<'_>,
        default: Method,
        words: Words<'_>,
    ) -> Result<Self, Wrong> {
        let name = fields.name;
        let method = match fields.get("method") {
            None => default,
            Some(node) => method(node, name)?,
        };
        let node = fields.required("path")?;
        let path = path(node, &format!("{name}.path"), words)?;
        let query = fields.get("query");
        let query = query.map(|node| words.templates(node, &format!("{name}.query")));
        let headers = fields.get("headers");
        let headers = headers.map(|node| headers_of(node, name, words));
        Ok(Self {
            method,
            path,
            query: query.transpose()?.unwrap_or_default(),
            headers: headers.transpose()?.unwrap_or_default(),
            body: body(fields, words)?,
        })
    }

    /// Fails if an expression does, for this payment; the sentence says which field, and no value.
    pub(crate) fn compose(&self, facts: &Facts, request: &Request) -> Result<Composed, String> {
        let mut path = String::new();
        for part in self.path.parts() {
            match part {
                Part::Text(text) => path.push_str(text),
                Part::Value(expression) => {
                    let value = as_text(expression, facts).map_err(|why| format!("path: {why}"))?;
                    if matches!(value.as_str(), "" | "." | "..") {
                        return Err("path: a segment would be empty, \".\" or \"..\"".to_owned());
                    }
                    path.push_str(&path_segment(&value));
                }
            }
        }
        let query = form(&self.query, facts).map_err(|why| format!("query.{why}"))?;
        if !query.is_empty() {
            path.push('?');
            path.push_str(&query);
        }
        let mut headers = vec![];
        for (name, template) in &self.headers {
            let wrong = |why: &str| format!("headers.{name}: {why}");
            if let Some(value) = template.text(facts).map_err(|why| wrong(&why))? {
                let value = HeaderValue::from_str(&value)
                    .map_err(|_| wrong("has characters that are not allowed in a header"))?;
                headers.push((name.clone(), value));
            }
        }
        Ok(Composed {
            method: self.method.clone(),
            path,
            headers,
            content_type: self.body.content_type(),
            body: self.body.render(facts, &request.body_json)?,
        })
    }
}

fn method(node: &Node, name: &str) -> Result<Method, Wrong> {
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH];
    let text = node.text(&format!("{name}.method"))?;
    let found = methods.into_iter().find(|method| method.as_str() == text);
    found.ok_or_else(|| {
        node.wrong(format!(
            "{name}.method: {text:?} is not a method for this; use GET, POST, PUT or PATCH"
        ))
    })
}

fn path(node: &Node, name: &str, words: Words<'_>) -> Result<Template, Wrong> {
    let text = node.text(name)?;
    let leaves = !text.starts_with('/')
        || text.starts_with("//")
        || text.contains("://")
        || text.split('/').any(|part| part == ".." || part == ".");
    if leaves {
        return Err(node.wrong(format!(
            "{name}: {text:?} would leave the bank's URL; begin it with one slash, without .. and without a host"
        )));
    }
    if text.contains(['?', '#', ' ']) {
        return Err(node.wrong(format!(
            "{name}: {text:?} has a ?, a # or a space; what follows a ? goes into the query"
        )));
    }
    words.template(node, name)
}

fn headers_of(
    node: &Node,
    name: &str,
    words: Words<'_>,
) -> Result<Vec<(HeaderName, Template)>, Wrong> {
    let mut headers = vec![];
    for (header, value) in node.table(&format!("{name}.headers"))? {
        let path = format!("{name}.headers.{header}");
        let parsed: HeaderName = header
            .parse()
            .map_err(|_| value.wrong(format!("{path}: is not the name of a header")))?;
        if NOT_THEIRS.contains(&parsed.as_str()) {
            return Err(value.wrong(format!(
                "{path}: Tollgate sets this header itself, or the login does"
            )));
        }
        headers.push((parsed, words.template(value, &path)?));
    }
    Ok(headers)
}

fn body(fields: Fields<'_>, words: Words<'_>) -> Result<Body, Wrong> {
    let name = fields.name;
    let kinds = ["body", "json", "form", "xml"];
    let mut given = kinds
        .iter()
        .filter_map(|kind| Some((*kind, fields.get(kind)?)));
    let Some((kind, node)) = given.next() else {
        return Ok(Body::None);
    };
    if let Some((other, node)) = given.next() {
        return Err(node.wrong(format!(
            "{name} has both {kind} and {other}; a request has one body"
        )));
    }
    let path = format!("{name}.{kind}");
    Ok(match kind {
        "body" if node.text(&path)? == "as it is" => Body::AsItIs,
        "body" => {
            return Err(node.wrong(format!(
                "{path} must be \"as it is\"; for anything else write a table {name}.json, {name}.form or {name}.xml"
            )));
        }
        "json" => {
            node.table(&path)?;
            Body::Json(words.tree(node, &path)?)
        }
        "form" => Body::Form(words.templates(node, &path)?),
        _ => match &node.kind {
            Kind::Table(roots) if roots.len() == 1 => {
                let (root, content) = &roots[0];
                Body::Xml(root.clone(), words.tree(content, &path)?)
            }
            _ => return Err(node.wrong(format!("{path} must hold one element, the root"))),
        },
    })
}

impl Composed {
    /// For people: the request line, headers, an empty line, the body.
    pub(crate) fn shown(&self) -> String {
        let mut lines = vec![format!("{} {}", self.method, self.path)];
        let kind = self
            .content_type
            .map(|kind| format!("content-type: {kind}"));
        lines.extend(kind);
        for (name, value) in &self.headers {
            lines.push(format!(
                "{name}: {}",
                String::from_utf8_lossy(value.as_bytes())
            ));
        }
        if !self.body.is_empty() {
            lines.push(String::new());
            lines.push(self.body.clone());
        }
        lines.join("\n")
    }
}
