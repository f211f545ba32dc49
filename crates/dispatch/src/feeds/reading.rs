//! One partition, read in its order: fetch, put aside what cannot be read, make the rest durable, go on. A record is behind
//! us when it is durable here or in the dead-letter topic, and not before.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::actor;
use tollgate_core::ports::{
    Author, FeedBatch, HeldPartition, Log, PartitionId, SourceError, StoreError,
};

use super::pieces::{self, Piece};
use super::troubles::About;
use super::{FeedRunner, FeedStart};

/// One fetch asks for so much; a single record may be larger.
const FETCH_BYTES: usize = 1024 * 1024;
/// A partition with so many chunks that are not admitted yet is not read further.
const MOST_WAITING: u64 = 8;
const WAIT_FOR_ROOM: Duration = Duration::from_millis(250);
/// How often the log's end is asked for meanwhile, which people see as the lag.
const ASK_FOR_END: Duration = Duration::from_secs(1);
/// At the log's end, while what was read last still waits, records are let come together: every chunk costs a flow.
const GATHER: Duration = Duration::from_millis(50);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Why a partition is not read on.
enum Halt {
    /// Tried again after a pause.
    Trouble(String),
    /// Only a person can say where it goes on.
    Pause(String),
    /// Another process holds it, or somebody has moved or paused it.
    Lost,
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Self::Trouble(format!("the store: {error}"))
    }
}

impl From<SourceError> for Halt {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Denied(why) => Self::Pause(format!("{why}, then resume")),
            SourceError::Trouble(why) | SourceError::OutOfRange(why) => Self::Trouble(why),
        }
    }
}

/// A partition as this process holds it.
struct Reading {
    partition: PartitionId,
    fence: u64,
    /// None before it was looked at whether the log has it.
    position: Option<i64>,
    stored: Option<i64>,
    /// The last fetch came to the end of the log.
    is_at_end: bool,
    asked_for_end: Instant,
    answered: Instant,
}

impl FeedRunner {
    pub(super) async fn read(self: Arc<Self>, partition: PartitionId, held: HeldPartition) {
        let about = About::Partition(held.number);
        let mut reading = Reading {
            partition,
            fence: held.fence,
            position: None,
            stored: held.position,
            is_at_end: false,
            asked_for_end: Instant::now(),
            answered: Instant::now(),
        };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.read_on(&mut reading).await {
                Ok(()) => {
                    self.troubles.over(about).await;
                    pause = FIRST_PAUSE;
                }
                Err(Halt::Trouble(why)) => {
                    self.troubles.note(about, &why).await;
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(Halt::Pause(why)) => {
                    self.troubles.over(about).await;
                    self.pause(why).await;
                    return;
                }
                Err(Halt::Lost) => {
                    self.troubles.over(about).await;
                    return;
                }
            }
        }
    }

    /// Says so once: it may be paused already.
    pub(super) async fn pause(&self, why: String) {
        let feed = &self.options.name;
        let author = Author::new(actor::FEED, why.clone());
        match self.store.pause_feed(feed, author).await {
            Ok(true) => tracing::error!(feed, why, "the feed is paused"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(feed, %error, "the feed could not be paused; it is looked at again");
            }
        }
    }

