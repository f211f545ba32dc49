//! A broker that knows a login, topics without partitions, a group, a topic "small" that takes small messages only, one "any" that
//! takes what a request may have, and a topic "half" with a second partition whose leader is silent; over TCP or TLS. It closes a connection on which something was committed, as brokers do with those that are idle.

use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use kafka_protocol::messages::{
    ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse, MetadataRequest,
    MetadataResponse, OffsetCommitRequest, OffsetCommitResponse, ProduceRequest, ProduceResponse,
    RequestHeader, ResponseHeader, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use kafka_protocol::records::{Record, RecordBatchDecoder};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const AUTHENTICATION_FAILED: i16 = 58;
const UNSUPPORTED_MECHANISM: i16 = 33;
const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
const UNKNOWN_TOPIC: i16 = 3;
const UNKNOWN_MEMBER: i16 = 25;
const GROUP_AUTHORIZATION_FAILED: i16 = 30;
const MESSAGE_TOO_LARGE: i16 = 10;

/// The largest message of the topic "small".
pub(crate) const SMALL: usize = 600;

/// `socket.request.max.bytes`: the connection is closed on what is larger.
const MOST_REQUEST_BYTES: u32 = 17 * 1024 * 1024;

/// What was written, in its order.
pub(crate) type Written = Arc<Mutex<Vec<Record>>>;

/// Starts it; returns its port.
pub(crate) async fn start(tls: Option<Arc<ServerConfig>>) -> u16 {
    start_noting(tls, Written::default()).await
}

pub(crate) async fn start_noting(tls: Option<Arc<ServerConfig>>, written: Written) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (tls, written) = (tls.clone(), Arc::clone(&written));
            tokio::spawn(async move {
                match tls {
                    None => serve(stream, port, &written).await,
                    Some(config) => {
                        if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                            serve(stream, port, &written).await;
                        }
                    }
                }
            });
        }
    });
    port
}

/// Until the client leaves, or is refused.
async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, port: u16, written: &Written) {
    while let Ok(length) = stream.read_u32().await {
        if length > MOST_REQUEST_BYTES {
            return;
        }
        let mut frame = vec![0; length as usize];
        stream.read_exact(&mut frame).await.unwrap();
        let mut frame = Bytes::from(frame);
        let (key, version) = ((&frame[..2]).get_i16(), (&frame[2..4]).get_i16());
        let header_version = match key {
            MetadataRequest::KEY => MetadataRequest::header_version(version),
            SaslAuthenticateRequest::KEY => SaslAuthenticateRequest::header_version(version),
            _ => 1,
        };
        let id = RequestHeader::decode(&mut frame, header_version)
            .unwrap()
            .correlation_id;
        let answer = match key {
            MetadataRequest::KEY => metadata(frame, version, id, port),
            ProduceRequest::KEY => match produce(frame, version, id, written) {
                Some(answer) => answer,
                None => return std::future::pending().await,
            },
            SaslHandshakeRequest::KEY => handshake(frame, version, id),
            SaslAuthenticateRequest::KEY => authenticate(frame, version, id),
            FindCoordinatorRequest::KEY => coordinator(version, id, port),
            OffsetCommitRequest::KEY => commit(frame, version, id),
            _ => versions(id),
        };
        stream
            .write_u32(u32::try_from(answer.len()).unwrap())
            .await
            .unwrap();
        stream.write_all(&answer).await.unwrap();
        stream.flush().await.unwrap();
        if key == OffsetCommitRequest::KEY {
            return;
        }
    }
}

fn answer<A: Encodable + HeaderVersion>(answer: &A, version: i16, id: i32) -> BytesMut {
    let mut bytes = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(id);
    header
        .encode(&mut bytes, A::header_version(version))
        .unwrap();
    answer.encode(&mut bytes, version).unwrap();
    bytes
}

fn versions(id: i32) -> BytesMut {
    let known = [
        (MetadataRequest::KEY, 9),
        (ProduceRequest::KEY, 8),
        (SaslHandshakeRequest::KEY, 1),
        (SaslAuthenticateRequest::KEY, 2),
        (FindCoordinatorRequest::KEY, 6),
        (OffsetCommitRequest::KEY, 9),
    ];
    let known = known.map(|(key, newest)| {
        let known = ApiVersion::default().with_api_key(key);
        known.with_max_version(newest)
    });
    let versions = ApiVersionsResponse::default().with_api_keys(known.to_vec());
    answer(&versions, 0, id)
}

