//! Texts that belong to no erased item and may name the account nevertheless: each table in pages, in the order of its
//! key. A table that is not here is in docs/decisions/0064 with the reason.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tollgate_core::account::spellings;
use tollgate_core::erasure::{ERASED, ErasureWish, without};
use tollgate_core::id::ItemType;
use tollgate_core::ports::{ErasureView, StoreError, StoreResult};

use super::items::erase_setting;
use super::json;
use super::news::erased_among;
use crate::sql::{Params, Row, Sql, Tx, Value, params};
use crate::value::micros;

/// A table, read in pages by a key of up to three columns.
struct Table {
    /// Columns `key`, and perhaps `number`; texts `a`, `b`, `c`, `d`; perhaps `item_type` and `item_id`.
    page: &'static str,
    /// The key first, then the texts.
    write: &'static str,
    key: Key,
    texts: &'static [&'static str],
    /// What it writes about an item that was erased; none if it is about no item.
    of_item: Option<fn() -> Vec<Option<String>>>,
    /// Whether all texts go with the account: they have more to say about its owner.
    whole: bool,
}

#[derive(Clone, Copy)]
enum Key {
    Number,
    Text,
    Both,
    /// A column `kind` before both.
    Three,
}

const PLAIN: Table = Table {
    page: "",
    write: "",
    key: Key::Text,
    texts: &["a"],
    of_item: None,
    whole: false,
};

