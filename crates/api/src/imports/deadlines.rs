//! Whether the payments of an import meet their deadlines: as was foreseen when they got their slots, and of those
//! that wait as is foreseen now.

use tollgate_contract as contract;
use tollgate_core::id::{BulkId, LaneName};
use tollgate_core::ports::{BulkSum, BulkView};
use tollgate_domains::payments;
use tollgate_operations::grouped;

use crate::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;

/// `None` if none of the payments has a deadline. `asked`: whether the limits that suffice were.
pub(super) async fn deadlines(
    app: &App,
    view: &BulkView,
    lanes: &[contract::BulkLane],
    asked: bool,
) -> Result<Option<contract::BulkDeadline>, ApiError> {
    let Some(at_intake) = at_intake(&view.sums, lanes, asked) else {
        return Ok(None);
    };
    let waiting = waiting(app, &view.bulk, lanes).await?;
    let provisional = provisional(app, lanes).await?;
    let verdict = said(&at_intake, &waiting, provisional.as_ref());
    Ok(Some(contract::BulkDeadline {
        meets: at_intake.meets,
        misses: at_intake.misses,
        as_of: "intake".to_owned(),
        waiting,
        verdict,
        provisional,
    }))
}

/// What of the file waits and will be late, by the forecast of its lanes.
async fn waiting(
    app: &App,
    bulk: &BulkId,
    lanes: &[contract::BulkLane],
) -> Result<contract::BulkWaiting, ApiError> {
    let mut waiting = contract::BulkWaiting {
        late: 0,
        untold: 0,
        as_of: app.store.now().await?,
    };
    let payment = payments::item_type();
    for lane in lanes {
        let lane = LaneName::new(&lane.lane);
        let forecast = app.forecaster.late_in_bulk(&lane, &payment, bulk);
        if let Some(found) = forecast.await? {
            waiting.late += found.count;
            waiting.untold += found.untold;
            waiting.as_of = waiting.as_of.min(found.as_of);
        }
    }
    Ok(waiting)
}

/// Of the first lane whose time cannot be told.
async fn provisional(
    app: &App,
    lanes: &[contract::BulkLane],
) -> Result<Option<contract::Provisional>, ApiError> {
    for lane in lanes {
        let lane = LaneName::new(&lane.lane);
        let Some(forecast) = app.forecaster.lane(&lane).await? else {
            continue;
        };
        if let Err(untold) = &forecast.drained {
            return Ok(Some(contract::Provisional::of(untold)));
        }
    }
    Ok(None)
}

/// What was foreseen when the payments got their slots.
struct AtIntake {
    meets: u64,
    misses: u64,
    verdict: String,
}

/// What there is to say about them now.
fn said(
    at_intake: &AtIntake,
    waiting: &contract::BulkWaiting,
    provisional: Option<&contract::Provisional>,
) -> String {
    let then = &at_intake.verdict;
    match provisional {
        Some(provisional) => {
            let reason = &provisional.reason;
            format!("no estimate is available: {reason}; at intake: {then}")
        }
        None if waiting.late == at_intake.misses => then.clone(),
        None => format!(
            "{} of those waiting will miss their deadline; at intake: {then}",
            grouped(waiting.late)
        ),
    }
}

fn at_intake(sums: &[BulkSum], lanes: &[contract::BulkLane], asked: bool) -> Option<AtIntake> {
    let first = sums
        .iter()
        .filter_map(|sum| sum.deadlines)
        .map(|d| d.0)
        .min()?;
    let last = sums
        .iter()
        .filter_map(|sum| sum.deadlines)
        .map(|d| d.1)
        .max()?;
    let (meets, misses) = lanes.iter().fold((0, 0), |(meets, misses), lane| {
        (meets + lane.meets, misses + lane.misses)
    });
    let which = if first == last {
        format!("the deadline of {first}")
    } else {
        "their deadlines".to_owned()
    };
    let mut verdict = vec![match (meets, misses) {
        (meets, 0) => format!("all {} meet {which}", grouped(meets)),
        _ => format!(
            "{} meet {which}, {} do not",
            grouped(meets),
            grouped(misses)
        ),
    }];
    for lane in lanes.iter().filter(|lane| asked && lane.misses > 0) {
        let of = match lanes.len() {
            1 => String::new(),
            _ => format!(" on lane \"{}\"", lane.lane),
        };
        verdict.push(match lane.enough {
            Some(enough) => format!(
                "{} a second with a plan of {} per window{of} would suffice",
                enough.max_per_second, enough.max_per_window
            ),
            None => format!("no limit{of} would suffice"),
        });
    }
    Some(AtIntake {
        meets,
        misses,
        verdict: verdict.join("; "),
    })
}

#[cfg(test)]
mod tests {
    use tollgate_core::Timestamp;
    use tollgate_core::timetable::{Untold, UntoldCode};

    use super::super::views::by_lane;
    use super::*;

    fn sum(lane: &str, met: u64, missed: u64, deadline: i64) -> BulkSum {
        let time = |secs| Timestamp::from_second(secs).unwrap();
        BulkSum {
            lane: LaneName::new(lane),
            currency: "EUR".into(),
            accepted: met + missed,
            amount_minor: 150,
            met,
            missed,
            first_slot: time(10),
            last_slot: time(20),
            deadlines: Some((time(deadline), time(deadline))),
        }
    }

    fn verdict(sums: &[BulkSum], enough: Option<u32>) -> String {
        let mut lanes = by_lane(sums);
        for lane in &mut lanes {
            lane.enough = enough.map(|max_per_second| contract::BulkEnough {
                max_per_second,
                max_per_window: 4 * max_per_second,
            });
        }
        at_intake(sums, &lanes, enough.is_some()).unwrap().verdict
    }

    #[test]
    fn the_verdict_is_a_sentence() {
        let table = [
            (
                verdict(&[sum("a", 998_410, 1_590, 60)], Some(52)),
                "998,410 meet the deadline of 1970-01-01T00:01:00Z, 1,590 do not; 52 a second with a plan of 208 per window would suffice",
            ),
            (
                verdict(&[sum("a", 1000, 0, 60)], None),
                "all 1,000 meet the deadline of 1970-01-01T00:01:00Z",
            ),
            (
                verdict(&[sum("a", 0, 1, 60), sum("b", 5, 0, 61)], Some(3)),
                "5 meet their deadlines, 1 do not; 3 a second with a plan of 12 per window on lane \"a\" would suffice",
            ),
        ];
        for (said, expected) in table {
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn a_verdict_that_holds_no_more_says_what_holds_now() {
        let sums = [sum("a", 400, 0, 60)];
        let at_intake = at_intake(&sums, &by_lane(&sums), false).unwrap();
        let waiting = |late| contract::BulkWaiting {
            late,
            untold: 0,
            as_of: Timestamp::UNIX_EPOCH,
        };
        let then = "all 400 meet the deadline of 1970-01-01T00:01:00Z";
        assert_eq!(said(&at_intake, &waiting(0), None), then);
        assert_eq!(
            said(&at_intake, &waiting(350), None),
            format!("350 of those waiting will miss their deadline; at intake: {then}")
        );
        let untold = Untold {
            code: UntoldCode::LanePaused,
            reason: "lane \"a\" is paused".into(),
            since: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(
            said(
                &at_intake,
                &waiting(0),
                Some(&contract::Provisional::of(&untold))
            ),
            format!("no estimate is available: lane \"a\" is paused; at intake: {then}")
        );
    }
}
