//! `Accounts`: totals that tie out, and the audit trail.

use std::collections::BTreeMap;

use tollgate_core::Timestamp;
use tollgate_core::actor::Kind;
use tollgate_core::id::{Item, ItemId, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::money::{Currency, Money};
use tollgate_core::ports::{AuditWanted, MOST_LOOKED_AT, NewAudit, Started, StatusMove, Total};

use super::fixture::{
    Fixture, HOUR, MINUTE, claim_all, new_item, payment, payments, plan, signed, start,
};

async fn totals(f: &dyn Fixture, from: Timestamp, to: Timestamp) -> Vec<Total> {
    f.store().totals(&payments(), from, to).await.unwrap()
}
fn total(status: &str, currency: &str, count: u64, amount_minor: i64) -> Total {
    Total {
        status: status.into(),
        currency: currency.into(),
        count,
        amount_minor,
    }
}

pub async fn totals_tie_out_by_count_and_by_amount(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let mut accepted: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    let mut batch = vec![];
    for (n, code) in ["USD", "EUR", "JPY"].iter().cycle().take(30).enumerate() {
        let minor = 100 + i64::try_from(n).unwrap();
        let mut item = new_item(&format!("p{n:02}"));
        item.record.money = Money {
            minor,
            currency: Currency::from_code(code).unwrap(),
        };
        batch.push(item);
        let sum = accepted.entry(code).or_default();
        *sum = (sum.0 + 1, sum.1 + minor);
    }
    f.place(batch.clone()).await;
    f.admit(batch).await;
    f.dispatch_all().await;
    for n in (0..30).step_by(4) {
        let done = StatusMove::new(&["SCHEDULED"], "ACCEPTED");
        let item = payment(&format!("p{n:02}"));
        assert!(f.store().finish(&item, 1, done).await.unwrap());
    }
    f.store()
        .put_back(&payment("p01"), 1, HOUR, "closed")
        .await
        .unwrap();
    let told = totals(f, Timestamp::UNIX_EPOCH, f.now().await + signed(HOUR)).await;
    let mut sums: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    for total in &told {
        let sum = sums.entry(total.currency.as_str()).or_default();
        *sum = (sum.0 + total.count, sum.1 + total.amount_minor);
    }
    assert_eq!(sums, accepted);
    let done: u64 = told
        .iter()
        .filter(|t| t.status == "ACCEPTED")
        .map(|t| t.count)
        .sum();
    assert_eq!(done, 8);
    assert_eq!(told.len(), 6, "two statuses, three currencies: {told:?}");
}

pub async fn totals_count_what_was_accepted_from_one_time_and_before_another(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("first")]).await;
    f.advance(MINUTE).await;
    f.place(vec![new_item("second")]).await;
    let at = f.view(&payment("second")).await.created_at;
    let start = Timestamp::UNIX_EPOCH;
    let one = [total("SCHEDULED", "USD", 1, 100)];
    assert_eq!(totals(f, start, at).await, one, "before, not at");
    assert_eq!(totals(f, at, at + signed(HOUR)).await, one, "from, and at");
    assert_eq!(
        totals(f, at + signed(HOUR), at + signed(2 * HOUR)).await,
        []
    );
}

pub async fn totals_count_one_type_only(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let invoices = ItemType::new("INVOICE");
    f.place(vec![new_item("a")]).await;
    let both = vec![new_item("a"), new_item("b")];
    f.store().admit(&invoices, both).await.unwrap();
    let all = f.now().await + signed(HOUR);
    let store = f.store();
    let invoices = store.totals(&invoices, Timestamp::UNIX_EPOCH, all).await;
    assert_eq!(invoices.unwrap(), [total("SCHEDULED", "USD", 2, 200)]);
    assert_eq!(
        totals(f, Timestamp::UNIX_EPOCH, all).await,
        [total("SCHEDULED", "USD", 1, 100)]
    );
}

pub async fn what_is_no_money_is_counted_and_adds_nothing(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let notifications = ItemType::new("NOTIFICATION");
    f.place(vec![new_item("a")]).await;
    let mut news = new_item("a");
    news.record.money = Money::NONE;
    let store = f.store();
    store.admit(&notifications, vec![news]).await.unwrap();
    let item = Item::new(&notifications, &ItemId::new("a"));
    assert_eq!(f.view(&item).await.money, Money::NONE);
    let (ever, all) = (Timestamp::UNIX_EPOCH, f.now().await + signed(HOUR));
    let told = store.totals(&notifications, ever, all).await.unwrap();
    assert_eq!(told, [total("SCHEDULED", "XXX", 1, 0)]);
    assert_eq!(
        totals(f, ever, all).await,
        [total("SCHEDULED", "USD", 1, 100)]
    );
}

