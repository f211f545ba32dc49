//! What `tollgate lanes …` prints.

use tollgate_client::contract::{
    Forecast, Lane, LaneAdjusted, LaneSettings, Recount, Replan, Shift, StormList, Window,
};

use super::table::{cell, facts, row, table};

pub(super) fn list(lanes: &[Lane]) -> String {
    let header = [
        "lane", "hard/s", "plan", "window s", "calendar", "version", "state",
    ];
    let rows: Vec<Vec<String>> = lanes
        .iter()
        .map(|lane| {
            row(&[
                &lane.config_name,
                &lane.max_per_second,
                &lane.max_per_window,
                &lane.window_size_secs,
                &lane.calendar,
                &lane.version,
                &state(lane),
            ])
        })
        .collect();
    table(&header, &rows)
}

fn state(lane: &Lane) -> String {
    let until = lane.opens_at.map(|time| format!(", opens {time}"));
    match &lane.closed_because {
        None => "open".to_owned(),
        Some(why) => format!("{why}{}", until.unwrap_or_default()),
    }
}

pub(super) fn lane(lane: &Lane) -> String {
    let facts = facts(&[
        ("lane", &lane.config_name),
        ("hard limit", &lane.max_per_second),
        ("plan", &lane.max_per_window),
        ("window seconds", &lane.window_size_secs),
        ("spread", &lane.spread),
        ("calendar", &lane.calendar),
        ("version", &lane.version),
        ("in force from", &lane.effective_at),
    ]);
    format!("{facts}state           {}", state(lane))
}

pub(super) fn replan(replan: &Replan) -> String {
    let note = if replan.preview {
        "(preview; nothing was changed)"
    } else {
        ""
    };
    format!("{}{note}", replan_effect(&replan.shift))
}

fn replan_effect(effect: &Shift) -> String {
    facts(&[
        ("waiting", &effect.waiting),
        ("earlier", &effect.earlier),
        ("later", &effect.later),
        ("finish before", &effect.finish_before),
        ("finish after", &effect.finish_after),
        ("deadlines newly met", &effect.deadlines_won),
        ("deadlines newly missed", &effect.deadlines_lost),
        ("deadlines missed", &effect.missed_after),
    ])
}

/// A preview says how to apply exactly this.
pub(super) fn adjusted(it: &LaneAdjusted) -> String {
    let mut text = format!(
        "before            {}\nafter             {}\ndeadlines missed  {} before, {} after\n",
        numbers(&it.before),
        numbers(&it.after),
        it.effect.missed_before,
        it.effect.missed_after,
    );
    text += &sentence("now", &it.verdict);
    if it.applied {
        return text + &replan_effect(&it.effect);
    }
    text += &sentence("then", &it.verdict_after);
    let (until, digest) = (cell(&it.expires_at), cell(&it.digest));
    let flags = changed_flags(&it.before, &it.after);
    let lane = &it.lane;
    text + &format!(
        "(preview; nothing was changed) to apply it before {until}:\n  tollgate lanes adjust {lane}{flags} \\\n    --digest {digest} --reason \"…\""
    )
}

fn numbers(of: &LaneSettings) -> String {
    format!(
        "{} a second, {} per {} s, calendar {}",
        cell(&of.max_per_second),
        of.max_per_window,
        of.window_size_secs,
        cell(&of.calendar)
    )
}

/// One part of it on a line.
fn sentence(name: &str, verdict: &str) -> String {
    let parts = verdict.replace("; ", &format!("\n{:18}", ""));
    format!("{name:18}{parts}\n")
}

/// What is not given stays as it is.
fn changed_flags(before: &LaneSettings, after: &LaneSettings) -> String {
    let calendar = after.calendar.as_deref().unwrap_or("none").to_owned();
    let flags = [
        (
            "max-per-second",
            before.max_per_second != after.max_per_second,
            cell(&after.max_per_second),
        ),
        (
            "max-per-window",
            before.max_per_window != after.max_per_window,
            cell(&after.max_per_window),
        ),
        (
            "window-size-secs",
            before.window_size_secs != after.window_size_secs,
            cell(&after.window_size_secs),
        ),
        ("calendar", before.calendar != after.calendar, calendar),
    ];
    let changed = flags.iter().filter(|(_, is_changed, _)| *is_changed);
    let flags = changed.map(|(flag, _, value)| format!(" --{flag} {value}"));
    let flags: String = flags.collect();
    if flags.is_empty() {
        // Without any number the service would propose its own.
        return format!(" --max-per-window {}", after.max_per_window);
    }
    flags
}

pub(super) fn forecast(forecast: &Forecast) -> String {
    forecast.verdict.clone()
}

pub(super) fn windows(windows: &[Window]) -> String {
    let rows: Vec<Vec<String>> = windows
        .iter()
        .map(|it| row(&[&it.window_start, &it.slot_count, &it.capacity]))
        .collect();
    table(&["window", "slots", "capacity"], &rows)
}

pub(super) fn recounted(recount: &Recount) -> String {
    facts(&[
        ("windows corrected", &recount.windows_corrected),
        ("slots counted but not taken", &recount.room_returned),
        ("slots taken but not counted", &recount.slots_not_counted),
    ])
}

pub(super) fn storms(answer: &StormList) -> String {
    if answer.storms.is_empty() {
        return "no storms".to_owned();
    }
    let header = ["storm", "lane", "connector", "since", "lifted", "reason"];
    let rows: Vec<Vec<String>> = answer
        .storms
        .iter()
        .map(|it| {
            row(&[
                &it.storm,
                &it.lane,
                &it.connector,
                &it.since,
                &it.lifted_at,
                &it.reason,
            ])
        })
        .collect();
    table(&header, &rows)
}
