//! Connections to brokers, mostly to the leaders of partitions. Each partition has its own, so that a fetch that waits holds up nobody else.
//! One that has failed is dropped; the next call asks anew who leads.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use tokio::sync::Mutex as AsyncMutex;
use tollgate_core::ports::{SourceError, SourceResult, Topic};

use crate::connection::{Access, Connection, ask_kept};
use crate::words::{refusal, trouble};

/// From version 10 on with the topic's id.
const METADATA: RangeInclusive<i16> = 4..=12;

type Place = Arc<AsyncMutex<Option<Connection>>>;

#[derive(Debug)]
pub(crate) struct Leaders {
    access: Access,
    /// The configured broker that answered last, or the one behind those that did not: one that is away costs time once, not each
    /// time.
    answers: AtomicUsize,
    places: Mutex<HashMap<(String, u32), Place>>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

pub(crate) fn name_of(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

impl Leaders {
    pub(crate) fn new(access: Access) -> Self {
        Self {
            access,
            answers: AtomicUsize::new(0),
            places: Mutex::default(),
        }
    }

    pub(crate) async fn topic(&self, topic: &str) -> SourceResult<Topic> {
        let metadata = self.metadata(topic).await?;
        let found = found(&metadata, topic)?;
        let numbers = found
            .partitions
            .iter()
            .map(|partition| partition.partition_index);
        let mut numbers: Vec<u32> = numbers.filter_map(|n| u32::try_from(n).ok()).collect();
        numbers.sort_unstable();
        let id = found.topic_id;
        Ok(Topic {
            id: (!id.is_nil()).then(|| id.to_string()),
            partitions: numbers,
        })
    }

    /// Asks the leader of a partition.
    pub(crate) async fn ask<R: Request>(
        &self,
        topic: &str,
        partition: u32,
        request: &R,
        versions: RangeInclusive<i16>,
    ) -> SourceResult<R::Response> {
        let place = self.place(topic, partition);
        let mut place = place.lock().await;
        let opening = self.lead(topic, partition);
        ask_kept(&mut place, opening, request, versions).await
    }

    /// The next call asks who leads.
    pub(crate) async fn forget(&self, topic: &str, partition: u32) {
        *self.place(topic, partition).lock().await = None;
    }

    fn place(&self, topic: &str, partition: u32) -> Place {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let place = places.entry((topic.to_owned(), partition)).or_default();
        Arc::clone(place)
    }

    async fn lead(&self, topic: &str, partition: u32) -> SourceResult<Connection> {
        let metadata = self.metadata(topic).await?;
        let partitions = &found(&metadata, topic)?.partitions;
        let mut partitions = partitions.iter();
        let leader = partitions
            .find(|found| u32::try_from(found.partition_index) == Ok(partition))
            .ok_or_else(|| trouble(format!("topic {topic} has no partition {partition}")))?
            .leader_id;
        let mut brokers = metadata.brokers.iter();
        let broker = brokers.find(|broker| broker.node_id == leader);
        let broker = broker.ok_or_else(|| {
            trouble(format!(
                "partition {partition} of topic {topic} has no leader right now"
            ))
        })?;
        let address = format!("{}:{}", broker.host.as_str(), broker.port);
        self.open(&address).await
    }

    pub(crate) async fn open(&self, address: &str) -> SourceResult<Connection> {
        Connection::open(&self.access, address).await
    }

    async fn metadata(&self, topic: &str) -> SourceResult<MetadataResponse> {
        let wanted = MetadataRequestTopic::default().with_name(Some(name_of(topic)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![wanted]))
            .with_allow_auto_topic_creation(false);
        self.ask_any(&request, METADATA).await
    }

    /// Asks the first configured broker that answers.
    pub(crate) async fn ask_any<R: Request>(
        &self,
        request: &R,
        versions: RangeInclusive<i16>,
    ) -> SourceResult<R::Response> {
        let mut last: SourceError = trouble("no broker is configured");
        let brokers = self.access.brokers.iter().enumerate();
        let first = self.answers.load(Ordering::Relaxed);
        for (number, broker) in brokers.cycle().skip(first).take(self.access.brokers.len()) {
            let mut asking = Asking {
                leaders: self,
                number,
                has_answered: false,
            };
            let asked = async {
                let mut connection = self.open(broker).await?;
                connection.ask(request, versions.clone()).await
            };
            match asked.await {
                Ok(answer) => {
                    asking.has_answered = true;
                    self.answers.store(number, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// A configured broker while it is asked. If it does not answer, the next call begins with another one, also where the caller has less
/// patience than a connection and gives up: a broker that is silent would otherwise be the first of every call.
struct Asking<'a> {
    leaders: &'a Leaders,
    number: usize,
    has_answered: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.has_answered {
            let next = (self.number + 1) % self.leaders.access.brokers.len();
            let answers = &self.leaders.answers;
            // Another call may know one that answers already.
            let _ =
                answers.compare_exchange(self.number, next, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

fn found<'a>(
    metadata: &'a MetadataResponse,
    topic: &str,
) -> SourceResult<&'a MetadataResponseTopic> {
    let mut topics = metadata.topics.iter();
    let found = topics.find(|found| {
        found
            .name
            .as_ref()
            .is_some_and(|name| name.as_str() == topic)
    });
    let found =
        found.ok_or_else(|| trouble(format!("the broker returned nothing about topic {topic}")))?;
    refusal(found.error_code, "looking at", topic)?;
    Ok(found)
}
