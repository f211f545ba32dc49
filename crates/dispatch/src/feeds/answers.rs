//! What was rejected is answered, at least once and in the order of the records. An answer that cannot be given
//! waits; it holds up nothing.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tollgate_core::ports::{LineError, PartitionId, RecordAnswer};

use super::FeedRunner;
use super::reading::{FIRST_PAUSE, LONGEST_PAUSE};
use super::troubles::About;

const ANSWER_EVERY: Duration = Duration::from_secs(1);
const MOST_AT_ONCE: u32 = 500;
/// Brokers take batches of up to a megabyte, unless they are configured otherwise.
const MOST_BYTES: usize = 512 * 1024;
const LEFT_OUT: &str = "were left out, since the topic rejects a message of this size";

impl FeedRunner {
    /// Beside the reading of the partition, for as long as that goes on; what cannot be answered is tried again at growing intervals.
    pub(super) async fn keep_answering(&self, partition: &PartitionId) {
        if !self.options.answers {
            return std::future::pending().await;
        }
        let about = About::Answers(partition.number);
        let (mut wait, mut pause) = (ANSWER_EVERY, FIRST_PAUSE);
        loop {
            sleep(wait).await;
            match self.answer(partition).await {
                Ok(()) => {
                    self.troubles.over(about).await;
                    (wait, pause) = (ANSWER_EVERY, FIRST_PAUSE);
                }
                Err(why) => {
                    self.troubles.note(about, &why).await;
                    (wait, pause) = (pause, (pause * 2).min(LONGEST_PAUSE));
                }
            }
        }
    }

    async fn answer(&self, partition: &PartitionId) -> Result<(), String> {
        let rejected = self.store.unanswered(partition, MOST_AT_ONCE).await;
        let rejected = rejected.map_err(|error| error.to_string())?;
        if rejected.is_empty() {
            return Ok(());
        }
        let now = self.store.now().await.map_err(|error| error.to_string())?;
        let answers: Vec<_> = rejected
            .iter()
            .map(|error| answer(partition, error))
            .collect();
        let mut lines = rejected.iter().map(|error| error.line);
        for some in batches(&answers) {
            let answering = self.source.answer(partition.number, some, now);
            answering.await.map_err(|error| error.to_string())?;
            let lines = lines.by_ref().take(some.len()).collect();
            let noted = self.store.answered(partition, lines).await;
            noted.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// In their order, each of about so many bytes at most, and with at least one answer.
fn batches(answers: &[RecordAnswer]) -> Vec<&[RecordAnswer]> {
    let (mut batches, mut from, mut bytes) = (vec![], 0, 0);
    for (place, answer) in answers.iter().enumerate() {
        let more = answer.body_json.len() + answer.key.as_ref().map_or(0, String::len);
        if place > from && bytes + more > MOST_BYTES {
            batches.push(&answers[from..place]);
            (from, bytes) = (place, 0);
        }
        bytes += more;
    }
    if from < answers.len() {
        batches.push(&answers[from..]);
    }
    batches
}

fn answer(partition: &PartitionId, error: &LineError) -> RecordAnswer {
    let body = |details: Value| {
        let body = json!({
            "feed": partition.feed,
            "topic": partition.topic,
            "partition": partition.number,
            "offset": PartitionId::offset(error.line),
            "id": error.id,
            "verdict": "REJECTED",
            "details": details,
        });
        body.to_string()
    };
    RecordAnswer {
        key: error.id.clone(),
        body_json: body(json!(error.details)),
        short_json: body(json!({"details": LEFT_OUT})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(bytes: &[usize]) -> Vec<RecordAnswer> {
        let answer = |bytes: &usize| RecordAnswer {
            key: None,
            body_json: " ".repeat(*bytes),
            short_json: String::new(),
        };
        bytes.iter().map(answer).collect()
    }

    #[test]
    fn a_batch_of_answers_has_half_a_megabyte_at_most_or_one_answer() {
        let most = MOST_BYTES;
        let table: [(&[usize], &[usize]); 5] = [
            (&[], &[]),
            (&[1, 2, 3], &[3]),
            (&[most - 1, 1, 1], &[2, 1]),
            (&[1, most + 1, 1], &[1, 1, 1]),
            (&[most + 1, most + 1], &[1, 1]),
        ];
        for (sizes, expected) in table {
            let answers = answers(sizes);
            let found: Vec<_> = batches(&answers).iter().map(|some| some.len()).collect();
            assert_eq!(found, expected, "{sizes:?}");
        }
    }

    #[test]
    fn a_short_answer_says_that_its_details_were_left_out() {
        let partition = PartitionId {
            feed: "in".into(),
            topic: "payments".into(),
            number: 3,
        };
        let error = LineError {
            line: 42,
            id: Some("p1".into()),
            details: [("amount".to_owned(), "is negative".to_owned())].into(),
            text: None,
        };
        let answer = answer(&partition, &error);
        assert!(answer.body_json.contains("\"is negative\""));
        let short: Value = serde_json::from_str(&answer.short_json).unwrap();
        assert_eq!((&short["id"], &short["offset"]), (&json!("p1"), &json!(41)));
        assert_eq!(short["details"], json!({"details": LEFT_OUT}));
    }
}
