//! Talk to whoever watches a command: on stderr, where data does not go.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

#[expect(clippy::print_stderr, reason = "talk goes to stderr")]
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
}

/// A bar on a terminal, nothing elsewhere.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}
