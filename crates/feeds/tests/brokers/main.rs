//! Brokers that let us in, or say no: each no is one sentence that says what to do.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod broker;

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tollgate_core::Timestamp;
use tollgate_core::ports::{DeadRecord, EventRecord, EventSink, FeedRecord, FeedSource};
use tollgate_feeds::{Access, Credentials, Hash, KafkaEvents, KafkaFeed, KafkaTopics, tls};

/// What asking for the partitions of a topic brings.
async fn asked(access: Access, topic: &str) -> String {
    let topics = KafkaTopics {
        records: topic.into(),
        dead_letters: "dead".into(),
        answers: None,
        group: None,
    };
    match KafkaFeed::new(access, topics).topic().await {
        Ok(topic) => format!("{:?}", topic.partitions),
        Err(error) => error.to_string(),
    }
}

fn at(port: u16, credentials: Option<Credentials>) -> Access {
    Access {
        brokers: vec![format!("localhost:{port}")],
        client_id: "tollgate".into(),
        tls: None,
        credentials,
    }
}

fn plain(password: &str) -> Credentials {
    Credentials::Plain {
        user: "tollgate".into(),
        password: password.into(),
    }
}

#[tokio::test]
async fn a_login_is_taken_or_refused_with_one_sentence() {
    let port = broker::start(None).await;
    let bearer = |token: &str| Credentials::OauthBearer {
        token: token.into(),
    };
    let scram = Credentials::Scram {
        hash: Hash::Sha512,
        user: "tollgate".into(),
        password: "right".into(),
    };
    let here = format!("broker localhost:{port}");
    for (credentials, says) in [
        (plain("right"), "[]".to_owned()),
        (bearer("right"), "[]".to_owned()),
        (
            plain("wrong"),
            format!("{here} refused the login: Authentication failed; check sasl"),
        ),
        (
            bearer("wrong"),
            format!("{here} refused the login: Authentication failed; check sasl"),
        ),
        (
            scram,
            format!("{here} does not offer the login SCRAM-SHA-512; it offers: PLAIN, OAUTHBEARER"),
        ),
    ] {
        assert_eq!(asked(at(port, Some(credentials)), "topic").await, says);
    }
}

#[tokio::test]
async fn a_topic_that_is_missing_or_denied_is_one_sentence() {
    let port = broker::start(None).await;
    let missing = asked(at(port, None), "missing").await;
    assert_eq!(
        missing,
        "topic missing does not exist on the broker; create it or correct the configuration"
    );
    let denied = asked(at(port, None), "denied").await;
    assert_eq!(
        denied,
        "the broker denies looking at topic denied; grant this client the right"
    );
    // The first broker is away, the second answers.
    let mut access = at(port, None);
    access.brokers.insert(0, "127.0.0.1:1".into());
    assert_eq!(asked(access, "topic").await, "[]");
    let away = asked(at(1, None), "topic").await;
    assert!(
        away.contains("cannot be reached: Connection refused"),
        "{away}"
    );
}

/// What cannot be put aside is not passed: the caller gets the sentence and tries again.
#[tokio::test]
async fn a_topic_that_may_not_be_written_is_one_sentence() {
    const DENIED: &str = "the broker denies looking at topic denied; grant this client the right";
    let port = broker::start(None).await;
    let topics = KafkaTopics {
        records: "topic".into(),
        dead_letters: "denied".into(),
        answers: None,
        group: None,
    };
    let letter = DeadRecord {
        partition: 0,
        record: FeedRecord::default(),
        reason: "is not JSON".into(),
    };
    let feed = KafkaFeed::new(at(port, None), topics);
    let put_aside = feed.dead_letter(&[letter], Timestamp::UNIX_EPOCH).await;
    assert_eq!(put_aside.unwrap_err().to_string(), DENIED);
    let event = EventRecord {
        key: "p1".into(),
        body_json: "{}".into(),
    };
    let events = KafkaEvents::new(at(port, None), "denied".into());
    let published = events.publish(&[event], Timestamp::UNIX_EPOCH).await;
    assert_eq!(published.acknowledged, [0_usize; 0]);
    assert_eq!(published.trouble.unwrap().to_string(), DENIED);
}

/// Twice: the broker has closed the connection in between.
#[tokio::test]
async fn positions_are_committed_to_a_group_that_nothing_else_uses() {
    let port = broker::start(None).await;
    for (group, says) in [
        ("free", None),
        (
            "members",
            Some("group members has members; name a group that nothing else uses"),
        ),
        (
            "denied",
            Some(
                "the broker denies committing to group denied; grant this client the right to read the group and the topic",
            ),
        ),
    ] {
        let topics = KafkaTopics {
            records: "topic".into(),
            dead_letters: "dead".into(),
            answers: None,
            group: Some(group.into()),
        };
        let feed = KafkaFeed::new(at(port, None), topics);
        for _ in 0..2 {
            let shown = feed.show_positions(&[(0, 7), (3, 0)]).await;
            let said = shown.err().map(|error| error.to_string());
            assert_eq!(said.as_deref(), says);
        }
    }
}

#[tokio::test]
async fn a_brokers_certificate_is_checked() {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let port = broker::start(Some(Arc::new(config))).await;
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    std::fs::write(&roots, cert.pem()).unwrap();
    let plaintext = asked(at(port, None), "topic").await;
    assert_eq!(
        plaintext,
        format!("broker localhost:{port} speaks TLS; set tls = true")
    );
    let mut access = at(port, Some(plain("right")));
    access.tls = Some(tls(Some(&roots), None).unwrap());
    assert_eq!(asked(access.clone(), "topic").await, "[]");

    access.brokers = vec![format!("127.0.0.1:{port}")];
    let other_name = asked(access, "topic").await;
    assert!(other_name.contains("TLS failed"), "{other_name}");
    let other = generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(&roots, other.cert.pem()).unwrap();
    let mut access = at(port, None);
    access.tls = Some(tls(Some(&roots), None).unwrap());
    let unknown = asked(access, "topic").await;
    assert!(
        unknown.contains("TLS failed") && unknown.ends_with("check tls and root_certificates"),
        "{unknown}"
    );
    let missing = tls(Some(&folder.path().join("none.pem")), None).unwrap_err();
    assert!(missing.starts_with("root_certificates: "), "{missing}");
}
