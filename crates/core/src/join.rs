//! The windowed join: at most `width` futures at once, results in the order of the input.
//!
//! It polls the live futures in index order with the caller's own waker. Internal wakers,
//! channels and `FuturesUnordered` are refused by Temporal's detector of nondeterminism.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Awaits all futures of `futures`, at most `width` (at least one) at a time.
pub async fn windowed<F: Future>(
    width: usize,
    futures: impl IntoIterator<Item = F>,
) -> Vec<F::Output> {
    let mut waiting = futures.into_iter();
    let mut exhausted = false;
    let mut live: Vec<(usize, Pin<Box<F>>)> = Vec::new();
    let mut results: Vec<Option<F::Output>> = Vec::new();

    poll_fn(|context| {
        loop {
            while !exhausted && live.len() < width.max(1) {
                match waiting.next() {
                    Some(future) => {
                        live.push((results.len(), Box::pin(future)));
                        results.push(None);
                    }
                    None => exhausted = true,
                }
            }
            let before = live.len();
            live.retain_mut(|(index, future)| match future.as_mut().poll(context) {
                Poll::Ready(result) => {
                    results[*index] = Some(result);
                    false
                }
                Poll::Pending => true,
            });
            if exhausted && live.is_empty() {
                return Poll::Ready(());
            }
            // Nothing ended, or nothing is left to refill with: wait to be woken.
            if exhausted || live.len() == before {
                return Poll::Pending;
            }
        }
    })
    .await;
    results.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::task::{Context, Waker};

    use super::*;

    /// Ready on its `polls`-th poll; counts how many are live at once.
    async fn after(polls: u32, live: &Cell<usize>, most: &Cell<usize>) -> u32 {
        live.set(live.get() + 1);
        most.set(most.get().max(live.get()));
        let left = RefCell::new(polls);
        poll_fn(|_| {
            let mut left = left.borrow_mut();
            *left -= 1;
            if *left == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
        live.set(live.get() - 1);
        polls
    }

    fn drive<F: Future>(future: F) -> F::Output {
        let mut future = Box::pin(future);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..1000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
        }
        panic!("did not end");
    }

    #[test]
    fn results_come_in_input_order_and_never_more_than_the_width_is_live() {
        let (live, most) = (Cell::new(0), Cell::new(0));
        let polls = [3, 1, 4, 1, 5, 9, 2, 6];
        let all = windowed(3, polls.iter().map(|n| after(*n, &live, &most)));
        assert_eq!(drive(all), polls);
        assert_eq!(most.get(), 3);
    }

    #[test]
    fn nothing_to_do_ends_at_once() {
        let none: Vec<std::future::Ready<u8>> = vec![];
        assert!(drive(windowed(4, none)).is_empty());
        assert_eq!(drive(windowed(0, [std::future::ready(7)])), [7]);
    }
}
