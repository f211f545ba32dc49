//! A use case and its driver, in turns. Polled by hand: between two questions a use case waits for
//! nothing, so one poll always ends with its next question or its result, on any thread.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tollgate_core::ports::{StoreError, StoreResult};

use super::{Answer, Ask, Exchange, Tx};

/// A use case under way.
pub struct Dialogue<T> {
    use_case: Pin<Box<dyn Future<Output = StoreResult<T>> + Send>>,
    tx: Tx,
}

/// What a use case does next.
#[derive(Debug)]
pub(crate) enum Step<T> {
    Asks(Ask),
    Ends(StoreResult<T>),
}

impl<T> fmt::Debug for Dialogue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialogue").finish_non_exhaustive()
    }
}

impl<T> Dialogue<T> {
    pub(crate) fn with<F>(use_case: impl FnOnce(Tx) -> F) -> Self
    where
        F: Future<Output = StoreResult<T>> + Send + 'static,
    {
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        Self {
            use_case: Box::pin(use_case(Tx(Arc::clone(&exchange)))),
            tx: Tx(exchange),
        }
    }

    pub(crate) fn next(&mut self) -> Step<T> {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(ended) = self.use_case.as_mut().poll(&mut context) {
            return Step::Ends(ended);
        }
        match mem::take(&mut *self.tx.exchange()) {
            Exchange::Asked(ask) => Step::Asks(ask),
            Exchange::Silent | Exchange::Answered(_) => {
                let why = "a use case of the store waits for something other than its transaction";
                Step::Ends(Err(StoreError::Bug(why.into())))
            }
        }
    }

    pub(crate) fn answer(&mut self, answer: Answer) {
        *self.tx.exchange() = Exchange::Answered(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::params;

    #[test]
    fn a_use_case_gets_the_answer_to_each_question() {
        let mut dialogue = Dialogue::with(|tx| async move {
            let first = tx.execute("UPDATE a SET b = $1", params![1]).await;
            let second = tx.execute("UPDATE a SET b = $1", params![2]).await;
            Ok((first, second))
        });
        for changed in [10, 20] {
            assert!(matches!(dialogue.next(), Step::Asks(Ask::Execute { .. })));
            dialogue.answer(Answer {
                changed,
                ..Answer::default()
            });
        }
        assert!(matches!(dialogue.next(), Step::Ends(Ok((10, 20)))));
    }

    #[test]
    fn a_use_case_that_waits_for_anything_else_is_a_bug_and_does_not_hang() {
        let mut dialogue = Dialogue::<()>::with(|_| std::future::pending());
        let Step::Ends(Err(StoreError::Bug(why))) = dialogue.next() else {
            panic!("it went on");
        };
        assert!(why.contains("other than its transaction"));
    }
}
