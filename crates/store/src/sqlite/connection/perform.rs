//! Performs the use cases of the cold half on a connection of SQLite, at once and in place.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ToSql};
use rust_decimal::Decimal;
use tokio::sync::OwnedMutexGuard;
use tollgate_core::Timestamp;
use tollgate_core::ports::{Purged, StoreResult};

use super::error::Failed;
use crate::sql::{Answer, Ask, Dialogue, Params, Placement, Row, Step, Value, Wish};
use crate::sqlite::lanes::counters::Plan;
use crate::sqlite::sends::attempts::history;
use crate::sqlite::{Sqlite, lanes};
use crate::store_on::Database;
use crate::telemetry::statement;
use crate::urgency::Urgency;

impl Database for Sqlite {
    /// Readers wait for nobody who writes.
    async fn read<T: Send + 'static>(&self, _: Urgency, use_case: Dialogue<T>) -> StoreResult<T> {
        let clock = self.clock.clone();
        let read = move |c: &Connection| perform(c, &|| clock.now(), use_case);
        self.readers.read_or_fail(read).await
    }

    async fn read_snapshot<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.read(urgency, use_case).await
    }

    async fn write<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| perform(c, &|| clock.now(), use_case);
        self.writer.write(urgency, write).await
    }

    /// It shares a commit with others anyway.
    async fn write_alone<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        self.write(urgency, use_case).await
    }

    async fn write_as_node<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| perform(c, &|| clock.now(), use_case);
        self.write_in_force(urgency, write).await
    }

    async fn purge(&self) -> StoreResult<Purged> {
        self.purge_file().await
    }

    fn gate_margin(&self) -> Decimal {
        self.options.gate_margin
    }

    const ARCHIVE_APART: bool = true;

    async fn alone_in_archive(&self) -> Option<OwnedMutexGuard<()>> {
        Some(self.archive.alone().await)
    }

    fn archive_months(&self) -> StoreResult<Vec<String>> {
        self.archive.months()
    }

    fn archive_bytes(&self) -> StoreResult<Option<u64>> {
        self.archive.bytes().map(Some)
    }

    async fn read_archive<T: Send + 'static>(
        &self,
        month: String,
        use_case: Dialogue<T>,
    ) -> StoreResult<Option<T>> {
        let clock = self.clock.clone();
        let read = move |c: &Connection| perform(c, &|| clock.now(), use_case);
        self.archive.read(month, read).await
    }

    async fn write_archive<T: Send + 'static>(
        &self,
        month: String,
        use_case: Dialogue<T>,
    ) -> StoreResult<T> {
        let clock = self.clock.clone();
        let write = move |c: &Connection| perform(c, &|| clock.now(), use_case);
        self.archive.write(month, write).await
    }

    async fn give_back_archive(&self, month: String) -> StoreResult<()> {
        self.archive.give_back(month).await
    }
}

/// Inside the writer's savepoint or a reader's snapshot.
pub(crate) fn perform<T>(
    c: &Connection,
    now: &dyn Fn() -> Timestamp,
    mut use_case: Dialogue<T>,
) -> Result<T, Failed> {
    loop {
        match use_case.next() {
            Step::Asks(ask) => use_case.answer(answer(c, now, ask)?),
            Step::Ends(ended) => return Ok(ended?),
        }
    }
}

fn answer(c: &Connection, now: &dyn Fn() -> Timestamp, ask: Ask) -> rusqlite::Result<Answer> {
    match ask {
        Ask::Rows { sql, params, .. } => rows(c, sql.sqlite(), &params),
        Ask::Execute { sql, params } => {
            let _span = statement(sql.sqlite()).entered();
            let mut prepared = c.prepare_cached(sql.sqlite())?;
            let mut changed = 0;
            for params in &params {
                bind(&mut prepared, params)?;
                changed += prepared.raw_execute()? as u64;
            }
            Ok(Answer {
                changed,
                ..Answer::default()
            })
        }
        // There is one writer.
        Ask::LockName(_) | Ask::HoldUpAdmissions => Ok(Answer::default()),
        Ask::Lanes(name) => Ok(Answer {
            lanes: match name {
                Some(name) => lanes::in_force(c, &name)?.into_iter().collect(),
                None => lanes::all(c)?,
            },
            ..Answer::default()
        }),
        Ask::History(item) => Ok(Answer {
            history: Some(history(c, &item, Duration::ZERO, now())?),
            ..Answer::default()
        }),
        Ask::Place(wish) => Ok(Answer {
            placement: Some(place(c, &wish)?),
            ..Answer::default()
        }),
        Ask::Now => {
            let columns = Arc::from(["now".to_owned()]);
            let now = Row::new(&columns, vec![now().into()]);
            Ok(Answer {
                rows: vec![now],
                ..Answer::default()
            })
        }
    }
}