fn handshake(mut frame: Bytes, version: i16, id: i32) -> BytesMut {
    let asked = SaslHandshakeRequest::decode(&mut frame, version).unwrap();
    let offered = ["PLAIN", "OAUTHBEARER"].map(StrBytes::from_static_str);
    let code = if offered.contains(&asked.mechanism) {
        0
    } else {
        UNSUPPORTED_MECHANISM
    };
    let said = SaslHandshakeResponse::default()
        .with_error_code(code)
        .with_mechanisms(offered.to_vec());
    answer(&said, version, id)
}

/// The password is "right", and so is the token. A wrong token is refused as Kafka does it: without an error, in words, since the
/// client has the next one.
fn authenticate(mut frame: Bytes, version: i16, id: i32) -> BytesMut {
    const WRONG_TOKEN: &[u8] = br#"{"status":"invalid_token"}"#;
    let asked = SaslAuthenticateRequest::decode(&mut frame, version).unwrap();
    let said = match &asked.auth_bytes[..] {
        b"\0tollgate\0right" | b"n,,\x01auth=Bearer right\x01\x01" => {
            SaslAuthenticateResponse::default()
        }
        said if said.starts_with(b"n,,\x01auth=Bearer ") => {
            SaslAuthenticateResponse::default().with_auth_bytes(Bytes::from_static(WRONG_TOKEN))
        }
        _ => {
            let why = StrBytes::from_static_str("Authentication failed");
            SaslAuthenticateResponse::default()
                .with_error_code(AUTHENTICATION_FAILED)
                .with_error_message(Some(why))
        }
    };
    answer(&said, version, id)
}

fn coordinator(version: i16, id: i32, port: u16) -> BytesMut {
    let found = FindCoordinatorResponse::default()
        .with_host(StrBytes::from_static_str("localhost"))
        .with_port(port.into());
    answer(&found, version, id)
}

/// The group "members" has some; nobody has the right to the group "denied".
fn commit(mut frame: Bytes, version: i16, id: i32) -> BytesMut {
    let asked = OffsetCommitRequest::decode(&mut frame, version).unwrap();
    assert_eq!(asked.generation_id_or_member_epoch, -1);
    assert_eq!(asked.member_id.as_str(), "");
    let code = match asked.group_id.as_str() {
        "members" => UNKNOWN_MEMBER,
        "denied" => GROUP_AUTHORIZATION_FAILED,
        _ => 0,
    };
    let topics = asked.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let said = OffsetCommitResponsePartition::default();
            said.with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        OffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    let said = OffsetCommitResponse::default().with_topics(topics.collect());
    answer(&said, version, id)
}

/// Topics are what their names say.
fn metadata(mut frame: Bytes, version: i16, id: i32, port: u16) -> BytesMut {
    let asked = MetadataRequest::decode(&mut frame, version).unwrap();
    let topics = asked.topics.unwrap().into_iter().map(|topic| {
        let name = topic.name.unwrap();
        let (code, partitions) = match name.as_str() {
            "missing" => (UNKNOWN_TOPIC, 0),
            "denied" => (TOPIC_AUTHORIZATION_FAILED, 0),
            "small" | "any" => (0, 1),
            "half" => (0, 2),
            _ => (0, 0),
        };
        MetadataResponseTopic::default()
            .with_name(Some(name))
            .with_error_code(code)
            .with_partitions((0..partitions).map(partition).collect())
    });
    let this = MetadataResponseBroker::default()
        .with_host(StrBytes::from_static_str("localhost"))
        .with_port(port.into());
    let said = MetadataResponse::default()
        .with_brokers(vec![this])
        .with_topics(topics.collect());
    answer(&said, version, id)
}

fn partition(index: i32) -> MetadataResponsePartition {
    MetadataResponsePartition::default().with_partition_index(index)
}

/// No answer for the second partition, whose leader is silent.
fn produce(mut frame: Bytes, version: i16, id: i32, written: &Written) -> Option<BytesMut> {
    let mut asked = ProduceRequest::decode(&mut frame, version).unwrap();
    let mut topic = asked.topic_data.remove(0);
    let data = topic.partition_data.remove(0);
    let mut batch = data.records.unwrap();
    let mut said = PartitionProduceResponse::default();
    if batch.len() > SMALL && topic.name.as_str() != "any" {
        said.error_code = MESSAGE_TOO_LARGE;
    } else {
        let records = RecordBatchDecoder::decode(&mut batch).unwrap().records;
        written.lock().unwrap().extend(records);
    }
    if data.index > 0 {
        return None;
    }
    let said = TopicProduceResponse::default()
        .with_name(topic.name)
        .with_partition_responses(vec![said]);
    let said = ProduceResponse::default().with_responses(vec![said]);
    Some(answer(&said, version, id))
}
