//! Where a feed stands, committed to a consumer group so that Kafka's own tools show its lag. It is never read back: after a
//! restore of the database Kafka's offset is ahead of ours, and records would be lost (docs/decisions/0049).

use std::ops::RangeInclusive;

use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{FindCoordinatorRequest, GroupId, OffsetCommitRequest};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::Mutex;
use tollgate_core::ports::{SourceError, SourceResult};

use crate::connection::{Connection, ask_kept};
use crate::leaders::{Leaders, name_of};
use crate::produce::{index, silent};
use crate::words::trouble;

/// Those that ask for one group.
const FIND_COORDINATOR: RangeInclusive<i16> = 1..=2;
const OFFSET_COMMIT: RangeInclusive<i16> = 2..=7;
const KEY_IS_A_GROUP: i8 = 0;
/// Of a client that is no member: brokers take it while the group has none.
const NO_GENERATION: i32 = -1;

#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    coordinator: Mutex<Option<Connection>>,
}

impl Group {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            coordinator: Mutex::default(),
        }
    }

    /// A coordinator that fails or refuses is looked for again by the next call.
    pub(crate) async fn commit(
        &self,
        leaders: &Leaders,
        topic: &str,
        positions: &[(u32, i64)],
    ) -> SourceResult<()> {
        let mut place = self.coordinator.lock().await;
        let request = self.request(topic, positions);
        let finding = self.find(leaders);
        let answer = ask_kept(&mut place, finding, &request, OFFSET_COMMIT).await?;
        let mut answers = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let first = answers.next().ok_or_else(|| silent(topic))?;
        let agreed = self.agreed(first.error_code);
        let agreed =
            agreed.and_then(|()| answers.try_for_each(|answer| self.agreed(answer.error_code)));
        if agreed.is_err() {
            *place = None;
        }
        agreed
    }

    fn request(&self, topic: &str, positions: &[(u32, i64)]) -> OffsetCommitRequest {
        let partition = |(number, position): &(u32, i64)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index(*number))
                .with_committed_offset(*position)
                .with_committed_metadata(Some(StrBytes::default()))
        };
        let topic = OffsetCommitRequestTopic::default()
            .with_name(name_of(topic))
            .with_partitions(positions.iter().map(partition).collect());
        OffsetCommitRequest::default()
            .with_group_id(GroupId(self.name()))
            .with_generation_id_or_member_epoch(NO_GENERATION)
            .with_topics(vec![topic])
    }

    async fn find(&self, leaders: &Leaders) -> SourceResult<Connection> {
        let request = FindCoordinatorRequest::default()
            .with_key(self.name())
            .with_key_type(KEY_IS_A_GROUP);
        let found = leaders.ask_any(&request, FIND_COORDINATOR).await?;
        self.agreed(found.error_code)?;
        let address = format!("{}:{}", found.host.as_str(), found.port);
        leaders.open(&address).await
    }

    fn name(&self) -> StrBytes {
        StrBytes::from_string(self.name.clone())
    }

    fn agreed(&self, code: i16) -> SourceResult<()> {
        match ResponseError::try_from_code(code) {
            None => Ok(()),
            Some(error) => Err(self.refusal(error)),
        }
    }

    fn refusal(&self, error: ResponseError) -> SourceError {
        let name = &self.name;
        trouble(match error {
            ResponseError::GroupAuthorizationFailed | ResponseError::TopicAuthorizationFailed => {
                format!(
                    "the broker denies committing to group {name}; grant this client the right to read the group and the topic"
                )
            }
            ResponseError::UnknownMemberId
            | ResponseError::IllegalGeneration
            | ResponseError::RebalanceInProgress
            | ResponseError::FencedInstanceId => {
                format!("group {name} has members; name a group that nothing else uses")
            }
            ResponseError::NotCoordinator
            | ResponseError::CoordinatorNotAvailable
            | ResponseError::CoordinatorLoadInProgress => {
                format!("group {name} has no coordinator right now")
            }
            other => format!("group {name}: the broker answered {other}"),
        })
    }
}
