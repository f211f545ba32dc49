//! A topic of Kafka that events are published to. The partition of an event is the one that Kafka's own clients
//! choose for its key, so events of one item have one order.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tollgate_core::Timestamp;
use tollgate_core::ports::{EventRecord, EventSink, Published, SinkTrouble, SourceResult};

use crate::connection::Access;
use crate::leaders::Leaders;
use crate::outgoing;
use crate::produce::{Written, too_large};
use crate::words::trouble;

/// A topic is asked for its partitions once in a while.
const KNOWN_FOR: Duration = Duration::from_secs(30);
/// How long the brokers may take for one call. The relay gives all of it up after 6 s, and would then not learn what was written.
const WITHIN: Duration = Duration::from_secs(5);
/// A partition whose broker was silent is refused at once for so many times as long as that took: waiting for it in every call
/// would hold up the others.
const LEFT_ALONE: u32 = 4;

#[derive(Debug)]
pub struct KafkaEvents {
    topic: String,
    leaders: Leaders,
    partitions: Mutex<Option<(Instant, Vec<u32>)>>,
    /// Partitions whose broker was silent, and until when they are left alone.
    silent: Mutex<BTreeMap<u32, Instant>>,
    within: Duration,
}

impl KafkaEvents {
    /// Connects to nobody yet.
    pub fn new(access: Access, topic: String) -> Self {
        Self {
            topic,
            leaders: Leaders::new(access),
            partitions: Mutex::default(),
            silent: Mutex::default(),
            within: WITHIN,
        }
    }

    /// With less patience than usual.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    async fn partitions(&self) -> SourceResult<Vec<u32>> {
        let mut known = self.partitions.lock().await;
        if let Some((since, partitions)) = &*known
            && since.elapsed() < KNOWN_FOR
        {
            return Ok(partitions.clone());
        }
        let partitions = self.leaders.topic(&self.topic).await?.partitions;
        *known = Some((Instant::now(), partitions.clone()));
        Ok(partitions)
    }

    /// How many of one partition were written, the first ones, and what stopped the others. What is too large together is written in parts.
    async fn write(
        &self,
        end: Instant,
        partition: u32,
        events: &[&EventRecord],
        now: Timestamp,
    ) -> (usize, SourceResult<()>) {
        let (mut written, mut left) = (0, vec![events]);
        while let Some(some) = left.pop() {
            match self.write_until(end, partition, some, now).await {
                Ok(Written::Done) => written += some.len(),
                Ok(Written::TooLarge) if some.len() > 1 => {
                    let (first, rest) = some.split_at(some.len() / 2);
                    left.extend([rest, first]);
                }
                Ok(Written::TooLarge) => return (written, Err(too_large(&self.topic))),
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// All of them, or none. A broker that is silent holds up its own partitions only.
    async fn write_until(
        &self,
        end: Instant,
        partition: u32,
        events: &[&EventRecord],
        now: Timestamp,
    ) -> SourceResult<Written> {
        let topic = &self.topic;
        let left_alone = self.silent.lock().await.get(&partition).copied();
        if left_alone.is_none_or(|until| until <= Instant::now()) {
            let records = events.iter().map(|event| outgoing::event(event)).collect();
            let writing = self.leaders.write(topic, partition, records, now);
            if let Ok(written) = timeout_at(end, writing).await {
                self.silent.lock().await.remove(&partition);
                return written;
            }
            let until = Instant::now() + self.within * LEFT_ALONE;
            self.silent.lock().await.insert(partition, until);
        }
        let secs = self.within.as_secs();
        Err(trouble(format!(
            "partition {partition} of topic {topic}: its broker did not answer within {secs} s"
        )))
    }
}

#[async_trait]
impl EventSink for KafkaEvents {
    async fn publish(&self, events: &[EventRecord], now: Timestamp) -> Published {
        let end = Instant::now() + self.within;
        let mut published = Published::default();
        let partitions = match self.partitions().await {
            Ok(partitions) => partitions,
            Err(error) => {
                published.trouble = Some(SinkTrouble(error.to_string()));
                return published;
            }
        };
        let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            let partition = partition_of(event.key.as_bytes(), &partitions);
            places.entry(partition).or_default().push(place);
        }
        let writing = places.into_iter().map(|(partition, places)| async move {
            let records = places.iter().filter_map(|place| events.get(*place));
            let records: Vec<_> = records.collect();
            let (count, written) = self.write(end, partition, &records, now).await;
            (places.into_iter().take(count), written)
        });
        for (acknowledged, written) in join_all(writing).await {
            published.acknowledged.extend(acknowledged);
            if let Err(error) = written {
                published.trouble = Some(SinkTrouble(error.to_string()));
            }
        }
        if published.trouble.is_some() {
            *self.partitions.lock().await = None;
        }
        published
    }
}

/// As Kafka's own clients do.
fn partition_of(key: &[u8], partitions: &[u32]) -> u32 {
    let count = partitions.len().max(1);
    let place = (murmur2(key) & 0x7fff_ffff) as usize % count;
    partitions.get(place).copied().unwrap_or(0)
}

fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = SEED ^ length;
    let mut words = data.chunks_exact(4);
    for word in words.by_ref() {
        let word: [u8; 4] = word.try_into().unwrap_or_default();
        let mut k = u32::from_le_bytes(word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Kafka's own tests (`UtilsTest.testMurmur2`).
    #[test]
    fn a_key_has_the_hash_that_kafkas_clients_give_it() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
        ] {
            let found: i32 = murmur2(key.as_bytes()).cast_signed();
            assert_eq!(found, hash, "{key}");
        }
        assert_eq!(partition_of(b"21", &[4]), 4);
        assert!(partition_of(b"foobar", &[0, 1, 2]) < 3);
    }
}
