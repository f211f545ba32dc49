//! Whatever keeps the store from opening is one sentence that names the server and the remedy.

use std::time::Duration;

use tollgate_store::postgres::{PostgresOptions, PostgresStore};

use tollgate_conformance::postgres::{self as cluster, Cluster};

pub(crate) async fn refusal(url: &str) -> String {
    let options = PostgresOptions {
        connect_timeout: Duration::from_secs(5),
        ..PostgresOptions::at(url)
    };
    let why = match PostgresStore::open(options).await {
        Ok(_) => panic!("{url} was opened"),
        Err(why) => why.to_string(),
    };
    assert!(!why.contains('\n'), "not one sentence: {why}");
    assert!(!why.contains("secret"), "tells the password: {why}");
    why
}

#[tokio::test]
async fn a_wrong_password() {
    let cluster = Cluster::start();
    cluster
        .sql("CREATE ROLE clerk LOGIN PASSWORD 'right'")
        .await;
    cluster.ask_for_passwords_of("clerk").await;
    let url = cluster.url("clerk:secret", "postgres");
    let why = refusal(&url).await;
    assert!(
        why.contains("refused the password of user \"clerk\""),
        "{why}"
    );
}

#[tokio::test]
async fn a_missing_database() {
    let url = cluster::shared().url("postgres", "nowhere");
    let why = refusal(&url).await;
    assert!(why.contains("there is no database \"nowhere\""), "{why}");
    assert!(why.contains("createdb nowhere"), "{why}");
}

#[tokio::test]
async fn no_rights_to_migrate() {
    let cluster = cluster::shared();
    let url = cluster.database().await;
    cluster.sql("CREATE ROLE reader LOGIN").await;
    cluster::sql(&url, "REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
    let why = refusal(&url.replace("postgres@", "reader@")).await;
    assert!(
        why.contains("the user \"reader\" may not create tables"),
        "{why}"
    );
}

#[tokio::test]
async fn a_user_without_the_right_to_create_opens_what_was_migrated() {
    let cluster = cluster::shared();
    let url = cluster.database().await;
    PostgresStore::open(PostgresOptions::at(&url))
        .await
        .unwrap();
    cluster.sql("CREATE ROLE runner LOGIN").await;
    let grant = "REVOKE CREATE ON SCHEMA public FROM PUBLIC;
        GRANT ALL ON ALL TABLES IN SCHEMA public TO runner;
        GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO runner";
    cluster::sql(&url, grant).await;
    let url = url.replace("postgres@", "runner@");
    PostgresStore::open(PostgresOptions::at(url)).await.unwrap();
}

#[tokio::test]
async fn a_schema_of_a_newer_release_is_left_alone() {
    let url = cluster::shared().database().await;
    PostgresStore::open(PostgresOptions::at(&url))
        .await
        .unwrap();
    let future = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
        VALUES (9999, 'from_the_future', '2036-01-01T00:00:00Z', '1')";
    cluster::sql(&url, future).await;
    let why = refusal(&url).await;
    assert!(why.contains("newer release of tollgate"), "{why}");
    let newest = "SELECT max(version)::bigint FROM refinery_schema_history";
    assert_eq!(cluster::count(&url, newest).await, 9999);
}

#[tokio::test]
async fn a_schema_of_another_build_of_the_same_version_is_left_alone() {
    let url = cluster::shared().database().await;
    let options = || PostgresOptions::at(&url);
    PostgresStore::open(options()).await.unwrap();
    PostgresStore::open(options()).await.unwrap();
    let other = "UPDATE refinery_schema_history SET checksum = '1' WHERE version = 1";
    cluster::sql(&url, other).await;
    let why = refusal(&url).await;
    assert!(why.contains("another build of the same version"), "{why}");
    assert!(why.contains("create the database again"), "{why}");
}

#[tokio::test]
async fn a_replica_instead_of_a_primary() {
    let primary = Cluster::start();
    let replica = primary.replica();
    let why = refusal(&replica.url("postgres", "postgres")).await;
    assert!(why.contains("is a replica"), "{why}");
    assert!(why.contains("the primary"), "{why}");
}

#[tokio::test]
async fn a_host_that_cannot_be_reached() {
    let why = refusal("postgres://clerk:secret@127.0.0.1:1/tollgate").await;
    assert!(why.contains("cannot be reached at 127.0.0.1:1"), "{why}");
}

#[tokio::test]
async fn a_url_that_is_none() {
    let why = refusal("postgres://clerk:secret@[/tollgate").await;
    assert!(why.contains("should look like postgres://"), "{why}");
}

#[tokio::test]
async fn a_server_that_offers_no_tls_when_it_is_required() {
    let url = cluster::shared().database().await;
    let why = refusal(&format!("{url}?sslmode=require")).await;
    assert!(why.contains("TLS"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_at_once_migrate_one_after_the_other() {
    let url = cluster::shared().database().await;
    let opening = (0..6).map(|_| {
        let url = url.clone();
        tokio::spawn(async move {
            PostgresStore::open(PostgresOptions::at(url))
                .await
                .map(drop)
        })
    });
    for opened in opening.collect::<Vec<_>>() {
        opened.await.unwrap().unwrap();
    }
}
