//! Events out. Triggers write them, and exist only while events are on: a move cannot forget its event, and a store
//! without events pays nothing (docs/decisions/0050).

mod switch;
mod view;
mod waiting;

use std::time::Duration;

use async_trait::async_trait;
use tollgate_core::ports::{
    Author, LEASES_AHEAD, Outbox, OutboxEvent, OutboxView, RelayHold, RetriedUpTo, StoreResult,
    TurnedOff,
};

use crate::sql::params;
use crate::store_on::{Database, StoreOn};
use crate::urgency::Urgency;
use crate::value::micros;

#[async_trait]
impl<D: Database> Outbox for StoreOn<D> {
    async fn turn_events_on(&self, author: Author) -> StoreResult<bool> {
        self.write(Urgency::Normal, move |tx| async move {
            switch::turn_on(&tx, &author).await
        })
        .await
    }

    async fn turn_events_off(&self, author: Author) -> StoreResult<TurnedOff> {
        self.write(Urgency::Normal, move |tx| async move {
            switch::turn_off(&tx, &author).await
        })
        .await
    }

    async fn hold_relay(&self, owner: &str, lease: Duration) -> StoreResult<Option<RelayHold>> {
        const HOLD: &str = "UPDATE event_relay SET owner = $1, leased_until = tg_now() + $2,
                    fence = CASE WHEN owner = $1 THEN fence ELSE fence + 1 END
             WHERE one = 1 AND (owner IS NULL OR owner = $1 OR leased_until < tg_now()
                 OR leased_until > tg_now() + $3)
             RETURNING fence, is_on";
        let held = params![owner, micros(lease), micros(lease * LEASES_AHEAD)];
        self.write_alone(Urgency::Normal, move |tx| async move {
            match tx.row(HOLD, held).await {
                None => Ok(None),
                Some(row) => Ok(Some(RelayHold {
                    fence: row.get("fence")?,
                    is_on: row.get("is_on")?,
                })),
            }
        })
        .await
    }

    async fn leave_relay(&self, owner: &str) -> StoreResult<()> {
        const LEAVE: &str = "UPDATE event_relay SET owner = NULL WHERE one = 1 AND owner = $1";
        let left = params![owner];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(LEAVE, left).await;
            Ok(())
        })
        .await
    }

    async fn relay_settings(&self, owner: &str, settings: &str) -> StoreResult<String> {
        const KEEP: &str = "UPDATE event_relay SET settings = $2 WHERE one = 1 AND owner = $1";
        const KEPT: &str = "SELECT settings FROM event_relay WHERE one = 1";
        let kept = params![owner, settings];
        self.write(Urgency::Normal, move |tx| async move {
            tx.execute(KEEP, kept).await;
            tx.one(KEPT, params![]).await?.get("settings")
        })
        .await
    }

    async fn note_relay_difference(&self, what: &str, lease: Duration) -> StoreResult<()> {
        const NOTE: &str = "UPDATE event_relay SET difference = $1, differs_until = tg_now() + $2
             WHERE one = 1";
        let noted = params![what, micros(lease)];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn events_to_publish(&self, limit: u32) -> StoreResult<Vec<OutboxEvent>> {
        self.read(move |tx| async move { waiting::oldest(&tx, limit).await })
            .await
    }

    async fn events_published(&self, hold: RelayHold, numbers: Vec<i64>) -> StoreResult<bool> {
        self.write(Urgency::Normal, move |tx| async move {
            waiting::published(&tx, hold, &numbers).await
        })
        .await
    }

    async fn events_refused(&self, hold: RelayHold, numbers: Vec<i64>) -> StoreResult<bool> {
        self.write(Urgency::Normal, move |tx| async move {
            waiting::refused(&tx, hold, &numbers).await
        })
        .await
    }

    async fn events_to_retry(
        &self,
        after: RetriedUpTo,
        limit: u32,
    ) -> StoreResult<Vec<OutboxEvent>> {
        self.read(move |tx| async move { waiting::to_retry(&tx, &after, limit).await })
            .await
    }

    async fn note_relay_trouble(&self, trouble: Option<String>) -> StoreResult<()> {
        // Since when there is trouble, however its sentence changes.
        const NOTE: &str = "UPDATE event_relay SET trouble = $1, trouble_at =
                 CASE WHEN trouble IS NULL OR trouble_at > tg_now() THEN tg_now()
                      ELSE trouble_at END
             WHERE one = 1";
        let noted = params![trouble];
        self.write_alone(Urgency::Normal, move |tx| async move {
            tx.execute(NOTE, noted).await;
            Ok(())
        })
        .await
    }

    async fn outbox(&self) -> StoreResult<OutboxView> {
        self.read(move |tx| async move { view::view(&tx).await })
            .await
    }
}
