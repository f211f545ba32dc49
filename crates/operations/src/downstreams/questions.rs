//! Questions to banks about payments in doubt, for a person's request and for jobs. Each takes a turn in the bank's lane.
//! Only an answer that proves that the payment was done is worth noting; everything else its own flow finds out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tollgate_core::account::without_accounts;
use tollgate_core::id::Item;
use tollgate_core::lane_in_force::LaneState;
use tollgate_core::ports::{BankSaid, IN_DOUBT, ItemView, Store, StoreResult};
use tollgate_core::{SignedDuration, Timestamp};
use tollgate_dispatch::AskBanks;
use tollgate_domains::payments;

use crate::downstreams::asking::{Asker, Asking, only_the_id};

/// A job waits so long for a lane that opens again.
const LANE_OPENS_WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// What a bank answered.
#[derive(Debug)]
pub struct Said {
    /// By its description.
    pub(crate) means: &'static str,
    /// Its own words without accounts, if they prove that the payment was done.
    pub evidence: Option<String>,
}

impl Said {
    /// Whether it says anything about the payment.
    pub fn says_something(&self) -> bool {
        self.evidence.is_some() || matches!(self.means, "not known" | "declined")
    }

    fn sentence(&self) -> String {
        match self.means {
            "done" | "done before" => "the bank has executed it".to_owned(),
            "not known" => "the bank does not know it".to_owned(),
            "declined" => "the bank has declined it".to_owned(),
            means => format!("the answer proves nothing: {means}"),
        }
    }
}

/// Why a bank cannot be asked now, and until when.
#[derive(Debug)]
pub struct Closed {
    pub why: String,
    until: Option<Timestamp>,
}

/// The way to the banks, each by one connection that is kept.
pub struct Questions {
    store: Arc<dyn Store>,
    asking: Arc<Asking>,
    askers: Mutex<HashMap<Option<String>, Arc<Asker>>>,
}

impl std::fmt::Debug for Questions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Questions").finish_non_exhaustive()
    }
}

impl Questions {
    pub fn new(store: &Arc<dyn Store>, asking: &Arc<Asking>) -> Self {
        Self {
            store: Arc::clone(store),
            asking: Arc::clone(asking),
            askers: Mutex::default(),
        }
    }

    /// At once, and not after the patience for a turn: a closed lane asks nothing.
    pub async fn asker(&self, view: &ItemView) -> StoreResult<Result<Arc<Asker>, Closed>> {
        let bank = payments::connector_of(view);
        let mut askers = self.askers.lock().await;
        let asker = match askers.get(&bank) {
            Some(known) => Arc::clone(known),
            None => match self.connect(bank.as_deref()) {
                Ok(new) => Arc::clone(askers.entry(bank).or_insert(Arc::new(new))),
                Err(why) => {
                    let why = why.to_string();
                    return Ok(Err(Closed { why, until: None }));
                }
            },
        };
        drop(askers);
        let now = self.store.now().await?;
        let lane = self.store.lane(asker.lane()).await?;
        match lane.map(|lane| lane.state(now)) {
            Some(LaneState::Closed { why, until }) => Ok(Err(Closed { why, until })),
            _ => Ok(Ok(asker)),
        }
    }

    fn connect(&self, bank: Option<&str>) -> anyhow::Result<Asker> {
        Asker::new(
            self.asking
                .bank(bank.unwrap_or(payments::DEFAULT_GATEWAY))?,
        )
    }

    /// The error says why nothing was asked.
    pub async fn about(&self, asker: &Asker, view: &ItemView) -> StoreResult<Result<Said, String>> {
        let id = view.item.id.as_str();
        let request = payments::question_about(view).unwrap_or_else(|| only_the_id(id));
        let now = self.store.now().await?;
        let answer = match self.asking.question(asker, &request, now).await {
            Ok(answer) => answer,
            Err(why) => return Ok(Err(why)),
        };
        let is_done = matches!(answer.means, "done" | "done before");
        Ok(Ok(Said {
            means: answer.means,
            evidence: is_done.then(|| without_accounts(&answer.body, &accounts(view))),
        }))
    }

    /// Waits for a lane that opens soon, once.
    async fn asker_soon(&self, view: &ItemView) -> StoreResult<Result<Arc<Asker>, String>> {
        let closed = match self.asker(view).await? {
            Ok(asker) => return Ok(Ok(asker)),
            Err(closed) => closed,
        };
        let now = self.store.now().await?;
        let wait = closed.until.map(|until| until.duration_since(now));
        let Some(wait) = wait.filter(|wait| *wait < LANE_OPENS_WITHIN) else {
            return Ok(Err(closed.why));
        };
        tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
        let opened = self.asker(view).await?;
        Ok(opened.map_err(|closed| closed.why))
    }
}

#[async_trait]
impl AskBanks for Questions {
    async fn ask(&self, item: &Item) -> StoreResult<Result<BankSaid, String>> {
        let Some(view) = self.store.item(item).await? else {
            return Ok(Err("it no longer exists".to_owned()));
        };
        if view.status != IN_DOUBT {
            return Ok(Err(format!("it is {}, not {IN_DOUBT}", view.status)));
        }
        let asker = match self.asker_soon(&view).await? {
            Ok(asker) => asker,
            Err(why) => return Ok(Err(why)),
        };
        let said = self.about(&asker, &view).await?;
        Ok(said.map(|said| BankSaid {
            answer: said.sentence(),
            evidence: said.evidence,
        }))
    }
}

/// What a bank may repeat and nobody may read.
fn accounts(view: &ItemView) -> Vec<String> {
    match payments::document(view) {
        Ok(payment) => vec![payment.debtor.account, payment.creditor.account],
        Err(_) => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_is_a_sentence_and_only_some_say_something() {
        let said = |means, evidence: Option<&str>| Said {
            means,
            evidence: evidence.map(str::to_owned),
        };
        let done = said("done", Some("{}"));
        assert_eq!(done.sentence(), "the bank has executed it");
        assert!(done.says_something() && said("declined", None).says_something());
        let lost = said("unknown", None);
        assert_eq!(lost.sentence(), "the answer proves nothing: unknown");
        assert!(!lost.says_something() && !said("stop", None).says_something());
    }
}
