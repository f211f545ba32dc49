//! The bodies of new items: who writes one has won its id.

use std::collections::HashSet;

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tollgate_core::id::ItemId;
use tollgate_core::ports::{NewItem, StoreResult};

use super::admit::{Batch, PlacedItem};
use crate::cold::archive::known;
use crate::postgres::connection::error::store_error;
use crate::postgres::connection::run::{Params, all, execute};

/// An id is free if neither the hot tables nor the archive know it. Both are asked in one statement, which sees one
/// moment: an item that is moved leaves the one and enters the other in one commit, so it is always seen in one of them.
///
/// Bodies of ids that no other transaction takes at the same moment, which is nearly always so. It fails if one does.
/// `ON CONFLICT` would cost a record in the log for each row.
///
/// In the hot tables each id is looked for by its key. `NOT EXISTS` would leave the way to the planner, which reads the tables
/// from end to end for each thousand as long as it knows nothing of them: during a first large import, and for minutes.
const UNRACED: &str = "INSERT INTO item_body (item_type, item_id, content_hash, body,
         init_workflow_id, bulk_id)
     SELECT $1, n.item_id, n.content_hash, n.body, n.init_workflow_id, n.bulk_id
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[])
          AS n (item_id, content_hash, body, init_workflow_id, bulk_id, key)
     WHERE (SELECT 1 FROM item_queue q
          WHERE q.item_type = $1 AND q.item_id = n.item_id) IS NULL
       AND n.key NOT IN (SELECT k.key FROM tg_known($8::bigint[]) k)
       AND (SELECT 1 FROM item_body b
          WHERE b.item_type = $1 AND b.item_id = n.item_id) IS NULL
     RETURNING item_id";

/// The same where others take some of the ids: of those, one of both gets each.
const RACED: &str = "INSERT INTO item_body (item_type, item_id, content_hash, body,
         init_workflow_id, bulk_id)
     SELECT $1, n.item_id, n.content_hash, n.body, n.init_workflow_id, n.bulk_id
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[])
          AS n (item_id, content_hash, body, init_workflow_id, bulk_id, key)
     WHERE (SELECT 1 FROM item_queue q
          WHERE q.item_type = $1 AND q.item_id = n.item_id) IS NULL
       AND n.key NOT IN (SELECT k.key FROM tg_known($8::bigint[]) k)
     ON CONFLICT (item_type, item_id) DO NOTHING
     RETURNING item_id";

impl Batch<'_> {
    /// The ids that were not known before. A body that was lost leaves its id used.
    pub(super) async fn write_bodies(&self, items: &[&NewItem]) -> StoreResult<HashSet<ItemId>> {
        if items.is_empty() {
            return Ok(HashSet::new());
        }
        let mut sorted = items.to_vec();
        sorted.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let texts = |of: fn(&NewItem) -> &str| sorted.iter().map(|i| of(i)).collect::<Vec<_>>();
        let bulk = |item: &&NewItem| item.bulk().map(|bulk| bulk.to_string());
        let bulks: Vec<Option<String>> = sorted.iter().map(bulk).collect();
        let keys = self.keys(&sorted);
        let (keys, heads): (Vec<&[u8]>, Vec<i64>) =
            keys.iter().map(|key| (&key[..], known::head(key))).unzip();
        let params: Params<'_> = &[
            &self.item_type.as_str(),
            &texts(|i| i.id.as_str()),
            &texts(|i| &i.record.content_hash),
            &texts(|i| &i.body),
            &texts(|i| i.init_flow.as_str()),
            &bulks,
            &keys,
            &heads,
        ];
        let rows = match self.write_unraced(params).await? {
            Some(rows) => rows,
            None => all(self.tx, RACED, params).await?,
        };
        Ok(rows
            .iter()
            .map(|row| ItemId::new(row.get::<_, String>(0)))
            .collect())
    }

    /// Nothing if another transaction has taken one of the ids at the same moment.
    async fn write_unraced(&self, params: Params<'_>) -> StoreResult<Option<Vec<Row>>> {
        // Prepared beforehand, so that what is sent together stays in order.
        let statement = self.tx.prepare_cached(UNRACED).await.map_err(store_error)?;
        let written = futures::try_join!(
            self.tx.batch_execute("SAVEPOINT bodies"),
            self.tx.query(&statement, params)
        );
        match written {
            Ok(((), rows)) => Ok(Some(rows)),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                let back = self.tx.batch_execute("ROLLBACK TO SAVEPOINT bodies");
                back.await.map_err(store_error)?;
                Ok(None)
            }
            Err(error) => Err(store_error(error)),
        }
    }

    /// Whoever won an id and got no slot, since a guard was against it or its lane never opens
    /// again, was never here.
    pub(super) async fn forget_losers(
        &self,
        new: &HashSet<ItemId>,
        won: &[PlacedItem<'_>],
    ) -> StoreResult<()> {
        const FORGET: &str = "DELETE FROM item_body WHERE item_type = $1 AND item_id = ANY($2)";
        let won: HashSet<&ItemId> = won.iter().map(|w| &w.item.id).collect();
        let losers: Vec<&str> = new
            .iter()
            .filter(|id| !won.contains(id))
            .map(ItemId::as_str)
            .collect();
        execute(self.tx, FORGET, &[&self.item_type.as_str(), &losers])
            .await
            .map(drop)
    }

    /// Their names among the known ids.
    pub(super) fn keys(&self, items: &[&NewItem]) -> Vec<[u8; 16]> {
        let items = items.iter();
        items
            .map(|item| known::key(self.item_type, &item.id))
            .collect()
    }
}

/// One bad item harms no other: PostgreSQL would refuse the whole statement.
pub(super) fn is_storable(item: &NewItem) -> bool {
    let record = &item.record;
    let texts = [
        item.id.as_str(),
        &record.owner,
        &record.status,
        &record.content_hash,
        &item.body,
        item.init_flow.as_str(),
    ];
    !texts.iter().any(|text| text.contains('\0'))
}
