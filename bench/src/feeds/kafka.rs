//! A broker for benchmarks: librdkafka's mock in a process of its own, with its own producer, as in the tests.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Kafka {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
    pub(super) broker: String,
}

impl Kafka {
    pub(super) fn start() -> Result<Self> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let usual = || here.join("../.dev/kafka/bin/python").into_os_string();
        let python = std::env::var_os("TGTEST_KAFKA_PYTHON").unwrap_or_else(usual);
        let mut child = Command::new(python)
            .arg(here.join("../crates/cli/tests/cli/fixture/kafka.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("no mock of Kafka: run ./dev setup")?;
        let commands = child.stdin.take().context("no way to it")?;
        let answers = BufReader::new(child.stdout.take().context("no way back")?);
        let mut kafka = Self {
            child,
            commands,
            answers,
            broker: String::new(),
        };
        let started = kafka.ask(&json!({"do": "start"}))?;
        let broker = started["broker"].as_str();
        broker.unwrap_or_default().clone_into(&mut kafka.broker);
        Ok(kafka)
    }

    pub(super) fn create(&mut self, topic: &str, partitions: u32) -> Result<()> {
        let create = json!({"do": "create", "topic": topic, "partitions": partitions});
        self.ask(&create).map(drop)
    }

    /// The next lines of a file, one to each partition in turn; returns when the broker has them.
    pub(super) fn produce(
        &mut self,
        topic: &str,
        file: &Path,
        count: u32,
        partitions: u32,
    ) -> Result<()> {
        let produce = json!({"do": "produce_lines", "topic": topic, "path": file, "count": count,
                             "partitions": partitions});
        let answer = self.ask(&produce)?;
        ensure!(
            answer["left"] == 0,
            "the broker has not taken all: {answer}"
        );
        Ok(())
    }

    fn ask(&mut self, command: &Value) -> Result<Value> {
        writeln!(self.commands, "{command}")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("the broker has ended")
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
