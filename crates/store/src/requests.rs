//! What both stores say of requests that cannot be withdrawn.

use tollgate_core::ports::{Intervened, RequestState};

pub(crate) fn not_waiting(state: RequestState) -> Intervened {
    match state {
        // It was never taken in, and its id is free.
        RequestState::Refused => Intervened::Refused("it was refused at intake".to_owned()),
        RequestState::Waiting | RequestState::Cancelled => {
            Intervened::Refused(format!("it is {} already", state.as_str()))
        }
    }
}
