//! `Erasures`: what goes, what stays, and that each piece can be cut off and done again.

use std::collections::BTreeSet;

use tollgate_core::erasure::{ERASED_HASH, ErasureStage, ErasureWish};
use tollgate_core::guard::{Guard, Limit};
use tollgate_core::id::{ErasureId, Item, ItemId, ItemType};
use tollgate_core::ports::{
    ActionResult, Admission, Author, ErasureProgress, ErasureView, NewAudit, NewItem, Purged,
    SettingKind, StatusMove,
};

use super::archive::{DAY, line, moved};
use super::fixture::{Fixture, new_item, ops, payment, plan};

const ACCOUNT: &str = "DE02120300000000202051";

fn body(_: &ItemType, _: &str) -> String {
    r#"{"body":"erased"}"#.to_owned()
}

fn of_account(id: &str, account: &str) -> NewItem {
    let mut item = new_item(id);
    item.body = format!(
        r#"{{"debtor":{{"account":"{account}"}},"creditor":{{"account":"other"}},"reference":"{id}"}}"#
    );
    account.clone_into(&mut item.record.owner);
    item.guards = vec![Guard {
        rule: "daily".into(),
        message: "enough".into(),
        limit: Limit::DailyTotal {
            zone: "UTC".into(),
            most_minor: 1_000_000,
        },
        uncounted: vec![],
    }];
    item
}

/// Items of the account that have ended, as REJECTED, and one that has not.
async fn some_ended(f: &dyn Fixture, ended: &[&str]) {
    f.lane(plan(1000, 4)).await;
    let items = ended.iter().map(|id| of_account(id, ACCOUNT)).collect();
    f.place(items).await;
    f.dispatch_all().await;
    for id in ended {
        let rejected = StatusMove::new(&["SCHEDULED"], "REJECTED");
        let finished = f.store().finish(&payment(id), 1, rejected).await;
        assert!(finished.unwrap());
    }
    f.place(vec![of_account("waits", ACCOUNT)]).await;
    f.place(vec![of_account("other", "DE00")]).await;
}

fn wish() -> ErasureWish {
    ErasureWish::Account(ACCOUNT.into())
}

async fn started(f: &dyn Fixture) -> ErasureId {
    let id = ErasureId::new("erasure-1");
    let author = Author::new("ann", "request 4711");
    let (store, wish) = (f.store(), wish());
    assert!(
        store
            .start_erasure(&id, wish.clone(), author.clone())
            .await
            .unwrap()
    );
    let again = store.start_erasure(&id, wish, author).await.unwrap();
    assert!(!again, "the id is taken");
    id
}

async fn seen(f: &dyn Fixture, id: &ErasureId) -> ErasureView {
    f.store().erasure(id).await.unwrap().unwrap()
}

async fn candidates(f: &dyn Fixture) -> Vec<Item> {
    let found = f.store().erasure_candidates(&wish(), None, 100).await;
    found.unwrap()
}

async fn move_to(f: &dyn Fixture, id: &ErasureId, from: ErasureStage, to: ErasureStage) {
    let progress = ErasureProgress::to(from, to);
    f.store().note_erasure(id, progress).await.unwrap();
}

