//! Style as a test: what the tree promises and no compiler checks.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_core::{actor, audit_action};

/// Who may use whom (ARCHITECTURE.md, "The crates"). Tests may use more.
const USES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("contract", &[]),
    // Pages know the API's contract and nothing else (decision 0023).
    ("console", &["contract"]),
    // A program that calls the API compiles nothing of the service (decision 0068).
    ("client", &["contract"]),
    ("dispatch", &["core"]),
    ("expression", &["core"]),
    ("domains", &["core", "dispatch", "expression"]),
    ("store", &["core"]),
    ("engine", &["core"]),
    ("temporal", &["core"]),
    ("downstream", &["core", "expression"]),
    ("feeds", &["core"]),
    // A leaf of the service: it knows no wiring (decision 0072).
    (
        "config",
        &["core", "contract", "dispatch", "domains", "downstream"],
    ),
    (
        "operations",
        &[
            "core",
            "config",
            "contract",
            "dispatch",
            "domains",
            "downstream",
        ],
    ),
    (
        "api",
        &[
            "core",
            "config",
            "console",
            "contract",
            "dispatch",
            "domains",
            "operations",
        ],
    ),
    (
        "server",
        &[
            "core",
            "api",
            "config",
            "dispatch",
            "domains",
            "downstream",
            "engine",
            "feeds",
            "operations",
            "store",
            "temporal",
        ],
    ),
    (
        "cli",
        &["core", "contract", "client", "domains", "server", "sandbox"],
    ),
    ("sandbox", &[]),
    ("conformance", &["core"]),
];

/// A longer file needs a reason, written here.
const MOST_LINES: usize = 500;
const LONG_FILES: &[(&str, &str)] = &[
    (
        "crates/conformance/src/store/mod.rs",
        "the one list of every case of every port",
    ),
    (
        "crates/cli/tests/cli/door/access.rs",
        "the one table of every address and every caller",
    ),
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn files(ending: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    let mut folders = vec![root().join("crates"), root().join("bench")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                let name = path
                    .strip_prefix(root())
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no {ending} found");
    found
}

/// The workspace crates named under a manifest's `[dependencies]`.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or("");
    let section = section.split("\n[").next().unwrap_or("");
    let names = section
        .lines()
        .filter_map(|line| line.strip_prefix("tollgate-"));
    names
        .filter_map(|rest| rest.split(['.', ' ', '=']).next())
        .map(str::to_owned)
        .collect()
}

/// The API's document has one schema per name: of two types with one name, the second would describe both. Types of
/// the contract are named as the document names them, those of the API say their name.
#[test]
fn every_schema_has_a_name_of_its_own() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in files(".rs") {
        let begins: &[&str] = if file.starts_with("crates/api/src") {
            &["#[schema(as = "]
        } else if file.starts_with("crates/contract/src") {
            &["\npub struct ", "\npub enum "]
        } else {
            continue;
        };
        for rest in begins.iter().flat_map(|begin| text.split(begin).skip(1)) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap();
            let name = rest[..end].to_owned();
            places.entry(name).or_default().push(file.clone());
        }
    }
    assert!(places.len() > 50, "few schemas were found");
    places.retain(|_, files| files.len() > 1);
    assert_eq!(places, BTreeMap::new());
}

#[test]
fn crates_depend_only_in_the_direction_of_the_table() {
    let allowed: BTreeMap<_, _> = USES.iter().copied().collect();
    let mut seen = 0;
    for (name, text) in files("Cargo.toml") {
        let Some(name) = name
            .strip_prefix("crates/")
            .and_then(|n| n.strip_suffix("/Cargo.toml"))
        else {
            continue;
        };
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        for used in dependencies(&text) {
            assert!(
                allowed.contains(&used.as_str()),
                "{name} may not use {used}"
            );
        }
        seen += 1;
    }
    assert_eq!(
        seen,
        USES.len(),
        "the table names a crate that does not exist"
    );
}

