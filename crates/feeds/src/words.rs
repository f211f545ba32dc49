//! What a broker's error codes mean, each as one sentence that says what to do.

use kafka_protocol::ResponseError;
use tollgate_core::ports::SourceError;

pub(crate) fn trouble(what: impl Into<String>) -> SourceError {
    SourceError::Trouble(what.into())
}

/// Nothing if the code says that all is well.
pub(crate) fn refusal(code: i16, doing: &str, topic: &str) -> Result<(), SourceError> {
    let Some(error) = ResponseError::try_from_code(code) else {
        return Ok(());
    };
    Err(trouble(match error {
        ResponseError::TopicAuthorizationFailed | ResponseError::ClusterAuthorizationFailed => {
            let denied =
                format!("the broker denies {doing} topic {topic}; grant this client the right");
            return Err(SourceError::Denied(denied));
        }
        ResponseError::UnknownTopicOrPartition | ResponseError::UnknownTopicId => format!(
            "topic {topic} does not exist on the broker; create it or correct the configuration"
        ),
        ResponseError::NotLeaderOrFollower
        | ResponseError::LeaderNotAvailable
        | ResponseError::FencedLeaderEpoch
        | ResponseError::UnknownLeaderEpoch
        | ResponseError::ReplicaNotAvailable => {
            format!("{doing} topic {topic}: the partition has no leader right now")
        }
        ResponseError::MessageTooLarge | ResponseError::RecordListTooLarge => {
            format!("{doing} topic {topic}: the broker rejects a message of this size")
        }
        ResponseError::NotEnoughReplicas | ResponseError::NotEnoughReplicasAfterAppend => {
            format!("{doing} topic {topic}: too few replicas are in sync")
        }
        other => format!("{doing} topic {topic}: the broker answered {other}"),
    }))
}

pub(crate) fn is_too_large(code: i16) -> bool {
    matches!(
        ResponseError::try_from_code(code),
        Some(ResponseError::MessageTooLarge | ResponseError::RecordListTooLarge)
    )
}