static TABLES: [Table; 15] = [
    Table {
        page: "SELECT e.bulk_id AS key, e.line_no AS number, e.line_text AS a, e.details AS b,
                 e.item_id, k.item_type
             FROM bulk_error e JOIN bulk k ON k.bulk_id = e.bulk_id
             WHERE (e.bulk_id, e.line_no) > ($1, $2) ORDER BY e.bulk_id, e.line_no LIMIT $3",
        write: "UPDATE bulk_error SET line_text = $3, details = $4 WHERE bulk_id = $1 AND line_no = $2",
        key: Key::Both,
        texts: &["a", "b"],
        of_item: Some(erased_line),
        whole: true,
    },
    Table {
        page: "SELECT r.job_id AS key, r.number, r.left_out AS a, r.answer AS b, r.item_id, j.item_type
             FROM job_result r JOIN job j ON j.job_id = r.job_id
             WHERE (r.job_id, r.number) > ($1, $2) ORDER BY r.job_id, r.number LIMIT $3",
        write: "UPDATE job_result SET left_out = $3, answer = $4 WHERE job_id = $1 AND number = $2",
        key: Key::Both,
        texts: &["a", "b"],
        of_item: Some(erased_result),
        ..PLAIN
    },
    Table {
        page: "SELECT audit_id AS number, detail AS a FROM audit_log
             WHERE audit_id > $1 ORDER BY audit_id LIMIT $2",
        write: "UPDATE audit_log SET detail = $2 WHERE audit_id = $1",
        key: Key::Number,
        ..PLAIN
    },
    Table {
        page: "SELECT attempt_id AS number, detail AS a FROM attempt
             WHERE attempt_id > $1 ORDER BY attempt_id LIMIT $2",
        write: "UPDATE attempt SET detail = $2 WHERE attempt_id = $1 AND state <> 'OPEN'",
        key: Key::Number,
        ..PLAIN
    },
    Table {
        page: "SELECT job_id AS key, filter AS a, summary AS b, reason AS c, stopped AS d FROM job
             WHERE job_id > $1 ORDER BY job_id LIMIT $2",
        write: "UPDATE job SET filter = $2, summary = $3, reason = $4, stopped = $5 WHERE job_id = $1",
        texts: &["a", "b", "c", "d"],
        ..PLAIN
    },
    Table {
        page: "SELECT flow_id AS key, result AS a, progress AS b FROM flow
             WHERE flow_id > $1 ORDER BY flow_id LIMIT $2",
        write: "UPDATE flow SET result = $2, progress = $3
             WHERE flow_id = $1 AND state IN ('DONE', 'FAILED')",
        texts: &["a", "b"],
        ..PLAIN
    },
    Table {
        page: "SELECT check_id AS key, result AS a, error AS b FROM status_check
             WHERE check_id > $1 ORDER BY check_id LIMIT $2",
        write: "UPDATE status_check SET result = $2, error = $3
             WHERE check_id = $1 AND ended_at IS NOT NULL",
        texts: &["a", "b"],
        ..PLAIN
    },
    Table {
        page: "SELECT check_id AS key, list_no * 4294967296 + part_no AS number, outcome AS a
             FROM status_check_part
             WHERE check_id >= $1
               AND (check_id > $1 OR list_no * 4294967296 + part_no > $2)
             ORDER BY check_id, list_no, part_no LIMIT $3",
        write: "UPDATE status_check_part SET outcome = $3
             WHERE check_id = $1 AND list_no = $2 / 4294967296 AND part_no = $2 % 4294967296",
        key: Key::Both,
        ..PLAIN
    },
    // What was written about a lane is text; what else is configured stays as it is, old or new.
    Table {
        page: "SELECT kind, name AS key, version AS number, reason AS a,
                 CASE WHEN kind = 'lane' THEN body ELSE '' END AS b
             FROM setting WHERE (kind, name, version) > ($1, $2, $3)
             ORDER BY kind, name, version LIMIT $4",
        write: "UPDATE setting SET reason = $4, body = CASE WHEN kind = 'lane' THEN $5 ELSE body END
             WHERE kind = $1 AND name = $2 AND version = $3",
        key: Key::Three,
        texts: &["a", "b"],
        ..PLAIN
    },
    Table {
        // A key is whole or not there: two may be left with the same rest.
        page: "SELECT bulk_id AS key, file_name AS a, idempotency_key AS b FROM bulk
             WHERE bulk_id > $1 ORDER BY bulk_id LIMIT $2",
        write: "UPDATE bulk SET file_name = $2,
                 idempotency_key = CASE WHEN idempotency_key = $3 THEN $3 END
             WHERE bulk_id = $1",
        texts: &["a", "b"],
        ..PLAIN
    },
    Table {
        page: "SELECT item_id AS key, details AS a FROM request
             WHERE item_type = 'PAYMENT' AND item_id > $1 ORDER BY item_id LIMIT $2",
        write: "UPDATE request SET details = $2
             WHERE item_type = 'PAYMENT' AND item_id = $1 AND state <> 'WAITING'",
        ..PLAIN
    },
    Table {
        page: "SELECT storm_id AS number, reason AS a FROM storm
             WHERE storm_id > $1 ORDER BY storm_id LIMIT $2",
        write: "UPDATE storm SET reason = $2 WHERE storm_id = $1",
        key: Key::Number,
        ..PLAIN
    },
    Table {
        page: "SELECT lane AS key, closed_why AS a FROM lane_cursor
             WHERE lane > $1 ORDER BY lane LIMIT $2",
        write: "UPDATE lane_cursor SET closed_why = $2 WHERE lane = $1",
        ..PLAIN
    },
    Table {
        page: "SELECT kind AS key, reason AS a FROM need_seen
             WHERE kind > $1 ORDER BY kind LIMIT $2",
        write: "UPDATE need_seen SET reason = $2 WHERE kind = $1",
        ..PLAIN
    },
    Table {
        page: "SELECT feed AS key, paused_why AS a, trouble AS b FROM feed
             WHERE feed > $1 ORDER BY feed LIMIT $2",
        write: "UPDATE feed SET paused_why = $2, trouble = $3 WHERE feed = $1",
        texts: &["a", "b"],
        ..PLAIN
    },
];

fn erased_line() -> Vec<Option<String>> {
    vec![None, Some(format!("{{\"line\":\"{ERASED}\"}}"))]
}

fn erased_result() -> Vec<Option<String>> {
    vec![Some(ERASED.to_owned()), Some(ERASED.to_owned())]
}

/// Where an erasure stands among the texts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Place {
    table: usize,
    #[serde(default)]
    kind: String,
    key: String,
    number: i64,
}

/// What a page has to be written, and where it begins and ends.
pub(super) struct Page {
    pub(super) from: String,
    pub(super) to: String,
    table: usize,
    rows: Vec<Params>,
}

impl Page {
    /// How many texts were changed.
    pub(super) async fn write(&self, tx: &Tx) -> StoreResult<u64> {
        Ok(match TABLES.get(self.table) {
            Some(table) => tx.execute_each(table.write, self.rows.clone()).await,
            None => 0,
        })
    }
}

