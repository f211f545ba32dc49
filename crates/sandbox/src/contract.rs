//! The bank's side of the HTTP contract: one request in, one answer out, or what a fault makes of
//! it. What takes effect is decided in the books; connections are kept by the bank.

use std::{
    future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use sha2::{Digest, Sha256};
use tokio::{sync::oneshot, task::JoinSet, time::sleep};

use crate::{
    answers::{self, Answer, Said},
    books::{Place, Terms, Verdict},
    dialect::{DUPLICATE, Dialect, Tokens},
    entry::{Effect, Entry, Kind},
    fate::{Fate, FaultSource},
    faults::{Blow, Strike, When},
    ledger::Ledger,
    request::{ClientRequest, Complaint, Name, read_body},
    services::Service,
};

/// The counter that serves all connections.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) ledger: Ledger,
    pub(crate) faults: FaultSource,
    pub(crate) limit_per_second: Option<u32>,
    pub(crate) honours_keys: bool,
    pub(crate) speaks: Dialect,
    pub(crate) tokens: Tokens,
    /// Slow work, which goes on when its client leaves and ends with the bank.
    pub(crate) slow_work: Mutex<JoinSet<()>>,
}

/// How an answer is worded.
#[derive(Clone, Copy)]
struct Tongue<'a> {
    speaks: Dialect,
    kind: Kind,
    key: Option<&'a str>,
}

/// Makes the bank reset the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the bank hung up")]
pub(crate) struct HungUp;

