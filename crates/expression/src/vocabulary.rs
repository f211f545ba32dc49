//! What expressions may say: which names and functions there are, and how deep they may go.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// Operations within operations, and a chain such as `a && b && c` is one inside the other: each is
/// judged on the stack of a worker, some thirteen kilobytes a step where nothing is optimised.
pub const MAX_DEPTH: usize = 48;

const TYPES: [&str; 8] = [
    "int",
    "uint",
    "double",
    "string",
    "bool",
    "list",
    "map",
    "null_type",
];
/// The functions of CEL that are of use here, and ours.
const FUNCTIONS: [&str; 16] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "string",
    "int",
    "uint",
    "double",
    "type",
    "dyn",
    "minor",
    "major",
    "lowerAscii",
    "upperAscii",
    "first",
    "uuid",
];

/// What an expression may speak of.
#[derive(Debug)]
pub struct Vocabulary {
    pub variables: &'static [&'static str],
    /// Those of them that are objects, with all the fields they have.
    pub objects: &'static [(&'static str, &'static [&'static str])],
}

impl Vocabulary {
    /// Whether an expression says nothing else, and is not too deep.
    pub(super) fn check(&'static self, expression: &IdedExpr) -> Result<(), String> {
        Check::of(self).expression(expression)
    }
}

/// Walks through an expression, and finds what it may not say.
struct Check<'e> {
    vocabulary: &'static Vocabulary,
    /// The names that a macro over a list has brought.
    bound: Vec<&'e str>,
    in_macro: bool,
    depth: usize,
}

impl<'e> Check<'e> {
    fn of(vocabulary: &'static Vocabulary) -> Self {
        Self {
            vocabulary,
            bound: vec![],
            in_macro: false,
            depth: 0,
        }
    }

    fn expression(&mut self, node: &'e IdedExpr) -> Result<(), String> {
        if self.depth == MAX_DEPTH {
            return Err(format!(
                "nests more than {MAX_DEPTH} operations; split it in two"
            ));
        }
        self.depth += 1;
        self.node(node)?;
        self.depth -= 1;
        Ok(())
    }

    fn node(&mut self, node: &'e IdedExpr) -> Result<(), String> {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => {
                self.expression(&select.operand)?;
                self.field(&select.operand.expr, &select.field)
            }
            Expr::Call(call) => {
                function(&call.func_name)?;
                let target = call.target.as_deref().into_iter();
                self.all(target.chain(&call.args))
            }
            Expr::List(list) => self.all(&list.elements),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(made) => Err(format!("has an unknown type {:?}", made.type_name)),
            Expr::Comprehension(over) => {
                if self.in_macro {
                    // One walk over a list is short; a walk in a walk need not be.
                    return Err(
                        "all, exists, map and filter cannot be used on or inside each other"
                            .to_owned(),
                    );
                }
                self.in_macro = true;
                let before = self.bound.len();
                self.expression(&over.iter_range)?;
                self.bound.push(&over.iter_var);
                self.bound.push(&over.accu_var);
                self.bound.extend(over.iter_var2.as_deref());
                let parts = [
                    &over.accu_init,
                    &over.loop_cond,
                    &over.loop_step,
                    &over.result,
                ];
                self.all(parts)?;
                self.bound.truncate(before);
                self.in_macro = false;
                Ok(())
            }
        }
    }

    fn all(&mut self, nodes: impl IntoIterator<Item = &'e IdedExpr>) -> Result<(), String> {
        nodes.into_iter().try_for_each(|node| self.expression(node))
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'e EntryExpr>) -> Result<(), String> {
        for entry in entries {
            match entry {
                EntryExpr::StructField(field) => self.expression(&field.value)?,
                EntryExpr::MapEntry(entry) => self.all([&entry.key, &entry.value])?,
            }
        }
        Ok(())
    }

    fn name(&self, name: &str) -> Result<(), String> {
        let variables = self.vocabulary.variables;
        let known =
            variables.contains(&name) || TYPES.contains(&name) || self.bound.contains(&name);
        if known || name.starts_with('@') {
            return Ok(());
        }
        Err(format!(
            "has an unknown name {name:?}; known: {}",
            variables.join(", ")
        ))
    }

    fn field(&self, of: &Expr, field: &str) -> Result<(), String> {
        let Expr::Ident(name) = of else {
            return Ok(());
        };
        let object = self.vocabulary.objects.iter().find(|(it, _)| *it == name);
        match object {
            Some((_, fields)) if !fields.contains(&field) => {
                let fields = fields.join(" and ");
                Err(format!("{name} has {fields}, but no {field:?}"))
            }
            _ => Ok(()),
        }
    }
}

fn function(name: &str) -> Result<(), String> {
    // Operators are functions whose names nobody can write.
    let is_operator = !name.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_operator || FUNCTIONS.contains(&name) {
        return Ok(());
    }
    let known = FUNCTIONS.join(", ");
    Err(format!("has an unknown function {name:?}; known: {known}"))
}

/// All names in an expression, those that a macro brings among them.
pub(super) fn names(expression: &IdedExpr) -> Vec<&str> {
    let mut found = vec![];
    let mut left = vec![expression];
    while let Some(node) = left.pop() {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => found.push(name.as_str()),
            Expr::Select(select) => left.push(&select.operand),
            Expr::Call(call) => left.extend(call.target.as_deref().into_iter().chain(&call.args)),
            Expr::List(list) => left.extend(&list.elements),
            Expr::Map(map) => map
                .entries
                .iter()
                .for_each(|entry| left.extend(parts(&entry.expr))),
            Expr::Struct(made) => made
                .entries
                .iter()
                .for_each(|entry| left.extend(parts(&entry.expr))),
            Expr::Comprehension(over) => left.extend([
                &over.iter_range,
                &over.accu_init,
                &over.loop_cond,
                &over.loop_step,
                &over.result,
            ]),
        }
    }
    found
}

fn parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}
