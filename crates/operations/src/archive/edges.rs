//! The edges at which a kill must do no harm. A test has a process die at one of them by name; a release knows no
//! such names.

/// Names an edge: everything before it is durable, and nothing after it has begun.
#[cfg(debug_assertions)]
pub(super) fn edge(name: &str) {
    use rustix::process::{Signal, getpid, kill_process};
    if std::env::var_os("TGTEST_DIE_AT").is_some_and(|at| at == name) {
        // As by kill -9: no destructor runs, and no buffer is written.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn edge(_: &str) {}