pub async fn what_has_ended_is_erased_and_the_rest_is_named(f: &dyn Fixture) {
    some_ended(f, &["a", "b"]).await;
    let found = candidates(f).await;
    assert_eq!(found, ["a", "b", "waits"].map(payment));
    let judged = f.store().erasable(found.clone()).await.unwrap();
    let refused: Vec<bool> = judged.iter().map(|it| it.refusal().is_some()).collect();
    assert_eq!(refused, [false, false, true]);
    let before = f.view(&payment("a")).await;
    let id = started(f).await;
    f.store()
        .erase_items(&id, found.clone(), body)
        .await
        .unwrap();
    let view = seen(f, &id).await;
    assert_eq!((view.items, view.left_out), (2, 1));
    assert_eq!(view.first_left_out[0].item, payment("waits"));
    let after = f.view(&payment("a")).await;
    assert_eq!(after.content_hash, ERASED_HASH);
    assert_eq!(after.body.as_deref(), Some(r#"{"body":"erased"}"#));
    assert_eq!((after.money, after.status), (before.money, before.status));
    assert_eq!(after.finished_at, before.finished_at);
    assert_eq!(candidates(f).await, [payment("waits")]);
    f.store().erase_items(&id, found, body).await.unwrap();
    assert_eq!(
        seen(f, &id).await.items,
        2,
        "a repeated piece erases nothing more"
    );
}

pub async fn an_account_is_found_in_its_usual_spellings_page_by_page(f: &dyn Fixture) {
    f.lane(plan(1000, 4)).await;
    let items = [
        ("a", "DE02 1203 0000 0000 2020 51"),
        ("b", ACCOUNT),
        ("c", "de02120300000000202051"),
        ("d", "DE02120300000000202052"),
    ];
    let items = items.map(|(id, account)| of_account(id, account));
    f.place(items.to_vec()).await;
    let all = ["a", "b", "c"].map(payment);
    assert_eq!(candidates(f).await, all);
    let store = f.store();
    let (mut found, mut after) = (vec![], None::<Item>);
    loop {
        let page = store.erasure_candidates(&wish(), after.as_ref(), 1).await;
        let Some(next) = page.unwrap().pop() else {
            break;
        };
        found.push(next.clone());
        after = Some(next);
    }
    assert_eq!(found, all);
    let grouped = ErasureWish::Account("de02-1203-0000-0000-2020-51".into());
    let found = store.erasure_candidates(&grouped, None, 100).await;
    assert_eq!(found.unwrap(), all);
}

pub async fn an_erased_id_is_taken_for_good_and_never_sent_again(f: &dyn Fixture) {
    some_ended(f, &["a"]).await;
    let id = started(f).await;
    f.store()
        .erase_items(&id, vec![payment("a")], body)
        .await
        .unwrap();
    for item in [of_account("a", ACCOUNT), of_account("a", "DE00")] {
        assert_eq!(f.admit_one(item).await, Admission::Erased);
    }
    let again = StatusMove::new(&["REJECTED"], "SCHEDULED");
    let now = f.now().await;
    let reopened = f
        .store()
        .reopen(&payment("a"), again, now, ops())
        .await
        .unwrap();
    let ActionResult::Refused(why) = reopened else {
        panic!("{reopened:?}");
    };
    assert!(why.contains("erased"), "{why}");
}

pub async fn what_counted_for_an_owner_counts_for_nobody(f: &dyn Fixture) {
    some_ended(f, &["a", "b"]).await;
    let owners = "SELECT owner, CAST(sum(amount_minor) AS bigint) AS n FROM owner_total GROUP BY owner ORDER BY owner";
    let rows = |rows: Vec<Vec<Option<String>>>| {
        let one = |row: Vec<Option<String>>| {
            row.into_iter()
                .map(Option::unwrap_or_default)
                .collect::<Vec<_>>()
                .join(" ")
        };
        rows.into_iter().map(one).collect::<Vec<String>>()
    };
    let before = rows(f.typed(owners).await.unwrap());
    assert_eq!(before, ["DE00 100", &format!("{ACCOUNT} 300")]);
    let id = started(f).await;
    let found = candidates(f).await;
    f.store().erase_items(&id, found, body).await.unwrap();
    let after = rows(f.typed(owners).await.unwrap());
    assert_eq!(after, [" 200", "DE00 100", &format!("{ACCOUNT} 100")]);
}

pub async fn a_text_that_names_the_account_is_found_wherever_it_is(f: &dyn Fixture) {
    some_ended(f, &["a"]).await;
    let entry = NewAudit {
        item: None,
        action: "NOT_NOTIFIED".into(),
        actor: "payments".into(),
        detail: "DE02 1203 0000 0000 2020 51 was closed".into(),
    };
    f.store().write_audit(entry).await.unwrap();
    let keys = [
        ("i", "key"),
        ("j", ACCOUNT),
        ("k", "1 DE02120300000000202051"),
    ];
    for (bulk, key) in keys {
        f.damage(&format!(
            "INSERT INTO bulk (bulk_id, item_type, idempotency_key, state, lines, chunks_left,
                    accepted, duplicate, rejected, opened_at, touched_at)
             VALUES ('{bulk}', 'PAYMENT', '{key}', 'DONE', 0, 0, 0, 0, 0, 1, 1)"
        ))
        .await;
    }
    let id = started(f).await;
    f.store()
        .erase_items(&id, vec![payment("a")], body)
        .await
        .unwrap();
    let (items, texts) = (ErasureStage::Items, ErasureStage::Texts);
    assert!(
        !f.store().erase_texts(&id, 10).await.unwrap(),
        "it is at the items"
    );
    move_to(f, &id, items, texts).await;
    let mut pages = 0;
    while f.store().erase_texts(&id, 2).await.unwrap() {
        pages += 1;
        assert!(pages < 1000, "it does not end");
    }
    assert_eq!(seen(f, &id).await.texts, 3);
    let keys = "SELECT idempotency_key FROM bulk ORDER BY bulk_id";
    let keys: Vec<_> = f.typed(keys).await.unwrap().into_iter().flatten().collect();
    assert_eq!(keys, [Some("key".to_owned()), None, None]);
    let entries = f.store().audit(None, 100).await.unwrap();
    let details: Vec<String> = entries.into_iter().map(|it| it.detail).collect();
    assert!(
        details.iter().any(|it| it == "[erased] was closed"),
        "{details:?}"
    );
    assert!(!details.concat().contains("DE02"), "{details:?}");
}

pub async fn an_erasure_in_trouble_says_why_until_it_comes_further(f: &dyn Fixture) {
    some_ended(f, &["a"]).await;
    let id = started(f).await;
    assert_eq!(f.store().erasures_in_trouble(9).await.unwrap(), []);
    let noted = f.store().note_erasure_trouble(&id, "a disk").await;
    noted.unwrap();
    let first = seen(f, &id).await.trouble.unwrap();
    f.restart().await;
    let store = f.store();
    store.note_erasure_trouble(&id, "a folder").await.unwrap();
    // Repeated pieces come no further, whatever else they note.
    let same = ErasureProgress::within(ErasureStage::Items);
    store.note_erasure(&id, same).await.unwrap();
    let stuck = store.erasures_in_trouble(9).await.unwrap();
    assert_eq!(stuck, [seen(f, &id).await]);
    let trouble = stuck[0].trouble.clone().unwrap();
    assert_eq!((&*trouble.why, trouble.since), ("a folder", first.since));
    move_to(f, &id, ErasureStage::Items, ErasureStage::Archive).await;
    assert_eq!(seen(f, &id).await.trouble, None, "it has come further");
    let within = ErasureProgress {
        after: Some("here".to_owned()),
        ..ErasureProgress::within(ErasureStage::Archive)
    };
    store.note_erasure_trouble(&id, "a disk").await.unwrap();
    store.note_erasure(&id, within).await.unwrap();
    assert_eq!(store.erasures_in_trouble(9).await.unwrap(), []);
    move_to(f, &id, ErasureStage::Archive, ErasureStage::Purge).await;
    store.note_erasure_trouble(&id, "a disk").await.unwrap();
    store.end_erasure(&id, Purged::Done).await.unwrap();
    store.note_erasure_trouble(&id, "a disk").await.unwrap();
    assert_eq!(seen(f, &id).await.trouble, None, "it has ended");
}

pub async fn rejected_lines_and_results_of_jobs_of_what_was_erased_in_the_archive_go(
    f: &dyn Fixture,
) {
    some_ended(f, &["a", "b"]).await;
    f.damage(
        "INSERT INTO bulk (bulk_id, item_type, state, lines, chunks_left, accepted, duplicate,
                rejected, opened_at, touched_at)
         VALUES ('i', 'PAYMENT', 'DONE', 2, 0, 0, 0, 2, 1, 1)",
    )
    .await;
    f.damage(
        "INSERT INTO job (job_id, item_type, act, filter, state, digest, summary, actor, reason,
                total, done, left_out, previewed_at, started_at, ended_at)
         VALUES ('j', 'PAYMENT', 'cancel', '{}', 'DONE', 'd', '{}', 'ops', '', 2, 2, 0, 1, 1, 1)",
    )
    .await;
    for (number, id) in [(1, "a"), (2, "b")] {
        f.damage(&format!(
            "INSERT INTO bulk_error (bulk_id, line_no, item_id, details, line_text)
             VALUES ('i', {number}, '{id}', '{{}}', 'rejected {id}')"
        ))
        .await;
        f.damage(&format!(
            "INSERT INTO job_result (job_id, number, item_id, answer)
             VALUES ('j', {number}, '{id}', 'answer {id}')"
        ))
        .await;
    }
    f.advance(DAY).await;
    assert_eq!(moved(f).await, 2);
    let mut erased = line(f, &payment("a")).await;
    (erased.content_hash, erased.body) = (None, None);
    f.store().rewrite(vec![erased]).await.unwrap();
    let (id, author) = (ErasureId::new("by-item"), ops());
    let wish = ErasureWish::Item(payment("a"));
    assert!(f.store().start_erasure(&id, wish, author).await.unwrap());
    move_to(f, &id, ErasureStage::Items, ErasureStage::Texts).await;
    while f.store().erase_texts(&id, 100).await.unwrap() {}
    let left = f.typed(
        "SELECT coalesce(line_text, '') FROM bulk_error UNION ALL SELECT answer FROM job_result",
    );
    let left = left.await.unwrap().into_iter().flatten().flatten();
    let left: BTreeSet<String> = left.collect();
    let expected = ["", "[erased]", "answer b", "rejected b"].map(str::to_owned);
    assert_eq!(left, BTreeSet::from(expected));
}

