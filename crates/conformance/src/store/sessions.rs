//! `Sessions`: begun once, known to every node, and over when they are ended or their time is.

use std::time::Duration;

use futures::future::join_all;
use tollgate_core::SignedDuration;
use tollgate_core::ports::{MOST_SESSIONS, NewSession};

use super::fixture::{Fixture, HOUR, SECOND};

fn new(secret: &str, token: &str, lasts: Duration) -> NewSession {
    NewSession {
        secret_sha256: secret.to_owned(),
        token_sha256: token.to_owned(),
        lasts: SignedDuration::try_from(lasts).unwrap(),
    }
}

async fn begin(f: &dyn Fixture, secret: &str, token: &str, lasts: Duration) {
    let session = new(secret, token, lasts);
    f.store().begin_session(session).await.unwrap();
}

async fn token_of(f: &dyn Fixture, secret: &str) -> Option<String> {
    f.store().session(secret).await.unwrap()
}

pub async fn a_session_lasts_until_its_time_is_over(f: &dyn Fixture) {
    assert_eq!(token_of(f, "s1").await, None, "never begun");
    begin(f, "s1", "ann", HOUR).await;
    begin(f, "s2", "bob", 2 * HOUR).await;
    f.advance(HOUR.saturating_sub(10 * SECOND)).await;
    assert_eq!(token_of(f, "s1").await.as_deref(), Some("ann"));
    f.restart().await;
    assert_eq!(token_of(f, "s1").await.as_deref(), Some("ann"));
    f.advance(20 * SECOND).await;
    assert_eq!(token_of(f, "s1").await, None);
    assert_eq!(token_of(f, "s2").await.as_deref(), Some("bob"));
}

pub async fn a_session_that_was_ended_is_over_at_once_and_no_other(f: &dyn Fixture) {
    for secret in ["s1", "s2"] {
        begin(f, secret, "ann", HOUR).await;
    }
    for _ in 0..2 {
        f.store().end_session("s1").await.unwrap();
        assert_eq!(token_of(f, "s1").await, None);
        assert_eq!(token_of(f, "s2").await.as_deref(), Some("ann"));
    }
}

pub async fn a_token_has_so_many_sessions_and_the_oldest_makes_room(f: &dyn Fixture) {
    begin(f, "bobs", "bob", HOUR).await;
    begin(f, "oldest", "ann", HOUR).await;
    f.advance(SECOND).await;
    let store = f.store();
    let more = (1..MOST_SESSIONS).map(|n| {
        let session = new(&format!("s{n}"), "ann", HOUR);
        store.begin_session(session)
    });
    for begun in join_all(more).await {
        begun.unwrap();
    }
    assert!(token_of(f, "oldest").await.is_some());
    f.advance(SECOND).await;
    begin(f, "next", "ann", HOUR).await;
    assert_eq!(token_of(f, "oldest").await, None);
    for secret in ["s1", "next", "bobs"] {
        assert!(token_of(f, secret).await.is_some(), "{secret}");
    }
}