pub async fn an_audit_entry_tells_who_did_what_to_which_item_and_when(f: &dyn Fixture) {
    let (before, item) = (f.now().await, payment("p"));
    let entry = NewAudit {
        item: Some(item.clone()),
        action: "RESOLVED".into(),
        actor: "maria".into(),
        detail: "asked the bank".into(),
    };
    f.store().write_audit(entry).await.unwrap();
    f.restart().await;
    let told = f.store().audit(Some(&item), 10).await.unwrap().remove(0);
    assert_eq!(told.item, Some(item));
    assert_eq!(
        (
            told.action.as_str(),
            told.actor.as_str(),
            told.detail.as_str()
        ),
        ("RESOLVED", "maria", "asked the bank")
    );
    assert!(told.at >= before);
    assert_eq!((told.status_before, told.status_after), (None, None));
}

pub async fn the_newest_entries_come_first_of_one_item_or_of_all(f: &dyn Fixture) {
    let invoice = Item::new(&ItemType::new("INVOICE"), &ItemId::new("p"));
    let items = [
        Some(payment("p")),
        Some(invoice),
        None,
        Some(payment("p")),
        Some(payment("q")),
    ];
    for (n, item) in items.into_iter().enumerate() {
        let entry = NewAudit {
            item,
            action: n.to_string(),
            ..NewAudit::default()
        };
        f.store().write_audit(entry).await.unwrap();
    }
    let of = async |item: Option<Item>, limit| -> Vec<String> {
        let entries = f.store().audit(item.as_ref(), limit).await.unwrap();
        entries.into_iter().map(|entry| entry.action).collect()
    };
    assert_eq!(of(None, 10).await, ["4", "3", "2", "1", "0"]);
    assert_eq!(of(None, 2).await, ["4", "3"]);
    assert_eq!(of(Some(payment("p")), 10).await, ["3", "0"]);
    assert_eq!(of(Some(payment("p")), 1).await, ["3"]);
    assert_eq!(of(Some(payment("nobody")), 10).await, [""; 0]);
}

pub async fn the_depths_count_every_state_that_is_not_an_end(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let ids = ["dead", "ended", "running", "claimed"];
    f.place(ids.map(new_item).to_vec()).await;
    let claimed = f.claim(claim_all()).await;
    let of = |id: &str| claimed.iter().find(|c| c.id.as_str() == id).unwrap();
    let failed = start(of("dead"), Started::Failed("no".into()));
    assert_eq!(
        f.store()
            .record_starts(&payments(), &claim_all().batch, vec![failed], 1)
            .await
            .unwrap(),
        1
    );
    let started = ["ended", "running"].map(|id| start(of(id), Started::New));
    assert_eq!(f.record(started.to_vec()).await, 2);
    assert!(
        f.store()
            .finish(
                &payment("ended"),
                1,
                StatusMove::new(&["SCHEDULED"], "ACCEPTED")
            )
            .await
            .unwrap()
    );
    f.place(vec![new_item("r1"), new_item("r2")]).await;
    let depths = f.store().depths(&payments()).await.unwrap();
    let expected = [
        (QueueStatus::Ready, 2),
        (QueueStatus::Claimed, 1),
        (QueueStatus::Dispatched, 1),
        (QueueStatus::Held, 0),
        (QueueStatus::Dead, 1),
    ];
    assert_eq!(depths, expected);
}

/// The details of every entry, over as many pages as it takes.
async fn log(f: &dyn Fixture, mut wanted: AuditWanted) -> Vec<String> {
    let mut all = vec![];
    loop {
        let page = f.store().audit_log(wanted.clone()).await.unwrap();
        assert!(page.items.len() <= wanted.limit as usize);
        assert!(
            page.items
                .iter()
                .all(|e| wanted.after.is_none_or(|after| e.id < after))
        );
        all.extend(page.items.into_iter().map(|entry| entry.detail));
        match page.next {
            None => return all,
            next => wanted.after = next,
        }
    }
}

