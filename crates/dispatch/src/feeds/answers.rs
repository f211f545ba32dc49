//! What was rejected is answered, at least once and in the order of the records. An answer that cannot be given
//! waits; it holds up nothing.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tollgate_core::ports::{LineError, PartitionId, RecordAnswer};

use super::FeedRunner;
use super::troubles::About;

const ANSWER_EVERY: Duration = Duration::from_secs(1);
const MOST_AT_ONCE: u32 = 500;

impl FeedRunner {
    pub(super) async fn answer_now_and_then(&self, partition: &PartitionId, last: &mut Instant) {
        if !self.options.answers || last.elapsed() < ANSWER_EVERY {
            return;
        }
        *last = Instant::now();
        let about = About::Answers(partition.number);
        match self.answer(partition).await {
            Ok(()) => self.troubles.over(about).await,
            Err(why) => self.troubles.note(about, &why).await,
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
        let answering = self.source.answer(&answers, now);
        answering.await.map_err(|error| error.to_string())?;
        let lines = rejected.iter().map(|error| error.line).collect();
        let noted = self.store.answered(partition, lines).await;
        noted.map_err(|error| error.to_string())
    }
}

fn answer(partition: &PartitionId, error: &LineError) -> RecordAnswer {
    let body = json!({
        "feed": partition.feed,
        "topic": partition.topic,
        "partition": partition.number,
        "offset": PartitionId::offset(error.line),
        "id": error.id,
        "verdict": "REJECTED",
        "details": error.details,
    });
    RecordAnswer {
        key: error.id.clone(),
        body_json: body.to_string(),
    }
}