pub async fn what_the_audit_log_repeats_of_settings_about_erased_items_goes(f: &dyn Fixture) {
    some_ended(f, &["a_b", "aXb", "c"]).await;
    let store = f.store();
    let invoice = Item::new(&ItemType::new("INVOICE"), &ItemId::new("i"));
    let new = vec![of_account("i", "DE00")];
    store.admit(&invoice.item_type, new).await.unwrap();
    let cancelled = StatusMove::new(&["SCHEDULED"], "CANCELLED");
    let done = store.cancel(&invoice, cancelled, ops()).await.unwrap();
    assert_eq!(done, ActionResult::Yes);
    for (kind, name) in [
        (SettingKind::Proposal, "PAYMENT/a_b"),
        (SettingKind::Proposal, "PAYMENT/aXb"),
        (SettingKind::Proposal, "PAYMENT/c"),
        (SettingKind::Schedule, "invoice/i"),
        (SettingKind::Schedule, "invoice/other"),
    ] {
        let author = Author::new("ann", format!("said of {name}"));
        let put = store.put_setting(kind, name, "{}".into(), author);
        put.await.unwrap();
    }
    let id = started(f).await;
    let items = vec![payment("a_b"), invoice];
    store.erase_items(&id, items, body).await.unwrap();
    // In the archive, too.
    f.advance(DAY).await;
    moved(f).await;
    let mut archived = line(f, &payment("c")).await;
    (archived.content_hash, archived.body) = (None, None);
    store.rewrite(vec![archived]).await.unwrap();
    let left = "SELECT detail FROM audit_log
         WHERE action = 'SETTING_CHANGED' AND detail LIKE '%said of%'
         UNION SELECT reason FROM setting WHERE reason LIKE 'said of%'";
    let left = f.typed(left).await.unwrap().into_iter().flatten().flatten();
    let left: BTreeSet<String> = left.collect();
    let expected = [
        "proposal PAYMENT/aXb version 1: {} (said of PAYMENT/aXb)",
        "schedule invoice/other version 1: {} (said of invoice/other)",
        "said of PAYMENT/aXb",
        "said of invoice/other",
    ];
    assert_eq!(left, expected.map(str::to_owned).into());
}