pub async fn the_audit_log_goes_page_by_page_by_item_by_actor_and_by_action(f: &dyn Fixture) {
    let entries = [
        ("p", "ann", "RESOLVED"),
        ("p", "sender", "PUT_BACK"),
        ("q", "ann", "CANCELLED"),
        ("p", "bob", "RESOLVED"),
        ("p", "ann", "CANCELLED"),
    ];
    for (n, (item, actor, action)) in entries.into_iter().enumerate() {
        let entry = NewAudit {
            item: Some(payment(item)),
            action: action.into(),
            actor: actor.into(),
            detail: n.to_string(),
        };
        f.store().write_audit(entry).await.unwrap();
    }
    let by = |item: Option<&str>, actor: Option<&str>, action: Option<&str>| AuditWanted {
        item: item.map(payment),
        actor: actor.map(str::to_owned),
        action: action.map(str::to_owned),
        limit: 1,
        ..AuditWanted::default()
    };
    let cases = [
        (by(None, None, None), vec!["4", "3", "2", "1", "0"]),
        (by(Some("p"), None, None), vec!["4", "3", "1", "0"]),
        (by(None, Some("ann"), None), vec!["4", "2", "0"]),
        (by(None, None, Some("RESOLVED")), vec!["3", "0"]),
        (by(None, Some("ann"), Some("CANCELLED")), vec!["4", "2"]),
        (by(Some("p"), Some("ann"), None), vec!["4", "0"]),
        (by(Some("p"), Some("ann"), Some("RESOLVED")), vec!["0"]),
        (by(Some("nobody"), None, None), vec![]),
        (by(None, Some("nobody"), None), vec![]),
    ];
    for (wanted, expected) in cases {
        for limit in [1, 2, MOST_LOOKED_AT] {
            let wanted = AuditWanted {
                limit,
                ..wanted.clone()
            };
            assert_eq!(log(f, wanted.clone()).await, expected, "{wanted:?}");
            let mut upwards = expected.clone();
            upwards.reverse();
            assert_eq!(log_upwards(f, wanted.clone()).await, upwards, "{wanted:?}");
            if let Some(list) = wanted.counted() {
                let counted = f.store().counted(list, 9).await.unwrap();
                assert_eq!(counted, expected.len() as u64, "{wanted:?}");
            }
        }
    }
}

/// The same the other way, from before the first entry on.
async fn log_upwards(f: &dyn Fixture, mut wanted: AuditWanted) -> Vec<String> {
    let mut all = vec![];
    wanted.before = Some(0);
    while let Some(before) = wanted.before {
        let page = f.store().audit_log(wanted.clone()).await.unwrap();
        assert!(page.items.iter().all(|entry| entry.id > before));
        all.extend(page.items.into_iter().map(|entry| entry.detail));
        wanted.before = page.next;
    }
    all
}

pub async fn the_audit_log_is_narrowed_to_people_and_to_a_stretch_of_time(f: &dyn Fixture) {
    let mut times = vec![];
    for (n, actor) in ["sender", "ann", "local", "sweeper", "bob"]
        .into_iter()
        .enumerate()
    {
        times.push(f.now().await);
        let entry = NewAudit {
            actor: actor.into(),
            action: "DONE".into(),
            detail: n.to_string(),
            ..NewAudit::default()
        };
        f.store().write_audit(entry).await.unwrap();
        f.advance(HOUR).await;
    }
    let between = |from: Option<usize>, to: Option<usize>| AuditWanted {
        from: from.map(|n| times[n]),
        to: to.map(|n| times[n]),
        ..AuditWanted::default()
    };
    let by = |kind| AuditWanted {
        by: Some(kind),
        ..AuditWanted::default()
    };
    let both = AuditWanted {
        by: Some(Kind::People),
        ..between(Some(2), Some(4))
    };
    let cases = [
        (by(Kind::People), vec!["4", "2", "1"]),
        (by(Kind::Machine), vec!["3", "0"]),
        (between(Some(1), None), vec!["4", "3", "2", "1"]),
        (between(None, Some(1)), vec!["0"]),
        (between(Some(1), Some(3)), vec!["2", "1"]),
        (between(Some(3), Some(3)), vec![]),
        (both, vec!["2"]),
    ];
    for (wanted, expected) in cases {
        for limit in [1, 2, MOST_LOOKED_AT] {
            let wanted = AuditWanted {
                limit,
                ..wanted.clone()
            };
            assert_eq!(log(f, wanted.clone()).await, expected, "{wanted:?}");
        }
    }
}

pub async fn all_entries_of_an_action_are_found_however_many_others_there_are(f: &dyn Fixture) {
    let write = async |action: &str| {
        let entry = NewAudit {
            action: action.into(),
            actor: "sender".into(),
            detail: action.into(),
            ..NewAudit::default()
        };
        f.store().write_audit(entry).await.unwrap();
    };
    for n in 0..MOST_LOOKED_AT + 5 {
        let is_rare = n % 500 == 0;
        write(if is_rare { "ANSWER_DIFFERS" } else { "RETRY" }).await;
    }
    let wanted = AuditWanted {
        action: Some("ANSWER_DIFFERS".into()),
        limit: 1000,
        ..AuditWanted::default()
    };
    let page = f.store().audit_log(wanted).await.unwrap();
    assert_eq!((page.items.len(), page.next), (3, None), "on one page");
}