/// None behind the last table.
pub(super) async fn page(tx: &Tx, erasure: &ErasureView, limit: u32) -> StoreResult<Option<Page>> {
    let from = erasure.after.clone();
    let mut place: Place = match from.as_str() {
        "" => Place {
            number: i64::MIN,
            ..Place::default()
        },
        text => serde_json::from_str(text)
            .map_err(|e| StoreError::Bug(format!("the place of {}: {e}", erasure.id)))?,
    };
    let number = place.table;
    let Some(table) = TABLES.get(number) else {
        return Ok(None);
    };
    let rows = tx.rows(table.page, table.from(&place, limit)).await;
    let changed = table.changed(tx, erasure, &rows).await?;
    match rows.last() {
        Some(last) => table.move_on(&mut place, last)?,
        None => {
            place = Place {
                table: number + 1,
                number: i64::MIN,
                ..Place::default()
            }
        }
    }
    Ok(Some(Page {
        from,
        to: json(&place)?,
        table: number,
        rows: changed,
    }))
}

impl Table {
    fn from(&self, place: &Place, limit: u32) -> Params {
        match self.key {
            Key::Number => params![place.number, limit],
            Key::Text => params![&place.key, limit],
            Key::Both => params![&place.key, place.number, limit],
            Key::Three => params![&place.kind, &place.key, place.number, limit],
        }
    }

    fn move_on(&self, place: &mut Place, last: &Row) -> StoreResult<()> {
        match self.key {
            Key::Number => place.number = last.get("number")?,
            Key::Text => place.key = last.get("key")?,
            Key::Both => {
                place.key = last.get("key")?;
                place.number = last.get("number")?;
            }
            Key::Three => {
                place.kind = last.get("kind")?;
                place.key = last.get("key")?;
                place.number = last.get("number")?;
            }
        }
        Ok(())
    }

    /// The rows that are to be written otherwise.
    async fn changed(
        &self,
        tx: &Tx,
        erasure: &ErasureView,
        rows: &[Row],
    ) -> StoreResult<Vec<Params>> {
        let account = match &erasure.wish {
            Some(ErasureWish::Account(account)) => Some(account.as_str()),
            Some(ErasureWish::Item(_)) | None => None,
        };
        let mut changed = vec![];
        let erased = self.about_erased(tx, rows).await?;
        for (row, is_about_erased) in rows.iter().zip(erased) {
            let texts = self.texts_of(row)?;
            let rewritten = match (self.of_item, is_about_erased) {
                (Some(whole), true) => Some(whole()),
                (None, _) | (_, false) => account.and_then(|it| self.redacted(&texts, it)),
            };
            if let Some(rewritten) = rewritten.filter(|it| *it != texts) {
                let mut written = self.key_of(row)?;
                written.extend(rewritten.into_iter().map(Value::from));
                changed.push(written);
            }
        }
        Ok(changed)
    }

    /// Without the account; none if no text has it.
    fn redacted(&self, texts: &[Option<String>], account: &str) -> Option<Vec<Option<String>>> {
        let each = |text: &Option<String>| redacted(text.as_deref()?, account);
        let found: Vec<Option<String>> = texts.iter().map(each).collect();
        if found.iter().all(Option::is_none) {
            return None;
        }
        match self.of_item {
            Some(all) if self.whole => Some(all()),
            _ => {
                let both = texts.iter().zip(found);
                Some(both.map(|(was, is)| is.or_else(|| was.clone())).collect())
            }
        }
    }

    fn texts_of(&self, row: &Row) -> StoreResult<Vec<Option<String>>> {
        self.texts.iter().map(|text| row.get(text)).collect()
    }

    fn key_of(&self, row: &Row) -> StoreResult<Params> {
        Ok(match self.key {
            Key::Number => params![row.get::<i64>("number")?],
            Key::Text => params![row.get::<String>("key")?],
            Key::Both => params![row.get::<String>("key")?, row.get::<i64>("number")?],
            Key::Three => params![
                row.get::<String>("kind")?,
                row.get::<String>("key")?,
                row.get::<i64>("number")?,
            ],
        })
    }

