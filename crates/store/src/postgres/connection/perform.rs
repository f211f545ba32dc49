//! Performs the use cases of the cold half on a connection to PostgreSQL.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::GenericClient;
use futures::future::try_join_all;
use rust_decimal::Decimal;
use tokio::sync::OwnedMutexGuard;
use tokio_postgres::IsolationLevel;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tollgate_core::ports::{Purged, StoreError, StoreResult};
use tracing::Instrument;

use super::error::store_error;
use super::run::{all, execute, lock_name};
use super::value::storable;
use crate::postgres::lanes::counters::{lock_plans, write_back};
use crate::postgres::sends::attempts::history;
use crate::postgres::{Postgres, lanes};
use crate::sql::{Answer, Ask, Dialogue, Params, Placement, Row, Step, Value, Wish};
use crate::store_on::Database;
use crate::telemetry::statement;
use crate::urgency::Urgency;

impl Database for Postgres {
    async fn read<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.runner
            .autocommit(urgency, move |c| Box::pin(perform(&*c, use_case)))
            .await
    }

    async fn read_snapshot<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        let read = self.runner.autocommit(urgency, move |c| {
            Box::pin(async move {
                let begin = c.build_transaction().read_only(true);
                let begin = begin.isolation_level(IsolationLevel::RepeatableRead);
                let tx = begin.start().await.map_err(store_error)?;
                let read = perform(&tx, use_case).await?;
                tx.commit().await.map_err(store_error)?;
                Ok(read)
            })
        });
        read.await
    }

    async fn write<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.runner
            .in_transaction(urgency, move |tx| Box::pin(perform(tx, use_case)))
            .await
    }

    async fn write_alone<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.read(urgency, use_case).await
    }

    async fn write_as_node<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.in_force(urgency, move |tx| Box::pin(perform(tx, use_case)))
            .await
    }

    /// Vacuum and the reuse of the log are the server's own.
    async fn purge(&self) -> StoreResult<Purged> {
        Ok(Purged::Later)
    }

    fn gate_margin(&self) -> Decimal {
        self.gate_margin
    }

    const ARCHIVE_APART: bool = false;

    /// Rows are held by their locks.
    async fn alone_in_archive(&self) -> Option<OwnedMutexGuard<()>> {
        None
    }

    fn archive_months(&self) -> StoreResult<Vec<String>> {
        Ok(vec![])
    }

    fn archive_bytes(&self) -> StoreResult<Option<u64>> {
        Ok(None)
    }

    async fn read_archive<T: Send + 'static>(
        &self,
        _: String,
        use_case: Dialogue<T>,
    ) -> StoreResult<Option<T>> {
        self.read(Urgency::Normal, use_case).await.map(Some)
    }

    async fn write_archive<T: Send + 'static>(
        &self,
        _: String,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.write(Urgency::Normal, use_case).await
    }

    /// A day that is dropped leaves nothing.
    async fn give_back_archive(&self, _: String) -> StoreResult<()> {
        Ok(())
    }
}

pub(crate) async fn perform<T>(
    c: &impl GenericClient,
    mut use_case: Dialogue<T>,
) -> StoreResult<T> {
    loop {
        match use_case.next() {
            Step::Asks(ask) => {
                let answer = answer(c, ask).await?;
                use_case.answer(answer);
            }
            Step::Ends(ended) => return ended,
        }
    }
}

