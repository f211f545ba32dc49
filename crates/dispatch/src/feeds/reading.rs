//! One partition, read in its order: fetch, put aside what cannot be read, make the rest durable, go on. A record is behind
//! us when it is durable here or in the dead-letter topic, and not before.

use std::time::Duration;

use tokio::time::Instant;
use tollgate_core::actor;
use tollgate_core::id::ItemType;
use tollgate_core::ports::{
    Author, FeedBatch, Fetched, HeldPartition, Log, PartitionId, ReadingAt, SourceError,
    StoreError, StoreResult,
};

use super::pieces::{self, Piece, is_enough};
use super::standstill::Standstill;
use super::troubles::About;
use super::{FeedRunner, FeedStart};

/// One fetch asks for so much; a single record may be larger.
const FETCH_BYTES: usize = 1024 * 1024;
/// A partition with so many chunks that are not admitted yet is not read further.
const MOST_WAITING: u64 = 8;
const WAIT_FOR_ROOM: Duration = Duration::from_millis(250);
/// How often the log's end is asked for meanwhile, which people see as the lag.
const ASK_FOR_END: Duration = Duration::from_secs(1);
/// At the end of what can be read, while what was read last still waits, records are let come together: every chunk costs a flow.
const GATHER: Duration = Duration::from_millis(50);
/// Small fetches are gathered for so long; then what there is becomes durable.
const GATHER_FETCHES: Duration = Duration::from_millis(250);
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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
pub(super) struct Reading {
    pub(super) partition: PartitionId,
    fence: u64,
    /// None before it was looked at whether the log has it.
    position: Option<i64>,
    stored: Option<i64>,
    from_first: bool,
    /// The last fetch was out of range from here.
    out_of_range: Option<i64>,
    /// The last fetch came to the end of what can be read.
    is_at_end: bool,
    asked_for_end: Instant,
    pub(super) standstill: Standstill,
}

impl Reading {
    /// The position is compared with the log before the next fetch, which says what is wrong.
    pub(super) fn look_again(&mut self, from: i64) {
        (self.position, self.stored) = (None, Some(from));
        self.standstill = Standstill::default();
    }
}

impl FeedRunner {
    pub(super) async fn read(&self, partition: PartitionId, held: HeldPartition) {
        let about = About::Partition(held.number);
        let mut reading = Reading {
            partition,
            fence: held.fence,
            position: None,
            stored: held.position,
            from_first: held.from_first,
            out_of_range: None,
            is_at_end: false,
            asked_for_end: Instant::now(),
            standstill: Standstill::default(),
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
                    self.pause_at(reading, why).await;
                    return;
                }
                Err(Halt::Lost) => {
                    self.troubles.over(about).await;
                    return;
                }
            }
        }
    }

    /// Because of the topic.
    pub(super) async fn pause(&self, why: String) {
        let author = Author::new(actor::FEED, why.clone());
        let paused = self.store.pause_feed(&self.options.name, author).await;
        self.say_paused(paused, &why);
    }

    /// Because of what was met on a partition, if that is still ours and where it was.
    async fn pause_at(&self, reading: Reading, why: String) {
        let at = ReadingAt {
            partition: reading.partition,
            fence: reading.fence,
            position: reading.position.or(reading.stored),
        };
        let author = Author::new(actor::FEED, why.clone());
        let paused = self.store.pause_feed_at(at, author).await;
        self.say_paused(paused, &why);
    }

    /// Says so once: it may be paused already.
    fn say_paused(&self, paused: StoreResult<bool>, why: &str) {
        let feed = &self.options.name;
        match paused {
            Ok(true) => tracing::error!(feed, why, "the feed is paused"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(feed, %error, "the feed could not be paused; Tollgate tries again");
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
        let waiting = self.store.chunks_waiting(&reading.partition).await?;
        if let Some(former) = waiting.of_another_type(&self.options.item_type) {
            let (partition, chunks) = (&reading.partition, waiting.chunks);
            return Err(Halt::Trouble(self.former_first(partition, former, chunks)));
        }
        let waiting = waiting.chunks;
        if waiting >= MOST_WAITING {
            if reading.asked_for_end.elapsed() >= ASK_FOR_END {
                let log = self.source.log(number).await?;
                self.saw_end(number, log.end);
                reading.asked_for_end = Instant::now();
            }
            reading.standstill = Standstill::default();
            tokio::time::sleep(WAIT_FOR_ROOM).await;
            return Ok(());
        }
        if waiting > 0 && reading.is_at_end {
            tokio::time::sleep(GATHER).await;
        }
        let fetched = match self.fetch(number, from).await {
            Ok(fetched) => fetched,
            Err(SourceError::OutOfRange(_)) => {
                reading.look_again(from);
                // The log has it, as it had the time before: without a pause this would go on for ever.
                if reading.out_of_range.replace(from) == Some(from) {
                    let partition = &reading.partition;
                    return Err(Halt::Trouble(format!(
                        "the broker rejects position {from} of {partition} as out of range, although it lists it; check the partition's log"
                    )));
                }
                return Ok(());
            }
            Err(error) => {
                reading.standstill = Standstill::default();
                return Err(error.into());
            }
        };
        reading.out_of_range = None;
        self.saw_end(number, fetched.log_end);
        reading.is_at_end = fetched.next >= fetched.committed_end;
        self.watch(reading, from, &fetched).await;
        if fetched.next == from {
            return Ok(());
        }
        let log_end = fetched.log_end;
        for piece in pieces::cut(fetched, number, &*self.reader) {
            self.take(reading, piece, log_end).await?;
        }
        Ok(())
    }

    /// The configured item type was corrected. Asked before anything is fetched: dead letters would be written with every try.
    fn former_first(&self, partition: &PartitionId, former: &ItemType, chunks: u64) -> String {
        let now = &self.options.item_type;
        format!(
            "{partition} is read as {now} once its chunks of {former} are imported; chunks left: {chunks}"
        )
    }

    /// Enough for a chunk, or everything that can be read. A broker may hand out one batch of a producer at a time, however small.
    /// Nothing waits here for an open transaction to end, nor while a long stretch without records is passed.
    async fn fetch(&self, partition: u32, from: i64) -> Result<Fetched, SourceError> {
        let began = Instant::now();
        let mut fetched = self.source.fetch(partition, from, FETCH_BYTES).await?;
        let mut last = from;
        while fetched.next > last
            && fetched.next < fetched.committed_end
            && began.elapsed() < GATHER_FETCHES
            && !is_enough(&fetched)
        {
            last = fetched.next;
            match self.source.fetch(partition, last, FETCH_BYTES).await {
                Ok(more) => fetched.append(more),
                // What was fetched is taken in; the next look meets the error again.
                Err(_) => break,
            }
        }
        Ok(fetched)
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
                    FeedStart::Latest if !reading.from_first => log.end,
                    FeedStart::Latest | FeedStart::Earliest => log.first,
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
            "{partition} ends at {end}, but the next position to read is {position}: the topic was created again or truncated, \
             or the position was moved too far; seek to {first} to read the whole partition, then resume"
        ));
    }
    if position < first {
        return Err(format!(
            "{partition} begins at {first}, but the next position to read is {position}: records were deleted before they were read; \
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
            (9, Some("begins at 10, but the next position to read is 9")),
            (10, None),
            (20, None),
            (
                21,
                Some("partition 2 of topic t ends at 20, but the next position to read is 21"),
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