/// `missing_docs` checks every public item, once the crate asks for it.
#[test]
fn every_public_item_of_the_contract_and_of_the_client_is_documented() {
    for documented in ["crates/contract/", "crates/client/"] {
        let lib = root().join(documented).join("src/lib.rs");
        let lib = fs::read_to_string(lib).unwrap();
        assert!(lib.contains("\n#![deny(missing_docs)]\n"), "{documented}");
        for (name, text) in files(".rs") {
            let allows =
                text.contains("allow(missing_docs)") || text.contains("expect(missing_docs");
            assert!(
                !name.starts_with(documented) || !allows,
                "{name} leaves something undocumented"
            );
        }
    }
}

#[test]
fn the_pure_crates_have_no_runtime() {
    for name in ["core", "contract", "domains"] {
        let manifest =
            fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
        let section = manifest.split("\n[dependencies]\n").nth(1).unwrap();
        let section = section.split("\n[").next().unwrap();
        for banned in ["tokio", "rusqlite", "hyper", "axum"] {
            let uses = section.lines().any(|line| line.starts_with(banned));
            assert!(!uses, "{name} is pure and may not use {banned}");
        }
    }
}

#[test]
fn every_file_says_what_it_is_for_and_is_short() {
    let reasons: BTreeMap<_, _> = LONG_FILES.iter().copied().collect();
    for (name, text) in files(".rs") {
        assert!(
            text.starts_with("//! "),
            "{name} does not begin with what it is for"
        );
        let lines = text.lines().count();
        let excused = reasons.contains_key(name.as_str());
        assert!(
            lines <= MOST_LINES || excused,
            "{name} has {lines} lines: cut it, or say why"
        );
    }
}

#[test]
fn permits_come_from_the_gate_alone() {
    for (name, text) in files(".rs") {
        let grants = text.contains("Permit::granted_by_the_gate(");
        let home = name == "crates/dispatch/src/gate/mod.rs";
        let test = name.contains("/tests/");
        assert!(!grants || home || test, "{name} makes a permit of its own");
        assert!(
            grants || !home,
            "the gate no longer gives permits: this test looks for the wrong words"
        );
    }
}

#[test]
fn domains_hold_no_sql_and_the_server_holds_none_either() {
    let sql = ["SELECT ", "INSERT INTO", "UPDATE ", "DELETE FROM"];
    for (name, text) in files(".rs") {
        let bare = [
            "crates/domains/src",
            "crates/api/src",
            "crates/config/src",
            "crates/operations/src",
            "crates/server/src",
            "crates/console/src",
            "crates/contract/src",
            "crates/core/src",
            "crates/dispatch/src",
        ];
        if bare.iter().any(|place| name.starts_with(place)) {
            for word in sql {
                assert!(!text.contains(word), "{name} holds SQL: {word:?}");
            }
        }
    }
}

