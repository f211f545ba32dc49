//! What feeds and events have in common: brokers, TLS and the login; and that none reads what another one writes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{bail, ensure};
use serde::Deserialize;

use super::Secret;
use super::events::EventsText;
use super::feeds::FeedText;

const MOST_TOPIC_CHARS: usize = 249;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sasl {
    pub mechanism: Mechanism,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub password: Secret,
    #[serde(default)]
    pub token: Secret,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Mechanism {
    #[serde(rename = "PLAIN")]
    Plain,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    #[serde(rename = "OAUTHBEARER")]
    OauthBearer,
}

/// How brokers are reached.
#[derive(Debug, Clone, Copy)]
pub struct KafkaAccess<'a> {
    pub brokers: &'a [String],
    pub tls: bool,
    pub root_certificates: Option<&'a Path>,
    pub client_certificate: Option<&'a Path>,
    pub client_key: Option<&'a Path>,
    pub sasl: Option<&'a Sasl>,
}

impl KafkaAccess<'_> {
    /// `key` is where it is configured, such as `feeds.payments`.
    pub(crate) fn validate(&self, key: &str) -> anyhow::Result<()> {
        ensure!(
            !self.brokers.is_empty(),
            "{key}.brokers: name at least one broker, like [\"kafka-1.example:9092\"]"
        );
        for broker in self.brokers {
            if let Some(remedy) = remedy_for(broker) {
                bail!("{key}.brokers: {broker:?} {remedy}");
            }
        }
        ensure!(
            self.client_certificate.is_some() == self.client_key.is_some(),
            "{key}: client_certificate and client_key must be set together"
        );
        ensure!(
            self.tls || (self.root_certificates.is_none() && self.client_certificate.is_none()),
            "{key}.tls: certificates are set, but tls is false; set tls = true"
        );
        match self.sasl {
            None => Ok(()),
            Some(sasl) => self.validate_sasl(key, sasl),
        }
    }

    fn validate_sasl(&self, key: &str, sasl: &Sasl) -> anyhow::Result<()> {
        let (wants_token, is_open) = match sasl.mechanism {
            Mechanism::Plain => (false, true),
            Mechanism::ScramSha256 | Mechanism::ScramSha512 => (false, false),
            Mechanism::OauthBearer => (true, true),
        };
        if wants_token {
            ensure!(
                !sasl.token.is_empty(),
                "{key}.sasl.token: OAUTHBEARER needs a token, like \"env:KAFKA_TOKEN\""
            );
        } else {
            ensure!(
                !sasl.user.is_empty() && !sasl.password.is_empty(),
                "{key}.sasl: set user and password, like password = \"env:KAFKA_PASSWORD\""
            );
        }
        ensure!(
            self.tls || !is_open,
            "{key}.tls: this sasl.mechanism sends its secret unencrypted; set tls = true"
        );
        Ok(())
    }
}

/// What to write instead of something that is not the address of a broker.
fn remedy_for(broker: &str) -> Option<&'static str> {
    if broker.contains("://") {
        return Some("must be written without a scheme, like \"kafka-1.example:9092\"");
    }
    if broker.contains(',') {
        return Some(
            "has several brokers in one text; write each on its own, like [\"a:9092\", \"b:9092\"]",
        );
    }
    if broker.contains(char::is_whitespace) {
        return Some("must be written without blanks, like \"kafka-1.example:9092\"");
    }
    let (host, port) = broker.rsplit_once(':').unwrap_or_default();
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    let is_address = !host.is_empty() && !host.contains('/') && !is_bare_v6;
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (!is_address || !is_port).then_some(
        "must be written like \"kafka-1.example:9092\", with a host and a port from 1 to 65535",
    )
}

/// Each alone, and then together.
pub(super) fn validate(
    feeds: &BTreeMap<String, FeedText>,
    events: Option<&EventsText>,
) -> anyhow::Result<()> {
    for (name, feed) in feeds {
        feed.validate(name)?;
    }
    if let Some(events) = events {
        events.validate()?;
        let field = "events.topic";
        check_not_read(field, &events.topic, &events.brokers, feeds)?;
    }
    for (name, feed) in feeds {
        for (field, topic) in feed.written(name) {
            let field = format!("feeds.{name}.{field}");
            check_not_read(&field, &topic, &feed.brokers, feeds)?;
        }
    }
    Ok(())
}

