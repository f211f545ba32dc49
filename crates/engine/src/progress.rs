//! A flow's progress: the latest wins, written at a bounded pace and once more before the end.
//! It never blocks the flow, and a progress that cannot be written is not tried again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tollgate_core::id::FlowId;

use crate::local::Local;

#[derive(Default)]
pub(crate) struct Progress {
    slot: Rc<Slot>,
    writer: RefCell<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Slot {
    latest: RefCell<Option<String>>,
    closing: Notify,
    closed: Cell<bool>,
}

impl Progress {
    pub(crate) fn show(&self, local: &Rc<Local>, id: &FlowId, progress_json: String) {
        self.slot.latest.replace(Some(progress_json));
        let mut writer = self.writer.borrow_mut();
        if writer.as_ref().is_none_or(JoinHandle::is_finished) {
            let write = write(Rc::clone(local), id.clone(), Rc::clone(&self.slot));
            *writer = Some(tokio::task::spawn_local(write));
        }
    }

    /// Writes what is still unwritten. Awaited before the end, so that a late write never shows
    /// on the flow's next run.
    pub(crate) async fn close(&self) {
        let writer = self.writer.take();
        if let Some(writer) = writer {
            self.slot.closed.set(true);
            self.slot.closing.notify_one();
            if writer.await.is_err() {
                tracing::error!("bug: the progress writer panicked");
            }
        }
    }
}

async fn write(local: Rc<Local>, id: FlowId, slot: Rc<Slot>) {
    loop {
        if !slot.closed.get() {
            // What is shown during the pause is written once, after it.
            let pause = local.shared.options.progress_every;
            let _ = tokio::time::timeout(pause, slot.closing.notified()).await;
        }
        let latest = slot.latest.take();
        let Some(progress_json) = latest else {
            return;
        };
        let flow = id.clone();
        let written = local.outside(|shared| async move {
            shared
                .flows
                .flow_progress(shared.epoch, &flow, progress_json)
                .await
        });
        if let Err(error) = written.await {
            tracing::debug!(flow = %id, %error, "progress could not be written");
        }
    }
}
