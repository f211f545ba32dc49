//! What a use case of the cold half is written against: statements over one small transaction,
//! whichever database is behind it (docs/decisions/0040).
//!
//! A use case is an async function over a [`Tx`]. It performs nothing: each statement is a question
//! that the store's driver takes, performs in its own way and answers (`sqlite::perform`,
//! `postgres::perform`). An error of the database ends the use case where it stands, so that none
//! can swallow one, and is judged where each store judges its errors.

mod dialogue;
mod row;
mod statement;
mod value;

use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use rust_decimal::Decimal;
use tollgate_core::Timestamp;
use tollgate_core::id::{Item, LaneName};
use tollgate_core::lane_in_force::LaneInForce;
use tollgate_core::ports::{History, StoreError, StoreResult};
use tollgate_core::slot::Place;

pub(crate) use dialogue::{Dialogue, Step};
pub(crate) use row::Row;
pub(crate) use statement::Sql;
pub(crate) use value::{FromValue, Value};

pub(crate) type Params = Vec<Value>;

/// The parameters of a statement, `$1` first.
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::sql::Value::from($value)),*]
    };
}
pub(crate) use params;

/// What a use case asks of the database.
#[derive(Debug)]
pub(crate) enum Ask {
    Rows {
        sql: Sql,
        params: Params,
        /// Other transactions keep their hands off these rows until this one ends.
        locked: bool,
    },
    /// One statement, once for each set of parameters.
    Execute {
        sql: Sql,
        params: Vec<Params>,
    },
    LockName(String),
    HoldUpAdmissions,
    Now,
    /// The lanes in force, or one of them, as the hot path reads them.
    Lanes(Option<LaneName>),
    /// The attempts of an item, as the hot path reads them.
    History(Item),
    /// A place in a lane's plan, which is held, as the hot path gives it.
    Place(Wish),
}

/// From when on a place is wanted, and which of several.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) lane: LaneName,
    pub(crate) from: Timestamp,
    pub(crate) random: u32,
    pub(crate) margin: Decimal,
}

#[derive(Debug)]
pub(crate) enum Placement {
    At {
        place: Place,
        generation: i64,
    },
    NoSuchLane,
    /// The lane never opens again.
    Never,
}

/// What was asked for; nothing else is there.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    pub(crate) changed: u64,
    pub(crate) lanes: Vec<LaneInForce>,
    pub(crate) history: Option<History>,
    pub(crate) placement: Option<Placement>,
}

#[derive(Debug, Default)]
enum Exchange {
    #[default]
    Silent,
    Asked(Ask),
    Answered(Answer),
}

/// The transaction as its use case sees it. One question at a time: it answers in their order.
#[derive(Debug)]
pub(crate) struct Tx(Arc<Mutex<Exchange>>);

impl Tx {
    pub(crate) async fn rows(&self, sql: impl Into<Sql>, params: Params) -> Vec<Row> {
        self.select(sql.into(), params, false).await
    }

    /// The first row, if there is one.
    pub(crate) async fn row(&self, sql: impl Into<Sql>, params: Params) -> Option<Row> {
        self.rows(sql, params).await.into_iter().next()
    }

    /// The row of a statement that always has one.
    pub(crate) async fn one(&self, sql: impl Into<Sql>, params: Params) -> StoreResult<Row> {
        let row = self.row(sql, params).await;
        row.ok_or_else(|| StoreError::Bug("a statement that always has a row had none".into()))
    }

    /// Rows that stay as they are until the transaction ends: `FOR UPDATE` on PostgreSQL; on SQLite
    /// nobody else writes meanwhile.
    pub(crate) async fn locked_rows(&self, sql: impl Into<Sql>, params: Params) -> Vec<Row> {
        self.select(sql.into(), params, true).await
    }

    pub(crate) async fn locked_row(&self, sql: impl Into<Sql>, params: Params) -> Option<Row> {
        self.locked_rows(sql, params).await.into_iter().next()
    }

    /// How many rows it changed.
    pub(crate) async fn execute(&self, sql: impl Into<Sql>, params: Params) -> u64 {
        self.execute_each(sql, vec![params]).await
    }

    /// The same statement once for each set of parameters, without waiting in between.
    pub(crate) async fn execute_each(&self, sql: impl Into<Sql>, params: Vec<Params>) -> u64 {
        if params.is_empty() {
            return 0;
        }
        let sql = sql.into();
        self.ask(Ask::Execute { sql, params }).await.changed
    }

    /// Waits until no other transaction holds this name, and holds it until this one ends.
    pub(crate) async fn lock_name(&self, name: String) {
        self.ask(Ask::LockName(name)).await;
    }

    /// Waits for the admissions that hold a lane, and lets no other have one until this transaction ends. Who holds a lane must
    /// not wait for what this transaction holds.
    pub(crate) async fn hold_up_admissions(&self) {
        self.ask(Ask::HoldUpAdmissions).await;
    }

    /// The shared time when this is asked: after every lock taken before.
    pub(crate) async fn now(&self) -> StoreResult<Timestamp> {
        let answer = self.ask(Ask::Now).await;
        let row = answer.rows.first();
        row.ok_or_else(|| StoreError::Bug("the store returned no time".into()))?
            .get("now")
    }

    /// In the order of their names.
    pub(crate) async fn lanes(&self) -> Vec<LaneInForce> {
        self.ask(Ask::Lanes(None)).await.lanes
    }

    pub(crate) async fn lane(&self, name: &LaneName) -> Option<LaneInForce> {
        let found = self.ask(Ask::Lanes(Some(name.clone()))).await;
        found.lanes.into_iter().next()
    }

    pub(crate) async fn history(&self, item: &Item) -> StoreResult<History> {
        let answer = self.ask(Ask::History(item.clone())).await;
        let untold = || StoreError::Bug(format!("the store returned no history of {item}"));
        answer.history.ok_or_else(untold)
    }

    pub(crate) async fn place(&self, wish: Wish) -> StoreResult<Placement> {
        let answer = self.ask(Ask::Place(wish)).await;
        let untold = || StoreError::Bug("the store returned no place".into());
        answer.placement.ok_or_else(untold)
    }

    async fn select(&self, sql: Sql, params: Params, locked: bool) -> Vec<Row> {
        let ask = Ask::Rows {
            sql,
            params,
            locked,
        };
        self.ask(ask).await.rows
    }

    /// Leaves the question for the driver, and goes on when it has answered.
    async fn ask(&self, ask: Ask) -> Answer {
        let mut ask = Some(ask);
        poll_fn(|_| {
            let mut exchange = self.exchange();
            if let Some(ask) = ask.take() {
                *exchange = Exchange::Asked(ask);
                return Poll::Pending;
            }
            match mem::take(&mut *exchange) {
                Exchange::Answered(answer) => Poll::Ready(answer),
                unanswered => {
                    *exchange = unanswered;
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn exchange(&self) -> MutexGuard<'_, Exchange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
