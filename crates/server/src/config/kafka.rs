//! What feeds and events have in common: brokers, TLS and the login.

use std::path::Path;

use anyhow::ensure;
use serde::Deserialize;

use super::Secret;

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
pub(crate) struct KafkaAccess<'a> {
    pub(crate) brokers: &'a [String],
    pub(crate) tls: bool,
    pub(crate) root_certificates: Option<&'a Path>,
    pub(crate) client_certificate: Option<&'a Path>,
    pub(crate) client_key: Option<&'a Path>,
    pub(crate) sasl: Option<&'a Sasl>,
}

impl KafkaAccess<'_> {
    /// `key` is where it is configured, such as `feeds.payments`.
    pub(crate) fn validate(&self, key: &str) -> anyhow::Result<()> {
        ensure!(
            !self.brokers.is_empty(),
            "{key}.brokers: name at least one broker, like [\"kafka-1.example:9092\"]"
        );
        for broker in self.brokers {
            let port = broker.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            ensure!(
                matches!(port, Some(Ok(_))),
                "{key}.brokers: {broker:?} must be written like \"kafka-1.example:9092\""
            );
        }
        ensure!(
            self.client_certificate.is_some() == self.client_key.is_some(),
            "{key}: client_certificate and client_key go together; set both or neither"
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
            "{key}.tls: this sasl.mechanism sends its secret as it is; set tls = true"
        );
        Ok(())
    }
}

/// A name that Kafka takes.
pub(crate) fn check_topic(key: &str, topic: &str) -> anyhow::Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    ensure!(
        (1..=MOST_TOPIC_CHARS).contains(&topic.len()) && topic.chars().all(is_plain),
        "{key}: {topic:?} is not a name in Kafka; it may have up to {MOST_TOPIC_CHARS} characters A-Z a-z 0-9 . _ -"
    );
    Ok(())
}
