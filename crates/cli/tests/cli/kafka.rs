//! A Kafka cluster of a test, in a process of its own (`kafka.py`), with a producer and a consumer that are not ours: librdkafka's
//! mock, or a broker that keeps its records on disk.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

pub(crate) struct Kafka {
    child: Child,
    /// The cluster ends when this does.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    pub(crate) broker: String,
}

/// A record to be produced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) partition: Option<u32>,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
}

/// A record as a consumer has found it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: BTreeMap<String, String>,
}

impl Record {
    pub(crate) fn of(value: impl Into<Vec<u8>>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }
}

impl Kafka {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// A broker that is away by SIGKILL and comes back with what it has on disk, if there is one (tansu, in `./dev soak`);
    /// otherwise the mock.
    pub(crate) fn start_durable() -> Self {
        let program = std::env::var("TGTEST_KAFKA_BROKER_BIN").ok();
        println!("broker: {}", program.as_deref().unwrap_or("the mock"));
        Self::start_with(program.as_slice())
    }

    fn start_with(arguments: &[String]) -> Self {
        let python = std::env::var("TGTEST_KAFKA_PYTHON").unwrap_or_else(|_| {
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../.dev/kafka/bin/python").to_owned()
        });
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/kafka.py");
        let mut child = Command::new(python)
            .arg(script)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("no mock of Kafka: run ./dev setup");
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut kafka = Self {
            child,
            commands,
            answers,
            broker: String::new(),
        };
        let started = kafka.ask(&json!({"do": "start"}));
        started["broker"]
            .as_str()
            .unwrap()
            .clone_into(&mut kafka.broker);
        kafka
    }

    /// With four partitions.
    pub(crate) fn create(&mut self, topics: &[&str]) {
        self.create_with(4, topics);
    }

    /// Of each partition the mock keeps the newest five megabytes.
    pub(crate) fn create_with(&mut self, partitions: usize, topics: &[&str]) {
        for topic in topics {
            self.ask(&json!({"do": "create", "topic": topic, "partitions": partitions}));
        }
    }

    /// Whether clients have no right to a topic.
    pub(crate) fn deny(&mut self, topic: &str, is_denied: bool) {
        self.ask(&json!({"do": "deny", "topic": topic, "is_denied": is_denied}));
    }

    /// Takes the broker away, or brings it back with its records.
    pub(crate) fn away(&mut self, is_away: bool) {
        self.ask(&json!({"do": "away", "is_away": is_away}));
    }

    pub(crate) fn produce(&mut self, topic: &str, records: &[Record]) {
        let record = |record: &Record| {
            let headers: BTreeMap<_, _> = record.headers.iter().copied().collect();
            json!({
                "topic": topic,
                "partition": record.partition,
                "key": record.key,
                "value": record.value.as_ref().map(|value| STANDARD.encode(value)),
                "headers": headers,
            })
        };
        let records: Vec<_> = records.iter().map(record).collect();
        let answer = self.ask(&json!({"do": "produce", "records": records}));
        assert_eq!(answer["failed"], json!([]));
    }

    /// Where each partition of a topic ends.
    pub(crate) fn ends(&mut self, topic: &str) -> Vec<i64> {
        let answer = self.ask(&json!({"do": "ends", "topic": topic}));
        serde_json::from_value(answer["ends"].clone()).unwrap()
    }

    /// What a group has committed for each partition of a topic; negative if nothing.
    pub(crate) fn committed(&mut self, group: &str, topic: &str) -> Vec<i64> {
        let answer = self.ask(&json!({"do": "committed", "group": group, "topic": topic}));
        serde_json::from_value(answer["offsets"].clone()).unwrap()
    }

    /// Commits an offset to a group, as somebody else would.
    pub(crate) fn commit(&mut self, group: &str, topic: &str, partition: u32, offset: i64) {
        self.ask(&json!({"do": "commit", "group": group, "topic": topic,
                         "partition": partition, "offset": offset}));
    }

    /// Everything that is in a topic.
    pub(crate) fn read(&mut self, topic: &str) -> Vec<Found> {
        let answer = self.ask(&json!({"do": "read", "topic": topic}));
        let records = answer["records"].as_array().unwrap().iter();
        let bytes = |text: &Value| text.as_str().map(|text| STANDARD.decode(text).unwrap());
        let found = |record: &Value| Found {
            key: bytes(&record["key"]),
            value: bytes(&record["value"]),
            headers: serde_json::from_value(record["headers"].clone()).unwrap(),
        };
        records.map(found).collect()
    }

    fn ask(&mut self, command: &Value) -> Value {
        writeln!(self.commands.as_ref().unwrap(), "{command}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the cluster has ended");
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}
