//! Ids that are known from the archive only: their items have ended, and their lines lie in files.

use tollgate_core::archive::DayState;
use tollgate_core::id::{Item, ItemId};
use tollgate_core::ports::{Known, KnownAsked, Store, StoreResult};

/// What is known of an id, compared with a content.
pub async fn archived(
    store: &dyn Store,
    item: &Item,
    content_hash: &str,
) -> StoreResult<Option<Known>> {
    let asked = KnownAsked {
        item: item.clone(),
        content_hash: content_hash.to_owned(),
    };
    Ok(store.known(vec![asked]).await?.into_iter().next().flatten())
}

/// What is said of an item that is in a file only.
pub fn in_a_file(kind: &str, id: &ItemId, known: &Known) -> String {
    let day = known.day;
    let Some(export) = &known.export else {
        return format!("{kind} {id} ended on {day} and is no longer in the database");
    };
    let (file, digest) = (&export.file, &export.digest);
    format!(
        "{kind} {id} ended on {day} and is in the archive file {file} (SHA-256 {digest}); restore that day to see it"
    )
}

/// Why a person cannot act on an item of the archive. A restore brings it back to be seen, and not into the queue.
pub fn cannot_act(known: &Known) -> String {
    let day = known.day;
    let (place, first) = match known.state {
        DayState::Dropped => (
            "in an archive file",
            format!("to see it, restore the day first: tollgate archive restore {day}; "),
        ),
        DayState::Open | DayState::Closed | DayState::Exported => ("in the archive", String::new()),
    };
    format!(
        "it ended on {day} and is {place}; {first}archived items cannot be changed, so use a new id"
    )
}
