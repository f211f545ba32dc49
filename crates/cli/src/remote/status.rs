//! `tollgate status`: what needs a person; and `tollgate seen`: a person has seen it.

use std::fmt::Write;
use std::process::ExitCode;

use http::Method;
use serde_json::{Value, json};

use super::Shown;
use super::client::{Client, quoted};
use super::table::cell;

/// Something needs a person.
const NEEDS_A_PERSON: u8 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Marked {
    /// Kind, as shown by `tollgate status --json`, such as held or lanes-paused.
    kind: String,
    /// The count that you saw. Refused if there are more by now. Default: the current count.
    #[arg(long)]
    count: Option<u64>,
    /// Why nothing needs to be done now. Recorded in the audit log.
    #[arg(long)]
    reason: String,
}

pub(super) async fn status(client: &Client, shown: &Shown) -> anyhow::Result<ExitCode> {
    let answer = client.get("/admin/needs-you").await?;
    shown.show(&answer, text);
    if list(&answer["needs"]).is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(NEEDS_A_PERSON))
}

pub(super) async fn seen(client: &Client, shown: &Shown, seen: Marked) -> anyhow::Result<()> {
    let path = format!("/admin/needs-you/{}/seen", quoted(&seen.kind));
    let body = match seen.count {
        Some(count) => json!({"reason": seen.reason, "count": count}),
        None => json!({"reason": seen.reason}),
    };
    let answer = client.send(Method::POST, &path, &body).await?;
    shown.show(&answer, text);
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(answer: &Value) -> String {
    let (needs, as_of) = (list(&answer["needs"]), cell(&answer["asOf"]));
    let mut text = match needs {
        [] => format!("Nothing needs a person (as of {as_of}).\n"),
        _ => format!("Needs you (as of {as_of}):\n"),
    };
    for need in needs {
        let _ = writeln!(text, "\n{}", headline(need));
        for detail in list(&need["details"]) {
            let _ = writeln!(text, "  {}", cell(&detail["what"]));
        }
        let told = |field: &str| cell(&need[field]);
        let _ = writeln!(text, "  {}", told("todo"));
        let (kind, console) = (told("kind"), told("console"));
        let handbook = told("handbook");
        let _ = writeln!(text, "  kind {kind}, console {console}, {handbook}");
    }
    for need in list(&answer["seen"]) {
        let seen = &need["seen"];
        let (by, at) = (cell(&seen["by"]), cell(&seen["at"]));
        let reason = cell(&seen["reason"]);
        let _ = writeln!(text, "\nSeen by {by} at {at}: {reason}");
        let _ = writeln!(text, "  {}", headline(need));
    }
    text
}

/// `Held: 2 (15.00 EUR, 20.00 USD), oldest since 2026-11-17T10:00:00Z`
fn headline(need: &Value) -> String {
    let more = if need["atLeast"] == true {
        "at least "
    } else {
        ""
    };
    let (title, count) = (cell(&need["title"]), cell(&need["count"]));
    let mut line = format!("{title}: {more}{count}");
    let amount = |it: &Value| format!("{} {}", cell(&it["amount"]), cell(&it["currency"]));
    let amounts: Vec<String> = list(&need["amounts"]).iter().map(amount).collect();
    if !amounts.is_empty() {
        let _ = write!(line, " ({})", amounts.join(", "));
    }
    if let Some(oldest) = need["oldest"].as_str() {
        let word = match need["kind"].as_str() {
            Some("deadlines-at-risk") => "first deadline",
            _ => "oldest since",
        };
        let _ = write!(line, ", {word} {oldest}");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_one_line_with_count_amounts_and_the_oldest() {
        let need = json!({
            "title": "Held", "count": 3, "atLeast": false, "oldest": "2026-11-17T10:00:00Z",
            "amounts": [{"amount": "15.00", "currency": "EUR"}, {"amount": "20.00", "currency": "USD"}],
        });
        let expected = "Held: 3 (15.00 EUR, 20.00 USD), oldest since 2026-11-17T10:00:00Z";
        assert_eq!(headline(&need), expected);
        let many = json!({"title": "Dead letters", "count": 100_000, "atLeast": true});
        assert_eq!(headline(&many), "Dead letters: at least 100000");
    }

    #[test]
    fn nothing_is_said_in_one_line() {
        let answer = json!({"asOf": "2026-11-17T10:00:00Z", "needs": [], "seen": []});
        let said = "Nothing needs a person (as of 2026-11-17T10:00:00Z).\n";
        assert_eq!(text(&answer), said);
    }
}
