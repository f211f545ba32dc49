//! The edges of a move into the archive at which a kill must do no harm. A test has a process die at one of them by name; a
//! release knows no such names. Days and files have edges of their own (operations/src/archive/edges.rs).

/// Names an edge: everything before it has been done, and nothing after it has begun.
#[cfg(debug_assertions)]
pub(crate) fn edge(name: &str) {
    if std::env::var_os("TGTEST_DIE_AT").is_some_and(|at| at == name) {
        let pid = std::process::id().to_string();
        // As by kill -9: no destructor runs, and nothing is committed.
        let _ = std::process::Command::new("kill")
            .args(["-KILL", &pid])
            .status();
        loop {
            std::thread::park();
        }
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn edge(_: &str) {}
