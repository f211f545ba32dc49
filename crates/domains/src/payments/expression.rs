//! What a rule requires: a CEL expression about one payment, compiled once. Whatever can be said
//! to be wrong with it before a payment comes is said then; what is left is bounded by its length.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::{Context, Env, ExecutionError, Program, Value};
use tollgate_core::Timestamp;
use tollgate_core::id::{ItemId, LaneName};
use tollgate_core::money::{Currency, Money};

use super::PaymentRequest;

/// Long enough for a list of sixty accounts.
const MAX_CHARS: usize = 2000;
/// Brackets within brackets.
const MAX_NESTING: u16 = 16;
/// Operations within operations, and a chain such as `a && b && c` is one inside the other: each is
/// judged on the stack of a worker, some thirteen kilobytes a step where nothing is optimised.
const MAX_DEPTH: usize = 48;
/// Only what is used of it is taken from the machine.
const PARSER_STACK_BYTES: usize = 64 << 20;

const VARIABLES: [&str; 13] = [
    "paymentId",
    "amountMinor",
    "currency",
    "debtor",
    "creditor",
    "gateway",
    "lane",
    "executeAt",
    "deadline",
    "reference",
    "metadata",
    "now",
    "holdIfLate",
];
const PARTY: [&str; 2] = ["account", "name"];
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
const FUNCTIONS: [&str; 11] = [
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
];

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
}

impl Expression {
    /// The error fits behind the rule's name.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        Self::about(&VARIABLES, &Facts::of_a_sample(), source)
    }

    /// About something else than a payment: what it may speak of, and the least there is to know.
    pub(crate) fn about(
        variables: &'static [&'static str],
        sample: &Facts,
        source: &str,
    ) -> Result<Self, String> {
        if source.chars().count() > MAX_CHARS {
            return Err(format!(
                "has more than {MAX_CHARS} characters; make two rules of it"
            ));
        }
        let deepest = deepest_bracket(source);
        if deepest > MAX_NESTING {
            return Err(format!("has brackets more than {MAX_NESTING} deep"));
        }
        let program = parse(source)?;
        Check::of(variables).expression(program.expression())?;
        let expression = Self { program };
        match expression.holds(sample) {
            Err(Failed::NoVerdict(what)) => Err(format!("must be true or false, and is {what}")),
            Ok(_) | Err(Failed::Error(_)) => Ok(expression),
        }
    }

    pub(crate) fn holds(&self, facts: &Facts) -> Result<bool, Failed> {
        let run = AssertUnwindSafe(|| self.program.execute(&facts.context));
        match catch_unwind(run) {
            Ok(Ok(Value::Bool(holds))) => Ok(holds),
            Ok(Ok(other)) => Err(Failed::NoVerdict(other.type_of().to_string())),
            Ok(Err(error)) => Err(Failed::Error(without_values(&error))),
            Err(_) => Err(Failed::Error("the interpreter gave up".to_owned())),
        }
    }
}

/// The parser is not ours, and goes deep: it gets a stack of its own, and a bug of it takes no more
/// with it than the rule.
fn parse(source: &str) -> Result<Program, String> {
    let parsed = std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES);
        let parser = parser.spawn_scoped(scope, || {
            let parsed = ENVIRONMENT.compile(source);
            parsed.map_err(|errors| said_by_the_parser(&errors))
        });
        parser.map(std::thread::ScopedJoinHandle::join)
    });
    let gave_up = || "cannot be read: the parser gave up".to_owned();
    parsed.map_err(|_| gave_up())?.map_err(|_| gave_up())?
}

/// Why there is neither yes nor no.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// The type of what came out instead.
    NoVerdict(String),
    Error(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoVerdict(what) => write!(f, "it is {what}, neither true nor false"),
            Self::Error(why) => f.write_str(why),
        }
    }
}

/// An error of the interpreter may show the values it worked on: account numbers among them.
fn without_values(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no {key:?}"),
        ExecutionError::UndeclaredReference(name) => format!("there is no {name:?}"),
        ExecutionError::NoSuchOverload(overload) => overload.to_string(),
        ExecutionError::FunctionError { function, message } => format!("{function}: {message}"),
        ExecutionError::UnexpectedType { got, want } => format!("{got} where {want} is wanted"),
        ExecutionError::Overflow(..) => "a number is too large".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "a division by zero".to_owned()
        }
        ExecutionError::IndexOutOfBounds(_) => "a list is too short".to_owned(),
        _ => "values that do not go together".to_owned(),
    }
}

/// The first of them, with its place; the drawing that the parser adds is left out.
fn said_by_the_parser(errors: &cel::ParseErrors) -> String {
    let Some(error) = errors.errors.first() else {
        return "cannot be read".to_owned();
    };
    let (line, column) = error.pos;
    let what = error.msg.lines().next().unwrap_or_default();
    format!("line {line}, column {column}: {what}")
}

