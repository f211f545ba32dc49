//! Feeds: where they stand, why one is not read, and a pause with its end.

use askama::Template;
use axum::extract::{Path, Query, State};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use serde_json::json;
use tollgate_contract as contract;

use super::Console;
use super::call::{Problem, part};
use super::imports::items;
use super::session::{Act, Session};
use super::shell::{Shell, clock_or, grouped, page as drawn};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    done: String,
}

/// What a page does with a feed, and calls its records.
trait OnPage {
    fn act(&self) -> String;
    fn items(&self) -> &'static str;
}

impl OnPage for contract::Feed {
    fn act(&self) -> String {
        let what = if self.paused { "resume" } else { "pause" };
        format!("/console/feeds/{}/{what}", part(&self.name))
    }

    fn items(&self) -> &'static str {
        self.item_type.as_deref().map_or("records", items)
    }
}

/// The import that has a partition's records.
fn import(partition: &contract::FeedPartition) -> String {
    format!("/console/imports/{}", part(&partition.batch_id))
}

/// Where events are off they are no matter, unless a process would publish them: "needs you" links here then.
fn is_shown(events: &contract::Events) -> bool {
    events.on || (events.owner.is_some() && events.trouble.is_some())
}

fn offset(offset: Option<&i64>) -> String {
    offset.map_or_else(|| "–".to_owned(), ToString::to_string)
}

#[derive(Template)]
#[template(path = "feeds.html")]
struct FeedsPage {
    shell: Shell,
    feeds: Vec<contract::Feed>,
    events: contract::Events,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let contract::FeedList { feeds } = console.get(&session, "/admin/feeds").await?;
    let events = console.get(&session, "/admin/events").await?;
    let shell = Shell::new(&session, "Feeds", "Feeds", &asked.done);
    Ok(drawn(&FeedsPage {
        shell,
        feeds,
        events,
    }))
}

#[derive(Deserialize)]
pub(super) struct Because {
    reason: String,
}

pub(super) async fn pause(
    State(console): State<Console>,
    Path(name): Path<String>,
    Act { session, form }: Act<Because>,
) -> Result<Response, Problem> {
    let what = format!("/admin/feeds/{}/pause", part(&name));
    let wish = json!({"reason": form.reason});
    console.act(&session, Method::POST, &what, &wish).await?;
    Ok(Redirect::to("/console/feeds?done=feed-paused").into_response())
}

pub(super) async fn resume(
    State(console): State<Console>,
    Path(name): Path<String>,
    Act { session, form }: Act<Because>,
) -> Result<Response, Problem> {
    let what = format!("/admin/feeds/{}/resume", part(&name));
    let wish = json!({"reason": form.reason});
    console.act(&session, Method::POST, &what, &wish).await?;
    Ok(Redirect::to("/console/feeds?done=feed-resumed").into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_are_off_are_shown_while_a_process_would_publish_them() {
        let page = |on: bool, owner: Option<&str>, trouble: Option<&str>| {
            let events = json!({
                "on": on, "backlog": 0, "backlogIsCapped": false, "oldestAt": null,
                "owner": owner, "published": 7, "lastPublishedAt": null,
                "trouble": trouble, "troubleAt": null, "difference": null,
            });
            let page = FeedsPage {
                shell: Shell::bare("Feeds"),
                feeds: vec![],
                events: serde_json::from_value(events).unwrap(),
            };
            page.render().unwrap()
        };
        let off = page(false, Some("a"), Some("events are turned off"));
        let section = off.split_once("<h2>Events</h2>").unwrap().1;
        assert!(section.starts_with("<span class=\"state bad\">off</span>"));
        assert!(section.contains("events are turned off") && !section.contains("keeps trying"));
        let troubled = page(true, Some("a"), Some("no broker"));
        assert!(troubled.contains("in trouble") && troubled.contains("keeps trying"));
        for (owner, trouble) in [(None, Some("events are turned off")), (Some("a"), None)] {
            assert!(!page(false, owner, trouble).contains("<h2>Events</h2>"));
        }
    }
}