impl Counter {
    pub(crate) async fn serve(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Answer, HungUp> {
        let seen_at = self.ledger.now();
        let (head, body) = request.into_parts();
        if let Some(service) = Service::of(&head) {
            return self.serve_service(service, &head, body).await;
        }
        if self.speaks.is_token_endpoint(&head) {
            return Ok(self.tokens.issue(&head).ok_or(HungUp)?.whole());
        }
        let Some(kind) = self.speaks.kind_of(&head) else {
            return self.serve_visitor(&head, body).await;
        };
        if let Some(turned_away) = self.speaks.turns_away(&head, &self.tokens) {
            read_body(body).await?;
            return Ok(turned_away.whole());
        }
        if kind == Kind::Webhook {
            return self.serve_webhook(&head, body).await;
        }
        // Drawn before the arrival is announced: whoever waits for the arrival and then changes
        // the faults does not change this one's fate.
        let lot = self.faults.draw(kind);
        let key = self.speaks.key_of(&head);
        let arrival = (self.ledger).arrive(seen_at, kind, key.clone(), self.limit_per_second);
        let place = arrival.place;

        let body = read_body(body).await?;
        let bytes = body.as_deref();
        let understood = self
            .speaks
            .understand(kind, &head, bytes, self.honours_keys);
        let (asked, batch) = match understood {
            Ok((asked, batch)) => (Ok(asked), batch),
            Err(complaint) => (Err(complaint), None),
        };
        let key = batch.or(key);
        let body_sha256 = body.as_deref().map(sha256_hex);
        let fate = lot.fate(asked.as_ref().ok().map(ClientRequest::payment_id));
        let blow = fate.blow.filter(|_| arrival.within_limit);
        self.ledger.amend(place, |entry| {
            entry.body_sha256 = body_sha256;
            entry.key.clone_from(&key);
            entry.fault = blow.map(|blow| blow.to_string());
            describe(entry, asked.as_ref().ok());
        });
        if !arrival.within_limit {
            self.ledger.amend(place, |entry| entry.answered = true);
            let said = self.speaks.say(Said::over_limit(), kind, "", None);
            return Ok(said.whole());
        }
        let name = asked.as_ref().ok().map(ClientRequest::name);
        let said = match blow {
            Some(Blow {
                strike,
                when: When::Before,
            }) => self.leave_undone(place, &asked, kind, strike),
            Some(Blow {
                when: When::After, ..
            })
            | None => self.work(place, asked, fate).await?,
        };
        // The timer rounds up to a millisecond, so a bank without latency must not sleep at all.
        if !fate.latency.is_zero() {
            sleep(fate.latency).await;
        }
        let strike = blow.map(|blow| blow.strike);
        let tongue = Tongue {
            speaks: self.speaks,
            kind,
            key: key.as_deref(),
        };
        self.deliver(place, said, strike, name.as_ref(), tongue)
            .await
    }

    /// Does what is asked. No await between the last byte and the effect, unless the work is
    /// slow: a client that leaves cannot undo it.
    async fn work(
        self: &Arc<Self>,
        place: Place,
        asked: Result<ClientRequest, Complaint>,
        fate: Fate,
    ) -> Result<Said, HungUp> {
        match asked {
            Ok(asked @ (ClientRequest::Pay(_) | ClientRequest::Charge(_)))
                if !fate.work.is_zero() =>
            {
                self.pay_slowly(place, asked, fate).await
            }
            Ok(asked) => self.carry_out(place, &asked, fate),
            Err(complaint) => {
                self.ledger
                    .amend(place, |entry| entry.effect = Effect::RefusedOther);
                Ok(Said::error(
                    complaint.status,
                    complaint.field,
                    &complaint.reason,
                ))
            }
        }
    }

    fn carry_out(&self, place: Place, asked: &ClientRequest, fate: Fate) -> Result<Said, HungUp> {
        let terms = self.terms(fate);
        match asked {
            ClientRequest::Pay(order) => said(self.ledger.pay(place, order, &terms)),
            ClientRequest::Charge(charge) => {
                said(self.ledger.charge(place, charge, &terms, fate.decline))
            }
            ClientRequest::Probe { .. } | ClientRequest::AskCharge { .. } => {
                Ok(self.tell(place, asked, false))
            }
        }
    }

    async fn pay_slowly(
        self: &Arc<Self>,
        place: Place,
        asked: ClientRequest,
        fate: Fate,
    ) -> Result<Said, HungUp> {
        let heeds = self.honours_keys || self.speaks == Dialect::Paypal;
        let held = match self.ledger.hold_key(place, heeds) {
            Ok(held) => held,
            Err(refusal) => return said(refusal),
        };
        let (done, answer) = oneshot::channel();
        let counter = Arc::clone(self);
        let work = async move {
            sleep(fate.work).await;
            drop(held);
            // Nobody may be waiting any more.
            let _ = done.send(counter.carry_out(place, &asked, fate));
        };
        {
            let mut at_work = self.slow_work();
            while at_work.try_join_next().is_some() {}
            at_work.spawn(work);
        }
        answer.await.unwrap_or(Err(HungUp))
    }

    pub(crate) fn slow_work(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.slow_work
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn terms(&self, fate: Fate) -> Terms {
        Terms {
            honours_keys: self.honours_keys,
            refuses_batches: self.speaks == Dialect::Paypal && !self.honours_keys,
            settle: fate.settle,
            forget_key: fate.forget_key,
        }
    }

    /// `hide` denies what is in the books.
    fn tell(&self, place: Place, asked: &ClientRequest, hide: bool) -> Said {
        if let ClientRequest::AskCharge { key } = asked {
            return match self.ledger.probe_charge(place, key, hide) {
                Some(answer) => Said::json(StatusCode::OK, answer),
                None => Said::error(StatusCode::NOT_FOUND, "key", "nothing was charged under it"),
            };
        }
        let payment_id = asked.payment_id();
        if self.ledger.probe(place, payment_id, hide) {
            Said::accepted(payment_id)
        } else {
            Said::error(StatusCode::NOT_FOUND, "paymentId", "never took effect here")
        }
    }

    fn leave_undone(
        &self,
        place: Place,
        asked: &Result<ClientRequest, Complaint>,
        kind: Kind,
        strike: Strike,
    ) -> Said {
        let payment_id = asked
            .as_ref()
            .map(ClientRequest::payment_id)
            .unwrap_or_default();
        let effect = match strike {
            Strike::Status {
                status: StatusCode::NOT_FOUND,
                ..
            } if kind == Kind::Probe => match asked {
                Ok(asked) => return self.tell(place, asked, true),
                Err(_) => Effect::RefusedOther,
            },
            Strike::Status {
                status: StatusCode::TOO_MANY_REQUESTS,
                ..
            } => Effect::Refused429,
            Strike::Status { status, .. } if status.is_client_error() => Effect::RefusedOther,
            Strike::Status { .. }
            | Strike::Stranger { .. }
            | Strike::Reset
            | Strike::Stall
            | Strike::Half
            | Strike::Garbage
            | Strike::Empty
            | Strike::WrongId
            | Strike::WrongAmount
            | Strike::Huge { .. } => Effect::LostBefore,
        };
        self.ledger.amend(place, |entry| entry.effect = effect);
        Said::accepted(payment_id)
    }

    /// What was said goes out, or what the fault makes of it.
    async fn deliver(
        &self,
        place: Place,
        said: Said,
        strike: Option<Strike>,
        name: Option<&Name>,
        tongue: Tongue<'_>,
    ) -> Result<Answer, HungUp> {
        let id = name.map(|name| name.id.as_str()).unwrap_or_default();
        let translated = |said: Said| tongue.speaks.say(said, tongue.kind, id, tongue.key);
        let answer = match strike {
            None => translated(said.naming(name)).whole(),
            Some(Strike::Status {
                status,
                retry_after_secs,
            }) => {
                let said = Said::by_fault(status, retry_after_secs);
                translated(said.naming(name)).whole()
            }
            Some(Strike::Half) => translated(said).half(),
            Some(Strike::WrongId) => translated(answers::wrong_id(&said)).whole(),
            Some(Strike::WrongAmount) => translated(answers::wrong_amount(&said)).whole(),
            Some(_) => struck(said, strike, id).await?,
        };
        if !matches!(strike, Some(Strike::Half)) {
            self.ledger.amend(place, |entry| entry.answered = true);
        }
        Ok(answer)
    }
}

pub(crate) async fn struck(
    said: Said,
    strike: Option<Strike>,
    payment_id: &str,
) -> Result<Answer, HungUp> {
    Ok(match strike {
        None => said.whole(),
        Some(Strike::Status {
            status,
            retry_after_secs,
        }) => Said::by_fault(status, retry_after_secs).whole(),
        Some(Strike::Stranger { status }) => answers::stranger(status),
        Some(Strike::Reset) => return Err(HungUp),
        Some(Strike::Stall) => future::pending().await,
        Some(Strike::Half) => said.half(),
        Some(Strike::Garbage) => answers::garbage(),
        Some(Strike::Empty) => Said::json(StatusCode::OK, String::new()).whole(),
        Some(Strike::WrongId) => answers::wrong_id(&said).whole(),
        Some(Strike::WrongAmount) => answers::wrong_amount(&said).whole(),
        Some(Strike::Huge { megabytes }) => answers::huge(payment_id, megabytes),
    })
}

fn said(verdict: Verdict) -> Result<Said, HungUp> {
    let refused = |status, reason| Ok(Said::error(status, "Idempotency-Key", reason));
    match verdict {
        Verdict::Accepted { answer } => Ok(Said::json(StatusCode::OK, answer)),
        Verdict::KeyHasAnotherBody => refused(
            StatusCode::UNPROCESSABLE_ENTITY,
            "was used with another body",
        ),
        Verdict::KeyInUse => refused(StatusCode::CONFLICT, "is in use by another request"),
        Verdict::KnownBatch => Ok(Said::error(
            StatusCode::BAD_REQUEST,
            DUPLICATE,
            "is known already",
        )),
        Verdict::BooksClosed => Err(HungUp),
    }
}

fn describe(entry: &mut Entry, asked: Option<&ClientRequest>) {
    entry.payment_id = asked.map(ClientRequest::ledger_name);
    let order = match asked {
        Some(ClientRequest::Pay(order)) => order,
        Some(ClientRequest::Charge(charge)) => &charge.order,
        Some(ClientRequest::Probe { .. } | ClientRequest::AskCharge { .. }) | None => return,
    };
    entry.amount = Some(order.amount_text.clone());
    entry.currency = Some(order.currency.clone());
}

pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    format!("{:x}", Bytes::copy_from_slice(&Sha256::digest(bytes)))
}
