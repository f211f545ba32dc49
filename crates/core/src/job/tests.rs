//! Jobs, one table after another: filters, refusals, and what has moved since the preview.

use super::*;
use crate::money::Currency;

fn candidate(id: &str, queue_status: QueueStatus) -> Candidate {
    let second = |s| Timestamp::from_second(s).unwrap();
    Candidate {
        id: ItemId::new(id),
        money: Money {
            minor: 100,
            currency: Currency::from_code("USD").unwrap(),
        },
        found: ItemState {
            queue_status,
            lane: LaneName::new("bank"),
            run: 1,
            may_be_done: false,
            is_erased: false,
            has_ended: false,
            record_status: "SCHEDULED".into(),
        },
        due: second(100),
        deadline: Some(second(150)),
        created_at: second(50),
    }
}

#[test]
fn each_field_of_a_filter_narrows_it() {
    let second = |s| Some(Timestamp::from_second(s).unwrap());
    let now = Timestamp::from_second(120).unwrap();
    let all = JobFilter {
        all: true,
        ..JobFilter::default()
    };
    let with = |change: fn(&mut JobFilter)| {
        let mut filter = all.clone();
        change(&mut filter);
        filter
    };
    let table: [(JobFilter, bool); 14] = [
        (all.clone(), true),
        (with(|f| f.status = Some("SCHEDULED".into())), true),
        (with(|f| f.status = Some("REJECTED".into())), false),
        (with(|f| f.held = Some(true)), true),
        (with(|f| f.held = Some(false)), false),
        (with(|f| f.lane = Some(LaneName::new("other"))), false),
        (with(|f| f.currency = Some("EUR".into())), false),
        (with(|f| f.min_minor = Some(101)), false),
        (with(|f| f.max_minor = Some(100)), true),
        (with(|f| f.max_minor = Some(99)), false),
        (with(|f| f.late = Some(true)), false),
        (with(|f| f.late = Some(false)), true),
        (
            JobFilter {
                accepted_to: second(50),
                ..all.clone()
            },
            false,
        ),
        (
            JobFilter {
                due_from: second(100),
                due_to: second(101),
                ..all.clone()
            },
            true,
        ),
    ];
    let item = candidate("a", QueueStatus::Held);
    for (filter, expected) in table {
        assert_eq!(filter.wants(&item, now), expected, "{filter:?}");
    }
    assert!(item.is_late(Timestamp::from_second(151).unwrap()));
    assert!(JobFilter::default().is_empty() && !all.is_empty());
}

#[test]
fn an_item_that_moved_in_any_way_is_not_the_one_that_was_previewed() {
    let item = candidate("a", QueueStatus::Held);
    let previewed = JobItem::from(&item);
    assert_eq!(previewed.moved(&item.found), None);
    let released = candidate("a", QueueStatus::Ready).found;
    let told = "changed since the preview: it was HELD and is now READY";
    assert_eq!(previewed.moved(&released).as_deref(), Some(told));
    let again = ItemState {
        run: 3,
        ..item.found
    };
    assert!(previewed.moved(&again).unwrap().contains("run 3"));
}

#[test]
fn a_summary_counts_all_and_shows_some() {
    let mut summary = JobSummary::default();
    for n in 0..30 {
        summary.take(&candidate(&n.to_string(), QueueStatus::Held));
        let reason = format!("reason {n}");
        summary.leave_out(&candidate("x", QueueStatus::Ready), reason);
    }
    assert_eq!((summary.count, summary.first.len()), (30, FIRST_SHOWN));
    assert_eq!(summary.amounts["USD"], 3000);
    let left_out: u64 = summary.excluded.iter().map(|it| it.count).sum();
    assert_eq!((left_out, summary.excluded.len()), (30, MOST_REASONS + 1));
    assert!(!summary.is_off_by(0) && summary.is_off_by(1));
    summary.count = 1000;
    assert!(!summary.is_off_by(10) && summary.is_off_by(11));
}
