//! Brings due flows from the store into memory, as many as there are permits for: a million due
//! flows are not a million tasks. It runs no flow itself.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tollgate_core::ports::{DueFlow, DueFlows, StoreError, StoreResult};

use crate::local::Local;
use crate::room::Loaded;
use crate::run;

/// Loads until the engine stops and drops it.
pub(crate) async fn run(local: Rc<Local>) {
    let mut failures = 0;
    loop {
        let seats = take_seats(&local).await;
        match ask(&local, seats.num_permits()).await {
            Ok(due) => {
                failures = 0;
                load_then_pause(&local, seats, due).await;
            }
            Err(error) => {
                drop(seats);
                failures += 1;
                complain(&error, failures);
                tokio::time::sleep(local.shared.options.store_retry.pause_after(failures)).await;
            }
        }
    }
}

/// One permit at least, and as many as there is room for.
async fn take_seats(local: &Local) -> OwnedSemaphorePermit {
    loop {
        let first = Arc::clone(&local.permits).acquire_owned().await;
        let mut seats = first.expect("the semaphore is never closed");
        // All flows that can end now do so first: one question for many seats, not one for each.
        tokio::task::yield_now().await;
        let free = local.room.borrow().free();
        if free > 0 {
            let more = free.min(max_batch(local)) - 1;
            let more = more.min(local.permits.available_permits());
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            if let Ok(more) = Arc::clone(&local.permits).try_acquire_many_owned(more) {
                seats.merge(more);
            }
            return seats;
        }
        drop(seats);
        room_changed(local).await;
    }
}

fn max_batch(local: &Local) -> usize {
    usize::try_from(local.shared.options.max_batch).unwrap_or(usize::MAX)
}

/// Killed after the store has marked the flows as running and before they run here: the next
/// `take_node` makes them due again.
async fn ask(local: &Local, seats: usize) -> StoreResult<DueFlows> {
    let limit = u32::try_from(seats).unwrap_or(u32::MAX);
    local
        .outside(move |shared| async move { shared.flows.due_flows(shared.epoch, limit).await })
        .await
}

async fn load_then_pause(local: &Rc<Local>, mut seats: OwnedSemaphorePermit, due: DueFlows) {
    let was_full = local.room.borrow().is_full();
    let maybe_more = due.flows.len() >= seats.num_permits();
    let mut wanted = 0_u32;
    for flow in due.flows {
        if load(local, flow, &mut seats) == Loaded::Wanted {
            wanted += 1;
        }
    }
    drop(seats);
    if was_full && wanted == 0 {
        // Others came in place of the awaited children. They stay, and the next question waits
        // until one has left: asking on would fill the memory.
        room_changed(local).await;
    } else if !maybe_more {
        pause(local, due.next_in).await;
    }
}

fn load(local: &Rc<Local>, flow: DueFlow, seats: &mut OwnedSemaphorePermit) -> Loaded {
    let loaded = local.room.borrow_mut().load(&flow.id);
    if loaded == Loaded::Twice {
        tracing::error!(flow = %flow.id, "bug in the store: a running flow was handed out again");
    } else {
        tokio::task::spawn_local(run::run(Rc::clone(local), flow, seats.split(1)));
    }
    loaded
}

async fn pause(local: &Local, next_in: Option<Duration>) {
    let options = &local.shared.options;
    let next_in = next_in.unwrap_or(options.longest_poll);
    let pause = next_in.clamp(options.shortest_poll, options.longest_poll);
    tokio::select! {
        () = local.shared.woken() => {}
        () = tokio::time::sleep(pause) => {}
    }
}

async fn room_changed(local: &Local) {
    tokio::select! {
        () = local.left.notified() => {}
        () = local.shared.woken() => {}
        () = tokio::time::sleep(local.shared.options.longest_poll) => {}
    }
}

fn complain(error: &StoreError, failures: u32) {
    match error {
        // Once per outage: the pauses that follow are no news.
        StoreError::Unavailable(why) if failures == 1 => {
            tracing::warn!(%why, "the engine cannot load flows; it keeps trying");
        }
        StoreError::Unavailable(_) => {}
        StoreError::Fenced(_) | StoreError::Invalid(_) | StoreError::Bug(_) => {
            tracing::error!(%error, "the engine cannot load flows; it keeps trying");
        }
    }
}
