//! Payments in doubt, asked about at their banks: each question takes a turn in the bank's lane, and an answer that
//! proves that the payment was done is noted as evidence. The payment's own flow ends it; everything else it finds out
//! for itself.

use std::time::Duration;

use axum::http::StatusCode;
use tokio::time::Instant;
use tollgate_core::id::ItemId;
use tollgate_core::ports::{ActionResult, Author, IN_DOUBT, ItemView};
use tollgate_domains::payments;
use tollgate_operations::downstreams::questions::{Questions, Said};

use crate::App;
use crate::answer::error::ApiError;

/// One request asks for so long. What it does not come to is told, and can be asked about by the next.
const ASKS_FOR: Duration = Duration::from_secs(20);

/// What came of the questions.
#[derive(Debug, Default)]
pub(super) struct AskedBanks {
    /// In doubt, of those that were to be asked about.
    pub(super) payments: usize,
    /// The question went out.
    pub(super) asked: usize,
    /// The bank's answer says something about the payment.
    pub(super) answered: usize,
    /// The bank has done it, and that is noted.
    pub(super) resolved: usize,
    /// Not asked about in the time there was.
    pub(super) left: Vec<String>,
    /// Why the first of those that could not be asked about could not.
    why_not: Option<String>,
}

impl AskedBanks {
    /// Nobody was asked, although there is something to ask about.
    pub(super) fn must_have_asked(self) -> Result<Self, ApiError> {
        match &self.why_not {
            Some(why) if self.asked == 0 => {
                let error = format!("no bank was asked: {why}");
                Err(ApiError::new(StatusCode::BAD_GATEWAY, error))
            }
            _ => Ok(self),
        }
    }
}

pub(super) async fn ask_banks(
    app: &App,
    actor: &str,
    ids: &[String],
) -> Result<AskedBanks, ApiError> {
    let until = Instant::now() + ASKS_FOR;
    let (mut told, questions) = (
        AskedBanks::default(),
        Questions::new(&app.store, &app.asking),
    );
    for id in ids {
        let view = app.store.item(&payments::item(&ItemId::new(id))).await?;
        let Some(view) = view.filter(|view| view.status == IN_DOUBT) else {
            continue;
        };
        told.payments += 1;
        if Instant::now() >= until {
            told.left.push(id.clone());
            continue;
        }
        let asked = match questions.asker(&view).await? {
            Ok(asker) => questions.about(&asker, &view).await?,
            Err(closed) => Err(closed.why),
        };
        match asked {
            Ok(said) => {
                told.asked += 1;
                told.answered += usize::from(said.says_something());
                told.resolved += usize::from(app.noted(actor, &view, said).await?);
            }
            Err(why) => {
                told.why_not.get_or_insert(why);
            }
        }
    }
    Ok(told)
}

impl App {
    /// Whether the answer ends the doubt. Its own flow may be answered right now, or was.
    async fn noted(&self, actor: &str, view: &ItemView, said: Said) -> Result<bool, ApiError> {
        let Some(evidence) = said.evidence else {
            return Ok(false);
        };
        let evidence = Author::new(actor, evidence);
        let noted = self.store.note_done(&view.item, evidence).await?;
        Ok(noted == ActionResult::Yes)
    }
}
