//! The desired properties of the source document's background section, each as a test of its name.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use tollgate_core::id::{ItemId, LaneName};
use tollgate_core::item::QueueStatus;
use tollgate_core::lane::LaneChange;
use tollgate_domains::invoices::{Billed, BillingError, CheckText, Level, ScheduleText, item_type};

use crate::scene::{AwaitNow, BOTH, DAY, Footing, Plan, Town, test};

fn every(cron: &str) -> ScheduleText {
    ScheduleText {
        cron: cron.into(),
        ..ScheduleText::default()
    }
}

#[test]
fn it_is_horizontally_scalable_two_nodes_share_the_work_and_charge_each_invoice_once() {
    let plan = Plan::default();
    let town = Town::build(Footing::Postgres, &plan);
    let other = town.another_node(&plan);
    for n in 0..40 {
        town.node.invoice(&format!("inv_{n}"));
    }
    town.advance_to(town.node.view("inv_39").due);
    town.advance(Duration::from_secs(5));
    let (one, two) = std::thread::scope(|scope| {
        let two = scope.spawn(|| other.execute_all().len());
        let one = town.node.execute_all().len();
        (one, two.join().unwrap())
    });
    assert_eq!(one + two, 40, "each was executed by one of them");
    assert!(one > 0 && two > 0, "both have worked: {one} and {two}");
    assert!(town.bank.ledger().doubles().is_empty(), "MONEY: paid twice");
    assert_eq!(town.bank.ledger().effective().len(), 40);
}

#[test]
fn it_delivers_at_most_once_a_run_that_is_repeated_charges_nothing() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        town.node.invoice("inv_1");
        town.advance_to(town.node.view("inv_1").due);
        let input = town.node.claimed().unwrap();
        assert_eq!(town.node.execute(&input), Billed::Paid);
        for _ in 0..3 {
            let again = town.node.execute(&input);
            assert!(matches!(again, Billed::Superseded(_)), "{again:?}");
        }
        assert_eq!(town.charged("inv_1"), 1);
        assert_eq!(town.keys().len(), 1, "not even asked");
    }
}

#[test]
fn it_is_durable_and_recoverable_schedules_outlive_the_process() {
    let plan = Plan::default();
    let town = Town::build(Footing::Sqlite, &plan);
    let level = Level::Customer("c_1".into());
    let taken = town.node.invoice("inv_1");
    let schedules = town.node.billing.schedules();
    schedules
        .put(&level, every("0 12 * * *"), test())
        .await_now()
        .unwrap();
    let Town {
        node,
        bank,
        time,
        folder,
        ..
    } = town;
    drop(node);

    let town = Town::build_on(folder.unwrap(), bank, time, &plan);
    let view = town.node.view("inv_1");
    assert_eq!(view.due, taken.placed.as_ref().unwrap().scheduled);
    let known = town
        .node
        .billing
        .schedules()
        .get(&level)
        .await_now()
        .unwrap();
    assert_eq!(known.text, every("0 12 * * *"));
    assert_eq!(town.bill("inv_1"), [Billed::Paid]);
    assert_eq!(town.charged("inv_1"), 1);
}

#[test]
fn it_is_dynamically_configurable_per_customer_and_invoice_and_the_most_specific_wins() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        town.node.invoice("inv_0");
        let schedules = town.node.billing.schedules();
        let put = |level: Level, cron: &str| {
            schedules
                .put(&level, every(cron), test())
                .await_now()
                .unwrap()
        };
        let minute_of = |id: &str| {
            let id = ItemId::new(id);
            let view = town.node.billing.reschedule(&id, None, test());
            let due = view.await_now().unwrap().due;
            let local = due.in_tz("Europe/Copenhagen").unwrap();
            (local.hour(), local.minute())
        };
        let monthly = town.node.view("inv_0").due;
        put(Level::Global, "10 1 * * *");
        assert_eq!(town.node.view("inv_0").due, monthly, "not retroactive");
        assert_eq!(minute_of("inv_0"), (1, 10));
        put(Level::Customer("c_1".into()), "20 2 * * *");
        assert_eq!(minute_of("inv_0"), (2, 20));
        put(Level::Invoice("inv_0".into()), "30 3 * * *");
        assert_eq!(minute_of("inv_0"), (3, 30));
        // One that comes with its own.
        let body = json!({"invoiceId": "inv_1", "customerId": "c_1", "amount": {"value": "1", "currency": "DKK"},
            "schedule": {"cron": "40 4 * * *"}});
        let taken = town.node.create(&body);
        let local = taken
            .placed
            .as_ref()
            .unwrap()
            .scheduled
            .in_tz("Europe/Copenhagen")
            .unwrap();
        assert_eq!((local.hour(), local.minute()), (4, 40));

        let deleted = |level: &Level| schedules.delete(level, false, test()).await_now();
        deleted(&Level::Customer("c_1".into())).unwrap();
        assert_eq!(minute_of("inv_1"), (4, 40), "its own is still there");
        let level = Level::Customer("c_9".into());
        let nobody = schedules.put(&level, every("0 0 1 * *"), test());
        assert!(matches!(nobody.await_now(), Err(BillingError::NotFound(_))));
    }
}

