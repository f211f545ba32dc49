//! One partition while this process holds it: it is read, and beside that its rejected records are answered. A bug that one partition
//! meets is said, and ends neither the others nor this one for good.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;
use tollgate_core::ports::{HeldPartition, PartitionId};

use super::FeedRunner;
use super::reading::LONGEST_PAUSE;
use super::troubles::About;

/// A reader that goes on for so long after one that panicked is fine.
const FINE_AFTER: Duration = Duration::from_mins(1);

impl FeedRunner {
    /// Ends when the partition is lost. What ends while the partition is still held is started again with the next share.
    pub(super) async fn hold(self: Arc<Self>, partition: PartitionId, held: HeldPartition) {
        let holding = async {
            tokio::select! {
                () = self.read(partition.clone(), held) => {}
                () = self.keep_answering(&partition) => {}
                () = self.calm_down(&partition) => {}
            }
        };
        if let Err(words) = contained(holding).await {
            let what = format!(
                "{partition} is not read because of an internal error: {words}; Tollgate tries again every {} s; report this error",
                LONGEST_PAUSE.as_secs()
            );
            tracing::error!(feed = self.options.name, what, "the reader panicked");
            self.troubles
                .note(About::Panic(partition.number), &what)
                .await;
            sleep(LONGEST_PAUSE).await;
        }
    }

    async fn calm_down(&self, partition: &PartitionId) {
        sleep(FINE_AFTER).await;
        self.troubles.over(About::Panic(partition.number)).await;
        std::future::pending::<()>().await;
    }
}

/// Until it ends, or panics with these words; then it is not polled again.
async fn contained(future: impl Future<Output = ()>) -> Result<(), String> {
    let mut future = pin!(future);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(words(payload.as_ref()))),
        }
    })
    .await
}

/// The first line of them: troubles are one sentence.
fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let line = text.and_then(|text| text.lines().next());
    line.unwrap_or("without a message").to_owned()
}
