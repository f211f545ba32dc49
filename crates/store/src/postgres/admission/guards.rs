//! What guards need to know about the items that were taken in before, and the locks that keep it
//! true until this transaction has written. They are taken after the lanes' and before any record
//! is written, all at once and in one order, so that admissions never wait for each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use deadpool_postgres::Transaction;
use tollgate_core::Timestamp;
use tollgate_core::guard::{DuplicateQuestion, Guard, Tally, TotalQuestion, quarter_of};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{NewItem, StoreResult};

use crate::postgres::connection::run::{Params, all, execute};
use crate::postgres::connection::value::Us;

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
    let mut duplicates: Vec<_> = tally.duplicates_mut().collect();
    answer_duplicates(tx, item_type, &mut duplicates).await?;
    drop(duplicates);
    let mut totals: Vec<_> = tally.totals_mut().collect();
    answer_totals(tx, item_type, &mut totals).await?;
    drop(totals);
    Ok(tally)
}

async fn answer_duplicates(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    duplicates: &mut [(&DuplicateQuestion, &mut Option<Timestamp>)],
) -> StoreResult<()> {
    const LAST: &str = "SELECT q.place, r.created_at
         FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS q (key, uncounted, place)
         CROSS JOIN LATERAL (SELECT created_at FROM item_queue
              WHERE item_type = $1 AND duplicate_key = q.key
                AND status <> ALL (string_to_array(q.uncounted, ','))
              ORDER BY created_at DESC LIMIT 1) r";
    if duplicates.is_empty() {
        return Ok(());
    }
    let keys: Vec<&str> = duplicates
        .iter()
        .map(|(asked, _)| asked.key.as_str())
        .collect();
    let uncounted = duplicates
        .iter()
        .map(|(asked, _)| asked.uncounted.join(AND));
    let uncounted: Vec<String> = uncounted.collect();
    let rows = all(tx, LAST, &[&item_type.as_str(), &keys, &uncounted]).await?;
    for row in rows {
        if let Some((_, last)) = nth(duplicates, row.get(0)) {
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
    // All that was taken in, less what was withdrawn since: flat, however much an owner pays a day.
    // Status by status, since a list of them is not looked up but filtered out of the whole day.
    const SUM: &str = "SELECT q.place,
                greatest(least(taken.minor - withdrawn.minor, 9223372036854775807), 0)::bigint
         FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[])
              WITH ORDINALITY AS q (owner, currency, from_time, to_time, uncounted, place)
         CROSS JOIN LATERAL (SELECT coalesce(sum(amount_minor), 0) AS minor FROM owner_total
              WHERE item_type = $1 AND owner = q.owner AND currency = q.currency
                AND quarter >= q.from_time AND quarter < q.to_time) taken
         CROSS JOIN LATERAL (SELECT coalesce(sum(by_status.minor), 0) AS minor
              FROM unnest(string_to_array(q.uncounted, ',')) AS u (status)
              CROSS JOIN LATERAL (SELECT sum(amount_minor) AS minor FROM item_queue
                   WHERE counted AND item_type = $1 AND owner = q.owner AND currency = q.currency
                     AND status = u.status
                     AND created_at >= q.from_time AND created_at < q.to_time) by_status) withdrawn";
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

/// Items that count were written. Their locks are held, so nobody else writes these rows.
pub(super) async fn count<'i>(
    tx: &Transaction<'_>,
    item_type: &ItemType,
    items: impl Iterator<Item = &'i NewItem>,
    now: Timestamp,
) -> StoreResult<()> {
    const COUNT: &str =
        "INSERT INTO owner_total (item_type, owner, currency, quarter, amount_minor)
         SELECT $1, n.owner, n.currency, $2, n.amount_minor
         FROM unnest($3::text[], $4::text[], $5::bigint[]) AS n (owner, currency, amount_minor)
         ON CONFLICT (item_type, owner, currency, quarter) DO UPDATE SET amount_minor =
             least(owner_total.amount_minor, 9223372036854775807 - excluded.amount_minor)
             + excluded.amount_minor";
    let mut totals: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for item in items.filter(|item| item.is_counted()) {
        let record = &item.record;
        let total = totals
            .entry((&record.owner, record.money.currency.code()))
            .or_default();
        *total = total.saturating_add(record.money.minor);
    }
    if totals.is_empty() {
        return Ok(());
    }
    let (owners, currencies): (Vec<&str>, Vec<&str>) = totals.keys().copied().unzip();
    let amounts: Vec<i64> = totals.into_values().collect();
    let (kind, quarter) = (item_type.as_str(), Us(quarter_of(now)));
    let params: Params<'_> = &[&kind, &quarter, &owners, &currencies, &amounts];
    execute(tx, COUNT, params).await.map(drop)
}

/// PostgreSQL counts from one.
fn nth<T>(questions: &mut [T], place: i64) -> Option<&mut T> {
    let place = usize::try_from(place).ok()?.checked_sub(1)?;
    questions.get_mut(place)
}
