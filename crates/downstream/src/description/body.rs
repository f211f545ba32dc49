//! The body of a request, made from expressions: JSON, a form or XML, its fields in the order in which they are written.

use std::fmt::Write;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value as Json;
use tollgate_expression::{Facts, Vocabulary};

use super::reader::{Kind, Node, Wrong};
use super::template::Template;

#[derive(Debug, Clone)]
pub(crate) enum Body {
    None,
    /// The payment or invoice itself, as `docs/bank.md` has it.
    AsItIs,
    Json(Tree),
    Form(Vec<(String, Template)>),
    /// The name of the root element, and what it holds.
    Xml(String, Tree),
}

#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Leaf(Template),
    Fixed(Json),
    List(Vec<Tree>),
    Fields(Vec<(String, Tree)>),
}

/// What expressions of a request are compiled with.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) vocabulary: &'static Vocabulary,
    pub(crate) sample: &'a Facts,
}

impl Words<'_> {
    pub(crate) fn template(self, node: &Node, name: &str) -> Result<Template, Wrong> {
        let source = match &node.kind {
            Kind::Text(text) => text.clone(),
            Kind::Whole(number) => number.to_string(),
            Kind::Yes(yes) => yes.to_string(),
            Kind::List(_) | Kind::Table(_) => {
                return Err(
                    node.wrong(format!("{name} must be text, perhaps with {{expressions}}"))
                );
            }
        };
        let compiled = Template::compile(self.vocabulary, self.sample, &source);
        compiled.map_err(|why| node.wrong(format!("{name}: {why}")))
    }

    /// Names and values, in order.
    pub(crate) fn templates(
        self,
        node: &Node,
        name: &str,
    ) -> Result<Vec<(String, Template)>, Wrong> {
        let fields = node.table(name)?.iter().map(|(field, node)| {
            let template = self.template(node, &format!("{name}.{field}"))?;
            Ok((field.clone(), template))
        });
        fields.collect()
    }

    pub(crate) fn tree(self, node: &Node, name: &str) -> Result<Tree, Wrong> {
        Ok(match &node.kind {
            Kind::Text(_) => Tree::Leaf(self.template(node, name)?),
            Kind::Whole(number) => Tree::Fixed(Json::from(*number)),
            Kind::Yes(yes) => Tree::Fixed(Json::Bool(*yes)),
            Kind::List(nodes) => {
                let nodes = nodes.iter().map(|node| self.tree(node, name));
                Tree::List(nodes.collect::<Result<_, _>>()?)
            }
            Kind::Table(fields) => {
                let fields = fields.iter().map(|(field, node)| {
                    let tree = self.tree(node, &format!("{name}.{field}"))?;
                    Ok((field.clone(), tree))
                });
                Tree::Fields(fields.collect::<Result<_, Wrong>>()?)
            }
        })
    }
}

impl Body {
    pub(crate) fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::AsItIs | Self::Json(_) => Some("application/json"),
            Self::Form(_) => Some("application/x-www-form-urlencoded"),
            Self::Xml(..) => Some("application/xml"),
        }
    }

    /// `as_it_is` is the payment's own JSON. The error names the field.
    pub(crate) fn render(&self, facts: &Facts, as_it_is: &str) -> Result<String, String> {
        match self {
            Self::None => Ok(String::new()),
            Self::AsItIs => Ok(as_it_is.to_owned()),
            Self::Json(tree) => {
                let mut out = String::new();
                json(tree, facts, "body", &mut out)?;
                Ok(out)
            }
            Self::Form(fields) => form(fields, facts),
            Self::Xml(root, tree) => {
                let mut out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
                xml(root, tree, facts, &mut out)?;
                Ok(out)
            }
        }
    }
}

fn json(tree: &Tree, facts: &Facts, name: &str, out: &mut String) -> Result<(), String> {
    match tree {
        Tree::Fixed(value) => out.push_str(&value.to_string()),
        Tree::Leaf(template) => {
            let value = template
                .json(facts)
                .map_err(|why| format!("{name}: {why}"))?;
            out.push_str(&value.to_string());
        }
        Tree::List(trees) => {
            out.push('[');
            for (place, tree) in trees.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                json(tree, facts, name, out)?;
            }
            out.push(']');
        }
        Tree::Fields(fields) => {
            out.push('{');
            for (place, (field, tree)) in fields.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(&Json::from(field.as_str()).to_string());
                out.push(':');
                json(tree, facts, &format!("{name}.{field}"), out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// As HTML forms are encoded, but for the space, which is `%20` everywhere.
const IN_FORMS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Fields that are null are left out.
pub(crate) fn form(fields: &[(String, Template)], facts: &Facts) -> Result<String, String> {
    let mut out = String::new();
    for (name, template) in fields {
        let value = template
            .text(facts)
            .map_err(|why| format!("{name}: {why}"))?;
        let Some(value) = value else {
            continue;
        };
        if !out.is_empty() {
            out.push('&');
        }
        let (name, value) = (
            utf8_percent_encode(name, IN_FORMS),
            utf8_percent_encode(&value, IN_FORMS),
        );
        // Writing to a string does not fail.
        let _ = write!(out, "{name}={value}");
    }
    Ok(out)
}

/// A field that begins with @ is an attribute; one that is null is left out; a list repeats its element.
fn xml(name: &str, tree: &Tree, facts: &Facts, out: &mut String) -> Result<(), String> {
    let text = |template: &Template| template.text(facts).map_err(|why| format!("{name}: {why}"));
    match tree {
        Tree::List(trees) => trees
            .iter()
            .try_for_each(|tree| xml(name, tree, facts, out)),
        Tree::Fixed(value) => {
            let value = value.to_string();
            let _ = write!(out, "<{name}>{value}</{name}>");
            Ok(())
        }
        Tree::Leaf(template) => {
            if let Some(value) = text(template)? {
                let value = escaped(&value)?;
                let _ = write!(out, "<{name}>{value}</{name}>");
            }
            Ok(())
        }
        Tree::Fields(fields) => {
            let _ = write!(out, "<{name}");
            for (field, tree) in fields {
                if let (Some(attribute), Tree::Leaf(template)) = (field.strip_prefix('@'), tree)
                    && let Some(value) = text(template)?
                {
                    let value = escaped(&value)?;
                    let _ = write!(out, " {attribute}=\"{value}\"");
                }
            }
            out.push('>');
            for (field, tree) in fields {
                match tree {
                    _ if field.starts_with('@') => {}
                    Tree::Leaf(template) if field == "#text" => {
                        let value = text(template)?.unwrap_or_default();
                        out.push_str(&escaped(&value)?);
                    }
                    tree => xml(field, tree, facts, out)?,
                }
            }
            let _ = write!(out, "</{name}>");
            Ok(())
        }
    }
}

/// XML has no way to write most control characters.
fn escaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\r' | '\t' => {
                let _ = write!(out, "&#{};", u32::from(character));
            }
            it if it.is_control() => {
                return Err("has a character that XML cannot carry".to_owned());
            }
            it => out.push(it),
        }
    }
    Ok(out)
}
