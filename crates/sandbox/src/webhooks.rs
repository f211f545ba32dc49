//! The receiver of notifications, `POST /webhooks`: checks the signature by its own reading of the
//! Standard Webhooks specification, knows a repeat by its id, and writes everything down.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{StatusCode, request::Parts};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::sleep;

use crate::{
    answers::{Answer, Said},
    contract::{Counter, HungUp, sha256_hex, struck},
    entry::Kind,
    faults::{Strike, When},
    request::read_body,
};

/// Known to everybody: a sandbox keeps no secrets.
pub const WEBHOOK_SECRET: &str = "whsec_YSBzYW5kYm94IGtlZXBzIG5vIHNlY3JldHMgYXQgYWxs";
/// How far the sender's clock may be from ours.
const TOLERANCE_SECS: i64 = 300;
const BLOCK_BYTES: usize = 64;

/// One arrival at `POST /webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub arrival_secs: u64,
    pub id: String,
    /// The `type` of the envelope.
    pub event: Option<String>,
    pub payment_id: Option<String>,
    pub body_sha256: String,
    pub received: Received,
    /// The fault that struck it.
    pub fault: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Received {
    /// The first of its id.
    Took,
    /// The id was known, with the same body.
    Repeated,
    /// The id was known with another body: one id must mean one thing.
    Changed,
    /// The signature is not ours, or the time is not now.
    Forged,
    /// A fault before the work: the receiver knows nothing of it.
    Lost,
}

#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) deliveries: Vec<Delivery>,
    /// The body's hash of every id that was taken.
    taken: HashMap<String, String>,
}

impl Mailbox {
    pub(crate) fn summary(&self) -> Value {
        let count = |received| {
            let mine = |it: &&Delivery| it.received == received;
            self.deliveries.iter().filter(mine).count()
        };
        json!({
            "arrivals": self.deliveries.len(), "taken": count(Received::Took),
            "repeated": count(Received::Repeated), "changed": count(Received::Changed),
            "forged": count(Received::Forged), "lost": count(Received::Lost),
        })
    }

    fn take(&mut self, id: &str, body_sha256: &str) -> Received {
        match self.taken.get(id) {
            Some(known) if known == body_sha256 => Received::Repeated,
            Some(_) => Received::Changed,
            None => {
                self.taken.insert(id.to_owned(), body_sha256.to_owned());
                Received::Took
            }
        }
    }
}

impl Counter {
    pub(crate) async fn serve_webhook(
        self: Arc<Self>,
        head: &Parts,
        body: Incoming,
    ) -> Result<Answer, HungUp> {
        let lot = self.faults.draw(Kind::Webhook);
        let body = read_body(body).await?.unwrap_or_default();
        let envelope: Value = serde_json::from_slice(&body).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let payment_id = text(&envelope["data"]["paymentId"]);
        let fate = lot.fate(payment_id.as_deref());
        let is_lost = fate.blow.is_some_and(|blow| blow.when == When::Before);
        let mut delivery = Delivery {
            arrival_secs: self.ledger.now().as_secs(),
            id: header(head, "webhook-id").to_owned(),
            event: text(&envelope["type"]),
            payment_id,
            body_sha256: sha256_hex(&body),
            received: Received::Lost,
            fault: fate.blow.map(|blow| blow.to_string()),
        };
        if !is_lost {
            delivery.received = self.receive(head, &body, &delivery);
        }
        let said = answer(delivery.received);
        let payment_id = delivery.payment_id.clone().unwrap_or_default();
        self.ledger.mailbox().deliveries.push(delivery);
        if fate.latency > Duration::ZERO {
            sleep(fate.latency).await;
        }
        let strike: Option<Strike> = fate.blow.map(|blow| blow.strike);
        struck(said, strike, &payment_id).await
    }

    fn receive(&self, head: &Parts, body: &[u8], delivery: &Delivery) -> Received {
        let since_epoch = self.ledger.wall_anchor().duration_since(UNIX_EPOCH);
        let now = (since_epoch.unwrap_or_default() + self.ledger.now()).as_secs();
        if !is_genuine(head, body, now.cast_signed()) {
            return Received::Forged;
        }
        let mut mailbox = self.ledger.mailbox();
        mailbox.take(&delivery.id, &delivery.body_sha256)
    }
}

