//! Plain words as a test: what users read does not fall back into phrases that were retired.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::tidy::root;

/// One lower-case phrase each, matched as whole words.
const RETIRED: [&str; 22] = [
    "told",
    "whoever",
    "nobody",
    "anew",
    "what became of",
    "becomes of",
    "so many",
    "of somebody",
    "somebody else",
    "for want of",
    "what waits",
    "taken in",
    "no time can be",
    "as things stand",
    "back from a copy",
    "needs a person",
    "need a person",
    "leads no more",
    "goes on trying",
    "did not tell",
    "does not tell",
    "looked after",
];

/// Documents that users read, all of them.
const DOCUMENTS: [&str; 4] = [
    "README.md",
    "docs/openapi.json",
    "crates/config/default.toml",
    "crates/console/src/script.js",
];
/// Folders of such documents, with what their names end in. Decisions are history.
const FOLDERS: [(&str, &str); 4] = [
    ("docs", ".md"),
    ("docs/banks", ".md"),
    ("docs/monitoring", ".yml"),
    ("crates/console/templates", ".html"),
];
/// Where sentences of the program are written: errors, answers, pages, commands.
const SOURCES: [&str; 18] = [
    "crates/api/src",
    "crates/cli/src",
    "crates/client/src",
    "crates/config/src",
    "crates/console/src",
    "crates/contract/src",
    "crates/operations/src",
    "crates/server/src",
    "crates/domains/src",
    "crates/core/src",
    "crates/dispatch/src",
    "crates/downstream/src",
    "crates/engine/src",
    "crates/expression/src",
    "crates/feeds/src",
    "crates/sandbox/src",
    "crates/store/src",
    "crates/temporal/src",
];

#[test]
fn retired_words_do_not_come_back_where_users_read() {
    let mut found = vec![];
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            found.extend(retired(line).map(|word| at(&path, number + 1, word)));
        }
    }
    for path in sources() {
        let text = fs::read_to_string(&path).unwrap();
        let helps = path.starts_with(root().join("crates/cli/src"));
        for (number, said) in sentences(&text, helps) {
            found.extend(retired(&said).map(|word| at(&path, number, word)));
        }
    }
    assert!(found.is_empty(), "say it plainly:\n{}", found.join("\n"));
}

fn at(path: &Path, line: usize, word: &str) -> String {
    let path = path.strip_prefix(root()).unwrap_or(path).to_path_buf();
    format!("{}:{line}: {word:?}", path.display())
}

fn documents() -> Vec<PathBuf> {
    let mut all: Vec<_> = DOCUMENTS.iter().map(|name| root().join(name)).collect();
    for (folder, ending) in FOLDERS {
        let before = all.len();
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.to_string_lossy().ends_with(ending) {
                all.push(path);
            }
        }
        assert!(all.len() > before, "nothing in {folder}");
    }
    all
}

fn sources() -> Vec<PathBuf> {
    let mut all = vec![];
    let mut folders: Vec<_> = SOURCES.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.to_string_lossy().contains("tests");
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") && !is_test {
                all.push(path);
            }
        }
    }
    assert!(all.len() > 100, "this test looks in the wrong place");
    all
}

/// What a file says, by line: its string literals outside of its tests and lints, and, where doc
/// comments are a command's help, those.
fn sentences(text: &str, with_docs: bool) -> Vec<(usize, String)> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = vec![];
    for (number, line) in code.lines().enumerate() {
        let trimmed = line.trim_start();
        if let Some(help) = trimmed.strip_prefix("/// ") {
            if with_docs {
                found.push((number + 1, help.to_owned()));
            }
        } else if !trimmed.starts_with("//") && !trimmed.contains("reason = \"") {
            found.push((number + 1, literals(trimmed)));
        }
    }
    found
}

/// The quoted parts of a line, and all of a line that goes on from the one before. A name in braces
/// is a variable.
fn literals(line: &str) -> String {
    let quoted = line.contains('"');
    let text: Vec<_> = if quoted {
        line.split('"').skip(1).step_by(2).collect()
    } else if line.ends_with('\\') {
        vec![line]
    } else {
        vec![]
    };
    let mut said = String::new();
    for part in text.join(" | ").split('{') {
        said += part.split_once('}').map_or(part, |(_, after)| after);
    }
    said
}

fn retired(text: &str) -> impl Iterator<Item = &'static str> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line = format!(" {} ", words.join(" "));
    let is_no = words
        .windows(3)
        .any(|three| three[1] == "is" && three[2] == "no" && three[0] != "there")
        && !line.contains(" is no longer ");
    let found = RETIRED
        .into_iter()
        .filter(move |phrase| line.contains(&format!(" {phrase} ")));
    found.chain(is_no.then_some("is no"))
}

#[test]
fn the_words_are_found_whole_and_only_where_they_are_said() {
    let found = |text: &str| retired(text).collect::<Vec<_>>();
    assert_eq!(found("Nobody was told."), ["told", "nobody"]);
    assert_eq!(found("x is no gateway here"), ["is no"]);
    assert!(found("there is no payment x; it is no longer known; retold").is_empty());
    let code = "// nobody\nlet a = \"anew {told}\";\n#[cfg(test)]\nmod tests { \"told\" }";
    assert_eq!(
        sentences(code, false),
        [(2, "anew ".to_owned())],
        "comments, tests and names of variables are not said"
    );
}
