//! Guards: what must still hold when an item is written, exactly, whoever else admits.

use tollgate_core::Timestamp;
use tollgate_core::guard::{Guard, Limit};
use tollgate_core::id::LaneName;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{ActionResult, Admission, NewItem};

use super::fixture::{Fixture, HOUR, is_new, new_item, new_item_at, ops, payment, payments, plan};
use super::planning::secs;

fn guard(rule: &str, limit: Limit) -> Guard {
    Guard {
        rule: rule.into(),
        message: format!("{rule} says no"),
        limit,
        uncounted: ["CANCELLED", "REJECTED", "FAILED"].map(Into::into).into(),
    }
}

/// At most so many dollars a day; each item is one.
fn daily(id: &str, owner: &str, dollars: i64) -> NewItem {
    let limit = Limit::DailyTotal {
        zone: "UTC".into(),
        most_minor: dollars * 100,
    };
    let mut item = new_item(id);
    item.record.owner = owner.into();
    item.guards = vec![guard("daily", limit)];
    item
}

fn no_duplicate(id: &str, key: &str, within_secs: u32) -> NewItem {
    let key = key.into();
    NewItem {
        guards: vec![guard("twin", Limit::NoDuplicate { key, within_secs })],
        ..new_item(id)
    }
}

fn refused_by(admission: &Admission) -> Option<&str> {
    match admission {
        Admission::RefusedBy { rule, message } => {
            assert_eq!(*message, format!("{rule} says no"));
            Some(rule)
        }
        Admission::New(_) | Admission::Repeat(_) => None,
        Admission::Conflict
        | Admission::Refused(_)
        | Admission::Cancelled
        | Admission::Archived
        | Admission::Erased => {
            panic!("{admission:?}")
        }
    }
}

fn verdicts(admissions: &[Admission]) -> Vec<Option<&str>> {
    admissions.iter().map(refused_by).collect()
}

/// Two lanes, so that nothing else keeps admissions apart; at noon, so that no day ends meanwhile.
async fn open(f: &dyn Fixture) -> LaneName {
    let other = LaneName::new("other");
    f.lane(plan(1000, 4)).await;
    let changed = f.store().change_lane(&other, plan(1000, 4), ops()).await;
    changed.unwrap();
    let day = 24 * 3600;
    let noon = (f.now().await.as_second() / day + 1) * day + day / 2;
    f.advance_to(Timestamp::from_second(noon).unwrap()).await;
    other
}

/// The first of a file that passes its checks is taken.
pub async fn of_two_contents_of_one_id_the_one_that_no_guard_refuses_is_new(f: &dyn Fixture) {
    open(f).await;
    let content = |item: NewItem, hash: &str| {
        let mut item = item;
        item.record.content_hash = hash.into();
        item
    };
    let batch = vec![
        content(daily("p", "ann", 0), "dear"),
        content(daily("p", "ann", 0), "dear"),
        content(daily("p", "ann", 0), "dearer"),
        content(daily("p", "ann", 1), "cheap"),
        content(daily("p", "ann", 1), "cheap"),
    ];
    let answers = f.admit(batch).await;
    let no = Some("daily");
    assert_eq!(verdicts(&answers[..3]), [no; 3], "{answers:?}");
    assert!(is_new(&answers[3]), "{answers:?}");
    assert!(matches!(answers[4], Admission::Repeat(_)), "{answers:?}");
}

pub async fn a_daily_total_is_reached_and_not_passed(f: &dyn Fixture) {
    open(f).await;
    let batch = ["a", "b", "c"].map(|id| daily(id, "ann", 2)).into();
    let answers = f.admit(batch).await;
    assert_eq!(verdicts(&answers), [None, None, Some("daily")]);
    let later = f.admit_one(daily("d", "ann", 2)).await;
    assert_eq!(refused_by(&later), Some("daily"));
    assert!(
        is_new(&f.admit_one(daily("e", "ann", 3)).await),
        "a higher limit"
    );
    assert!(
        is_new(&f.admit_one(daily("f", "bob", 2)).await),
        "another's"
    );
    let mut euro = daily("g", "ann", 1);
    euro.record.money = Money {
        currency: Currency::from_code("EUR").unwrap(),
        ..euro.record.money
    };
    assert!(is_new(&f.admit_one(euro).await), "another currency");
}

pub async fn what_a_guard_refuses_leaves_nothing_behind_and_its_id_is_free(f: &dyn Fixture) {
    open(f).await;
    let batch = vec![daily("a", "ann", 1), daily("b", "ann", 1), new_item("c")];
    let answers = f.admit(batch).await;
    assert_eq!(verdicts(&answers), [None, Some("daily"), None]);
    assert!(f.store().item(&payment("b")).await.unwrap().is_none());
    assert_eq!(f.windows().await.iter().map(|w| w.used).sum::<u32>(), 2);
    let totals = f
        .store()
        .totals(&payments(), Timestamp::MIN, Timestamp::MAX)
        .await;
    assert_eq!(totals.unwrap().iter().map(|t| t.count).sum::<u64>(), 2);
    assert!(is_new(&f.admit_one(new_item("b")).await));
}

