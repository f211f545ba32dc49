//! `/admin/feeds`: topics whose records are taken in, where they stand, and what people do about them.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use tollgate_contract as contract;
use tollgate_core::ports::{FeedView, Forgotten, PartitionId, PartitionView, Sought};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::App;
use crate::answer::error::ApiError;
use crate::answer::of::Of;
use crate::contract::refusals::{Changes, Reads};
use crate::door::auth::Caller;
use crate::payments::changes::Because;
use crate::request::body::{Body, author, parse};
use crate::request::extract::Path;

impl Of<FeedView> for contract::Feed {
    fn of(view: FeedView) -> Self {
        let partitions = &view.partitions;
        let (paused, trouble) = (view.paused, view.trouble);
        let item_type = partitions.iter().find_map(|one| one.item_type.as_ref());
        Self {
            item_type: item_type.map(ToString::to_string),
            paused: paused.is_some(),
            paused_at: paused.as_ref().map(|pause| pause.at),
            paused_by: paused.as_ref().map(|pause| pause.by.clone()),
            paused_why: paused.map(|pause| pause.why),
            trouble_at: trouble.as_ref().map(|trouble| trouble.at),
            trouble: trouble.map(|trouble| trouble.what),
            unread_since: view.unread_since,
            lag: partitions.iter().filter_map(PartitionView::lag).sum(),
            records: partitions.iter().map(|one| one.records).sum(),
            dead_letters: partitions.iter().map(|one| one.dead_letters).sum(),
            last_record_at: partitions.iter().filter_map(|one| one.last_record_at).max(),
            partitions: partitions
                .iter()
                .filter(|one| !one.is_gone)
                .map(|one| contract::FeedPartition {
                    partition: one.number,
                    position: one.position,
                    log_end: one.log_end,
                    owner: one.owner.clone(),
                    waiting_chunks: one.waiting,
                    batch_id: partition(&view.feed, &view.topic, one.number)
                        .bulk()
                        .to_string(),
                })
                .collect(),
            name: view.feed,
            topic: view.topic,
        }
    }
}

fn partition(feed: &str, topic: &str, number: u32) -> PartitionId {
    PartitionId {
        feed: feed.to_owned(),
        topic: topic.to_owned(),
        number,
    }
}

async fn found(app: &App, name: &str) -> Result<FeedView, ApiError> {
    let feeds = app.store.feeds().await?;
    let found = feeds.into_iter().find(|feed| feed.feed == name);
    found.ok_or_else(|| no_feed(name))
}

fn no_feed(name: &str) -> ApiError {
    ApiError::not_found(format!("there is no feed \"{name}\""))
}

/// All feeds, with their positions. A feed is listed once a process has read it.
#[utoipa::path(
    get, path = "/admin/feeds", operation_id = "listFeeds", tag = "feeds",
    responses((status = 200, description = "All feeds.", body = contract::FeedList), Reads),
)]
async fn list(State(app): State<App>) -> Result<Json<contract::FeedList>, ApiError> {
    let feeds = app.store.feeds().await?.into_iter();
    let feeds = feeds.map(contract::Feed::of).collect();
    Ok(Json(contract::FeedList { feeds }))
}

/// Pauses a feed: no process reads it until it is resumed. Records that were already imported are not affected.
#[utoipa::path(
    post, path = "/admin/feeds/{feed}/pause", operation_id = "pauseFeed", tag = "feeds",
    params(("feed" = String, Path, description = "Name of the feed.", example = "payments")),
    request_body = Because,
    responses((status = 200, description = "The feed is paused.", body = contract::Feed), Changes),
)]
async fn pause(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Feed>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let paused = app.store.pause_feed(&name, author).await?;
    let feed = found(&app, &name).await?;
    if !paused {
        let why = format!("feed \"{name}\" is already paused");
        return Err(ApiError::conflict(why));
    }
    app.acted(caller.name(), "feed paused", &name);
    Ok(Json(contract::Feed::of(feed)))
}

/// Resumes a paused feed at its positions.
#[utoipa::path(
    post, path = "/admin/feeds/{feed}/resume", operation_id = "resumeFeed", tag = "feeds",
    params(("feed" = String, Path, description = "Name of the feed.", example = "payments")),
    request_body = Because,
    responses((status = 200, description = "The feed is resumed.", body = contract::Feed), Changes),
)]
async fn resume(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::Feed>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    let resumed = app.store.resume_feed(&name, author).await?;
    let feed = found(&app, &name).await?;
    if !resumed {
        let why = format!("feed \"{name}\" is not paused");
        return Err(ApiError::conflict(why));
    }
    app.acted(caller.name(), "feed resumed", &name);
    Ok(Json(contract::Feed::of(feed)))
}