    /// Whether each row is about an item that was erased.
    async fn about_erased(&self, tx: &Tx, rows: &[Row]) -> StoreResult<Vec<bool>> {
        if self.of_item.is_none() {
            return Ok(vec![false; rows.len()]);
        }
        let item = |row: &Row| {
            let id: Option<String> = row.get("item_id")?;
            Ok((row.get::<ItemType>("item_type")?, id.unwrap_or_default()))
        };
        let items = rows.iter().map(item);
        let items = items.collect::<StoreResult<Vec<(ItemType, String)>>>()?;
        let mut erased = vec![false; rows.len()];
        for kind in ["PAYMENT", "INVOICE"].map(ItemType::new) {
            let ids: Vec<String> = items
                .iter()
                .filter(|(of, id)| *of == kind && !id.is_empty())
                .map(|(_, id)| id.clone())
                .collect();
            let found = erased_among(tx, &kind, &ids).await?;
            for (is_erased, (of, id)) in erased.iter_mut().zip(&items) {
                *is_erased |= *of == kind && found.contains(id);
            }
        }
        Ok(erased)
    }
}

/// JSON may write any letter as its number.
fn redacted(text: &str, account: &str) -> Option<String> {
    without(text, account).or_else(|| {
        let mut json: Json = serde_json::from_str(text).ok()?;
        redact(&mut json, account).then(|| json.to_string())
    })
}

fn redact(value: &mut Json, account: &str) -> bool {
    match value {
        Json::String(text) => match without(text, account) {
            Some(redacted) => {
                *text = redacted;
                true
            }
            None => false,
        },
        Json::Array(list) => list
            .iter_mut()
            .map(|it| redact(it, account))
            .fold(false, either),
        Json::Object(map) => {
            let each = map.values_mut().map(|it| redact(it, account));
            each.fold(false, either)
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Of all, not only up to the first.
fn either(any: bool, one: bool) -> bool {
    any || one
}

/// Totals that no rule asks for any more: a day in any zone is over after this.
const OLD_TOTALS: Duration = Duration::from_hours(72);

/// What is left of the totals of an account, such as of items in the archive, counts for nobody.
async fn totals(tx: &Tx, account: &str) -> StoreResult<u64> {
    const GIVE: &str =
        "INSERT INTO owner_total AS t (item_type, owner, currency, quarter, amount_minor)
         SELECT item_type, '', currency, quarter, amount_minor FROM owner_total
         WHERE item_type = 'PAYMENT' AND owner = $1 AND quarter < $2
         ON CONFLICT (item_type, owner, currency, quarter)
         DO UPDATE SET amount_minor = t.amount_minor + excluded.amount_minor";
    const TAKE: &str = "DELETE FROM owner_total
         WHERE item_type = 'PAYMENT' AND owner = $1 AND quarter < $2";
    let before = tx.now().await?.as_microsecond() - micros(OLD_TOTALS);
    let mut moved = 0;
    for spelling in spellings(account) {
        tx.execute(GIVE, params![&spelling, before]).await;
        moved += tx.execute(TAKE, params![&spelling, before]).await;
    }
    Ok(moved)
}

/// The settings of a customer, unless one of their invoices is left. How many versions were deleted.
pub(super) async fn customer(tx: &Tx, erasure: &ErasureView) -> StoreResult<u64> {
    const LEFT: Sql = Sql::each(
        "SELECT item_id FROM item_queue INDEXED BY item_queue_owner_page
         WHERE by_owner = 1 AND item_type = 'INVOICE' AND owner = $1 LIMIT 1",
        "SELECT item_id FROM item_queue
         WHERE by_owner AND item_type = 'INVOICE' AND owner = $1 LIMIT 1",
    );
    let Some(ErasureWish::Account(account)) = &erasure.wish else {
        return Ok(0);
    };
    let moved = totals(tx, account).await?;
    if tx.row(LEFT, params![account]).await.is_some() {
        return Ok(moved);
    }
    let deleted = erase_setting(tx, "customer", account).await;
    let name = format!("customer/{account}");
    Ok(moved + deleted + erase_setting(tx, "schedule", &name).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_in_json_whichever_way_its_letters_are_written() {
        let account = "DE89370400440532013000";
        let escaped = r#"{"debtor":{"account":"\u0044E89370400440532013000"},"n":1}"#;
        let expected = r#"{"debtor":{"account":"[erased]"},"n":1}"#;
        assert_eq!(redacted(escaped, account).as_deref(), Some(expected));
        assert_eq!(redacted(r#"{"a":["b",null]}"#, account), None);
        assert_eq!(redacted("no JSON", account), None);
    }
}
