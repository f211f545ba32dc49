//! The tables of the system that Tollgate replaces, read and changed by what its operators type.

use futures::future::join;
use rust_decimal::Decimal;
use tollgate_core::item_type::{ItemTypeChange, ItemTypeConfig};
use tollgate_core::ports::{Setting, SettingKind, Started};

use super::fixture::{Fixture, new_item, ops, payment, payments, plan, start};

fn config() -> ItemTypeConfig {
    ItemTypeConfig {
        exec_workflow_type: "PaymentExecWorkflow".into(),
        exec_task_queue: "payment-exec-task-queue".into(),
        ..ItemTypeConfig::default()
    }
}

impl dyn Fixture + '_ {
    /// What is shown for a statement: rows of text, nothing where there is no value.
    async fn shown(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        let shown = self.typed(sql).await;
        shown.unwrap_or_else(|why| panic!("{sql}: {why}"))
    }
    async fn is_shown(&self, sql: &str, row: &[&str]) {
        let shown = self.shown(sql).await;
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "NULL".into());
        let shown: Vec<Vec<String>> = shown
            .iter()
            .map(|row| row.iter().map(text).collect())
            .collect();
        assert_eq!(shown, [row], "{sql}");
    }
    async fn configured(&self) {
        let body = serde_json::to_string(&config()).unwrap();
        let (store, name) = (self.store(), payments());
        let put = store.put_setting(SettingKind::ItemType, name.as_str(), body, ops());
        put.await.unwrap();
    }
    async fn in_force(&self) -> (Setting, ItemTypeConfig) {
        let (store, name) = (self.store(), payments());
        let setting = store.setting(SettingKind::ItemType, name.as_str());
        let setting = setting.await.unwrap().unwrap();
        let config = serde_json::from_str(&setting.body_json).unwrap();
        (setting, config)
    }
}

pub async fn the_queue_is_read_as_payment_exec_queue(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.dispatched(&["p"]).await;
    f.place(vec![new_item("q")]).await;
    f.is_shown(
        "SELECT queue_status, init_workflow_id, dispatch_batch_id, exec_workflow_id, retry_count,
                last_error
         FROM PAYMENT_EXEC_QUEUE WHERE item_type = 'PAYMENT' AND payment_id = 'p'",
        &[
            "DISPATCHED",
            "init-p",
            "BATCH-1",
            "exec-payment-p",
            "0",
            "NULL",
        ],
    )
    .await;
    f.is_shown(
        "SELECT count(*) FROM PAYMENT_EXEC_QUEUE
         WHERE queue_status = 'READY' AND claimed_at IS NULL AND created_at > '2020-01-01'
           AND updated_at >= created_at AND scheduled_exec_time >= created_at",
        &["1"],
    )
    .await;
    let dispatched_at = f.view(&payment("p")).await.dispatched_at.unwrap();
    let expected = dispatched_at.strftime("%Y-%m-%d %H:%M:%S").to_string();
    let shown = "SELECT dispatched_at FROM PAYMENT_EXEC_QUEUE WHERE payment_id = 'p'";
    let shown = f.shown(shown).await.remove(0).remove(0).unwrap();
    assert!(shown.starts_with(&expected), "{shown} is not {expected}");
}

pub async fn bodies_are_read_as_payment_exec_context(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    f.place(vec![new_item("p")]).await;
    f.is_shown(
        "SELECT item_type, context_json, context_version FROM PAYMENT_EXEC_CONTEXT
         WHERE payment_id = 'p' AND created_at > '2020-01-01' AND updated_at >= created_at",
        &["PAYMENT", "{\"body\":\"p\"}", "1"],
    )
    .await;
}

pub async fn the_audit_log_is_read_as_dispatch_audit_log(f: &dyn Fixture) {
    f.lane(plan(100, 4)).await;
    let claimed = f.claimed_one("p").await;
    let failed = Started::Failed("no worker".into());
    f.record(vec![start(&claimed, failed)]).await;
    f.is_shown(
        "SELECT batch_id, item_type, status_before, status_after, detail FROM DISPATCH_AUDIT_LOG
         WHERE payment_id = 'p' AND action = 'DISPATCH_FAILED' AND created_at > '2020-01-01'
         ORDER BY audit_id DESC",
        &["BATCH-1", "PAYMENT", "CLAIMED", "READY", "no worker"],
    )
    .await;
    let kept = "SELECT count(*) FROM DISPATCH_AUDIT_LOG";
    let before = f.shown(kept).await;
    let refused = f.typed("DELETE FROM DISPATCH_AUDIT_LOG").await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(f.shown(kept).await, before);
}