/// Moves one partition of a paused feed to another offset.
///
/// Moving back reads records again; those with a known id count as duplicates. Moving forward skips the records in
/// between: they are never read.
#[utoipa::path(
    post, path = "/admin/feeds/{feed}/seek", operation_id = "seekFeed", tag = "feeds",
    params(("feed" = String, Path, description = "Name of the feed.", example = "payments")),
    request_body = contract::FeedSeek,
    responses((status = 200, description = "The partition was moved.", body = contract::FeedSought), Changes),
)]
async fn seek(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::FeedSought>, ApiError> {
    let seek = parse::<contract::FeedSeek>(&headers, body)?;
    let author = author(&caller, seek.reason)?;
    let feed = found(&app, &name).await?;
    let partition = partition(&name, &feed.topic, seek.partition);
    let mut known = feed.partitions.iter();
    let end = known.find(|known| known.number == seek.partition);
    let end = end.and_then(|known| known.log_end);
    let offset = i64::try_from(seek.offset).unwrap_or(i64::MAX - 1);
    match app.store.seek_feed(&partition, offset, author).await? {
        Sought::Moved(from) => {
            app.acted(caller.name(), "feed moved", &name);
            Ok(Json(contract::FeedSought {
                feed: contract::Feed::of(found(&app, &name).await?),
                effect: effect(from, offset, end),
            }))
        }
        Sought::Unknown => Err(ApiError::not_found(format!(
            "feed \"{name}\" has no partition {}",
            seek.partition
        ))),
        Sought::Running => Err(ApiError::conflict(format!(
            "feed \"{name}\" is running; pause it first"
        ))),
    }
}

/// Deletes the positions of a feed that no process configures any more. It is no longer listed.
///
/// If the feed is configured again, it starts at its `start` setting. With `earliest`, records are read again; those with a
/// known id count as duplicates. With `latest`, earlier records are never read.
#[utoipa::path(
    post, path = "/admin/feeds/{feed}/forget", operation_id = "forgetFeed", tag = "feeds",
    params(("feed" = String, Path, description = "Name of the feed.", example = "payments")),
    request_body = Because,
    responses((status = 200, description = "The feed is forgotten.", body = contract::FeedForgotten), Changes),
)]
async fn forget(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<contract::FeedForgotten>, ApiError> {
    let author = author(&caller, parse::<Because>(&headers, body)?.reason)?;
    match app.store.forget_feed(&name, author).await? {
        Forgotten::Done => {
            app.acted(caller.name(), "feed forgotten", &name);
            let effect = format!(
                "The positions of feed \"{name}\" are deleted; if it is configured again, it starts at its `start` setting: \
                 with \"earliest\", known records count as duplicates, with \"latest\", earlier records are never read."
            );
            Ok(Json(contract::FeedForgotten { name, effect }))
        }
        Forgotten::Unknown => Err(no_feed(&name)),
        Forgotten::Configured => Err(ApiError::conflict(format!(
            "a process that configures feed \"{name}\" ran less than a minute ago; remove the feed from the configuration \
             of all processes, restart them, and try again after a minute"
        ))),
    }
}

/// Repeats are harmless, gaps are not. The end is the one that was last seen.
fn effect(from: Option<i64>, to: i64, end: Option<i64>) -> String {
    let moved = moved(from, to);
    match end.filter(|end| to > *end) {
        Some(end) => format!(
            "{moved} The partition ended at {end} when it was last read; a feed that is resumed beyond its end is paused again."
        ),
        None => moved,
    }
}

fn moved(from: Option<i64>, to: i64) -> String {
    match from {
        None => format!("Reading starts at {to}."),
        Some(from) if to < from => format!(
            "Records {to} to {} are read again; those with a known id count as duplicates.",
            from - 1
        ),
        Some(from) if to > from => {
            format!("Records {from} to {} are never read or imported.", to - 1)
        }
        Some(_) => "The position does not change.".to_owned(),
    }
}

pub(super) fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(seek))
        .routes(routes!(forget))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seek_says_what_it_means() {
        for (from, to, says) in [
            (None, 3, "starts at 3"),
            (Some(10), 3, "Records 3 to 9 are read again"),
            (Some(3), 10, "Records 3 to 9 are never read"),
            (Some(3), 3, "does not change"),
        ] {
            assert!(effect(from, to, Some(10)).contains(says), "{from:?} {to}");
        }
        let beyond = effect(Some(3), 11, Some(10));
        let says = "Records 3 to 10 are never read or imported. The partition ended at 10 ";
        assert!(beyond.starts_with(says), "{beyond}");
    }
}
