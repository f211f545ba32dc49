//! Feeds as configured: each is a source, a reader of its records, and a task in every process that takes things in.

use std::sync::Arc;

use anyhow::anyhow;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_config::{
    Config, FeedFormat, FeedItems, FeedKind, FeedText, KafkaAccess, Mechanism, Sasl, Secret, Start,
};
use tollgate_core::ports::{EventSink, FeedSource, Store};
use tollgate_dispatch::{FeedOptions, FeedRunner, FeedStart, Wake};
use tollgate_domains::records::{JsonRecords, RecordFormat};
use tollgate_domains::{invoices, payments};
use tollgate_feeds::{
    Access, Credentials, Hash, KafkaEvents, KafkaFeed, KafkaTopics, SecretSource, tls,
};

/// Every configured feed, connected to nobody yet.
pub(crate) struct Feeds(Vec<Feed>);

struct Feed {
    name: String,
    text: FeedText,
    source: Arc<dyn FeedSource>,
}

impl Feeds {
    /// Reads secrets and certificates; secrets are read again for each login.
    pub(crate) fn connect(config: &Config) -> anyhow::Result<Self> {
        let feeds = config.feeds.iter().map(|(name, text)| {
            let source = source(name, text).map_err(|why| anyhow!("feeds.{name}.{why}"))?;
            Ok(Feed {
                name: name.clone(),
                text: text.clone(),
                source,
            })
        });
        feeds.collect::<anyhow::Result<_>>().map(Self)
    }

    pub(crate) fn start(
        self,
        store: &Arc<dyn Store>,
        fed: &Wake,
        stopped: &watch::Receiver<bool>,
        background: &mut JoinSet<()>,
    ) {
        let owner = uuid::Uuid::new_v4().simple().to_string();
        for Feed { name, text, source } in self.0 {
            let options = FeedOptions {
                name,
                topic: text.topic,
                item_type: match text.item_type {
                    FeedItems::Payments => payments::item_type(),
                    FeedItems::Invoices => invoices::item_type(),
                },
                start: match text.start {
                    Start::Earliest => FeedStart::Earliest,
                    Start::Latest => FeedStart::Latest,
                },
                answers: text.results_topic.is_some(),
                owner: owner.clone(),
            };
            let format = match text.format {
                FeedFormat::Json => RecordFormat::Json,
                FeedFormat::CloudEvents => RecordFormat::CloudEvents,
            };
            let reader = Arc::new(JsonRecords { format });
            let store = Arc::clone(store);
            let runner = FeedRunner::new(options, source, reader, store, fed.clone());
            background.spawn(runner.run(stopped.clone()));
        }
    }
}

fn source(name: &str, text: &FeedText) -> Result<Arc<dyn FeedSource>, String> {
    let FeedKind::Kafka = text.kind;
    let client_id = text.group.clone().unwrap_or_else(|| name.to_owned());
    let access = access(client_id, text.access())?;
    let topics = KafkaTopics {
        records: text.topic.clone(),
        dead_letters: text.dead_letters(name),
        answers: text.results_topic.clone(),
        group: text.group.clone(),
    };
    Ok(Arc::new(KafkaFeed::new(access, topics)))
}

/// The topic of events, if one is configured.
pub(crate) fn event_sink(config: &Config) -> anyhow::Result<Option<Arc<dyn EventSink>>> {
    let Some(text) = &config.events else {
        return Ok(None);
    };
    let FeedKind::Kafka = text.kind;
    let access = access("tollgate-events".to_owned(), text.access());
    let access = access.map_err(|why| anyhow!("events.{why}"))?;
    let sink = KafkaEvents::new(access, text.topic.clone());
    Ok(Some(Arc::new(sink)))
}

fn access(client_id: String, at: KafkaAccess<'_>) -> Result<Access, String> {
    let identity = at.client_certificate.zip(at.client_key);
    let tls = at.tls.then(|| tls(at.root_certificates, identity));
    Ok(Access {
        brokers: at.brokers.to_vec(),
        client_id,
        tls: tls.transpose()?,
        credentials: at.sasl.map(credentials).transpose()?,
    })
}

fn credentials(sasl: &Sasl) -> Result<Credentials, String> {
    let user = sasl.user.clone();
    let password = || secret("sasl.password", &sasl.password);
    let scram = |hash, password| Credentials::Scram {
        hash,
        user: user.clone(),
        password,
    };
    Ok(match sasl.mechanism {
        Mechanism::Plain => Credentials::Plain {
            password: password()?,
            user,
        },
        Mechanism::ScramSha256 => scram(Hash::Sha256, password()?),
        Mechanism::ScramSha512 => scram(Hash::Sha512, password()?),
        Mechanism::OauthBearer => Credentials::OauthBearer {
            token: secret("sasl.token", &sasl.token)?,
        },
    })
}

/// Read again for each login; what cannot be read at the start stops the start.
fn secret(field: &'static str, secret: &Secret) -> Result<SecretSource, String> {
    let secret = secret.clone();
    let read = move || match secret.value() {
        Ok(value) if value.trim().is_empty() => Err(format!("{field}: its value is empty")),
        Ok(value) => Ok(value),
        Err(why) => Err(format!("{field}: {why}")),
    };
    read()?;
    Ok(SecretSource::new(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_from_a_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let token = format!("file:{}", file.display());
        let sasl = serde_json::json!({"mechanism": "OAUTHBEARER", "token": token});
        let sasl: Sasl = serde_json::from_value(sasl).unwrap();
        let said = credentials(&sasl).unwrap_err();
        assert!(said.starts_with("sasl.token: "), "{said}");
        std::fs::write(&file, "one\n").unwrap();
        let Credentials::OauthBearer { token } = credentials(&sasl).unwrap() else {
            panic!("another mechanism");
        };
        for value in ["one", "two"] {
            std::fs::write(&file, value).unwrap();
            assert_eq!(token.read().as_deref(), Ok(value));
        }
        std::fs::write(&file, "\n").unwrap();
        assert_eq!(token.read().unwrap_err(), "sasl.token: its value is empty");
    }
}