fn deepest_bracket(source: &str) -> u16 {
    let (mut depth, mut deepest) = (0_u16, 0);
    for character in source.chars() {
        match character {
            '(' | '[' | '{' => depth = depth.saturating_add(1),
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// What an expression may speak of.
struct Check<'e> {
    variables: &'static [&'static str],
    /// The names that a macro over a list has brought.
    bound: Vec<&'e str>,
    in_macro: bool,
    depth: usize,
}

impl<'e> Check<'e> {
    fn of(variables: &'static [&'static str]) -> Self {
        Self {
            variables,
            bound: vec![],
            in_macro: false,
            depth: 0,
        }
    }

    fn expression(&mut self, node: &'e IdedExpr) -> Result<(), String> {
        if self.depth == MAX_DEPTH {
            return Err(format!(
                "goes more than {MAX_DEPTH} operations deep; make two rules of it"
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
                party_field(&select.operand.expr, &select.field)
            }
            Expr::Call(call) => {
                function(&call.func_name)?;
                let target = call.target.as_deref().into_iter();
                self.all(target.chain(&call.args))
            }
            Expr::List(list) => self.all(&list.elements),
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr)),
            Expr::Struct(made) => Err(format!("there is no type {:?}", made.type_name)),
            Expr::Comprehension(over) => {
                if self.in_macro {
                    // One walk over a payment's lists is short; a walk in a walk need not be.
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
        let known =
            self.variables.contains(&name) || TYPES.contains(&name) || self.bound.contains(&name);
        if known || name.starts_with('@') {
            return Ok(());
        }
        Err(format!(
            "there is no {name:?}; there are {}",
            self.variables.join(", ")
        ))
    }
}

fn party_field(of: &Expr, field: &str) -> Result<(), String> {
    let is_party = matches!(of, Expr::Ident(name) if name == "debtor" || name == "creditor");
    if is_party && !PARTY.contains(&field) {
        return Err(format!("a party has account and name, but no {field:?}"));
    }
    Ok(())
}

fn function(name: &str) -> Result<(), String> {
    // Operators are functions whose names nobody can write.
    let is_operator = !name.starts_with(|first: char| first.is_ascii_alphabetic());
    if is_operator || FUNCTIONS.contains(&name) {
        return Ok(());
    }
    let known = FUNCTIONS.join(", ");
    Err(format!("there is no function {name:?}; there are {known}"))
}

/// What an expression knows of a payment.
pub(crate) struct Facts {
    context: Context<'static, 'static>,
}

impl Facts {
    /// What there is to know about something else; `minor()` is of its currency.
    pub(crate) fn about(known: Vec<(&str, Value)>, currency: Currency) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        for (name, value) in known {
            context.add_variable_from_value(name, value);
        }
        let minor = move |text: Arc<String>| in_minor_units(&text, currency);
        // A name that is taken is our own mistake, and every rule with it would say so.
        let _ = context.add_function("minor", minor);
        Self { context }
    }

    pub(super) fn new(
        payment: &PaymentRequest,
        gateway: &str,
        lane: &LaneName,
        now: Timestamp,
    ) -> Self {
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        let mut add = |name: &str, value: Value| context.add_variable_from_value(name, value);
        add("paymentId", payment.payment_id.as_str().into());
        add("amountMinor", Value::Int(payment.money.minor));
        add("currency", payment.money.currency.code().into());
        add("debtor", party(&payment.debtor));
        add("creditor", party(&payment.creditor));
        add("gateway", gateway.into());
        add("lane", lane.as_str().into());
        // Without a time it runs as soon as it can.
        let execute_at = payment.execute_at.unwrap_or(now);
        add("executeAt", Value::Int(execute_at.as_second()));
        let deadline = payment
            .deadline
            .map(|deadline| Value::Int(deadline.as_second()));
        add("deadline", deadline.unwrap_or(Value::Null));
        add(
            "reference",
            payment.reference.as_deref().unwrap_or_default().into(),
        );
        let metadata = payment.metadata.iter().flatten();
        let metadata = metadata.map(|(key, value)| (key.clone(), plain(value)));
        add("metadata", map(metadata));
        add("now", Value::Int(now.as_second()));
        add("holdIfLate", Value::Bool(payment.hold_if_late));
        let currency = payment.money.currency;
        let minor = move |text: Arc<String>| in_minor_units(&text, currency);
        // A name that is taken is our own mistake, and every rule with it would say so.
        let _ = context.add_function("minor", minor);
        Self { context }
    }

    fn of_a_sample() -> Self {
        let sample = sample();
        let (gateway, lane) = (super::DEFAULT_GATEWAY, LaneName::new("default"));
        Self::new(&sample, gateway, &lane, Timestamp::UNIX_EPOCH)
    }
}

/// A payment with as little in it as there can be.
fn sample() -> PaymentRequest {
    let currency = Currency::from_code("EUR").expect("the euro is a currency");
    let party = |name: &str| super::Party {
        account: name.to_owned(),
        name: name.to_owned(),
    };
    PaymentRequest {
        payment_id: ItemId::new("sample"),
        money: Money { minor: 1, currency },
        debtor: party("debtor"),
        creditor: party("creditor"),
        execute_at: None,
        deadline: None,
        hold_if_late: false,
        gateway: None,
        reference: None,
        metadata: None,
    }
}

/// `minor("12.50")` is 1250 in euros; CEL has no decimals of its own.
fn in_minor_units(text: &str, currency: Currency) -> Result<i64, ExecutionError> {
    Money::parse(text, currency)
        .map(|money| money.minor)
        .map_err(|why| ExecutionError::function_error("minor", format!("{text:?} {why}")))
}

fn party(party: &super::Party) -> Value {
    let fields = [("account", &party.account), ("name", &party.name)];
    map(fields.map(|(name, text)| (name.to_owned(), text.as_str().into())))
}

pub(crate) fn map(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    let entries: std::collections::HashMap<String, Value> = entries.into_iter().collect();
    entries.into()
}

fn plain(value: &serde_json::Value) -> Value {
    use serde_json::Value as Json;
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::Int(number),
            (None, Some(number)) => Value::UInt(number),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => text.as_str().into(),
        Json::Array(values) => values.iter().map(plain).collect::<Vec<_>>().into(),
        Json::Object(fields) => map(fields
            .iter()
            .map(|(key, value)| (key.clone(), plain(value)))),
    }
}

#[cfg(test)]
mod tests;
