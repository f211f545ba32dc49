//! What a rule, a check or a connector's description says: a CEL expression, compiled once. Whatever can be said
//! to be wrong with it before something is judged is said then; what is left is bounded by its length.

mod vocabulary;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use cel::extractors::This;
use cel::{Context, Env, ExecutionError, Program};
use sha2::{Digest, Sha256};
use tollgate_core::money::{Currency, Money};

pub use cel::Value;
pub use vocabulary::{MAX_DEPTH, Vocabulary};

/// Long enough for a list of sixty accounts.
pub const MAX_CHARS: usize = 2000;
/// Brackets within brackets.
const MAX_NESTING: u16 = 16;
/// Only what is used of it is taken from the machine.
const PARSER_STACK_BYTES: usize = 64 << 20;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Expression {
    program: Arc<Program>,
}

impl Expression {
    /// `sample` is the least that is ever known. The error fits behind the rule's name.
    pub fn compile(
        vocabulary: &'static Vocabulary,
        sample: &Facts,
        source: &str,
    ) -> Result<Self, String> {
        let expression = Self::read(vocabulary, source)?;
        match expression.holds(sample) {
            Err(Failed::NoVerdict(what)) => Err(format!("must be true or false, but is {what}")),
            Ok(_) | Err(Failed::Error(_)) => Ok(expression),
        }
    }

    /// For an expression that is not a verdict but a value.
    pub fn compile_value(vocabulary: &'static Vocabulary, source: &str) -> Result<Self, String> {
        Self::read(vocabulary, source)
    }

