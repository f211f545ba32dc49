//! What the bank puts on the wire: honest answers, and the ones that faults make of them.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use hyper::body::{Body, Frame, SizeHint};
use serde_json::{Map, Value, json};

use crate::request::Name;

pub(crate) type Answer = Response<AnswerBody>;

/// This much of a huge answer is made at a time.
const CHUNK_BYTES: usize = 64 * 1024;
const MEGABYTE: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) enum AnswerBody {
    Whole(Bytes),
    Half {
        given: Bytes,
        promised: u64,
        state: HalfState,
    },
    /// JSON that names its payment, with padding in the middle; its length is not announced.
    Huge {
        parts: Vec<Bytes>,
        padding_left: usize,
    },
}

/// The first half must have gone out before the connection breaks, so there is a pause between.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HalfState {
    Untouched,
    Given,
    Flushed,
}

/// Makes hyper close the connection in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("the bank broke off")]
pub(crate) struct BrokeOff;

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(frame(std::mem::take(bytes))),
            Self::Half { given, state, .. } => match state {
                HalfState::Untouched => {
                    *state = HalfState::Given;
                    Poll::Ready(frame(std::mem::take(given)))
                }
                HalfState::Given => {
                    *state = HalfState::Flushed;
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                HalfState::Flushed => Poll::Ready(Some(Err(BrokeOff))),
            },
            Self::Huge {
                parts,
                padding_left,
            } => {
                let padding = (*padding_left).min(CHUNK_BYTES);
                if parts.len() == 1 && padding > 0 {
                    *padding_left -= padding;
                    return Poll::Ready(frame(Bytes::from(vec![b'x'; padding])));
                }
                Poll::Ready(parts.pop().and_then(frame))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Half { promised, .. } => SizeHint::with_exact(*promised),
            Self::Huge { .. } => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }
}

fn frame<E>(bytes: Bytes) -> Option<Result<Frame<Bytes>, E>> {
    (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)))
}

/// What an honest bank says; faults disfigure it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: StatusCode,
    pub(crate) retry_after_secs: Option<u32>,
    pub(crate) json: String,
}

impl Said {
    pub(crate) fn json(status: StatusCode, json: String) -> Self {
        Self {
            status,
            retry_after_secs: None,
            json,
        }
    }

    pub(crate) fn error(status: StatusCode, field: &str, reason: &str) -> Self {
        let body = json!({"error": {"field": field, "reason": reason}});
        Self::json(status, body.to_string())
    }

    /// What a probe is told of a payment that took effect, and what the garbled answers to
    /// unfinished work are made of.
    pub(crate) fn accepted(payment_id: &str) -> Self {
        let body = json!({"paymentId": payment_id, "status": "accepted"});
        Self::json(StatusCode::OK, body.to_string())
    }

    pub(crate) fn over_limit() -> Self {
        let said = Self::error(
            StatusCode::TOO_MANY_REQUESTS,
            "limit",
            "too many in this second",
        );
        Self {
            retry_after_secs: Some(1),
            ..said
        }
    }

    pub(crate) fn by_fault(status: StatusCode, retry_after_secs: Option<u32>) -> Self {
        let said = Self::error(
            status,
            "fault",
            "a fault of the sandbox replaced the answer",
        );
        Self {
            retry_after_secs,
            ..said
        }
    }

    /// A refusal says whom it is about: so does nobody on the way who answers in the bank's place.
    pub(crate) fn naming(mut self, name: Option<&Name>) -> Self {
        let fields = serde_json::from_str::<Map<String, Value>>(&self.json);
        if let (Some(Name { field, id }), Ok(mut fields)) = (name, fields)
            && self.status.is_client_error()
        {
            fields.insert((*field).to_owned(), json!(id));
            self.json = Value::Object(fields).to_string();
        }
        self
    }

    pub(crate) fn whole(self) -> Answer {
        let Self {
            status,
            retry_after_secs,
            json,
        } = self;
        let mut answer = typed(status, "application/json", AnswerBody::Whole(json.into()));
        if let Some(secs) = retry_after_secs {
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(secs));
        }
        answer
    }

    pub(crate) fn half(self) -> Answer {
        let whole = Bytes::from(self.json);
        let promised = whole.len() as u64;
        let given = whole.slice(..whole.len() / 2);
        let state = HalfState::Untouched;
        let body = AnswerBody::Half {
            given,
            promised,
            state,
        };
        typed(self.status, "application/json", body)
    }
}

/// As a load balancer says it that has no backend.
pub(crate) fn stranger(status: StatusCode) -> Answer {
    let body = format!("default backend - {}", status.as_str());
    typed(status, "text/plain", AnswerBody::Whole(body.into()))
}

pub(crate) fn garbage() -> Answer {
    let body = "<html><body>Welcome to your bank</body></html>";
    typed(
        StatusCode::OK,
        "text/html",
        AnswerBody::Whole(Bytes::from_static(body.as_bytes())),
    )
}

/// The same answer about somebody else's payment.
pub(crate) fn wrong_id(said: &Said) -> Said {
    let mut fields: Value = serde_json::from_str(&said.json).unwrap_or_default();
    let id = fields["paymentId"].as_str().unwrap_or_default();
    fields["paymentId"] = json!(format!("not-{id}"));
    Said::json(StatusCode::OK, fields.to_string())
}

/// The same answer about ten times the money, or more.
pub(crate) fn wrong_amount(said: &Said) -> Said {
    let mut fields: Value = serde_json::from_str(&said.json).unwrap_or_default();
    let amount = fields["amount"].as_str().unwrap_or_default();
    fields["amount"] = json!(format!("1{amount}"));
    Said::json(StatusCode::OK, fields.to_string())
}

pub(crate) fn huge(payment_id: &str, megabytes: u32) -> Answer {
    let opening = format!(
        r#"{{"paymentId":{},"status":"accepted","padding":""#,
        json!(payment_id)
    );
    let parts = vec![Bytes::from_static(b"\"}"), Bytes::from(opening)];
    let padding_left = MEGABYTE.saturating_mul(megabytes as usize);
    typed(
        StatusCode::OK,
        "application/json",
        AnswerBody::Huge {
            parts,
            padding_left,
        },
    )
}

pub(crate) fn text(kind: &'static str, text: String) -> Answer {
    typed(StatusCode::OK, kind, AnswerBody::Whole(text.into()))
}

fn typed(status: StatusCode, kind: &'static str, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
