//! Brokers that let us in, or say no: each no is one sentence that says what to do.

#![expect(clippy::unwrap_used, reason = "a test that panics says so")]

mod broker;
mod sizes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_core::Timestamp;
use tollgate_core::ports::{
    DeadRecord, EventRecord, EventSink, FeedRecord, FeedSource, RecordAnswer,
};
use tollgate_feeds::{
    Access, Credentials, Hash, KafkaEvents, KafkaFeed, KafkaTopics, SecretSource, tls,
};

fn topics(records: &str) -> KafkaTopics {
    KafkaTopics {
        records: records.into(),
        dead_letters: "dead".into(),
        answers: None,
        group: None,
    }
}

/// What asking for the partitions of a topic brings.
async fn asked(access: Access, topic: &str) -> String {
    match KafkaFeed::new(access, topics(topic)).topic().await {
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
        password: password.to_owned().into(),
    }
}

#[tokio::test]
async fn a_login_is_taken_or_refused_with_one_sentence() {
    let port = broker::start(None).await;
    let bearer = |token: &str| Credentials::OauthBearer {
        token: token.to_owned().into(),
    };
    let scram = Credentials::Scram {
        hash: Hash::Sha512,
        user: "tollgate".into(),
        password: "right".to_owned().into(),
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
            format!(r#"{here} refused the login: {{"status":"invalid_token"}}; check sasl"#),
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
async fn a_token_is_read_again_for_each_login() {
    let port = broker::start(None).await;
    let token = Arc::new(Mutex::new(Ok("ended".to_owned())));
    let read = Arc::clone(&token);
    let credentials = Credentials::OauthBearer {
        token: SecretSource::new(move || read.lock().unwrap().clone()),
    };
    let access = at(port, Some(credentials));
    let feed = KafkaFeed::new(access, topics("topic"));
    let refused = feed.topic().await.unwrap_err().to_string();
    assert!(refused.contains("invalid_token"), "{refused}");
    *token.lock().unwrap() = Err("sasl.token: it is away".to_owned());
    let away = feed.topic().await.unwrap_err().to_string();
    assert_eq!(away, "sasl.token: it is away");
    *token.lock().unwrap() = Ok("right".to_owned());
    feed.topic().await.unwrap();
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

#[tokio::test]
async fn a_port_that_speaks_http_is_one_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await.unwrap();
        let said = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        said.unwrap();
    });
    let mut access = at(port, None);
    access.brokers = vec![format!("127.0.0.1:{port}")];
    let said = asked(access, "topic").await;
    let here = format!("broker 127.0.0.1:{port}");
    assert_eq!(said, format!("{here} does not speak Kafka; check its port"));
    serving.await.unwrap();
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

#[tokio::test]
async fn a_silent_broker_holds_up_the_events_of_its_own_partitions_only() {
    let written = broker::Written::default();
    let port = broker::start_noting(None, Arc::clone(&written)).await;
    let event = |number: u32| EventRecord {
        key: format!("p{number}"),
        body_json: "{}".into(),
    };
    let events: Vec<_> = (0..8).map(event).collect();
    let sink = KafkaEvents::new(at(port, None), "half".into()).within(Duration::from_secs(1));
    let published = sink.publish(&events, Timestamp::UNIX_EPOCH).await;
    let count = published.acknowledged.len();
    assert!(0 < count && count < events.len(), "{published:?}");
    assert_eq!(
        published.trouble.unwrap().to_string(),
        "partition 1 of topic half: its broker did not answer within 1 s"
    );
    // It is left alone for a while: the others do not wait for it each time.
    assert_eq!(written.lock().unwrap().len(), events.len());
    let again = sink.publish(&events, Timestamp::UNIX_EPOCH).await;
    assert_eq!(again.acknowledged.len(), count);
    assert!(again.trouble.is_some());
    assert_eq!(written.lock().unwrap().len(), events.len() + count);
}

/// It takes connections and says nothing, and the caller gives up before the connection does.
#[tokio::test]
async fn events_go_on_with_the_next_broker_when_one_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut access = at(broker::start(None).await, None);
    let first = silent.local_addr().unwrap().to_string();
    access.brokers.insert(0, first);
    let sink = KafkaEvents::new(access, "small".into());
    let event = [EventRecord {
        key: "p1".into(),
        body_json: "{}".into(),
    }];
    let publish =
        |within| tokio::time::timeout(within, sink.publish(&event, Timestamp::UNIX_EPOCH));
    let given_up = publish(Duration::from_millis(200)).await;
    assert!(given_up.is_err(), "{given_up:?}");
    let published = publish(Duration::from_secs(5)).await.unwrap();
    assert_eq!(published.acknowledged, [0], "{published:?}");
}

#[tokio::test]
async fn a_silent_broker_holds_up_the_answers_of_its_own_partitions_only() {
    let port = broker::start(None).await;
    let topics = KafkaTopics {
        answers: Some("half".into()),
        ..topics("topic")
    };
    let feed = KafkaFeed::new(at(port, None), topics);
    let answers = [RecordAnswer {
        key: Some("p1".into()),
        body_json: "{}".into(),
        short_json: "{}".into(),
    }];
    let answer = |partition| feed.answer(partition, &answers, Timestamp::UNIX_EPOCH);
    tokio::select! {
        biased;
        said = answer(1) => panic!("its broker is silent: {said:?}"),
        said = answer(2) => said.unwrap(),
    }
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