pub async fn an_erasure_that_has_ended_does_not_know_its_account(f: &dyn Fixture) {
    some_ended(f, &["a"]).await;
    let id = started(f).await;
    assert_eq!(f.store().erasure_to_do().await.unwrap().unwrap().id, id);
    f.restart().await;
    assert_eq!(
        seen(f, &id).await.wish,
        Some(wish()),
        "after a crash it goes on"
    );
    move_to(f, &id, ErasureStage::Texts, ErasureStage::Purge).await;
    assert_eq!(
        seen(f, &id).await.stage,
        ErasureStage::Items,
        "it was not there"
    );
    move_to(f, &id, ErasureStage::Items, ErasureStage::Purge).await;
    assert_eq!(seen(f, &id).await.wish, None);
    f.store().purge().await.unwrap();
    f.store().end_erasure(&id, Purged::Done).await.unwrap();
    f.store().end_erasure(&id, Purged::Done).await.unwrap();
    let ended = seen(f, &id).await;
    assert_eq!(
        (ended.stage, ended.purged),
        (ErasureStage::Done, Some(Purged::Done))
    );
    assert_eq!(f.store().erasure_to_do().await.unwrap(), None);
    let audit = f.store().audit(None, 100).await.unwrap();
    let said = audit
        .iter()
        .map(|it| format!("{} {}", it.action, it.detail));
    let said: Vec<String> = said.filter(|it| it.starts_with("ERASURE")).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(!said.concat().contains(ACCOUNT), "{said:?}");
}
