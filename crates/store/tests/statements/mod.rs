//! The statements of a store, read from its own source, so that one added next year is not
//! forgotten. One that is put together from pieces would not be seen whole, so there is none.

use std::collections::BTreeSet;
use std::path::Path;

/// The store is named by its folder in `src`; both perform what is in `src/cold`.
pub(crate) fn statements_of(store: &str) -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut statements = BTreeSet::new();
    let mut folders = vec![source.join(store), source.join("cold")];
    while let Some(folder) = folders.pop() {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let code = std::fs::read_to_string(path).unwrap();
                statements.extend(statements_in(&code, store));
            }
        }
    }
    let found = statements.len();
    assert!(found > 50, "only {found} were found");
    statements
}

/// The texts in the code that are SQL, without what only the other store performs: where the
/// dialects differ, `Sql::each` has SQLite's text first.
pub(crate) fn statements_in(code: &str, store: &str) -> Vec<String> {
    assert!(
        !code.contains("prepare_cached(&format!"),
        "in pieces: {code}"
    );
    let code = code.replace("\\\"", "").replace("\\\n", "");
    let parts: Vec<&str> = code.split('"').collect();
    let mut statements = vec![];
    let mut is_sqlites = false;
    for pair in parts.chunks_exact(2) {
        let is_postgres = is_sqlites && pair[0].trim() == ",";
        is_sqlites = pair[0].trim_end().ends_with("Sql::each(");
        let other = if store == "sqlite" {
            is_postgres
        } else {
            is_sqlites
        };
        let text = on_one_line(pair[1]);
        if is_sql(&text) && !other {
            statements.push(text);
        }
    }
    statements
}

fn is_sql(text: &str) -> bool {
    let verbs = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH "];
    verbs.iter().any(|verb| text.starts_with(verb))
}

pub(crate) fn on_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}
