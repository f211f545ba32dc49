//! `[feeds.NAME]`: topics whose records are taken in as payments or invoices.

use std::path::PathBuf;

use anyhow::ensure;
use serde::Deserialize;

use super::kafka::{KafkaAccess, Sasl, check_topic};

/// A feed's name is part of the names of its batches.
const MOST_NAME_CHARS: usize = 64;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedText {
    pub kind: FeedKind,
    pub brokers: Vec<String>,
    pub topic: String,
    pub group: Option<String>,
    pub dead_letter_topic: Option<String>,
    pub results_topic: Option<String>,
    #[serde(default)]
    pub start: Start,
    #[serde(default)]
    pub item_type: FeedItems,
    #[serde(default)]
    pub format: FeedFormat,
    #[serde(default)]
    pub tls: bool,
    pub root_certificates: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub sasl: Option<Sasl>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedKind {
    Kafka,
}

/// Where a partition begins that was never read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    #[default]
    Earliest,
    Latest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedItems {
    #[default]
    Payments,
    Invoices,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedFormat {
    #[default]
    Json,
    CloudEvents,
}

impl FeedText {
    /// By its usual name, unless another is set.
    pub fn dead_letters(&self, name: &str) -> String {
        let usual = || format!("dead-letter-topic-{name}");
        self.dead_letter_topic.clone().unwrap_or_else(usual)
    }

    pub(crate) fn validate(&self, name: &str) -> anyhow::Result<()> {
        ensure!(!name.is_empty(), "feeds: a feed needs a name: [feeds.NAME]");
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        ensure!(
            (1..=MOST_NAME_CHARS).contains(&name.len()) && name.chars().all(is_plain),
            "feeds.{name}: a feed's name may have up to {MOST_NAME_CHARS} characters A-Z a-z 0-9 _ -"
        );
        self.validate_topics(name)?;
        self.access().validate(&format!("feeds.{name}"))
    }

    pub fn access(&self) -> KafkaAccess<'_> {
        KafkaAccess {
            brokers: &self.brokers,
            tls: self.tls,
            root_certificates: self.root_certificates.as_deref(),
            client_certificate: self.client_certificate.as_deref(),
            client_key: self.client_key.as_deref(),
            sasl: self.sasl.as_ref(),
        }
    }

    fn validate_topics(&self, name: &str) -> anyhow::Result<()> {
        let dead_letters = self.dead_letters(name);
        let topics = [
            ("topic", Some(&self.topic)),
            ("group", self.group.as_ref()),
            ("dead_letter_topic", Some(&dead_letters)),
            ("results_topic", self.results_topic.as_ref()),
        ];
        for (field, topic) in topics {
            let Some(topic) = topic else { continue };
            check_topic(&format!("feeds.{name}.{field}"), topic)?;
            ensure!(
                field == "topic" || field == "group" || *topic != self.topic,
                "feeds.{name}.{field}: must not be the topic that is read"
            );
        }
        ensure!(
            self.results_topic.as_ref() != Some(&dead_letters),
            "feeds.{name}.results_topic: must not be feeds.{name}.dead_letter_topic; give answers a topic of their own"
        );
        Ok(())
    }

    /// Topics that the feed writes, each with its field.
    pub(super) fn written(&self, name: &str) -> Vec<(&'static str, String)> {
        let answers = self.results_topic.clone();
        let answers = answers.map(|topic| ("results_topic", topic));
        let dead_letters = ("dead_letter_topic", self.dead_letters(name));
        answers.into_iter().chain([dead_letters]).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::with;

    const FEED: &str = "[feeds.in]\nkind = \"kafka\"\nbrokers = [\"k:9092\"]\ntopic = \"in\"\ndead_letter_topic = \"dead\"\n";

    #[test]
    fn each_mistake_in_a_feed_names_its_key_and_the_remedy() {
        assert!(with(FEED).is_ok());
        let short = with(&FEED.replace("dead_letter_topic = \"dead\"\n", "")).unwrap();
        assert_eq!(short.feeds["in"].dead_letters("in"), "dead-letter-topic-in");
        let table = [
            (
                "brokers = [\"k:9092\"]",
                "brokers = []",
                "feeds.in.brokers: name at least one",
            ),
            (
                "brokers = [\"k:9092\"]",
                "brokers = [\"k\"]",
                "feeds.in.brokers: \"k\" must be",
            ),
            (
                "topic = \"in\"",
                "topic = \"i n\"",
                "feeds.in.topic: \"i n\" is not a topic name",
            ),
            (
                "\"dead\"",
                "\"in\"",
                "feeds.in.dead_letter_topic: must not be the topic",
            ),
            (
                "\"dead\"",
                "\"dead\"\nresults_topic = \"in\"",
                "feeds.in.results_topic: must not be the topic",
            ),
            (
                "\"dead\"",
                "\"dead\"\ngroup = \"a b\"",
                "feeds.in.group: \"a b\"",
            ),
            (
                "\"dead\"",
                "\"dead\"\nresults_topic = \"dead\"",
                "feeds.in.results_topic: must not be feeds.in.dead_letter_topic",
            ),
            (
                "[feeds.in]",
                "[feeds.\"\"]",
                "feeds: a feed needs a name: [feeds.NAME]",
            ),
            ("\"kafka\"", "\"rabbit\"", "feeds.in.kind"),
            ("[feeds.in]", "[feeds.\"a.b\"]", "feeds.a.b: a feed's name"),
            (
                "\"dead\"",
                "\"dead\"\nclient_key = \"x\"",
                "feeds.in: client_certificate and",
            ),
            (
                "\"dead\"",
                "\"dead\"\nroot_certificates = \"x\"",
                "feeds.in.tls",
            ),
            ("\"dead\"", "\"dead\"\ncolour = 1", "colour"),
        ];
        for (from, to, says) in table {
            let said = with(&FEED.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(says), "{to}: {said}");
        }
    }

    #[test]
    fn a_login_says_what_is_missing_and_never_a_secret() {
        let table = [
            (
                "{mechanism = \"PLAIN\", user = \"u\", password = \"s3cret\"}",
                "set tls = true",
            ),
            (
                "{mechanism = \"SCRAM-SHA-512\", user = \"u\"}",
                "set user and password",
            ),
            ("{mechanism = \"OAUTHBEARER\"}", "needs a token"),
            (
                "{mechanism = \"GSSAPI\", password = \"s3cret\"}",
                "mechanisms:",
            ),
            ("\"s3cret\"", "mechanisms:"),
        ];
        for (sasl, says) in table {
            let said = with(&format!("{FEED}sasl = {sasl}"))
                .unwrap_err()
                .to_string();
            assert!(said.contains(says), "{sasl}: {said}");
            assert!(!said.contains("s3cret"), "{said}");
        }
        let scram = "{mechanism = \"SCRAM-SHA-256\", user = \"u\", password = \"s3cret\"}";
        let config = with(&format!("{FEED}sasl = {scram}")).unwrap();
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
