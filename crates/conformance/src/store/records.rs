//! `Records` as lists: page by page, by status and by lane.

use tollgate_core::id::{BulkId, ItemId, ItemType, LaneName};
use tollgate_core::outcome::Outcome;
use tollgate_core::ports::{
    ActionResult, ChunkId, MOST_LOOKED_AT, NewItem, NewTurn, OwnedWanted, RecordLine,
    RecordsWanted, StatusMove, Turn,
};

use super::fixture::{Fixture, many, new_item, ops, payment, payments, plan, send, settlement};

fn wanted(limit: u32) -> RecordsWanted {
    RecordsWanted::all(payments(), limit)
}

/// The ids of a page, and where the next one begins.
async fn page(f: &dyn Fixture, wanted: RecordsWanted) -> (Vec<String>, Option<String>) {
    let page = f.store().records(wanted).await.unwrap();
    let ids = page.items.iter().map(|line| line.id.to_string());
    (ids.collect(), page.next.map(|id| id.to_string()))
}

/// Every id, over as many pages as it takes.
async fn walk(f: &dyn Fixture, mut wanted: RecordsWanted) -> Vec<String> {
    let mut all = vec![];
    loop {
        let (ids, next) = page(f, wanted.clone()).await;
        assert!(ids.len() <= wanted.limit as usize);
        all.extend(ids);
        match next {
            None => return all,
            Some(next) => wanted.after = Some(ItemId::new(next)),
        }
    }
}

fn on(lane: &str, id: &str) -> NewItem {
    NewItem {
        lane: LaneName::new(lane),
        ..new_item(id)
    }
}

pub async fn a_list_goes_page_by_page_in_the_order_of_ids(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(["b", "e", "a", "d", "c"].map(new_item).to_vec())
        .await;
    let invoices = ItemType::new("INVOICE");
    f.store()
        .admit(&invoices, vec![new_item("aa")])
        .await
        .unwrap();
    let all = ["a", "b", "c", "d", "e"];
    assert_eq!(
        page(f, wanted(9)).await,
        (all.map(String::from).to_vec(), None)
    );
    assert_eq!(page(f, wanted(5)).await.1, None, "exactly full");
    for limit in 1..5 {
        assert_eq!(walk(f, wanted(limit)).await, all, "{limit} at a time");
    }
}

pub async fn an_item_tells_its_body_and_the_keys_that_it_was_sent_under(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let item = f.dispatched_one().await;
    let before = f.view(&item).await;
    assert_eq!(before.body.as_deref(), Some("{\"body\":\"p\"}"));
    assert!(before.attempts.is_empty());
    let keys = ["one", "two"];
    for key in keys {
        let key = key.to_owned();
        let turn = f.turn(NewTurn { key, ..send(&item) }).await;
        let Turn::At { attempt, .. } = turn else {
            panic!("{turn:?}");
        };
        f.settle(settlement(&item, attempt, Outcome::retry("again")))
            .await;
    }
    let attempts = f.view(&item).await.attempts;
    assert_eq!(
        attempts
            .iter()
            .map(|it| it.key.as_str())
            .collect::<Vec<_>>(),
        keys
    );
}

pub async fn a_line_of_a_list_tells_what_the_item_tells(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    let view = f.view(&payment("p")).await;
    let page = f.store().records(wanted(1)).await.unwrap();
    let line = RecordLine {
        id: view.item.id,
        status: view.status,
        money: view.money,
        lane: view.lane,
        queue_status: view.queue_status,
        run: view.run,
        slot: view.slot,
        due: view.due,
        deadline: view.deadline,
        has_ended: view.finished_at.is_some(),
        last_turn: None,
        was_sent: false,
        created_at: view.created_at,
    };
    assert_eq!(page.items, [line]);
}

pub async fn a_list_by_status_follows_the_record(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.dispatched(&["a", "b", "c"]).await;
    let done = StatusMove::new(&["SCHEDULED"], "ACCEPTED");
    assert!(f.store().finish(&payment("b"), 1, done).await.unwrap());
    let of = async |status: &str| {
        let status = Some(status.to_owned());
        walk(
            f,
            RecordsWanted {
                status,
                ..wanted(1)
            },
        )
        .await
    };
    assert_eq!(of("SCHEDULED").await, ["a", "c"]);
    assert_eq!(of("ACCEPTED").await, ["b"]);
    assert_eq!(of("REJECTED").await, [""; 0]);
}

pub async fn a_list_by_lane_leaves_the_others_out_and_looks_at_so_many_at_a_time(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let other = LaneName::new("other");
    f.store()
        .change_lane(&other, plan(100, 4), ops())
        .await
        .unwrap();
    f.place(vec![on("other", "a"), on("other", "z")]).await;
    let now = f.now().await;
    f.place(many("m", MOST_LOOKED_AT as usize, now)).await;
    let of_other = RecordsWanted {
        lane: Some(other),
        ..wanted(10)
    };
    let (first, next) = page(f, of_other.clone()).await;
    assert_eq!(first, ["a"], "the last one lies further than a page looks");
    assert!(next.is_some_and(|next| next.starts_with('m')));
    assert_eq!(walk(f, of_other).await, ["a", "z"]);
}