async fn answer(c: &impl GenericClient, ask: Ask) -> StoreResult<Answer> {
    match ask {
        Ask::Rows {
            sql,
            params,
            locked: false,
        } => rows(c, sql.postgres(), &params).await,
        Ask::Rows {
            sql,
            params,
            locked: true,
        } => rows(c, &format!("{} FOR UPDATE", sql.postgres()), &params).await,
        Ask::Execute { sql, params } => {
            // All are sent before the first is answered.
            let executed = async {
                let prepared = c.prepare_cached(sql.postgres()).await?;
                let params: Vec<_> = params.iter().map(references).collect();
                let executed = params.iter().map(|params| c.execute(&prepared, params));
                try_join_all(executed).await
            };
            let executed = executed.instrument(statement(sql.postgres())).await;
            let changed = executed.map_err(store_error)?;
            Ok(Answer {
                changed: changed.into_iter().sum(),
                ..Answer::default()
            })
        }
        Ask::LockName(name) => {
            lock_name(c, &name).await?;
            Ok(Answer::default())
        }
        Ask::HoldUpAdmissions => {
            execute(c, "LOCK TABLE lane_plan IN EXCLUSIVE MODE", &[]).await?;
            Ok(Answer::default())
        }
        Ask::Lanes(name) => Ok(Answer {
            lanes: lanes::in_force(c, name.as_ref()).await?,
            ..Answer::default()
        }),
        Ask::History(item) => Ok(Answer {
            history: Some(history(c, &item, Duration::ZERO).await?),
            ..Answer::default()
        }),
        Ask::Place(wish) => Ok(Answer {
            placement: Some(place(c, &wish).await?),
            ..Answer::default()
        }),
        Ask::Now => rows(c, "SELECT tg_now() AS now", &vec![]).await,
    }
}

async fn place(c: &impl GenericClient, wish: &Wish) -> StoreResult<Placement> {
    let name = &wish.lane;
    let mut plans = lock_plans(c, &[name.as_str()], wish.margin).await?;
    let Some(plan) = plans.get_mut(name) else {
        return Ok(Placement::NoSuchLane);
    };
    let place = plan.place(c, name, wish.from, wish.random).await?;
    let Some(place) = place else {
        return Ok(Placement::Never);
    };
    let generation = plan.generation;
    write_back(c, plans.iter()).await?;
    Ok(Placement::At { place, generation })
}

async fn rows(c: &impl GenericClient, sql: &str, params: &Params) -> StoreResult<Answer> {
    let found = all(c, sql, &references(params)).await?;
    let names = found.first().map_or(&[][..], |row| row.columns());
    let columns: Arc<[String]> = names
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    let row = |row: &tokio_postgres::Row| {
        let values = (0..columns.len()).map(|n| value(row, n));
        Ok(Row::new(&columns, values.collect::<StoreResult<_>>()?))
    };
    Ok(Answer {
        rows: found.iter().map(row).collect::<StoreResult<_>>()?,
        ..Answer::default()
    })
}

fn references(params: &Params) -> Vec<&(dyn ToSql + Sync)> {
    let references = params.iter().map(|value| value as &(dyn ToSql + Sync));
    references.collect()
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *ty == Type::INT8 => number.to_sql(ty, out),
            Self::Bool(flag) if *ty == Type::BOOL => flag.to_sql(ty, out),
            // Whatever comes from outside can be stored.
            Self::Text(text) if *ty == Type::TEXT => storable(text).to_sql(ty, out),
            Self::Bytes(bytes) if *ty == Type::BYTEA => bytes.to_sql(ty, out),
            Self::Int(number) if *ty == Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
            Self::Int(number) if *ty == Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
            Self::Int(_) | Self::Bool(_) | Self::Text(_) | Self::Bytes(_) => {
                Err(format!("{} cannot be written as {ty}", self.kind()).into())
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }
    to_sql_checked!();
}

fn value(row: &tokio_postgres::Row, n: usize) -> StoreResult<Value> {
    let Some(column) = row.columns().get(n) else {
        return Ok(Value::Null);
    };
    let value = match *column.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(n).map(Value::from),
        Type::INT4 => row.try_get::<_, Option<i32>>(n).map(Value::from),
        Type::BOOL => row.try_get::<_, Option<bool>>(n).map(Value::from),
        Type::TEXT => row.try_get::<_, Option<String>>(n).map(Value::from),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(n).map(Value::from),
        ref other => {
            let name = column.name();
            let why = format!("the column {name} is of the type {other}, which no use case reads");
            return Err(StoreError::Bug(why));
        }
    };
    value.map_err(store_error)
}
