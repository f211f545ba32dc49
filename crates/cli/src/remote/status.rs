//! `tollgate status`: what needs a person; and `tollgate seen`: a person has seen it.

use std::fmt::Write;
use std::process::ExitCode;

use tollgate_client::Client;
use tollgate_client::contract::{Need, NeedSeenRequest, NeedsYou};

use super::Shown;

/// Something needs attention.
pub(super) const NEEDS_A_PERSON: u8 = 3;

#[derive(Debug, clap::Args)]
pub(crate) struct Marked {
    /// Kind of the entry, as shown by `tollgate status`, such as held or lanes-paused.
    kind: String,
    /// The count that you saw. Refused if the current count is higher. Default: the current count.
    #[arg(long)]
    count: Option<u64>,
    /// Why nothing needs to be done now. Recorded in the audit log.
    #[arg(long)]
    reason: String,
}

pub(super) async fn status(client: &Client, shown: &Shown) -> anyhow::Result<ExitCode> {
    let answer = client.needs_you().get().await?;
    shown.show(&answer, text);
    if answer.needs.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(NEEDS_A_PERSON))
}

pub(super) async fn seen(client: &Client, shown: &Shown, seen: Marked) -> anyhow::Result<()> {
    let Marked {
        kind,
        count,
        reason,
    } = seen;
    let request = NeedSeenRequest { reason, count };
    shown.show(&client.needs_you().seen(&kind, &request).await?, text);
    Ok(())
}

fn text(answer: &NeedsYou) -> String {
    let as_of = answer.as_of;
    let mut text = match answer.needs.as_slice() {
        [] => format!("Nothing needs attention (as of {as_of}).\n"),
        _ => format!("Needs you (as of {as_of}):\n"),
    };
    for need in &answer.needs {
        let _ = writeln!(text, "\n{}", headline(need));
        for detail in &need.details {
            let _ = writeln!(text, "  {}", detail.what);
        }
        let _ = writeln!(text, "  {}", need.todo);
        let (kind, console, handbook) = (&need.kind, &need.console, &need.handbook);
        let _ = writeln!(text, "  kind {kind}, console {console}, {handbook}");
    }
    for need in &answer.seen {
        if let Some(seen) = &need.seen {
            let (by, at, reason) = (&seen.by, seen.at, &seen.reason);
            let _ = writeln!(text, "\nSeen by {by} at {at}: {reason}");
        }
        let _ = writeln!(text, "  {}", headline(need));
    }
    text
}

/// `Held: 2 (15.00 EUR, 20.00 USD), oldest since 2026-11-17T10:00:00Z`
fn headline(need: &Need) -> String {
    let more = if need.at_least { "at least " } else { "" };
    let mut line = format!("{}: {more}{}", need.title, need.count);
    let amounts = need.amounts.iter();
    let amounts: Vec<String> = amounts
        .map(|it| format!("{} {}", it.amount, it.currency))
        .collect();
    if !amounts.is_empty() {
        let _ = write!(line, " ({})", amounts.join(", "));
    }
    if let Some(oldest) = need.oldest {
        let word = match need.kind.as_str() {
            "deadlines-at-risk" => "first deadline",
            _ => "oldest since",
        };
        let _ = write!(line, ", {word} {oldest}");
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn need(title: &str, count: u64, at_least: bool) -> Need {
        let need = json!({
            "kind": "held", "title": title, "count": count, "atLeast": at_least, "amounts": [], "oldest": null,
            "todo": "", "console": "", "handbook": "", "details": [], "seen": null,
        });
        serde_json::from_value(need).unwrap()
    }

    #[test]
    fn a_kind_is_one_line_with_count_amounts_and_the_oldest() {
        let mut held = need("Held", 3, false);
        held.oldest = Some("2026-11-17T10:00:00Z".parse().unwrap());
        held.amounts = serde_json::from_value(json!([
            {"count": 1, "amount": "15.00", "currency": "EUR"},
            {"count": 2, "amount": "20.00", "currency": "USD"},
        ]))
        .unwrap();
        let expected = "Held: 3 (15.00 EUR, 20.00 USD), oldest since 2026-11-17T10:00:00Z";
        assert_eq!(headline(&held), expected);
        let many = need("Dead letters", 100_000, true);
        assert_eq!(headline(&many), "Dead letters: at least 100000");
    }

    #[test]
    fn nothing_is_said_in_one_line() {
        let answer = NeedsYou {
            as_of: "2026-11-17T10:00:00Z".parse().unwrap(),
            needs: vec![],
            seen: vec![],
            kill_switches: vec![],
        };
        let said = "Nothing needs attention (as of 2026-11-17T10:00:00Z).\n";
        assert_eq!(text(&answer), said);
    }
}