fn place(c: &Connection, wish: &Wish) -> rusqlite::Result<Placement> {
    let Some(lane) = lanes::in_force(c, &wish.lane)? else {
        return Ok(Placement::NoSuchLane);
    };
    let mut plan = Plan::of(c, &lane, wish.margin)?;
    let Some(place) = plan.place(wish.from, wish.random)? else {
        return Ok(Placement::Never);
    };
    let generation = plan.generation();
    plan.write_back()?;
    Ok(Placement::At { place, generation })
}

fn rows(c: &Connection, sql: &str, params: &Params) -> rusqlite::Result<Answer> {
    let _span = statement(sql).entered();
    let mut prepared = c.prepare_cached(sql)?;
    bind(&mut prepared, params)?;
    let names = prepared.column_names();
    let columns: Arc<[String]> = names.into_iter().map(str::to_owned).collect();
    let mut found = prepared.raw_query();
    let mut rows = vec![];
    while let Some(row) = found.next()? {
        let values = (0..columns.len()).map(|n| row.get_ref(n).map(value));
        rows.push(Row::new(&columns, values.collect::<rusqlite::Result<_>>()?));
    }
    Ok(Answer {
        rows,
        ..Answer::default()
    })
}

/// By name: to SQLite `$2` is the name of a parameter and not its place.
fn bind(statement: &mut CachedStatement<'_>, params: &Params) -> rusqlite::Result<()> {
    for (n, value) in params.iter().enumerate() {
        let name = format!("${}", n + 1);
        let Some(place) = statement.parameter_index(&name)? else {
            return Err(rusqlite::Error::InvalidParameterName(name));
        };
        statement.raw_bind_parameter(place, value)?;
    }
    Ok(())
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Borrowed(ValueRef::Null),
            Self::Int(number) => ToSqlOutput::from(*number),
            Self::Bool(flag) => ToSqlOutput::from(*flag),
            Self::Text(text) => ToSqlOutput::from(text.as_str()),
            Self::Bytes(bytes) => ToSqlOutput::from(bytes.as_slice()),
        })
    }
}

/// No column of ours holds a fraction.
fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null | ValueRef::Real(_) => Value::Null,
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::ports::StoreError;

    use super::*;
    use crate::sql::params;

    fn run<T>(use_case: Dialogue<T>) -> Result<T, Failed> {
        let connection = Connection::open_in_memory()?;
        perform(&connection, &|| Timestamp::UNIX_EPOCH, use_case)
    }

    #[test]
    fn parameters_are_bound_by_their_numbers_in_whatever_order_they_are_used() {
        let told = run(Dialogue::with(|tx| async move {
            let row = tx.one(
                "SELECT $2 AS two, $1 AS one, $2 AS again",
                params![1, "two"],
            );
            let row = row.await?;
            Ok((row.get("one")?, row.get("two")?, row.get("again")?))
        }));
        let told: (i64, String, String) = told.unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(told, (1, "two".to_owned(), "two".to_owned()));
    }

    #[test]
    fn a_wrong_column_or_kind_is_a_bug_that_names_it() {
        for (column, expected) in [("two", "no column two"), ("one", "the column one holds no")] {
            let told = run(Dialogue::with(move |tx| async move {
                tx.one("SELECT 1 AS one", params![])
                    .await?
                    .get::<String>(column)
            }));
            let Err(Failed::Ours(StoreError::Bug(why))) = told else {
                panic!("{told:?}");
            };
            assert!(why.contains(expected), "{why}");
        }
    }

    #[test]
    fn an_error_of_the_database_ends_the_use_case_where_it_stands() {
        let told = run(Dialogue::with(|tx| async move {
            tx.execute("DROP TABLE nowhere", params![]).await;
            Err::<(), _>(StoreError::Bug("it went on".into()))
        }));
        assert!(matches!(told, Err(Failed::Sqlite(_))), "{told:?}");
    }
}
