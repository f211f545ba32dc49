//! What `tollgate lanes …` prints.

use serde_json::Value;

use super::table::{cell, fields, rows, table};

pub(super) fn list(answer: &Value) -> String {
    let header = [
        "lane", "hard/s", "plan", "window s", "calendar", "version", "state",
    ];
    let rows: Vec<Vec<String>> = answer
        .as_array()
        .into_iter()
        .flatten()
        .map(|lane| {
            let plain = [
                "configName",
                "maxPerSecond",
                "maxPerWindow",
                "windowSizeSecs",
                "calendar",
                "version",
            ];
            let mut row: Vec<String> = plain.iter().map(|field| cell(&lane[*field])).collect();
            row.push(state(lane));
            row
        })
        .collect();
    table(&header, &rows)
}

fn state(lane: &Value) -> String {
    let until = lane["opensAt"].as_str().map(|t| format!(", opens {t}"));
    match lane["closedBecause"].as_str() {
        None => "open".to_owned(),
        Some(why) => format!("{why}{}", until.unwrap_or_default()),
    }
}

pub(super) fn lane(answer: &Value) -> String {
    let named = [
        ("lane", "configName"),
        ("hard limit", "maxPerSecond"),
        ("plan", "maxPerWindow"),
        ("window seconds", "windowSizeSecs"),
        ("spread", "spread"),
        ("calendar", "calendar"),
        ("version", "version"),
        ("in force from", "effectiveAt"),
    ];
    format!(
        "{}state           {}",
        fields(answer, &named),
        state(answer)
    )
}

pub(super) fn replan_effect(answer: &Value) -> String {
    let named = [
        ("waiting", "waiting"),
        ("earlier", "earlier"),
        ("later", "later"),
        ("finish before", "finishBefore"),
        ("finish after", "finishAfter"),
        ("deadlines won", "deadlinesWon"),
        ("deadlines lost", "deadlinesLost"),
        ("deadlines missed", "missedAfter"),
    ];
    let note = match answer["preview"].as_bool() {
        Some(true) => "(a preview: nothing was changed)",
        _ => "",
    };
    format!("{}{note}", fields(answer, &named))
}

/// A preview says how to apply exactly this.
pub(super) fn adjusted(answer: &Value) -> String {
    let numbers = |of: &Value| {
        let part = |name: &str| cell(&of[name]);
        let (limit, plan) = (part("maxPerSecond"), part("maxPerWindow"));
        format!(
            "{limit} a second, {plan} per {} s, calendar {}",
            part("windowSizeSecs"),
            part("calendar")
        )
    };
    let missed = |when: &str| cell(&answer["effect"][when]);
    let mut text = format!(
        "before            {}\nafter             {}\ndeadlines missed  {} before, {} after\n",
        numbers(&answer["before"]),
        numbers(&answer["after"]),
        missed("missedBefore"),
        missed("missedAfter"),
    );
    text += &sentence("now", &answer["verdict"]);
    if answer["applied"] == true {
        return text + &replan_effect(&answer["effect"]);
    }
    text += &sentence("then", &answer["verdictAfter"]);
    let (until, digest) = (cell(&answer["expiresAt"]), cell(&answer["digest"]));
    let flags = changed_flags(&answer["before"], &answer["after"]);
    let lane = cell(&answer["lane"]);
    text + &format!(
        "(a preview: nothing was changed) to apply it before {until}:\n  tollgate lanes adjust {lane}{flags} \\\n    --digest {digest} --reason \"…\""
    )
}

/// One part of it on a line.
fn sentence(name: &str, verdict: &Value) -> String {
    let parts = cell(verdict).replace("; ", &format!("\n{:18}", ""));
    format!("{name:18}{parts}\n")
}

/// What is not given stays as it is.
fn changed_flags(before: &Value, after: &Value) -> String {
    let flags = [
        ("maxPerSecond", "max-per-second"),
        ("maxPerWindow", "max-per-window"),
        ("windowSizeSecs", "window-size-secs"),
        ("calendar", "calendar"),
    ];
    let changed = flags.iter().filter(|(name, _)| before[name] != after[name]);
    let flag = changed.map(|(name, flag)| match &after[name] {
        Value::Null => format!(" --{flag} none"),
        value => format!(" --{flag} {}", cell(value)),
    });
    let flags: String = flag.collect();
    if flags.is_empty() {
        // Without any number the service would propose its own.
        return format!(" --max-per-window {}", cell(&after["maxPerWindow"]));
    }
    flags
}

pub(super) fn forecast(answer: &Value) -> String {
    cell(&answer["verdict"])
}

pub(super) fn windows(answer: &Value) -> String {
    let fields = ["windowStart", "slotCount", "capacity"];
    table(&["window", "slots", "capacity"], &rows(answer, &fields))
}

pub(super) fn recounted(answer: &Value) -> String {
    let named = [
        ("windows corrected", "windowsCorrected"),
        ("capacity returned", "roomReturned"),
        ("slots not counted before", "slotsNotCounted"),
    ];
    fields(answer, &named)
}

pub(super) fn storms(answer: &Value) -> String {
    let header = ["storm", "lane", "connector", "since", "lifted", "reason"];
    let named = ["storm", "lane", "connector", "since", "liftedAt", "reason"];
    let rows = rows(&answer["storms"], &named);
    if rows.is_empty() {
        return "no storms".to_owned();
    }
    table(&header, &rows)
}
