//! Why something about invoices was not done, by what the caller does about it.

use thiserror::Error;
use tollgate_core::details::{self, Details, in_one_line};
use tollgate_core::flow::StepError;
use tollgate_core::ports::{ActionResult, StoreError};

#[derive(Debug, Error)]
pub enum BillingError {
    /// These fields are wrong.
    #[error("{}", in_one_line(.0))]
    Invalid(Details),
    #[error("{0}")]
    NotFound(String),
    /// The id is taken by other content.
    #[error("{0}")]
    Known(String),
    /// The id is taken by an invoice whose data was erased.
    #[error("invoice {0} existed, and its data was erased; use a new id")]
    Erased(String),
    /// It has ended and lies in a file of the archive.
    #[error("{0}")]
    Archived(String),
    /// It is in the archive, where nothing is changed.
    #[error("{0}")]
    Unchangeable(String),
    /// It is not in a state for that.
    #[error("{0}")]
    Conflict(String),
    /// It could not be planned.
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BillingError {
    pub(super) fn field(name: &str, why: impl Into<String>) -> Self {
        Self::Invalid(details::one(name, why))
    }

    pub(super) fn no_invoice(id: &str) -> Self {
        Self::NotFound(format!("there is no invoice {id}"))
    }

    pub(super) fn no_customer(id: &str) -> Self {
        Self::NotFound(format!("there is no customer {id}"))
    }
}

/// A schedule that cannot be read now may be put right by a person: it is tried again.
impl From<BillingError> for StepError {
    fn from(error: BillingError) -> Self {
        match error {
            BillingError::Store(error) => error.into(),
            other => Self::retryable(other.to_string()),
        }
    }
}

/// What became of a person's wish about an invoice.
pub(super) fn intervened(id: &str, verb: &str, said: ActionResult) -> Result<(), BillingError> {
    match said {
        ActionResult::Yes => Ok(()),
        ActionResult::NoSuchItem => Err(BillingError::no_invoice(id)),
        ActionResult::Refused(why) => Err(BillingError::Conflict(format!(
            "invoice {id} cannot be {verb}: {why}"
        ))),
    }
}
