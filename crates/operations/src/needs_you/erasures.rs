//! What needs a person about erasures: one that fails is tried for ever, and the others wait behind it.

use tollgate_core::ports::{ErasureView, Need, Pile, Store, StoreResult};

use super::{Needed, needed};

/// More than this are not counted.
const MOST_ERASURES: u32 = 100;

pub(super) async fn look(store: &dyn Store) -> StoreResult<Needed> {
    Ok(stuck(&store.erasures_in_trouble(MOST_ERASURES).await?))
}

fn stuck(erasures: &[ErasureView]) -> Needed {
    let mut need = needed(Need::ErasuresStuck);
    for erasure in erasures {
        let Some(trouble) = &erasure.trouble else {
            continue;
        };
        let since = Some(trouble.since);
        let one = Pile {
            newest: since,
            ..Pile::of(1, since)
        };
        let (id, why) = (&erasure.id, &trouble.why);
        need.name(id.as_str(), format!("{id} waits: {why}"), one);
    }
    need
}
