//! What guards need to know about the items that were taken in before, and the locks that keep it
//! true until this transaction has written. They are taken after the lanes' and before any record
//! is written, all at once and in one order, so that admissions never wait for each other in a circle.

use std::collections::BTreeSet;

use deadpool_postgres::Transaction;
use tollgate_core::Timestamp;
use tollgate_core::guard::{Guard, Tally, TotalQuestion, TwinQuestion};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{NewItem, StoreResult};

use super::run::{all, execute};
use super::value::Us;

/// Names share so many locks: a batch of a thousand would need more than the server has room for.
const STRIPES: i64 = 64;
/// Between statuses, which are words.
const AND: &str = ",";

/// What the guards of an item look at.
pub(super) fn names<'i>(
    item_type: &'i ItemType,
    item: &'i NewItem,
) -> impl Iterator<Item = String> + 'i {
    let name = move |guard: &Guard| format!("{item_type}/{}", guard.counted_under(item));
    item.guards.iter().map(name)
}

/// Nobody else counts or adds what has these names, until this transaction ends.
pub(super) async fn lock(tx: &Transaction<'_>, names: BTreeSet<String>) -> StoreResult<()> {
    const LOCK: &str =
        "SELECT pg_advisory_xact_lock(hashtextextended('tollgate/guard/' || stripe, 0))
         FROM (SELECT DISTINCT hashtextextended(name, 0) & ($2::bigint - 1) AS stripe
               FROM unnest($1::text[]) AS n (name) ORDER BY stripe) stripes";
    if names.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = names.into_iter().collect();
    execute(tx, LOCK, &[&names, &STRIPES]).await.map(drop)
}

/// The questions of a batch, answered. Their locks are held.
pub(super) async fn tally(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    items: &[&NewItem],
    now: Timestamp,
) -> StoreResult<Tally> {
    let mut tally = Tally::new(items.iter().copied(), now);
    let mut twins: Vec<_> = tally.twins_mut().collect();
    answer_twins(tx, item_type, &mut twins).await?;
    drop(twins);
    let mut totals: Vec<_> = tally.totals_mut().collect();
    answer_totals(tx, item_type, &mut totals).await?;
    drop(totals);
    Ok(tally)
}

async fn answer_twins(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    twins: &mut [(&TwinQuestion, &mut Option<Timestamp>)],
) -> StoreResult<()> {
    const LAST: &str = "SELECT q.place, r.created_at
         FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS q (key, uncounted, place)
         CROSS JOIN LATERAL (SELECT created_at FROM record
              WHERE item_type = $1 AND duplicate_key = q.key
                AND status <> ALL (string_to_array(q.uncounted, ','))
              ORDER BY created_at DESC LIMIT 1) r";
    if twins.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = twins.iter().map(|(asked, _)| asked.key.as_str()).collect();
    let uncounted = twins.iter().map(|(asked, _)| asked.uncounted.join(AND));
    let uncounted: Vec<String> = uncounted.collect();
    let rows = all(tx, LAST, &[&item_type.as_str(), &keys, &uncounted]).await?;
    for row in rows {
        if let Some((_, last)) = nth(twins, row.get(0)) {
            **last = Some(row.get::<_, Us>(1).0);
        }
    }
    Ok(())
}

async fn answer_totals(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    totals: &mut [(&TotalQuestion, &mut i64)],
) -> StoreResult<()> {
    const SUM: &str = "SELECT q.place, r.total
         FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
              WITH ORDINALITY AS q (owner, currency, from_time, to_time, uncounted, place)
         CROSS JOIN LATERAL (
              SELECT least(coalesce(sum(amount_minor), 0), 9223372036854775807)::bigint AS total
              FROM record
              WHERE counted AND item_type = $1 AND owner = q.owner AND currency = q.currency
                AND created_at >= q.from_time AND created_at < q.to_time
                AND status <> ALL (string_to_array(q.uncounted, ','))) r";
    if totals.is_empty() {
        return Ok(());
    }
    let asked: Vec<&TotalQuestion> = totals.iter().map(|(asked, _)| *asked).collect();
    let owners: Vec<&str> = asked.iter().map(|q| q.owner.as_str()).collect();
    let currencies: Vec<&str> = asked.iter().map(|q| q.currency.as_str()).collect();
    let from: Vec<Us> = asked.iter().map(|q| Us(q.from)).collect();
    let to: Vec<Us> = asked.iter().map(|q| Us(q.to)).collect();
    let uncounted: Vec<String> = asked.iter().map(|q| q.uncounted.join(AND)).collect();
    let kind = item_type.as_str();
    let rows = all(
        tx,
        SUM,
        &[&kind, &owners, &currencies, &from, &to, &uncounted],
    )
    .await?;
    for row in rows {
        if let Some((_, total)) = nth(totals, row.get(0)) {
            **total = row.get(1);
        }
    }
    Ok(())
}

/// PostgreSQL counts from one.
fn nth<T>(questions: &mut [T], place: i64) -> Option<&mut T> {
    let place = usize::try_from(place).ok()?.checked_sub(1)?;
    questions.get_mut(place)
}