/// However many invoices fall due in one second, the lane's plan takes so many a window; and one that
/// is skipped does not come back every second.
#[test]
fn a_cron_that_fires_every_second_is_bounded_by_the_lane_and_warned_of() {
    for footing in BOTH {
        let never = CheckText {
            name: "never".to_owned(),
            require: "amountMinor < 0".to_owned(),
            otherwise: "skip".to_owned(),
            pause: None,
            message: "not this time".to_owned(),
        };
        let plan = Plan {
            checks: vec![never],
            ..Plan::default()
        };
        let town = Town::build(footing, &plan);
        let change = LaneChange {
            max_per_window: Some(10),
            window_size_secs: Some(4),
            ..LaneChange::default()
        };
        let lane = LaneName::new("invoices");
        let changed = town.node.store.change_lane(&lane, change, test());
        changed.await_now().unwrap();
        town.node.invoice("inv_0");
        let schedules = town.node.billing.schedules();
        let put = schedules.put(&Level::Global, every("* * * * * *"), test());
        assert!(put.await_now().unwrap().warning.is_some());

        let mut windows = BTreeMap::<i64, u32>::new();
        for n in 1..=60 {
            let taken = town.node.invoice(&format!("inv_{n}"));
            let at = taken.placed.as_ref().unwrap().scheduled;
            *windows.entry(at.as_second() / 4).or_default() += 1;
        }
        assert!(windows.values().all(|used| *used <= 10), "{windows:?}");
        assert!(windows.len() >= 6, "{windows:?}");
        let id = ItemId::new("inv_0");
        let now = town.node.billing.reschedule(&id, None, test());
        let due = now.await_now().unwrap().due;
        town.advance_to(due);
        let executed = town.node.execute_all();
        assert!(executed.iter().all(|it| matches!(it, Billed::Waits(_))));
        assert!(town.keys().is_empty(), "nobody is charged");
        let rest = town.node.view("inv_0").due.duration_since(due);
        // The first whole second that is more than 59 s away: a slot may lie between two seconds.
        assert!(rest.as_secs() >= 59, "{rest}");
    }
}

#[test]
fn a_schedule_that_outstanding_invoices_go_by_is_deleted_only_by_force() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        let schedules = town.node.billing.schedules();
        let (of_all, of_c_1) = (Level::Global, Level::Customer("c_1".into()));
        let of_inv_2 = Level::Invoice("inv_2".into());
        for id in ["inv_1", "inv_2", "inv_3"] {
            town.node.invoice(id);
        }
        let own = json!({"invoiceId": "inv_4", "customerId": "c_1", "amount": {"value": "1", "currency": "DKK"},
            "schedule": {"cron": "40 4 * * *"}});
        town.node.create(&own);
        for level in [&of_c_1, &of_inv_2] {
            let put = schedules.put(level, every("20 2 * * *"), test());
            put.await_now().unwrap();
        }
        let delete = |level: &Level, force| schedules.delete(level, force, test()).await_now();
        let refused = |level: &Level, force, said: &str| match delete(level, force) {
            Err(BillingError::Conflict(why)) => {
                assert!(why.starts_with("schedule: ") && why.contains(said), "{why}");
            }
            other => panic!("{other:?} instead of {said}"),
        };
        refused(&of_all, false, "replace it");
        refused(&of_all, true, "replace it");
        refused(&of_c_1, false, "by 2 outstanding invoices of customer c_1");
        refused(&of_inv_2, false, "invoice inv_2 is outstanding");
        delete(&of_inv_2, true).unwrap();
        refused(&of_c_1, false, "by 3 outstanding invoices");

        // One that has ended uses nothing; forced, the others keep their times.
        town.bill("inv_4");
        let due = town.node.view("inv_1").due;
        delete(&of_c_1, true).unwrap();
        assert_eq!(town.node.view("inv_1").due, due);
        town.advance_to(due);
        town.advance(Duration::from_secs(5));
        town.node.execute_all();
        let put = schedules.put(&of_c_1, every("20 2 * * *"), test());
        put.await_now().unwrap();
        delete(&of_c_1, false).unwrap();
    }
}

