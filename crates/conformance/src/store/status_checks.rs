//! `StatusChecks`: what is written of a check is written once, and its progress is what is written.

use futures::future::join_all;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{
    CheckEnd, CheckPhase, CheckView, Counted, EndedParts, PageFrom, PageToken, PartList,
};

use super::fixture::{Fixture, HOUR, MINUTE, there_and_back};

const CHUNKS: PartList = PartList::Chunks { gateway: 0 };

fn id(name: &str) -> FlowId {
    FlowId::new(name)
}
fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
fn ended(list: PartList, range: std::ops::Range<u32>, outcome: &str, failed: bool) -> EndedParts {
    EndedParts {
        list,
        from: range.start,
        to: range.end,
        outcome_json: outcome.to_owned(),
        failed,
    }
}

impl dyn Fixture + '_ {
    async fn open(&self, name: &str, lookups: &[&str]) -> FlowId {
        let check = id(name);
        let opened = self.store().open_check(&check, 7, texts(lookups)).await;
        assert!(opened.unwrap());
        check
    }
    async fn add(&self, check: &FlowId, list: PartList, from: u32, bodies: &[&str]) {
        let added = self
            .store()
            .add_parts(check, list, from, texts(bodies))
            .await;
        added.unwrap();
    }
    async fn end(&self, check: &FlowId, parts: EndedParts) {
        self.store().end_parts(check, parts).await.unwrap();
    }
    /// Bodies and outcomes.
    async fn read(&self, check: &FlowId, list: PartList) -> Vec<(u32, String, Option<String>)> {
        let parts = self.store().parts(check, list, 0, 100).await.unwrap();
        let plain = parts
            .into_iter()
            .map(|part| (part.number, part.body_json, part.outcome_json));
        plain.collect()
    }
    async fn check(&self, check: &FlowId) -> CheckView {
        self.store().check(check).await.unwrap().unwrap()
    }
}

pub async fn an_id_of_a_check_is_given_once(f: &dyn Fixture) {
    let opens = (0..8).map(|n: u32| {
        let store = f.store();
        async move {
            let lookups = vec![n.to_string()];
            let opened = store.open_check(&id("c1"), n, lookups).await.unwrap();
            opened.then_some(n)
        }
    });
    let opened: Vec<u32> = join_all(opens).await.into_iter().flatten().collect();
    let [first] = opened[..] else {
        panic!("opened by {opened:?}");
    };
    assert_eq!(f.check(&id("c1")).await.total, first);
    let lookups = f.read(&id("c1"), PartList::Lookups).await;
    assert_eq!(lookups, [(0, first.to_string(), None)], "nobody else's");
    assert_eq!(f.store().check(&id("c2")).await.unwrap(), None);
}

pub async fn parts_come_back_byte_for_byte_in_their_order(f: &dyn Fixture) {
    let odd = "[\"ä\",\"\\u0000\",\"'; DROP\"]";
    let check = f.open("c1", &["[]", odd]).await;
    f.open("c2", &["[\"other\"]"]).await;
    f.add(&check, CHUNKS, 0, &["a", "b", "c"]).await;
    f.add(&check, PartList::Chunks { gateway: 1 }, 0, &["d"])
        .await;
    f.restart().await;
    let lookups = f.read(&check, PartList::Lookups).await;
    assert_eq!(lookups, [(0, "[]".into(), None), (1, odd.to_owned(), None)]);
    let some = f.store().parts(&check, CHUNKS, 1, 1).await.unwrap();
    assert_eq!(some.len(), 1);
    assert_eq!((some[0].number, some[0].body_json.as_str()), (1, "b"));
    let none = f.store().parts(&check, CHUNKS, 3, 9).await.unwrap();
    assert_eq!(none, []);
}

pub async fn a_part_that_is_there_stays_as_it_is(f: &dyn Fixture) {
    let check = f.open("c1", &[]).await;
    f.add(&check, CHUNKS, 0, &["a"]).await;
    f.end(&check, ended(CHUNKS, 0..1, "done", false)).await;
    f.add(&check, CHUNKS, 0, &["x", "b"]).await;
    let expected = [(0, "a".into(), Some("done".into())), (1, "b".into(), None)];
    assert_eq!(f.read(&check, CHUNKS).await, expected);
    f.add(&check, CHUNKS, 2, &[]).await;
}

