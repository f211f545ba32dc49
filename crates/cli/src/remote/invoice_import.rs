//! `tollgate invoices import`: a file of invoices, line by line, some at once.

use std::collections::HashSet;
use std::process::ExitCode;

use anyhow::Context;
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tollgate_client::contract::AcceptedInvoice;
use tollgate_client::{Client, Error};

use super::{Shown, sentence};

/// At most this many requests are under way at once.
const AT_ONCE: usize = 16;

struct Line<'t> {
    number: usize,
    text: &'t str,
}

/// What the service said about the lines so far.
#[derive(Default)]
struct Report {
    accepted: usize,
    known: usize,
    refused: Vec<(usize, String)>,
    /// The service cannot take more: at which line, and why.
    lost: Option<(usize, String)>,
}

pub(super) async fn run(
    client: &Client,
    shown: &Shown,
    file: &std::path::Path,
) -> anyhow::Result<ExitCode> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (firsts, repeats) = in_order(&text);
    let mut told = Report::default();
    told.take(client, firsts, AT_ONCE).await;
    // One after the other, behind the lines that were first with their ids.
    told.take(client, repeats, 1).await;
    told.refused.sort();
    let all_well = told.refused.is_empty() && told.lost.is_none();
    shown.show_json(&told.json(), || told.text());
    Ok(if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// The lines that are the first with their id, and the others, each in the order of the file.
fn in_order(text: &str) -> (Vec<Line<'_>>, Vec<Line<'_>>) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = (1..).zip(text.lines());
    let lines = lines.map(|(number, text)| Line { number, text });
    let lines = lines.filter(|line| !line.text.trim().is_empty());
    let mut seen = HashSet::new();
    lines.partition(|line| {
        let invoice: Value = serde_json::from_str(line.text).unwrap_or_default();
        match invoice["invoiceId"].as_str() {
            Some(id) => seen.insert(id.to_owned()),
            None => true,
        }
    })
}

impl Report {
    async fn take(&mut self, client: &Client, lines: Vec<Line<'_>>, at_once: usize) {
        if self.lost.is_some() {
            return;
        }
        let post = async |line: Line<'_>| {
            let taken = async {
                // As the file says it: the service judges each line.
                let body = tollgate_domains::json::read(line.text.as_bytes())?;
                let taken = client.post::<AcceptedInvoice>("/invoices", &body).await?;
                anyhow::Ok(taken.http_status())
            };
            (line.number, is_json(line.text), taken.await)
        };
        let mut answers = stream::iter(lines).map(post).buffered(at_once);
        while let Some((number, was_sent, taken)) = answers.next().await {
            match taken {
                Ok(200) => self.known += 1,
                Ok(_) => self.accepted += 1,
                Err(why) if was_sent && loses_service(&why) => {
                    self.lost = Some((number, sentence(&why)));
                    return;
                }
                Err(why) => self.refused.push((number, sentence(&why))),
            }
        }
    }

    fn json(&self) -> Value {
        let at = |(number, why): &(usize, String)| json!({"line": number, "reason": why});
        json!({
            "accepted": self.accepted,
            "known": self.known,
            "refused": self.refused.iter().map(at).collect::<Vec<_>>(),
            "stopped": self.lost.as_ref().map(at),
        })
    }

    fn text(&self) -> String {
        let line = |(number, why): &(usize, String)| format!("line {number}: {why}");
        let mut lines: Vec<String> = self.refused.iter().map(line).collect();
        let (accepted, known) = (self.accepted, self.known);
        lines.push(format!(
            "{accepted} invoices created, {known} already existed"
        ));
        if let Some(lost) = &self.lost {
            lines.push(format!("stopped at {}", line(lost)));
            lines.push("import the same file again to continue".to_owned());
        }
        lines.join("\n")
    }
}

fn is_json(text: &str) -> bool {
    tollgate_domains::json::read(text.as_bytes()).is_ok()
}

/// Whether the next line would fail too: the service is unreachable, or refuses the token.
fn loses_service(why: &anyhow::Error) -> bool {
    match why.downcast_ref::<Error>().and_then(Error::refused) {
        Some(refused) => refused.status >= 500 || matches!(refused.status, 401 | 403),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_lines_with_one_id_goes_first_and_a_byte_order_mark_is_no_line() {
        let text = "\u{feff}{\"invoiceId\": \"a\"}\n\n{\"invoiceId\": \"b\"}\nno json\n{\"invoiceId\": \"a\", \"x\": 1}\n";
        let (firsts, repeats) = in_order(text);
        let numbers =
            |lines: &[Line<'_>]| -> Vec<usize> { lines.iter().map(|line| line.number).collect() };
        assert_eq!(numbers(&firsts), [1, 3, 4]);
        assert_eq!(numbers(&repeats), [5]);
        assert!(firsts[0].text.starts_with('{'));
        let (none, _) = in_order("\u{feff}");
        assert!(none.is_empty());
    }
}
