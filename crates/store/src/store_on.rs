//! A store on one database. The ports of the cold half are implemented here for every database
//! (`cold`); those of the hot path by each for itself (`sqlite`, `postgres`).

use std::ops::Deref;

use rust_decimal::Decimal;
use tokio::sync::OwnedMutexGuard;
use tollgate_core::ports::{Purged, StoreResult};

use crate::sql::{Dialogue, Tx};
use crate::urgency::Urgency;

#[derive(Debug)]
pub struct StoreOn<D>(pub(crate) D);

/// What the hot path uses of its own database: connections, clock, groups.
impl<D> Deref for StoreOn<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.0
    }
}

/// Performs use cases. Not for use outside: it is public only as a bound of public ports.
pub trait Database: Send + Sync + 'static {
    /// One that writes nothing. On SQLite it sees one snapshot, on PostgreSQL each statement its own.
    fn read<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// One that writes nothing and sees one snapshot on both, however many statements it has.
    fn read_snapshot<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// One transaction; returns after its commit.
    fn write<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    fn write_alone<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    fn write_as_node<T: Send + 'static>(
        &self,
        urgency: Urgency,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// Overwrites what its files still hold of deleted rows, if it can.
    fn purge(&self) -> impl Future<Output = StoreResult<Purged>> + Send;

    /// The share of a lane's hard limit that the gate keeps free.
    fn gate_margin(&self) -> Decimal;

    /// Whether the lines of the archive lie in files of their own, one for each month (`YYYY-MM`), and not in a table
    /// of the database.
    const ARCHIVE_APART: bool;

    /// Only one move or closing of days goes on at a time where lines lie apart: what one has copied, another must not
    /// take for a copy that was left behind.
    fn alone_in_archive(&self) -> impl Future<Output = Option<OwnedMutexGuard<()>>> + Send;

    /// The months that have a file; none where they are not apart.
    fn archive_months(&self) -> StoreResult<Vec<String>>;

    /// The bytes of these files, if there are any apart.
    fn archive_bytes(&self) -> StoreResult<Option<u64>>;

    /// None if that month has no file.
    fn read_archive<T: Send + 'static>(
        &self,
        month: String,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<Option<T>>> + Send;

    /// One transaction, on the file of a month, which is made if there is none.
    fn write_archive<T: Send + 'static>(
        &self,
        month: String,
        use_case: Dialogue<T>,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// Gives the space of deleted lines back to the disk; a file without lines goes.
    fn give_back_archive(&self, month: String) -> impl Future<Output = StoreResult<()>> + Send;
}

impl<D: Database> StoreOn<D> {
    /// One that writes by one statement only: PostgreSQL needs no transaction around it.
    pub(crate) async fn write_alone<T, F>(
        &self,
        urgency: Urgency,
        use_case: impl FnOnce(Tx) -> F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let dialogue = Dialogue::with(use_case);
        self.0.write_alone(urgency, dialogue).await
    }

    /// One that only the node in force may make.
    pub(crate) async fn write_as_node<T, F>(
        &self,
        urgency: Urgency,
        use_case: impl FnOnce(Tx) -> F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let dialogue = Dialogue::with(use_case);
        self.0.write_as_node(urgency, dialogue).await
    }

    pub(crate) async fn read<T, F>(&self, use_case: impl FnOnce(Tx) -> F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.0.read(Urgency::Normal, Dialogue::with(use_case)).await
    }

    pub(crate) async fn read_snapshot<T, F>(&self, use_case: impl FnOnce(Tx) -> F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let dialogue = Dialogue::with(use_case);
        self.0.read_snapshot(Urgency::Normal, dialogue).await
    }

    pub(crate) async fn read_urgently<T, F>(&self, use_case: impl FnOnce(Tx) -> F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.0.read(Urgency::Urgent, Dialogue::with(use_case)).await
    }

    pub(crate) async fn write<T, F>(
        &self,
        urgency: Urgency,
        use_case: impl FnOnce(Tx) -> F,
    ) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        self.0.write(urgency, Dialogue::with(use_case)).await
    }
}