/// A feed that reads what is written here would go in a circle, for ever.
fn check_not_read(
    field: &str,
    topic: &str,
    brokers: &[String],
    feeds: &BTreeMap<String, FeedText>,
) -> anyhow::Result<()> {
    for (name, feed) in feeds {
        ensure!(
            feed.topic != topic || !share_a_broker(&feed.brokers, brokers),
            "{field}: must not be feeds.{name}.topic, since feed {name:?} would read what is written there; name another topic"
        );
    }
    Ok(())
}

fn share_a_broker(some: &[String], others: &[String]) -> bool {
    let is_among = |one: &String| others.iter().any(|other| other.eq_ignore_ascii_case(one));
    some.iter().any(is_among)
}

/// A name that Kafka takes.
pub(crate) fn check_topic(key: &str, topic: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ensure!(
        (1..=MOST_TOPIC_CHARS).contains(&topic.len()) && topic.chars().all(is_plain),
        "{key}: {topic:?} is not a topic name; use up to {MOST_TOPIC_CHARS} characters A-Z a-z 0-9 . _ -"
    );
    ensure!(
        !matches!(topic, "." | ".."),
        "{key}: {topic:?} is a name that Kafka refuses; write the topic's name, like \"payments\""
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::with;

    #[test]
    fn what_is_not_the_address_of_a_broker_is_refused_with_what_to_write() {
        for (broker, says) in [
            ("kafka://host:9092", "without a scheme"),
            ("a:1,b:2", "write each on its own"),
            (" a:9092", "without blanks"),
            (":9092", "with a host and a port"),
            ("a:0", "a port from 1 to 65535"),
            ("a:65536", "a port from 1 to 65535"),
            ("a", "with a host and a port"),
            ("", "with a host and a port"),
            ("a/b:9092", "with a host and a port"),
            ("::1:9092", "with a host and a port"),
        ] {
            let said = remedy_for(broker).unwrap();
            assert!(said.contains(says), "{broker}: {said}");
        }
        for broker in [
            "a:9092",
            "10.0.0.1:1",
            "[::1]:9092",
            "kafka_1.example:65535",
        ] {
            assert_eq!(remedy_for(broker), None, "{broker}");
        }
        for topic in [".", "..", "", "a b"] {
            assert!(check_topic("events.topic", topic).is_err(), "{topic}");
        }
    }

    #[test]
    fn no_feed_reads_what_is_written_to_the_same_brokers() {
        let configured = |written: &str, brokers: &str| {
            let other = "kind = \"kafka\"\nbrokers = [\"k:1\", \"k:2\"]\ntopic = \"other\"\n";
            with(&format!(
                "[feeds.a]\nkind = \"kafka\"\nbrokers = [{brokers}]\ntopic = \"in\"\n{written}[feeds.b]\n{other}"
            ))
        };
        let events = "[events]\nkind = \"kafka\"\nbrokers = [\"k:1\"]\ntopic = \"other\"\n";
        for (written, says) in [
            (
                "dead_letter_topic = \"other\"\n",
                "feeds.a.dead_letter_topic: must not be feeds.b.topic",
            ),
            (
                "results_topic = \"other\"\n",
                "feeds.a.results_topic: must not be feeds.b.topic",
            ),
            (events, "events.topic: must not be feeds.b.topic"),
        ] {
            let said = configured(written, "\"K:2\"").unwrap_err().to_string();
            assert!(said.contains(says), "{written}: {said}");
        }
        let elsewhere = configured("results_topic = \"other\"\n", "\"elsewhere:1\"");
        assert!(elsewhere.is_ok(), "other brokers have other topics");
        let usual = with(
            "[feeds.a]\nkind = \"kafka\"\nbrokers = [\"k:1\"]\ntopic = \"in\"\n\
             [feeds.b]\nkind = \"kafka\"\nbrokers = [\"k:1\"]\ntopic = \"dead-letter-topic-a\"\n",
        );
        let said = usual.unwrap_err().to_string();
        assert!(said.contains("feeds.a.dead_letter_topic"), "{said}");
    }
}
