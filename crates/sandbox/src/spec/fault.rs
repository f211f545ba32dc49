//! The second half of a rule: what happens to the arrivals.

use std::time::Duration;

use http::StatusCode;

use super::{Wrong, wrong};
use crate::faults::{Blow, Fault, Strike, When};

const MAX_TIME: Duration = Duration::from_hours(24);
const DEFAULT_MEGABYTES: u32 = 8;
const MAX_MEGABYTES: u32 = 1_024;

pub(super) fn parse_fault(words: &[&str]) -> Result<Fault, Wrong> {
    match words {
        ["latency", time] => parse_time("latency", time).map(Fault::Latency),
        ["work", time] => parse_time("work", time).map(Fault::Work),
        ["settle", time] => parse_time("settle", time).map(Fault::Settle),
        ["forget-key", time] => parse_time("forget-key", time).map(Fault::ForgetKey),
        ["decline"] => Ok(Fault::Decline),
        [name @ ("latency" | "work" | "settle" | "forget-key"), ..] => Err(wrong(
            "fault",
            format!("{name} needs one TIME, as in {name} 2s"),
        )),
        _ => parse_blow(words).map(Fault::Blow),
    }
}

fn parse_blow(words: &[&str]) -> Result<Blow, Wrong> {
    let [name, rest @ ..] = words else {
        return Err(wrong("fault", "is missing"));
    };
    let (strike, rest) = match *name {
        "reset" => (Strike::Reset, rest),
        "stall" => (Strike::Stall, rest),
        "half" => (Strike::Half, rest),
        "garbage" => (Strike::Garbage, rest),
        "empty" => (Strike::Empty, rest),
        "wrong-id" => (Strike::WrongId, rest),
        "wrong-amount" => (Strike::WrongAmount, rest),
        "huge" => parse_huge(rest)?,
        "stranger" => parse_stranger(rest)?,
        status => {
            let status = parse_status(status)?;
            let strike = Strike::Status {
                status,
                retry_after_secs: None,
            };
            (strike, rest)
        }
    };
    let definite_no = matches!(strike, Strike::Status { status, .. } if status.is_client_error());
    let (when, rest) = match rest {
        ["before", rest @ ..] => (When::Before, rest),
        ["after", ..] if definite_no => {
            let reason =
                format!("{name} says that nothing was done, so it cannot be after the work");
            return Err(wrong("fault", reason));
        }
        ["after", rest @ ..] => (When::After, rest),
        rest if definite_no => (When::Before, rest),
        rest => (When::After, rest),
    };
    let strike = match (strike, rest) {
        (strike, []) => strike,
        (Strike::Status { status, .. }, ["retry-after", secs]) => Strike::Status {
            status,
            retry_after_secs: Some(parse_secs(secs)?),
        },
        (_, other) => {
            let reason = format!("\"{}\" does not belong behind {name}", other.join(" "));
            return Err(wrong("fault", reason));
        }
    };
    Ok(Blow { strike, when })
}

fn parse_secs(text: &str) -> Result<u32, Wrong> {
    let reason = || format!("\"{text}\" is not a whole number of seconds");
    text.parse().map_err(|_| wrong("retry-after", reason()))
}

fn parse_huge<'a, 'b>(rest: &'a [&'b str]) -> Result<(Strike, &'a [&'b str]), Wrong> {
    let (megabytes, rest) = match rest {
        [size, rest @ ..] if size.starts_with(|c: char| c.is_ascii_digit()) => {
            let megabytes = size
                .parse()
                .ok()
                .filter(|mb| (1..=MAX_MEGABYTES).contains(mb));
            let reason =
                format!("\"{size}\" is not a number of megabytes from 1 to {MAX_MEGABYTES}");
            (megabytes.ok_or_else(|| wrong("huge", reason))?, rest)
        }
        rest => (DEFAULT_MEGABYTES, rest),
    };
    Ok((Strike::Huge { megabytes }, rest))
}

fn parse_stranger<'a, 'b>(rest: &'a [&'b str]) -> Result<(Strike, &'a [&'b str]), Wrong> {
    let [status, rest @ ..] = rest else {
        let reason = "needs a status, as in stranger 404";
        return Err(wrong("stranger", reason));
    };
    let status = parse_status(status)?;
    Ok((Strike::Stranger { status }, rest))
}

fn parse_status(text: &str) -> Result<StatusCode, Wrong> {
    let status = text
        .parse::<u16>()
        .ok()
        .filter(|status| (400..600).contains(status));
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let unknown = || {
        let reason = format!(
            "\"{text}\" is none of latency, work, settle, forget-key, decline, reset, stall, half, garbage, \
             empty, wrong-id, wrong-amount, huge, stranger, nor a status from 400 to 599"
        );
        wrong("fault", reason)
    };
    status.ok_or_else(unknown)
}

fn parse_time(field: &'static str, text: &str) -> Result<Duration, Wrong> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms: Option<u64> = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let millis = digits.parse::<u64>().ok().zip(unit_ms);
    let time = millis
        .and_then(|(count, unit)| count.checked_mul(unit))
        .map(Duration::from_millis);
    time.filter(|time| *time <= MAX_TIME).ok_or_else(|| {
        wrong(
            field,
            format!("\"{text}\" is not a time up to a day, such as 20ms, 2s or 5m"),
        )
    })
}
