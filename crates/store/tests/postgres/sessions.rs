//! What every session of the store is set to, whatever the server's defaults are.

use tollgate_conformance::postgres::{count, shared, sql};
use tollgate_core::ports::StoreHealth;
use tollgate_store::postgres::{PostgresOptions, PostgresStore};

#[tokio::test]
async fn commits_are_waited_for_even_if_the_database_says_otherwise() {
    let url = shared().database().await;
    let off = "DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
    END $$";
    sql(&url, off).await;
    let is_off = "SELECT count(*) WHERE current_setting('synchronous_commit') = 'off'";
    assert_eq!(count(&url, is_off).await, 1);
    let store = PostgresStore::open(PostgresOptions::at(&url));
    let store = store.await.unwrap();
    // Nobody sees another session's settings but its own triggers.
    let noted = "CREATE TABLE noted (setting text);
        CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO noted VALUES (current_setting('synchronous_commit'));
            RETURN new;
        END $$;
        CREATE TRIGGER note BEFORE UPDATE ON write_probe FOR EACH ROW EXECUTE FUNCTION note()";
    sql(&url, noted).await;
    store.try_write().await.unwrap();
    let on = "SELECT count(*) FROM noted WHERE setting = 'on'";
    assert_eq!(count(&url, on).await, 1);
}