#[test]
fn whoever_tollgate_writes_into_the_trail_is_reserved() {
    let mut seen = 0;
    for (name, text) in files(".rs") {
        let makes_up = text.contains("Author::new(\"") || text.contains("actor: \"");
        let ours = name.starts_with("crates/") && name.contains("/src/");
        let is_case = name.starts_with("crates/conformance/");
        assert!(
            !makes_up || !ours || is_case,
            "{name} writes under a name of its own: take one of core/src/actor.rs"
        );
        if name.starts_with("crates/store/src/") {
            for actor in actors_in_sql(&text) {
                assert!(
                    actor::ALL.contains(&actor),
                    "{name} writes as {actor:?}, which a token could be named"
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 0, "this test looks for the wrong words");
}

/// What the audit log is asked for by name must be known, or it is refused as misspelt.
#[test]
fn every_event_of_the_audit_log_is_listed() {
    let mut seen = 0;
    for (name, text) in files(".rs") {
        let ours = name.starts_with("crates/") && name.contains("/src/");
        if !ours || name.starts_with("crates/conformance/") {
            continue;
        }
        let named = ["action: \"", "audit_move(tx, item, \"", "audit(tx, \""];
        for written in named.iter().flat_map(|before| text.split(before).skip(1)) {
            let action = written.split('"').next().unwrap();
            let is_known = audit_action::ALL.contains(&action);
            assert!(
                is_known,
                "{name} writes {action:?}: add it to audit_action.rs"
            );
            seen += 1;
        }
    }
    assert!(seen > 20, "this test looks for the wrong words: {seen}");
}

/// The names that statements write into the audit log themselves.
fn actors_in_sql(text: &str) -> Vec<&str> {
    let inserts = text.split("INSERT INTO audit_log (").skip(1);
    let named = inserts.filter_map(|insert| {
        let (columns, rest) = insert.split_once(')').unwrap();
        let place = columns.split(',').position(|c| c.trim() == "actor");
        let values = rest.trim_start().strip_prefix("SELECT ")?;
        let value = values.split(',').nth(place.unwrap()).unwrap().trim();
        value.strip_prefix('\'')?.strip_suffix('\'')
    });
    named.collect()
}

/// Where it is said when something runs and whether that is in time. Everybody else asks there.
const FORECASTS: [&str; 6] = [
    "crates/core/src/timetable.rs",
    "crates/core/src/timetable/tests.rs",
    "crates/core/src/timetable/tests/mutants.rs",
    "crates/core/src/forecast.rs",
    "crates/core/src/turns.rs",
    "crates/dispatch/src/planning/forecaster.rs",
];

/// What a second forecast would be made of: a time held against a deadline, turns or windows counted ahead.
const ARITHMETIC: [&str; 10] = [
    "<= deadline",
    "< deadline",
    "> deadline",
    ">= deadline",
    "deadline <",
    "deadline >",
    "turns_between(",
    "after_turns(",
    "drained_at(",
    "planned_late(",
];

#[test]
fn nobody_else_says_when_something_runs() {
    for (name, text) in files(".rs") {
        let is_surface = [
            "api",
            "operations",
            "server",
            "console",
            "dispatch",
            "domains",
            "cli",
            "core",
        ]
        .iter()
        .any(|krate| name.starts_with(&format!("crates/{krate}/src/")));
        // The gate and the windows count turns; a deadline before its own `executeAt` is refused; a filter asks
        // whether a deadline has passed.
        let is_arithmetic = [
            "core/src/gate.rs",
            "core/src/window.rs",
            "core/src/job.rs",
            "payments/prepare.rs",
            "tests.rs",
        ]
        .iter()
        .any(|home| name.ends_with(home));
        if !is_surface || is_arithmetic || FORECASTS.contains(&name.as_str()) {
            continue;
        }
        assert_eq!(
            own_forecast(&text),
            None,
            "{name}: ask the timetable instead"
        );
    }
}

/// What of a file looks like a forecast of its own, beside its tests.
fn own_forecast(text: &str) -> Option<&'static str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let found = ARITHMETIC.iter().find(|pattern| code.contains(*pattern));
    found.copied()
}

/// As surfaces did before there was the timetable.
#[test]
fn a_surface_that_computes_its_own_is_noticed() {
    for surface in [
        "let meets = view.scheduled <= deadline;",
        "misses += u64::from(slot + way > deadline);",
        "if deadline < placed.scheduled { late += 1; }",
        "let drained = lane.drained_at(now, waiting);",
    ] {
        assert!(own_forecast(surface).is_some(), "{surface}");
    }
    let asks = "let meets = forecast.table.meets(due, deadline).ok();";
    assert_eq!(own_forecast(asks), None);
    let tests = "fn shown() {}\n#[cfg(test)]\nassert!(slot <= deadline);";
    assert_eq!(own_forecast(tests), None);
}