    /// One fetch, if there is room for it.
    async fn read_on(&self, reading: &mut Reading) -> Result<(), Halt> {
        let number = reading.partition.number;
        let from = match reading.position {
            Some(position) => position,
            None => self.begin(reading).await?,
        };
        self.answer_now_and_then(&reading.partition, &mut reading.answered)
            .await;
        let waiting = self.store.chunks_waiting(&reading.partition).await?;
        if waiting >= MOST_WAITING {
            if reading.asked_for_end.elapsed() >= ASK_FOR_END {
                let log = self.source.log(number).await?;
                self.saw_end(number, log.end);
                reading.asked_for_end = Instant::now();
            }
            tokio::time::sleep(WAIT_FOR_ROOM).await;
            return Ok(());
        }
        if waiting > 0 && reading.is_at_end {
            tokio::time::sleep(GATHER).await;
        }
        let fetched = match self.source.fetch(number, from, FETCH_BYTES).await {
            Ok(fetched) => fetched,
            Err(SourceError::OutOfRange(_)) => {
                // Looked at before the next fetch, which says what is wrong.
                (reading.position, reading.stored) = (None, Some(from));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.saw_end(number, fetched.log_end);
        reading.is_at_end = fetched.next >= fetched.log_end;
        if fetched.next == from {
            return Ok(());
        }
        let log_end = fetched.log_end;
        for piece in pieces::cut(fetched, number, &*self.reader) {
            self.take(reading, piece, log_end).await?;
        }
        Ok(())
    }

    /// Our own position, if the log has it; the configured start, if there is none.
    async fn begin(&self, reading: &mut Reading) -> Result<i64, Halt> {
        let log = self.source.log(reading.partition.number).await?;
        self.saw_end(reading.partition.number, log.end);
        let position = match reading.stored {
            Some(position) => {
                in_log(&reading.partition, position, log).map_err(Halt::Pause)?;
                position
            }
            None => {
                let start = match self.options.start {
                    FeedStart::Earliest => log.first,
                    FeedStart::Latest => log.end,
                };
                let (partition, fence) = (&reading.partition, reading.fence);
                if !self.store.begin_partition(partition, fence, start).await? {
                    return Err(Halt::Lost);
                }
                start
            }
        };
        reading.position = Some(position);
        Ok(position)
    }

    /// Dead letters first: what cannot be put aside is not passed.
    async fn take(&self, reading: &mut Reading, piece: Piece, log_end: i64) -> Result<(), Halt> {
        let from = reading.position.ok_or(Halt::Lost)?;
        let (dead, next, lines) = (piece.dead.len(), piece.next, piece.lines);
        if dead > 0 {
            let now = self.store.now().await?;
            self.source.dead_letter(&piece.dead, now).await?;
            for letter in &piece.dead {
                let (feed, offset) = (&self.options.name, letter.record.offset);
                let (partition, reason) = (letter.partition, &letter.reason);
                tracing::warn!(
                    feed,
                    partition,
                    offset,
                    reason,
                    "a record went to the dead-letter topic"
                );
            }
        }
        let batch = FeedBatch {
            item_type: self.options.item_type.clone(),
            fence: reading.fence,
            from,
            next,
            lines,
            text: piece.text,
            dead_letters: u32::try_from(dead).unwrap_or(u32::MAX),
            answers: self.options.answers,
            log_end,
        };
        if !self.store.take_records(&reading.partition, batch).await? {
            return Err(Halt::Lost);
        }
        reading.position = Some(next);
        self.count("tollgate_feed_records_total", u64::from(lines));
        self.count("tollgate_feed_dead_letters_total", dead as u64);
        if lines > 0 {
            self.wake.wake();
        }
        Ok(())
    }

    fn count(&self, name: &'static str, more: u64) {
        metrics::counter!(name, "feed" => self.options.name.clone()).increment(more);
    }
}

/// What to tell a person, if the log does not have the position.
fn in_log(partition: &PartitionId, position: i64, log: Log) -> Result<(), String> {
    let Log { first, end } = log;
    if position > end {
        return Err(format!(
            "{partition} ends at {end}, but {position} is to be read next: the topic was created again or cut, or the position was \
             moved too far; seek to {first} to read all that is there, then resume"
        ));
    }
    if position < first {
        return Err(format!(
            "{partition} begins at {first}, but {position} is to be read next: records were deleted unread; \
             find out which, then seek to {first} and resume"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_the_log_does_not_have_is_a_persons_matter() {
        let partition = PartitionId {
            feed: "f".into(),
            topic: "t".into(),
            number: 2,
        };
        let log = Log { first: 10, end: 20 };
        for (position, says) in [
            (9, Some("begins at 10, but 9")),
            (10, None),
            (20, None),
            (
                21,
                Some("partition 2 of topic t ends at 20, but 21 is to be read next"),
            ),
        ] {
            let found = in_log(&partition, position, log).err();
            match says {
                None => assert_eq!(found, None),
                Some(says) => assert!(found.unwrap().contains(says), "{position}"),
            }
        }
    }
}
