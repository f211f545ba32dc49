//! `[events]`: the topic that every move of an item is published to.

use std::path::PathBuf;

use anyhow::ensure;
use serde::Deserialize;

use super::feeds::FeedKind;
use super::kafka::{KafkaAccess, Sasl, check_topic};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventsText {
    pub kind: FeedKind,
    pub brokers: Vec<String>,
    pub topic: String,
    #[serde(default = "usual_source")]
    pub source: String,
    #[serde(default)]
    pub tls: bool,
    pub root_certificates: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
    pub sasl: Option<Sasl>,
}

fn usual_source() -> String {
    "/tollgate".to_owned()
}

impl EventsText {
    pub(crate) fn validate(&self) -> anyhow::Result<()> {
        check_topic("events.topic", &self.topic)?;
        let is_plain = |c: char| c.is_ascii_graphic();
        ensure!(
            (1..=200).contains(&self.source.len()) && self.source.chars().all(is_plain),
            "events.source: {:?} is not a URI; write one like \"/tollgate\" or \"https://pay.example\"",
            self.source
        );
        self.access().validate("events")
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
}

#[cfg(test)]
mod tests {
    use crate::tests::with;

    const EVENTS: &str = "[events]\nkind = \"kafka\"\nbrokers = [\"k:9092\"]\ntopic = \"events\"\n";

    #[test]
    fn each_mistake_names_its_key_and_the_remedy() {
        let read = with(EVENTS).unwrap().events.unwrap();
        assert_eq!(read.source, "/tollgate");
        assert!(with("").unwrap().events.is_none(), "off by default");
        let table = [
            ("[\"k:9092\"]", "[]", "events.brokers: name at least one"),
            (
                "\"events\"",
                "\"e v\"",
                "events.topic: \"e v\" is not a topic name",
            ),
            (
                "\"events\"",
                "\"events\"\nsource = \"a b\"",
                "events.source: \"a b\" is not a URI",
            ),
            (
                "\"events\"",
                "\"events\"\nsasl = {mechanism = \"PLAIN\", user = \"u\", password = \"p\"}",
                "events.tls: this sasl.mechanism",
            ),
            ("\"events\"", "\"events\"\ncolour = 1", "colour"),
        ];
        for (from, to, says) in table {
            let said = with(&EVENTS.replace(from, to)).unwrap_err().to_string();
            assert!(said.contains(says), "{to}: {said}");
        }
    }
}
