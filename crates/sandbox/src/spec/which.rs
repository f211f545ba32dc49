//! The first half of a rule: which arrivals it is about.

use std::num::NonZeroU64;

use super::{Wrong, whole, wrong};
use crate::faults::{Numbers, OfPayment, Subject, Which};

pub(super) fn parse_which(words: &[&str]) -> Result<Which, Wrong> {
    let (one_in, words) = match words {
        ["1", "in", n, rest @ ..] => (Some(whole("1 in N", n)?), rest),
        rest => (None, rest),
    };
    let (subject, words) = match words {
        ["send" | "sends", rest @ ..] => (Subject::Sends, rest),
        ["probe" | "probes", rest @ ..] => (Subject::Probes, rest),
        ["webhook" | "webhooks", rest @ ..] => (Subject::Webhooks, rest),
        ["lookup" | "lookups", rest @ ..] => (Subject::Lookups, rest),
        ["notify" | "notifies", rest @ ..] => (Subject::Notifies, rest),
        ["check" | "checks", rest @ ..] => (Subject::Checks, rest),
        ["all", rest @ ..] => (Subject::All, rest),
        [] if one_in.is_some() => (Subject::All, words),
        _ => {
            let found = words.first().copied().unwrap_or_default();
            let reason = format!(
                "begins with sends, probes, webhooks, lookups, notifies, checks, all or 1 in N, not \"{found}\""
            );
            return Err(wrong("which", reason));
        }
    };
    let (numbers, words) = match words {
        [] | ["of", ..] => (None, words),
        [numbers, rest @ ..] => (Some(parse_numbers(numbers)?), rest),
    };
    let payment = match words {
        [] => OfPayment::Any,
        ["of", "each", "payment"] => OfPayment::Each,
        ["of", "payment", id] => OfPayment::Named((*id).to_owned()),
        other => {
            let reason = format!(
                "\"{}\" must be of payment ID or of each payment",
                other.join(" ")
            );
            return Err(wrong("payment", reason));
        }
    };
    Ok(Which {
        subject,
        one_in,
        numbers,
        payment,
    })
}

fn parse_numbers(text: &str) -> Result<Numbers, Wrong> {
    let (first, last) = match text.split_once('-') {
        None => {
            let only: NonZeroU64 = whole("number", text)?;
            (only, Some(only))
        }
        Some((first, "")) => (whole("number", first)?, None),
        Some((first, last)) => (whole("number", first)?, Some(whole("number", last)?)),
    };
    if last.is_some_and(|last| last < first) {
        return Err(wrong("number", format!("{text} ends before it begins")));
    }
    Ok(Numbers { first, last })
}
