//! What a token endpoint can answer, and what becomes of it: there is a connection, or there is none and nothing was sent.

#![expect(
    clippy::unwrap_used,
    reason = "a test may; clippy sees only the test functions as such"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_core::id::LaneName;
use tollgate_core::marker::Marker;
use tollgate_core::ports::{Connector, NoConnection, Profile};
use tollgate_downstream::{
    Access, HttpConnector, HttpOptions, LoginOptions, OAuthOptions, SecretSource,
};

const SECRET: &str = "hunter2";

/// Answers everything with this, on a connection each. What it was asked.
async fn endpoint(answer: String) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(vec![]));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let Ok(read) = stream.read(&mut buffer).await else {
                continue;
            };
            if read > 0 {
                let text = String::from_utf8_lossy(&buffer[..read]).into_owned();
                seen.lock().unwrap().push(text);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        }
    });
    (url, asked)
}

fn answer(head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn secret(text: &'static str) -> SecretSource {
    SecretSource::new(move || Ok(text.to_owned()))
}

/// A bank at this place, with a login there.
fn bank(url: &str, expires_in: Option<Duration>) -> HttpConnector {
    let options = HttpOptions {
        name: "bank".into(),
        url: url.to_owned(),
        lane: LaneName::new("default"),
        profile: Profile {
            honours_idempotency_key: true,
            key_retention: Duration::from_hours(24),
            settle: Duration::from_mins(1),
            timeout: Duration::from_secs(10),
            means_not_done: vec![429],
            recognised_by: Marker::Contract,
            asks_by_key: false,
        },
        max_connections: 4,
    };
    let mut access = Access::default();
    access.log_in(LoginOptions::OAuth(OAuthOptions {
        token_url: format!("{url}/token"),
        client_id: secret("me"),
        client_secret: secret(SECRET),
        scope: None,
        in_body: true,
        expires_in,
        root_certificates: None,
    }));
    HttpConnector::with_access(options, &access).unwrap()
}

/// Why there is no connection, if there is none.
async fn why_not(said: &str, expires_in: Option<Duration>) -> Option<String> {
    let (url, asked) = endpoint(said.to_owned()).await;
    let connection = bank(&url, expires_in).connection().await;
    let asked = asked.lock().unwrap().clone();
    assert!(asked[0].starts_with("POST /token "), "{asked:?}");
    match connection {
        Ok(_) => None,
        Err(NoConnection::NoLogin(why)) => {
            assert_eq!(asked.len(), 1, "nothing but the token was asked for");
            assert!(!why.contains(SECRET) && !why.contains('\n'), "{why}");
            Some(why)
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whatever_is_no_token_is_one_sentence_and_nothing_is_sent() {
    let redirect = |status: &str| {
        let head = format!("{status}\r\nlocation: http://elsewhere/?client_secret={SECRET}");
        answer(&head, "")
    };
    let table = [
        (
            answer("200 OK", r#"{"access_token": "t"}"#),
            "no expires_in; set the lifetime of tokens in login.expires_in_secs",
        ),
        (redirect("302 Found"), "answered 302, a redirect"),
        (
            redirect("307 Temporary Redirect"),
            "answered 307, a redirect",
        ),
        (
            answer("200 OK", "<html>Sign in</html>"),
            "no access_token in JSON",
        ),
        (answer("200 OK", r#"{"expires_in": 9}"#), "no access_token"),
        (
            answer("401 Unauthorized", r#"{"error": "hunter2"}"#),
            "check client_id, client_secret and scope",
        ),
        (answer("500 Oops", ""), "answered 500"),
        (
            answer("200 OK", r#"{"access_token": "t", "expires_in": 0}"#),
            "have already expired",
        ),
    ];
    for (said, why) in table {
        let told = why_not(&said, None).await;
        let told = told.unwrap_or_else(|| panic!("{said}: a connection"));
        assert!(told.contains(why), "{said}: {told}");
    }
}

#[tokio::test]
async fn an_answer_without_expires_in_is_a_login_where_the_configuration_knows_the_time() {
    let said = answer("200 OK", r#"{"access_token": "t"}"#);
    assert_eq!(why_not(&said, Some(Duration::from_hours(1))).await, None);
}