pub async fn the_first_outcome_of_a_part_stays(f: &dyn Fixture) {
    let check = f.open("c1", &[]).await;
    f.add(&check, CHUNKS, 0, &["a", "b", "c"]).await;
    f.end(&check, ended(CHUNKS, 1..2, "first", false)).await;
    f.end(&check, ended(CHUNKS, 1..2, "second", true)).await;
    f.end(&check, ended(CHUNKS, 0..9, "rest", true)).await;
    let outcomes = f.read(&check, CHUNKS).await.into_iter();
    let outcomes: Vec<_> = outcomes.filter_map(|(_, _, outcome)| outcome).collect();
    assert_eq!(outcomes, ["rest", "first", "rest"]);
    assert_eq!(f.check(&check).await.chunks_failed, 2);
}

pub async fn progress_counts_the_chunks_and_not_the_lookups(f: &dyn Fixture) {
    let before = f.now().await;
    let check = f.open("c1", &["l1", "l2"]).await;
    f.end(&check, ended(PartList::Lookups, 0..1, "[]", false))
        .await;
    let fresh = f.check(&check).await;
    assert_eq!((fresh.chunks, fresh.chunks_ended), (0, 0));
    assert_eq!((fresh.total, fresh.gateways, fresh.end), (7, 0, None));
    assert!(fresh.opened_at >= before);
    f.add(&check, CHUNKS, 0, &["a", "b"]).await;
    f.add(&check, PartList::Chunks { gateway: 7 }, 0, &["c"])
        .await;
    f.store().begin_gateways(&check, 2).await.unwrap();
    f.end(&check, ended(CHUNKS, 0..1, "ok", false)).await;
    f.end(&check, ended(CHUNKS, 1..2, "no", true)).await;
    let view = f.check(&check).await;
    assert_eq!((view.gateways, view.chunks), (2, 3));
    assert_eq!((view.chunks_ended, view.chunks_failed), (2, 1));
}

pub async fn a_check_moves_on_and_never_back(f: &dyn Fixture) {
    let check = f.open("c1", &[]).await;
    let phase = async || f.check(&check).await.phase;
    f.store().begin_aggregation(&check).await.unwrap();
    assert_eq!(phase().await, CheckPhase::EsLookup, "not before its time");
    f.store().begin_gateways(&check, 2).await.unwrap();
    f.store().begin_gateways(&check, 9).await.unwrap();
    assert_eq!(phase().await, CheckPhase::GatewayProcessing);
    assert_eq!(f.check(&check).await.gateways, 2);
    f.store().begin_aggregation(&check).await.unwrap();
    f.store().begin_gateways(&check, 9).await.unwrap();
    assert_eq!(phase().await, CheckPhase::Aggregating);
}

pub async fn the_first_end_of_a_check_stays(f: &dyn Fixture) {
    let (done, failed) = (f.open("c1", &[]).await, f.open("c2", &[]).await);
    let completed = CheckEnd::Completed {
        result_json: "{\"a\":1}".into(),
    };
    let broken = CheckEnd::Failed {
        error: "it broke".into(),
    };
    for end in [&completed, &broken] {
        let ending = f.store().end_check(&done, end.clone()).await;
        ending.unwrap();
    }
    for end in [&broken, &completed] {
        let ending = f.store().end_check(&failed, end.clone()).await;
        ending.unwrap();
    }
    f.restart().await;
    let view = f.check(&done).await;
    assert_eq!(
        (view.phase, view.end),
        (CheckPhase::Completed, Some(completed))
    );
    f.store().begin_gateways(&failed, 1).await.unwrap();
    let view = f.check(&failed).await;
    assert_eq!((view.phase, view.end), (CheckPhase::EsLookup, Some(broken)));
}

pub async fn old_checks_are_forgotten_some_parts_at_a_time_the_oldest_first(f: &dyn Fixture) {
    let old = f.open("c1", &["a", "b", "c"]).await;
    f.advance(MINUTE).await;
    let newer = f.open("c0", &["d"]).await;
    f.advance(59 * MINUTE + MINUTE / 2).await;
    let forget = async || f.store().forget_checks(HOUR, 2).await.unwrap();
    assert_eq!(forget().await, 2);
    assert!(
        f.store().check(&old).await.unwrap().is_some(),
        "not all yet"
    );
    assert_eq!(forget().await, 2, "the last part and the check");
    assert_eq!(f.store().check(&old).await.unwrap(), None);
    assert_eq!(f.read(&old, PartList::Lookups).await, []);
    assert_eq!(forget().await, 0);
    assert_eq!(f.read(&newer, PartList::Lookups).await.len(), 1);
}

