//! Rules in force: what they do to a batch whatever happens to its steps, and who follows a change.

use serde_json::json;
use tollgate_conformance::memory::{Case, Fault, Ran, Scene, sweep};
use tollgate_core::SignedDuration;
use tollgate_core::id::FlowId;
use tollgate_core::ports::{Author, Settings, SharedClock};
use tollgate_domains::payments::{
    Answer, InitInput, PaymentInitFlow, PaymentRequest, RulesError, RulesInForce, RulesText,
    Verdict,
};
use tollgate_sandbox::BankOptions;

use crate::scene::{RUNTIME, Town, payment};

fn rules(value: &serde_json::Value) -> RulesText {
    serde_json::from_value(json!({ "rules": value })).unwrap()
}

fn some_rules() -> RulesText {
    rules(&json!([
        {"name": "dollars", "require": "currency == 'USD'", "message": "only dollars"},
        {"name": "twin", "duplicateWithinSecs": 3600, "message": "again"},
        {"name": "day", "dailyTotal": "300", "currency": "USD", "message": "enough for today"},
    ]))
}

fn author() -> Author {
    Author::new("ops", "because")
}

/// 125.50 USD, and a reference that makes it no duplicate of another.
fn own(id: &str) -> PaymentRequest {
    PaymentRequest {
        reference: Some(id.to_owned()),
        ..payment(id)
    }
}

fn scene() -> Scene<PaymentInitFlow, Town> {
    let (town, memory) = Town::build(BankOptions::default());
    let text = some_rules();
    RUNTIME
        .block_on(town.rules.put(&text, author()))
        .unwrap()
        .expect("they are new");
    let mut yen = own("yen");
    yen.money.currency = "JPY".to_owned().try_into().unwrap();
    let duplicate = PaymentRequest {
        reference: Some("a".to_owned()),
        ..payment("twin")
    };
    let payments = vec![
        own("a"),
        duplicate,
        yen,
        own("b"),
        own("too-much"),
        own("a"),
    ];
    Scene {
        memory,
        id: FlowId::new("init-1"),
        input: InitInput { payments },
        world: town,
    }
}

#[test]
fn a_batch_keeps_to_the_rules_whatever_happens_to_its_steps() {
    assert_eq!(sweep(scene, check), 1 + 5 * 2);
}

fn check(case: &Case, town: &Town, ran: &Ran<Vec<Answer>>) {
    let all = ["a", "twin", "yen", "b", "too-much"];
    let there: Vec<&str> = all
        .into_iter()
        .filter(|id| town.item(id).is_some())
        .collect();
    let Ok(answers) = &ran.result else {
        assert_eq!(case.fault(), Some(Fault::FailForGood));
        assert!(there.is_empty(), "{there:?}");
        return;
    };
    assert_eq!(there, ["a", "b"]);
    let told = answers.iter().map(|answer| match &answer.verdict {
        Verdict::Scheduled { .. } => "scheduled",
        Verdict::Refused { rule, .. } => rule,
        Verdict::Conflict
        | Verdict::Invalid(_)
        | Verdict::Deferred
        | Verdict::Cancelled
        | Verdict::Archived
        | Verdict::Erased => {
            panic!("{answers:?}")
        }
    });
    let expected = [
        "scheduled",
        "twin",
        "dollars",
        "scheduled",
        "day",
        "scheduled",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn every_node_follows_a_change_within_a_second_and_the_same_again_is_no_change() {
    let (town, _) = Town::build(BankOptions::default());
    let other = RulesInForce::new(town.store.clone(), []);
    RUNTIME.block_on(async {
        let now = town.store.now().await.unwrap();
        assert_eq!(other.at(now).await.unwrap().version, 0);
        let put = town.rules.put(&some_rules(), author()).await.unwrap();
        assert_eq!(put.map(|setting| setting.version), Some(1));
        assert_eq!(town.rules.at(now).await.unwrap().version, 1, "at once");
        let later = now + SignedDuration::from_secs(1);
        assert_eq!(other.at(later).await.unwrap().version, 1);
        assert!(
            town.rules
                .put(&some_rules(), author())
                .await
                .unwrap()
                .is_none()
        );
        let none = RulesText::default();
        let put = other.put(&none, author()).await.unwrap();
        assert_eq!(
            put.map(|setting| setting.version),
            Some(2),
            "none is a change, too"
        );
    });
}

#[test]
fn a_wrong_rule_leaves_the_old_ones_in_force() {
    let (town, _) = Town::build(BankOptions::default());
    RUNTIME.block_on(async {
        town.rules.put(&some_rules(), author()).await.unwrap();
        let mut wrong = some_rules();
        wrong.rules[0].require = Some("currency ==".to_owned());
        let Err(RulesError::Wrong(problems)) = town.rules.put(&wrong, author()).await else {
            panic!("it was put in force");
        };
        assert!(problems[0].place.contains("dollars"), "{problems:?}");
        let history = town.rules.history(10).await.unwrap();
        assert_eq!(history.len(), 1);
        let kind = tollgate_core::ports::SettingKind::Rules;
        let setting = town.store.setting(kind, "PAYMENT").await.unwrap().unwrap();
        assert_eq!((setting.version, setting.author), (1, author()));
    });
}
