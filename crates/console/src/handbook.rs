//! Sections of the handbook, as this release has it: whoever is on call may not have the repository at hand.

use askama::Template;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;

use super::call::{Problem, part};
use super::session::Session;
use super::shell::{Shell, page as drawn};

const HANDBOOK: &str = include_str!("../../../docs/operations.md");
/// How links name it.
const FILE: &str = "docs/operations.md#";

#[derive(Template)]
#[template(path = "handbook.html")]
struct SectionPage {
    shell: Shell,
    text: &'static str,
}

/// The page of a section, by its link into the handbook.
pub(super) fn address(link: &str) -> String {
    let section = link.strip_prefix(FILE).unwrap_or(link);
    format!("/console/handbook/{}", part(section))
}

pub(super) async fn page(
    session: Session,
    Path(section): Path<String>,
) -> Result<Response, Problem> {
    let (title, text) = found(HANDBOOK, &section).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "there is no such section of the handbook",
        )
    })?;
    let shell = Shell::new(&session, title, "", "");
    Ok(drawn(&SectionPage { shell, text }))
}

/// The text of a section of the handbook, by its link (`docs/operations.md#…`).
pub fn handbook_section(link: &str) -> Option<&'static str> {
    let section = link.strip_prefix(FILE)?;
    found(HANDBOOK, section).map(|(_, text)| text)
}

/// The heading of a section, and what is below it up to the next heading.
fn found<'a>(handbook: &'a str, section: &str) -> Option<(&'a str, &'a str)> {
    let mut rest = handbook;
    while let Some(at) = rest.find("\n#") {
        let from = &rest[at + 1..];
        let (line, below) = from.split_once('\n').unwrap_or((from, ""));
        let title = line.trim_start_matches('#').trim();
        if anchor(title) == section {
            let end = below.find("\n#").unwrap_or(below.len());
            return Some((title, below[..end].trim()));
        }
        rest = &rest[at + 1..];
    }
    None
}

/// As links into Markdown files are made.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || *c == ' ');
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_into_the_handbook_leads_to_its_section() {
        let held = handbook_section("docs/operations.md#payments-are-held").unwrap();
        assert!(held.len() > 100, "{held}");
        assert_eq!(handbook_section("docs/operations.md#none"), None);
        assert_eq!(handbook_section("payments-are-held"), None);
    }

    #[test]
    fn a_section_ends_where_the_next_one_begins() {
        let text = "# A\n\n## Lanes, closed\n\none\n# no heading? yes\ntwo\n## B\nthree";
        assert_eq!(found(text, "lanes-closed"), Some(("Lanes, closed", "one")));
        assert_eq!(found(text, "b"), Some(("B", "three")));
    }
}