pub async fn checks_are_told_page_by_page_the_newest_first(f: &dyn Fixture) {
    let page = async |after: Option<PageToken>, limit| {
        let page = f.store().checks(after.into(), limit).await.unwrap();
        let names = page.items.iter().map(|line| line.check.to_string());
        (names.collect::<Vec<_>>(), page.next)
    };
    assert_eq!(page(None, 2).await, (vec![], None));
    let before = f.now().await;
    for name in ["c2", "c3", "c1"] {
        f.open(name, &[]).await;
        f.advance(MINUTE).await;
    }
    let (first, next) = page(None, 2).await;
    assert_eq!(first, ["c1", "c3"], "not in the order of ids");
    assert!(next.is_some());
    assert_eq!(page(next, 2).await, (vec!["c2".to_owned()], None));
    assert_eq!(page(None, 3).await.1, None, "exactly full");

    let error = "it broke".to_owned();
    f.store().begin_gateways(&id("c1"), 4).await.unwrap();
    let ends = [
        ("c2", CheckEnd::Failed { error }),
        (
            "c3",
            CheckEnd::Completed {
                result_json: "{}".into(),
            },
        ),
    ];
    for (name, end) in ends {
        f.store().end_check(&id(name), end).await.unwrap();
    }
    let lines = f.store().checks(PageFrom::Start, 9).await.unwrap().items;
    let ended = lines
        .iter()
        .map(|line| (line.ended_at.is_some(), line.failed));
    assert!(ended.eq([(false, false), (true, false), (true, true)]));
    let running = &lines[0];
    assert_eq!(running.phase, CheckPhase::GatewayProcessing);
    assert_eq!((running.total, running.gateways), (7, 4));
    assert!(running.opened_at > before + 2 * MINUTE);
}

/// Opened at once, by many: none is lost between two pages.
pub async fn checks_of_one_moment_are_all_on_some_page(f: &dyn Fixture) {
    let names: Vec<String> = (0..7).map(|n| format!("c{n}")).collect();
    for name in &names {
        f.open(name, &[]).await;
    }
    for limit in [1, 2, 9] {
        let page = async |from: PageFrom<PageToken>| {
            let page = f.store().checks(from, limit).await.unwrap();
            page.map(|line| line.check.to_string())
        };
        let expected: Vec<&str> = names.iter().rev().map(String::as_str).collect();
        there_and_back(page, &expected).await;
    }
    let counted = f.store().counted(Counted::StatusChecks, 9).await;
    assert_eq!(counted.unwrap(), 7);
}

pub async fn a_check_tells_how_far_it_is_with_each_gateway(f: &dyn Fixture) {
    let check = f.open("c1", &["l1"]).await;
    f.open("c2", &["l2"]).await;
    let gateway = |gateway| PartList::Chunks { gateway };
    f.add(&check, gateway(0), 0, &["a0", "a1", "a2"]).await;
    f.add(&check, gateway(3), 0, &["b0"]).await;
    f.add(&check, gateway(4), 0, &["c0", "c1"]).await;
    f.add(&id("c2"), gateway(0), 0, &["other"]).await;
    f.end(&check, ended(gateway(0), 0..1, "ok", false)).await;
    f.end(&check, ended(gateway(0), 1..2, "no", true)).await;
    f.end(&check, ended(gateway(4), 0..2, "ok", false)).await;
    let page = async |after, limit| {
        let store = f.store();
        let page = store.check_gateways(&check, after, limit).await.unwrap();
        let told = page.items.into_iter().map(|view| {
            let counts = (view.chunks, view.chunks_ended, view.chunks_failed);
            (view.gateway, view.first_chunk_json, counts)
        });
        (told.collect::<Vec<_>>(), page.next)
    };
    let all = [
        (0, "a0".to_owned(), (3, 2, 1)),
        (3, "b0".to_owned(), (1, 0, 0)),
        (4, "c0".to_owned(), (2, 2, 0)),
    ];
    assert_eq!(page(None, 3).await, (all.to_vec(), None));
    assert_eq!(page(None, 1).await, (all[..1].to_vec(), Some(0)));
    assert_eq!(page(Some(0), 9).await, (all[1..].to_vec(), None));
    let nobody = f.store().check_gateways(&id("c9"), None, 9).await.unwrap();
    assert_eq!(nobody.items, []);
}