pub async fn a_new_day_has_a_new_total(f: &dyn Fixture) {
    open(f).await;
    assert!(is_new(&f.admit_one(daily("a", "ann", 1)).await));
    f.advance(11 * HOUR).await;
    let same_day = f.admit_one(daily("b", "ann", 1)).await;
    assert_eq!(refused_by(&same_day), Some("daily"));
    f.advance(HOUR).await;
    assert!(is_new(&f.admit_one(daily("b", "ann", 1)).await), "midnight");
}

pub async fn what_was_withdrawn_does_not_count(f: &dyn Fixture) {
    open(f).await;
    f.place(vec![daily("a", "ann", 1), no_duplicate("t", "key", 3600)])
        .await;
    for id in ["a", "t"] {
        assert_eq!(f.cancel(id).await, ActionResult::Yes);
    }
    assert!(is_new(&f.admit_one(daily("b", "ann", 1)).await));
    assert!(is_new(&f.admit_one(no_duplicate("u", "key", 3600)).await));
}

pub async fn a_duplicate_is_refused_within_its_time_and_taken_after_it(f: &dyn Fixture) {
    open(f).await;
    let batch = vec![
        no_duplicate("a", "key", 3600),
        no_duplicate("b", "key", 3600),
        no_duplicate("c", "other key", 3600),
    ];
    assert_eq!(verdicts(&f.admit(batch).await), [None, Some("twin"), None]);
    f.advance(HOUR / 2).await;
    let within = f.admit_one(no_duplicate("b", "key", 3600)).await;
    assert_eq!(refused_by(&within), Some("twin"));
    let short = f.admit_one(no_duplicate("b", "key", 60)).await;
    assert!(is_new(&short), "a shorter time: {short:?}");
    f.advance(HOUR * 2).await;
    assert!(is_new(&f.admit_one(no_duplicate("d", "key", 3600)).await));
}

pub async fn an_item_that_is_known_gets_its_answer_whatever_its_guards_say(f: &dyn Fixture) {
    open(f).await;
    let mut both = daily("a", "ann", 1);
    both.guards.extend(no_duplicate("a", "key", 3600).guards);
    assert!(is_new(&f.admit_one(both.clone()).await));
    let again = f.admit_one(both.clone()).await;
    assert!(matches!(again, Admission::Repeat(_)), "{again:?}");
    both.record.content_hash = "another".into();
    assert_eq!(f.admit_one(both).await, Admission::Conflict);
}

pub async fn what_its_lane_never_takes_does_not_count(f: &dyn Fixture) {
    open(f).await;
    let never = NewItem {
        guards: daily("x", "ann", 1).guards,
        ..new_item_at("never", Timestamp::MAX - secs(1))
    };
    let mut never = never;
    never.record.owner = "ann".into();
    let answers = f.admit(vec![never, daily("a", "ann", 1)]).await;
    assert!(matches!(answers[0], Admission::Refused(_)), "{answers:?}");
    assert!(is_new(&answers[1]), "{answers:?}");
}

/// Many callers on two lanes and all nodes: as many as fit are taken in, not one more or less.
pub async fn callers_at_once_never_pass_a_daily_total_and_leave_nothing_of_it(f: &dyn Fixture) {
    const FIT: usize = 37;
    let other = open(f).await;
    let tasks = (0..24).map(|n| {
        let mut batch: Vec<NewItem> = (0..=n % 4)
            .flat_map(|k| ["ann", "bob"].map(|who| (k, who)))
            .map(|(k, who)| daily(&format!("{who}-{n}-{k}"), who, i64::try_from(FIT).unwrap()))
            .collect();
        if n % 2 == 1 {
            batch.reverse();
            for item in &mut batch {
                item.lane = other.clone();
            }
        }
        let store = f.store();
        tokio::spawn(async move {
            let ids: Vec<String> = batch.iter().map(|item| item.id.to_string()).collect();
            let answers = store.admit(&payments(), batch).await;
            let answers = answers.expect("no batch stands in another's way");
            ids.into_iter().zip(answers).collect::<Vec<_>>()
        })
    });
    let mut taken = [0, 0];
    for task in tasks.collect::<Vec<_>>() {
        for (id, answer) in task.await.unwrap() {
            let who = usize::from(id.starts_with("bob"));
            taken[who] += usize::from(refused_by(&answer).is_none());
        }
    }
    assert_eq!(taken, [FIT, FIT], "60 of each wanted to");
}

pub async fn of_duplicates_at_once_one_is_taken_in(f: &dyn Fixture) {
    let other = open(f).await;
    for round in 0..5 {
        let tasks = (0..12).map(|n| {
            let key = format!("key-{round}");
            let mut item = no_duplicate(&format!("t{round}-{n}"), &key, 3600);
            if n % 2 == 1 {
                item.lane = other.clone();
            }
            let store = f.store();
            tokio::spawn(async move { store.admit(&payments(), vec![item]).await })
        });
        let mut taken = 0;
        for task in tasks.collect::<Vec<_>>() {
            let answers = task.await.unwrap().unwrap();
            taken += usize::from(refused_by(&answers[0]).is_none());
        }
        assert_eq!(taken, 1, "round {round}");
    }
}
