//! `DeadLetters`: what was given up is listed, and a person has it tried again, once.

use futures::future::join_all;
use tollgate_core::id::{Item, ItemType};
use tollgate_core::item::QueueStatus;
use tollgate_core::ports::{ActionResult, Counted, PageFrom, PageToken, START_PAUSES, Started};

use super::fixture::{
    Fixture, HOUR, MAX_RETRIES, TOLERANCE, claim_all, lost, new_item, ops, payment, payments, plan,
    start, there_and_back,
};

/// Admits items whose starts fail until the dispatcher gives them up.
async fn dead(f: &dyn Fixture, ids: &[&str]) -> Vec<Item> {
    f.place(ids.iter().map(|id| new_item(id)).collect()).await;
    for _ in 0..MAX_RETRIES {
        let claimed = f.claim(claim_all()).await;
        let failed = |c| start(c, Started::Failed("no such flow".into()));
        f.record(claimed.iter().map(failed).collect()).await;
        f.advance(START_PAUSES.longest_pause).await;
    }
    ids.iter().map(|id| payment(id)).collect()
}

async fn replay(f: &dyn Fixture, item: &Item) -> ActionResult {
    f.store().replay(item, ops()).await.unwrap()
}

pub async fn what_is_dead_is_told_page_by_page_what_was_due_last_first(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    dead(f, &["a", "b", "c", "d", "e"]).await;
    f.place(vec![new_item("bb")]).await;
    // Two of one moment: none is lost between two pages.
    for (id, secs) in [("a", 3), ("b", 5), ("c", 1), ("d", 3), ("e", 4)] {
        let due = format!("scheduled_exec_time = {secs}000000");
        f.damage(&format!(
            "UPDATE item_queue SET {due} WHERE item_id = '{id}'"
        ))
        .await;
    }
    for limit in [1, 2, 9] {
        let page = async |from: PageFrom<PageToken>| {
            let page = f.store().dead_letters(&payments(), from, limit).await;
            page.unwrap().map(|letter| letter.id.to_string())
        };
        there_and_back(page, &["b", "e", "d", "a", "c"]).await;
    }
    for at_most in [9, 5, 2] {
        let dead = Counted::Dead(payments());
        let counted = f.store().counted(dead, at_most).await.unwrap();
        assert_eq!(counted, u64::from(at_most.min(5)));
    }
    let invoices = ItemType::new("INVOICE");
    let others = f.store().dead_letters(&invoices, PageFrom::Start, 10).await;
    assert_eq!(others.unwrap().items, []);
}

pub async fn a_dead_letter_tells_what_it_is_and_why_it_was_given_up(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = dead(f, &["p"]).await.remove(0);
    let view = f.view(&item).await;
    let (kind, from) = (payments(), PageFrom::Start);
    let mut page = f.store().dead_letters(&kind, from, 10).await.unwrap();
    let letter = page.items.remove(0);
    assert_eq!((letter.id, letter.status), (view.item.id, view.status));
    assert_eq!((letter.money, letter.lane), (view.money, view.lane));
    assert_eq!((letter.run, letter.retry_count), (1, MAX_RETRIES));
    assert_eq!(letter.last_error.as_deref(), Some("no such flow"));
    assert_eq!(letter.due, view.due);
}

pub async fn a_replayed_item_is_ready_at_once_as_its_next_run_with_all_its_retries(
    f: &dyn Fixture,
) {
    f.lane(plan(100, 4)).await;
    let item = dead(f, &["p"]).await.remove(0);
    f.damage("UPDATE item_queue SET failures = 9").await;
    f.advance(HOUR).await;
    let before = f.now().await;
    assert_eq!(replay(f, &item).await, ActionResult::Yes);
    let view = f.view(&item).await;
    assert_eq!((view.queue_status, view.run), (QueueStatus::Ready, 2));
    assert_eq!((view.retry_count, view.last_error), (0, None));
    let history = f.store().take_over(&item, 2, TOLERANCE, &lost()).await;
    assert_eq!(history.unwrap().failures, 0, "its pauses are short again");
    assert!(view.due >= before && view.due <= f.now().await);
    assert_eq!((view.claimed_at, view.dispatched_at), (None, None));
    assert_eq!(f.trail(&item).await[0], "REPLAYED");
    let entry = f.store().audit(Some(&item), 1).await.unwrap().remove(0);
    assert_eq!(
        (entry.actor.as_str(), entry.detail.as_str()),
        ("ops", "because")
    );
    let moved = (
        entry.status_before.as_deref(),
        entry.status_after.as_deref(),
    );
    assert_eq!(moved, (Some("DEAD"), Some("READY")));
    let claimed = f.claim(claim_all()).await;
    assert_eq!((claimed.len(), claimed[0].run), (1, 2));
}

pub async fn only_what_is_dead_is_replayed(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    assert_eq!(
        replay(f, &payment("nobody")).await,
        ActionResult::NoSuchItem
    );
    f.place(vec![new_item("p")]).await;
    let refused = |status: &str| ActionResult::Refused(format!("it is {status}, not DEAD"));
    assert_eq!(replay(f, &payment("p")).await, refused("READY"));
    f.dispatch_all().await;
    assert_eq!(replay(f, &payment("p")).await, refused("DISPATCHED"));
    assert_eq!(f.view(&payment("p")).await.run, 1, "nothing has changed");
}

pub async fn an_item_replayed_by_many_at_once_is_replayed_once(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = dead(f, &["p"]).await.remove(0);
    let answers = join_all((0..20).map(|_| replay(f, &item))).await;
    let yes = answers.iter().filter(|a| **a == ActionResult::Yes).count();
    assert_eq!((yes, f.view(&item).await.run), (1, 2));
}