#[test]
fn it_performs_pre_execution_checks_and_records_each_verdict_with_its_reason() {
    let check = |name: &str, require: &str, otherwise: &str| CheckText {
        name: name.into(),
        require: require.into(),
        otherwise: otherwise.into(),
        pause: None,
        message: format!("because of {name}"),
    };
    let plan = Plan {
        checks: vec![
            check("small", "amountMinor <= minor('500.00')", "fail"),
            check("rested", "now - createdAt > 40 * 86400", "postpone"),
            check(
                "even",
                "!(invoiceId == 'inv_odd') || now - createdAt > 90 * 86400",
                "skip",
            ),
        ],
        ..Plan::default()
    };
    for footing in BOTH {
        let town = Town::build(footing, &plan);
        town.node.invoice("inv_1");
        town.node.invoice("inv_odd");
        town.node.create(&json!({"invoiceId": "inv_big", "customerId": "c_1", "amount": {"value": "500.01", "currency": "DKK"}}));
        for _ in 0..150 {
            town.advance(DAY);
            town.node.execute_all();
        }
        let ends: BTreeMap<_, _> = ["inv_1", "inv_odd", "inv_big"]
            .map(|id| (id, (town.node.status(id), town.charged(id))))
            .into();
        assert_eq!(ends["inv_1"], ("PAID".to_owned(), 1));
        assert_eq!(ends["inv_odd"], ("PAID".to_owned(), 1));
        assert_eq!(ends["inv_big"], ("FAILED".to_owned(), 0));
        let said = |id: &str, check: &str, verdict: &str| {
            let verdicts = town.node.verdicts(id);
            let found = verdicts
                .iter()
                .any(|(who, what)| who == check && what.starts_with(verdict));
            assert!(found, "{id}: no {verdict} by {check} in {verdicts:?}");
        };
        said("inv_big", "small", "fail: because of small");
        said("inv_1", "rested", "postpone: because of rested");
        said("inv_odd", "even", "skip: because of even");
        said("inv_1", "all", "continue: 8 checks");
    }
}

#[test]
fn it_supports_rescheduling_what_waits_without_side_effects() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::default());
        let first = town.node.invoice("inv_1").placed.unwrap().scheduled;
        let id = ItemId::new("inv_1");
        let sooner = town.node.now() + Duration::from_mins(10);
        let moved = town.node.billing.reschedule(&id, Some(sooner), test());
        assert!(moved.await_now().unwrap().due < first);
        assert_eq!(town.bill("inv_1"), [Billed::Paid]);
        town.advance_to(first);
        town.advance(DAY);
        assert!(
            town.node.execute_all().is_empty(),
            "its old time is nobody's"
        );
        assert_eq!(town.charged("inv_1"), 1);
    }
}

#[test]
fn it_is_efficient_invoices_that_wait_are_rows_and_nothing_else() {
    let town = Town::build(Footing::Sqlite, &Plan::default());
    for n in 0..300 {
        town.node.invoice(&format!("inv_{n}"));
    }
    assert_eq!(
        town.node.claimed(),
        None,
        "nothing is claimed before its time"
    );
    let depths = town.node.store.depths(&item_type()).await_now().unwrap();
    let depths: BTreeMap<_, _> = depths
        .into_iter()
        .map(|(status, n)| (status.as_str(), n))
        .collect();
    assert_eq!(depths[QueueStatus::Ready.as_str()], 300);
    assert_eq!(depths[QueueStatus::Dispatched.as_str()], 0);
    let view = town.node.view("inv_0");
    assert_eq!(view.exec_flow, None, "no flow sleeps for it");
    assert_eq!(town.bank.ledger().arrivals(), 0);
}

#[test]
fn it_is_observable_an_invoice_tells_what_happened_to_it() {
    for footing in BOTH {
        let town = Town::build(footing, &Plan::with_faults("send 1: decline"));
        town.node.invoice("inv_1");
        town.bill("inv_1");
        town.bill("inv_1");
        let view = town.node.view("inv_1");
        let told: Vec<_> = view
            .attempts
            .iter()
            .map(|a| (a.state.as_str(), a.run))
            .collect();
        assert_eq!(told, [("DECLINED", 1), ("DONE", 2)]);
        assert_eq!(view.attempts[0].detail, "insufficient funds");
        let actions: Vec<_> = town
            .node
            .trail("inv_1")
            .into_iter()
            .map(|e| e.action)
            .rev()
            .collect();
        assert_eq!(actions, ["CHECKED", "DECLINED", "CHECKED"]);
    }
}