    /// What its types make impossible, found by trying it. `sample` is the most that is ever known: what cannot work
    /// with it because of its types never will.
    pub fn check_types(&self, sample: &Facts) -> Result<(), String> {
        match self.run(sample) {
            Ok(Err(error)) if is_of_types(&error) => {
                Err(format!("cannot be evaluated: {}", without_values(&error)))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn read(vocabulary: &'static Vocabulary, source: &str) -> Result<Self, String> {
        if source.chars().count() > MAX_CHARS {
            return Err(format!(
                "has more than {MAX_CHARS} characters; split it in two"
            ));
        }
        let deepest = deepest_bracket(source);
        if deepest > MAX_NESTING {
            return Err(format!("has brackets nested more than {MAX_NESTING} deep"));
        }
        let program = parse(source)?;
        vocabulary.check(program.expression())?;
        let program = Arc::new(program);
        Ok(Self { program })
    }

    fn run(&self, facts: &Facts) -> Result<Result<Value, ExecutionError>, Failed> {
        let run = AssertUnwindSafe(|| self.program.execute(&facts.context));
        catch_unwind(run).map_err(|_| Failed::Error("the interpreter failed".to_owned()))
    }

    pub fn value(&self, facts: &Facts) -> Result<Value, Failed> {
        let value = self.run(facts)?;
        value.map_err(|error| Failed::Error(without_values(&error)))
    }

    /// The first of these variables that it speaks of.
    pub fn speaks_of<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        let spoken = vocabulary::names(self.program.expression());
        names.iter().copied().find(|name| spoken.contains(name))
    }

    pub fn holds(&self, facts: &Facts) -> Result<bool, Failed> {
        match self.value(facts)? {
            Value::Bool(holds) => Ok(holds),
            other => Err(Failed::NoVerdict(other.type_of().to_string())),
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
    let gave_up = || "cannot be read: the parser failed".to_owned();
    parsed.map_err(|_| gave_up())?.map_err(|_| gave_up())?
}

/// Why there is neither yes nor no.
#[derive(Debug, PartialEq, Eq)]
pub enum Failed {
    /// The type of what came out instead.
    NoVerdict(String),
    Error(String),
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoVerdict(what) => write!(f, "it is {what}, not true or false"),
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
        ExecutionError::UnexpectedType { got, want } => format!("{got} instead of {want}"),
        ExecutionError::InvalidArgumentCount { expected, actual } => {
            format!("a function takes {expected} arguments, but was given {actual}")
        }
        ExecutionError::UnsupportedBinaryOperator(operator, one, other) => {
            let (one, other) = (one.type_of(), other.type_of());
            format!(
                "{operator} cannot combine {one} and {other}; convert with int(), double() or string()"
            )
        }
        ExecutionError::Overflow(..) => "a number is too large".to_owned(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "a division by zero".to_owned()
        }
        ExecutionError::IndexOutOfBounds(_) => "a list has no element with this index".to_owned(),
        _ => "incompatible values".to_owned(),
    }
}

fn is_of_types(error: &ExecutionError) -> bool {
    matches!(
        error,
        ExecutionError::NoSuchOverload(_)
            | ExecutionError::UnsupportedBinaryOperator(..)
            | ExecutionError::UnexpectedType { .. }
            | ExecutionError::UnsupportedTargetType { .. }
            | ExecutionError::NotSupportedAsMethod { .. }
            | ExecutionError::InvalidArgumentCount { .. }
            | ExecutionError::MissingArgumentOrTarget
            | ExecutionError::UndeclaredReference(_)
    )
}

/// The first of them, with its place; the drawing that the parser adds is left out.
fn said_by_the_parser(errors: &cel::ParseErrors) -> String {
    let Some(error) = errors.errors.first() else {
        return "cannot be read".to_owned();
    };
    let (line, column) = error.pos;
    let what = error.msg.lines().next().unwrap_or_default();
    // What everybody writes first.
    let hint = if what.contains("token recognition error at: '= ") {
        "; write == to compare"
    } else {
        ""
    };
    format!("line {line}, column {column}: {what}{hint}")
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

/// What an expression knows of what it judges.
pub struct Facts {
    context: Context<'static, 'static>,
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Facts").finish_non_exhaustive()
    }
}

impl Facts {
    /// `minor()` and `major()` are of this currency, and fail without one.
    pub fn new(known: Vec<(&str, Value)>, currency: impl Into<Option<Currency>>) -> Self {
        let currency = currency.into();
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        for (name, value) in known {
            context.add_variable_from_value(name, value);
        }
        let minor = move |text: Arc<String>| in_minor_units(&text, currency);
        let major = move |minor: i64| in_major_units(minor, currency);
        let lower = |This(text): This<Arc<String>>| text.to_ascii_lowercase();
        let upper = |This(text): This<Arc<String>>| text.to_ascii_uppercase();
        let first = |text: Arc<String>, chars: i64| beginning(&text, chars);
        // A name that is taken is our own mistake, and every rule with it would say so.
        let _ = context.add_function("minor", minor);
        let _ = context.add_function("major", major);
        let _ = context.add_function("lowerAscii", lower);
        let _ = context.add_function("upperAscii", upper);
        let _ = context.add_function("first", first);
        let _ = context.add_function("uuid", |text: Arc<String>| uuid(&text));
        Self { context }
    }

    /// Adds what became known.
    pub fn learn(&mut self, name: &str, value: Value) {
        self.context.add_variable_from_value(name, value);
    }
}

/// `minor("12.50")` is 1250 in euros; CEL has no decimals of its own.
fn in_minor_units(text: &str, currency: Option<Currency>) -> Result<i64, ExecutionError> {
    let currency = currency.ok_or_else(|| no_currency("minor"))?;
    Money::parse(text, currency)
        .map(|money| money.minor)
        .map_err(|why| ExecutionError::function_error("minor", format!("{text:?} {why}")))
}

/// `major(1250)` is "12.50" in euros.
fn in_major_units(minor: i64, currency: Option<Currency>) -> Result<Value, ExecutionError> {
    let currency = currency.ok_or_else(|| no_currency("major"))?;
    Ok(Money { minor, currency }.decimal().into())
}

fn no_currency(function: &str) -> ExecutionError {
    ExecutionError::function_error(function, "the currency is not known")
}

/// `first("invoice 7", 4)` is "invo"; a text that is shorter stays as it is.
fn beginning(text: &str, chars: i64) -> Result<Value, ExecutionError> {
    let chars = usize::try_from(chars)
        .map_err(|_| ExecutionError::function_error("first", "a length is 0 or more"))?;
    Ok(text.chars().take(chars).collect::<String>().into())
}

/// `uuid(key)` is always the same for one text, and another one for every other: for a bank that wants a UUID as its key.
/// Its layout is that of version 4, which every check of a format knows.
fn uuid(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let mut bytes: [u8; 16] = std::array::from_fn(|place| digest[place]);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let digits = hex::encode(bytes);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32];
    parts.map(|part| &digits[part]).join("-")
}

pub fn map(entries: impl IntoIterator<Item = (String, Value)>) -> Value {
    let entries: std::collections::HashMap<String, Value> = entries.into_iter().collect();
    entries.into()
}

pub fn plain(value: &serde_json::Value) -> Value {
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
mod tests {
    use super::uuid;

    #[test]
    fn a_uuid_is_that_of_its_text_alone_and_passes_every_check_of_a_format() {
        let one = uuid("payment-pay_001");
        assert_eq!(one, "1dd57378-4c1b-4dae-8631-14fcc63e7707");
        assert_ne!(uuid("payment-pay_002"), one);
    }
}
