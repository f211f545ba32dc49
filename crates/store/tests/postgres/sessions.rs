//! What every session of the store is set to, whatever the server's defaults are.

use tollgate_conformance::postgres::{count, shared, sql};
use tollgate_core::ports::StoreHealth;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

#[tokio::test]
async fn a_session_is_set_up_whatever_the_database_says() {
    let url = shared().database().await;
    let otherwise = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
        EXECUTE format('ALTER DATABASE %I SET jit = on', current_database());
    END $$";
    sql(&url, otherwise).await;
    let is_so = "SELECT count(*) WHERE current_setting('synchronous_commit') = 'off'
            AND current_setting('jit') = 'on'";
    assert_eq!(count(&url, is_so).await, 1);
    let store = PostgresStore::open(PostgresOptions::at(&url));
    let store = store.await.unwrap();
    // A session's settings are visible to its own triggers only.
    let noted = "CREATE TABLE noted (commits text, jit text);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO noted VALUES (current_setting('synchronous_commit'), current_setting('jit'));
            RETURN new;
        END $$;
        CREATE TRIGGER note BEFORE UPDATE ON write_probe FOR EACH ROW EXECUTE FUNCTION note()";
    sql(&url, noted).await;
    store.try_write().await.unwrap();
    let waits = "SELECT count(*) FROM noted WHERE commits = 'on'";
    assert_eq!(count(&url, waits).await, 1, "commits are waited for");
    let compiles = "SELECT count(*) FROM noted WHERE jit = 'off'";
    assert_eq!(
        count(&url, compiles).await,
        1,
        "statements are not compiled"
    );
}
