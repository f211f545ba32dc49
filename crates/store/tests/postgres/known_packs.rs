//! Known ids that share a row.

use tollgate_conformance::postgres as cluster;
use tollgate_core::ports::{Admission, Queue};
use tollgate_store::postgres::PostgresOptions;

use crate::trouble::{item, open, payments};

/// A pack of three: an id, one whose key begins with the same eight bytes, and another one.
const PACK: &str = "
    CREATE FUNCTION pg_temp.key(id text) RETURNS bytea LANGUAGE sql AS $$
        SELECT substr(sha256(convert_to('PAYMENT', 'UTF8') || '\\x00' || convert_to(id, 'UTF8')), 1, 16)
    $$;
    INSERT INTO known_pack (heads, rests, day, status)
    SELECT ARRAY[tg_head(pg_temp.key('begins')), tg_head(pg_temp.key('there')), tg_head(pg_temp.key('also'))],
           decode(repeat('00', 8), 'hex') || substr(sha256('1'), 1, 16) || substr(pg_temp.key('there'), 9) || substr(sha256('2'), 1, 16)
               || substr(pg_temp.key('also'), 9) || substr(sha256('3'), 1, 16),
           20000, 1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_known_by_its_whole_key() {
    let url = cluster::shared().database().await;
    let store = open(PostgresOptions::at(&url)).await;
    cluster::sql(&url, PACK).await;
    let asked = ["begins", "there", "also", "new"].map(item).to_vec();
    let answers = store.admit(&payments(), asked).await.unwrap();
    assert!(
        matches!(
            answers[..],
            [
                Admission::New(_),
                Admission::Conflict,
                Admission::Conflict,
                Admission::New(_)
            ]
        ),
        "{answers:?}"
    );
}