fn answer(received: Received) -> Said {
    let refused = |status, field, reason| Said::error(status, field, reason);
    match received {
        Received::Took | Received::Repeated | Received::Lost => {
            Said::json(StatusCode::OK, json!({"received": true}).to_string())
        }
        Received::Changed => refused(StatusCode::CONFLICT, "webhook-id", "has another body"),
        Received::Forged => refused(
            StatusCode::UNAUTHORIZED,
            "webhook-signature",
            "is not ours, or webhook-timestamp is not now",
        ),
    }
}

fn header<'a>(head: &'a Parts, name: &str) -> &'a str {
    let value = head.headers.get(name).and_then(|it| it.to_str().ok());
    value.unwrap_or_default()
}

fn is_genuine(head: &Parts, body: &[u8], now_secs: i64) -> bool {
    let (id, at) = (
        header(head, "webhook-id"),
        header(head, "webhook-timestamp"),
    );
    let Ok(at_secs) = at.parse::<i64>() else {
        return false;
    };
    let key = STANDARD.decode(&WEBHOOK_SECRET["whsec_".len()..]);
    let signed = [id.as_bytes(), b".", at.as_bytes(), b".", body].concat();
    let expected = STANDARD.encode(hmac_sha256(&key.unwrap_or_default(), &signed));
    let mut given = header(head, "webhook-signature").split(' ');
    !id.is_empty()
        && now_secs.abs_diff(at_secs) <= TOLERANCE_SECS.unsigned_abs()
        && given.any(|one| one.strip_prefix("v1,") == Some(&expected))
}

/// By hand, so that it does not share a mistake with the sender. The key fits into one block.
fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; BLOCK_BYTES];
    block[..key.len()].copy_from_slice(key);
    let inner = Sha256::digest([&block.map(|byte| byte ^ 0x36), message].concat());
    Sha256::digest([&block.map(|byte| byte ^ 0x5c), &inner[..]].concat()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the Standard Webhooks specification.
    #[test]
    fn the_hash_is_that_of_the_specification() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = r#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#;
        let signature = STANDARD.encode(hmac_sha256(&key, signed.as_bytes()));
        assert_eq!(signature, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn only_a_fresh_message_with_a_signature_by_our_secret_is_genuine() {
        let key = STANDARD.decode(&WEBHOOK_SECRET[6..]).unwrap();
        let signature = STANDARD.encode(hmac_sha256(&key, b"msg_1.1000.{}"));
        let signature = format!("v1,{signature}");
        let judged = |id: &str, at: &str, signature: &str, body: &str, now| {
            let request = http::Request::post("/webhooks")
                .header("webhook-id", id)
                .header("webhook-timestamp", at)
                .header("webhook-signature", signature);
            is_genuine(
                &request.body(()).unwrap().into_parts().0,
                body.as_bytes(),
                now,
            )
        };
        assert!(judged("msg_1", "1000", &signature, "{}", 1000));
        assert!(judged(
            "msg_1",
            "1000",
            &format!("v1,x {signature}"),
            "{}",
            1300
        ));
        assert!(!judged("msg_1", "1000", &signature, "{}", 1301), "too old");
        assert!(
            !judged("msg_1", "1000", &signature, "{ }", 1000),
            "another body"
        );
        assert!(
            !judged("msg_2", "1000", &signature, "{}", 1000),
            "another id"
        );
        assert!(
            !judged("msg_1", "1001", &signature, "{}", 1000),
            "another time"
        );
        assert!(!judged("msg_1", "1000", "", "{}", 1000), "unsigned");
        assert!(!judged("msg_1", "soon", &signature, "{}", 1000), "no time");
    }

    #[test]
    fn an_id_is_taken_once_and_means_one_thing() {
        let mut mailbox = Mailbox::default();
        assert_eq!(mailbox.take("a", "1"), Received::Took);
        assert_eq!(mailbox.take("a", "1"), Received::Repeated);
        assert_eq!(mailbox.take("a", "2"), Received::Changed);
        assert_eq!(mailbox.take("b", "1"), Received::Took);
    }
}