pub async fn an_update_of_exec_rate_config_is_the_next_version_of_the_setting(f: &dyn Fixture) {
    f.configured().await;
    f.shown("UPDATE EXEC_RATE_CONFIG SET batch_size = 1000 WHERE item_type = 'PAYMENT'")
        .await;
    f.shown("UPDATE EXEC_RATE_CONFIG SET enabled = 0 WHERE item_type = 'PAYMENT'")
        .await;
    f.shown("UPDATE EXEC_RATE_CONFIG SET jitter_window_ms = 8000 WHERE item_type = 'PAYMENT'")
        .await;
    f.shown("UPDATE EXEC_RATE_CONFIG SET enabled = 0 WHERE item_type = 'UNKNOWN'")
        .await;
    let (setting, now) = f.in_force().await;
    let expected = ItemTypeConfig {
        enabled: false,
        batch_size: 1000,
        jitter_window_ms: 8000,
        ..config()
    };
    assert_eq!((setting.version, now), (4, expected));
    assert!(setting.author.actor.starts_with("sql"), "{setting:?}");
    f.is_shown(
        "SELECT enabled, batch_size, dispatch_interval_secs, jitter_window_ms, max_dispatch_retries,
                exec_workflow_type, exec_task_queue
         FROM EXEC_RATE_CONFIG WHERE item_type = 'PAYMENT' AND updated_at >= created_at",
        &[
            "0",
            "1000",
            "5",
            "8000",
            "5",
            "PaymentExecWorkflow",
            "payment-exec-task-queue",
        ],
    )
    .await;
    let audited = "SELECT count(*) FROM DISPATCH_AUDIT_LOG
         WHERE action = 'SETTING_CHANGED' AND detail LIKE 'item_type PAYMENT version %'";
    f.is_shown(audited, &["4"]).await;
}

pub async fn what_two_operators_change_at_once_in_exec_rate_config_holds(f: &dyn Fixture) {
    f.configured().await;
    for n in 1..20 {
        let batch = format!("UPDATE EXEC_RATE_CONFIG SET batch_size = {n}");
        let jitter = format!("UPDATE EXEC_RATE_CONFIG SET jitter_window_ms = {n}");
        let (batch, jitter) = join(f.shown(&batch), f.shown(&jitter)).await;
        assert!(batch.is_empty() && jitter.is_empty());
        let (setting, now) = f.in_force().await;
        assert_eq!(setting.version, 1 + 2 * n);
        let n = u32::try_from(n).unwrap();
        assert_eq!((now.batch_size, now.jitter_window_ms), (n, n));
    }
}

/// What is set, and the same change by the API.
fn changes() -> Vec<(String, ItemTypeChange)> {
    let change = ItemTypeChange::default;
    let mut changes = vec![];
    for n in [
        0, 1, 1000, 1001, 3600, 3601, 10_000, 10_001, 3_600_000, 3_600_001,
    ] {
        let mut batch = change();
        batch.batch_size = Some(n);
        changes.push((format!("batch_size = {n}"), batch));
        let mut interval = change();
        interval.dispatch_interval_secs = Some(n);
        changes.push((format!("dispatch_interval_secs = {n}"), interval));
        let mut jitter = change();
        jitter.jitter_window_ms = Some(n);
        changes.push((format!("jitter_window_ms = {n}"), jitter));
        let mut retries = change();
        retries.max_dispatch_retries = Some(n);
        changes.push((format!("max_dispatch_retries = {n}"), retries));
    }
    for mins in [
        "-1", "0", "0.016", "0.0167", "0.25", "60", "61", "1440", "1441",
    ] {
        let decimal: Decimal = mins.parse().unwrap();
        let mut ahead = change();
        ahead.pre_start_buffer_mins = Some(decimal);
        changes.push((format!("pre_start_buffer_mins = {mins}"), ahead));
        let mut stale = change();
        stale.stale_claim_threshold_mins = Some(decimal);
        changes.push((format!("stale_claim_threshold_mins = {mins}"), stale));
    }
    let (longest, too_long) = ("q".repeat(200), "q".repeat(201));
    for queue in ["", "other", "two words", "schön", &longest, &too_long] {
        let mut task_queue = change();
        task_queue.exec_task_queue = Some(queue.to_owned());
        changes.push((format!("exec_task_queue = '{queue}'"), task_queue));
    }
    changes
}

pub async fn exec_rate_config_takes_what_the_api_takes(f: &dyn Fixture) {
    f.configured().await;
    for (set, change) in changes() {
        let (_, before) = f.in_force().await;
        let typed = f.typed(&format!("UPDATE EXEC_RATE_CONFIG SET {set}")).await;
        let (_, after) = f.in_force().await;
        match change.applied_to(before.clone()) {
            Ok(expected) => assert_eq!((typed, after), (Ok(vec![]), expected), "{set}"),
            Err(why) => {
                let column = set.split(' ').next().unwrap();
                let told = typed.expect_err(&why);
                assert!(told.contains(column), "{set}: {told}");
                assert_eq!(after, before, "{set}");
            }
        }
    }
    for set in [
        "enabled = 2",
        "enabled = NULL",
        "batch_size = NULL",
        "item_type = 'X'",
        "exec_workflow_type = 'X'",
    ] {
        let typed = f.typed(&format!("UPDATE EXEC_RATE_CONFIG SET {set}")).await;
        assert!(typed.is_err(), "{set}");
    }
}
