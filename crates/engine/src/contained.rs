//! Turns a panic inside a future into a value, so that one flow's bug is not everybody's end.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// The future's output, or what it said when it panicked. After a panic it is not polled again.
pub(crate) async fn contained<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let output = AssertUnwindSafe(future).catch_unwind().await;
    output.map_err(|payload| words(payload.as_ref()))
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}
