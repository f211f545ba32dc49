//! Sources of feeds and the sink of events: topics of Kafka, spoken to in Kafka's own protocol. Nothing is remembered here: the broker is
//! asked for records from a position of ours, and we join no consumer group (docs/decisions/0049).

mod batches;
mod connection;
mod credentials;
mod events;
mod group;
mod header_names;
mod kafka;
mod leaders;
mod outgoing;
mod produce;
mod scram;
mod tls;
mod unpacking;
mod words;

pub use connection::Access;
pub use credentials::{Credentials, Hash, SecretSource};
pub use events::KafkaEvents;
pub use kafka::{KafkaFeed, KafkaTopics};
pub use tls::tls;