pub async fn a_list_by_bulk_has_what_was_taken_in_with_it_and_nothing_else(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let other = LaneName::new("other");
    let changed = f.store().change_lane(&other, plan(100, 4), ops()).await;
    changed.unwrap();
    let bulk = BulkId::new("b-1");
    let came = |item: NewItem, bulk: &str, number: u32| {
        let bulk = BulkId::new(bulk);
        let init_flow = ChunkId { bulk, number }.flow();
        NewItem { init_flow, ..item }
    };
    f.place(vec![
        came(new_item("d"), "b-1", 1),
        came(on("other", "b"), "b-1", 2),
        came(new_item("a"), "b-1", 10),
        came(new_item("c"), "b-11", 1),
        new_item("e"),
    ])
    .await;
    // Known already: it belongs to the one that it was taken in with.
    f.admit_one(came(new_item("c"), "b-1", 3)).await;
    let of_bulk = RecordsWanted {
        bulk: Some(bulk.clone()),
        ..wanted(2)
    };
    for limit in 1..4 {
        let some = RecordsWanted {
            limit,
            ..of_bulk.clone()
        };
        assert_eq!(walk(f, some).await, ["a", "b", "d"], "{limit} at a time");
    }
    let on_other = RecordsWanted {
        lane: Some(other),
        ..of_bulk.clone()
    };
    assert_eq!(walk(f, on_other).await, ["b"]);
    let cancelled = StatusMove::new(&["SCHEDULED"], "CANCELLED");
    let done = f.store().cancel(&payment("d"), cancelled, ops()).await;
    assert_eq!(done.unwrap(), ActionResult::Yes);
    let of_status = async |status: &str| {
        let status = Some(status.to_owned());
        walk(
            f,
            RecordsWanted {
                status,
                ..of_bulk.clone()
            },
        )
        .await
    };
    assert_eq!(of_status("CANCELLED").await, ["d"]);
    assert_eq!(of_status("SCHEDULED").await, ["a", "b"]);
    assert_eq!(f.view(&payment("a")).await.bulk(), Some(bulk));
    assert_eq!(f.view(&payment("e")).await.bulk(), None);
    let nobody = RecordsWanted {
        bulk: Some(BulkId::new("nobody\0")),
        ..wanted(2)
    };
    assert_eq!(walk(f, nobody).await, [""; 0]);
}

pub async fn an_owners_items_are_found_by_their_status_if_they_were_written_to_be(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let of = |owner: &str, id: &str, status: &str, by_owner: bool| {
        let mut item = new_item(id);
        owner.clone_into(&mut item.record.owner);
        status.clone_into(&mut item.record.status);
        item.record.by_owner = by_owner;
        item
    };
    let items = vec![
        of("ann", "a", "PENDING", true),
        of("ann", "b", "IN_DOUBT", true),
        of("ann", "c", "PAID", true),
        of("bob", "d", "PENDING", true),
        of("ann", "e", "PENDING", false),
    ];
    f.place(items).await;
    let of_another_type = vec![of("ann", "f", "PENDING", true)];
    let invoices = ItemType::new("INVOICE");
    f.store().admit(&invoices, of_another_type).await.unwrap();
    let owned = async |owner: &str, statuses: &[&str], limit: u32| {
        let wanted = OwnedWanted {
            item_type: payments(),
            owner: owner.to_owned(),
            statuses: statuses.iter().map(|&it| it.to_owned()).collect(),
            limit,
        };
        let ids = f.store().owned(wanted).await.unwrap();
        let mut ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
        ids.sort();
        ids
    };
    assert_eq!(owned("ann", &["PENDING", "IN_DOUBT"], 9).await, ["a", "b"]);
    assert_eq!(owned("ann", &["PENDING", "IN_DOUBT"], 1).await.len(), 1);
    assert_eq!(owned("bob", &["PENDING"], 9).await, ["d"]);
    assert!(owned("nobody", &["PENDING"], 9).await.is_empty());
    assert!(owned("ann", &[], 9).await.is_empty());
}

pub async fn bodies_come_in_the_order_of_the_items_that_were_asked_for(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let of = |id: &str| {
        let mut item = new_item(id);
        item.body = format!("{{\"id\":\"{id}\"}}");
        item
    };
    f.place(vec![of("a"), of("b"), of("c")]).await;
    let body = |id: &str| Some(of(id).body);
    let asked = ["c", "nobody", "a", "c"].map(payment);
    let told = f.store().bodies(&asked).await.unwrap();
    assert_eq!(told, [body("c"), None, body("a"), body("c")]);
    assert_eq!(f.store().bodies(&[]).await.unwrap(), []);
}
