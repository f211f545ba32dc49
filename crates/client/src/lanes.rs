//! Lanes: limits, pauses, plans, forecasts, certificates, and refusal storms.

use tollgate_contract::{
    Certificate, Forecast, ForecastRequest, Lane, LaneAdjusted, LaneAdjustment, LaneChange,
    LanesActivity, PauseRequest, Recount, ReopenRequest, ReopenedStorm, Replan, ReplanRequest,
    ResumeRequest, StormList, Version, Window,
};

use crate::address::{number, query, quoted};
use crate::{Answer, Client, Error};

/// Calls about lanes; see [`Client::lanes`].
#[derive(Debug, Clone, Copy)]
pub struct Lanes<'c> {
    client: &'c Client,
}

impl Client {
    /// Lanes: the budget of each downstream.
    pub fn lanes(&self) -> Lanes<'_> {
        Lanes { client: self }
    }
}

/// A day in a time zone.
#[derive(Debug, Clone, Default)]
pub struct Day {
    /// Date, such as `2026-11-16`. Default: today.
    pub date: Option<String>,
    /// IANA time zone. Default: UTC.
    pub zone: Option<String>,
}

impl Day {
    pub(crate) fn parameters(&self) -> [(&'static str, Option<String>); 2] {
        [("zone", self.zone.clone()), ("date", self.date.clone())]
    }
}

impl Lanes<'_> {
    /// Lists lanes with their limits and state.
    pub async fn list(self) -> Result<Answer<Vec<Lane>>, Error> {
        self.client.get("/admin/rate-limit/config").await
    }

    /// Shows the activity of all lanes: sends per second, and the items that wait.
    pub async fn activity(self) -> Result<Answer<LanesActivity>, Error> {
        self.client.get("/admin/now").await
    }

    /// Creates or changes a lane. Fields that are not given keep their value.
    pub async fn set(self, change: &LaneChange) -> Result<Answer<Lane>, Error> {
        self.client.post("/admin/rate-limit/config", change).await
    }

    /// Pauses a lane, now or at a given time.
    pub async fn pause(self, lane: &str, request: &PauseRequest) -> Result<Answer<Lane>, Error> {
        self.client.post(&path(lane, "pause"), request).await
    }

    /// Resumes a paused lane, now or at a given time.
    pub async fn resume(self, lane: &str, request: &ResumeRequest) -> Result<Answer<Lane>, Error> {
        self.client.post(&path(lane, "resume"), request).await
    }

    /// Assigns new slots to all waiting items, or previews the effect.
    pub async fn replan(
        self,
        lane: &str,
        request: &ReplanRequest,
    ) -> Result<Answer<Replan>, Error> {
        self.client.post(&path(lane, "replan"), request).await
    }

    /// Changes limit, plan or calendar and assigns new slots, or previews both.
    pub async fn adjust(
        self,
        lane: &str,
        request: &LaneAdjustment,
    ) -> Result<Answer<LaneAdjusted>, Error> {
        self.client.post(&path(lane, "adjust"), request).await
    }

    /// Forecasts when hypothetical items would run, or when the real queue runs. Changes nothing.
    pub async fn forecast(self, request: &ForecastRequest) -> Result<Answer<Forecast>, Error> {
        self.client
            .post("/admin/rate-limit/forecast", request)
            .await
    }

    /// Lists the next windows and how full they are.
    pub async fn windows(
        self,
        lane: &str,
        limit: Option<u32>,
    ) -> Result<Answer<Vec<Window>>, Error> {
        self.client.get(&windows(lane, limit, None)).await
    }

    /// The same as an SVG image.
    pub async fn windows_svg(self, lane: &str, limit: Option<u32>) -> Result<String, Error> {
        let path = windows(lane, limit, Some("svg"));
        self.client.get_text(&path).await
    }

    /// Shows the rate certificate of a day.
    pub async fn certificate(self, lane: &str, day: &Day) -> Result<Answer<Certificate>, Error> {
        self.client.get(&certificate(lane, day, None)).await
    }

    /// The same as text for people.
    pub async fn certificate_text(self, lane: &str, day: &Day) -> Result<String, Error> {
        let path = certificate(lane, day, Some("text"));
        self.client.get_text(&path).await
    }

    /// The same as an SVG image.
    pub async fn certificate_svg(self, lane: &str, day: &Day) -> Result<String, Error> {
        let path = certificate(lane, day, Some("svg"));
        self.client.get_text(&path).await
    }

    /// Counts the windows again from the slots in them.
    pub async fn reconcile(self, lane: &str) -> Result<Answer<Recount>, Error> {
        let nothing = serde_json::Map::new();
        self.client.post(&path(lane, "reconcile"), &nothing).await
    }

    /// Lists all versions of a lane, newest first.
    pub async fn history(self, lane: &str) -> Result<Answer<Vec<Version>>, Error> {
        self.client.get(&path(lane, "history")).await
    }

    /// Lists refusal storms, newest first.
    pub async fn storms(self, limit: Option<u32>) -> Result<Answer<StormList>, Error> {
        let query = query(&[("limit", number(limit))]);
        self.client.get(&format!("/admin/storms{query}")).await
    }

    /// Reopens the rejected payments of a refusal storm, or previews that.
    pub async fn reopen_storm(
        self,
        storm: i64,
        request: &ReopenRequest,
    ) -> Result<Answer<ReopenedStorm>, Error> {
        let path = format!("/admin/storms/{storm}/reopen");
        self.client.post(&path, request).await
    }
}

fn path(lane: &str, what: &str) -> String {
    format!("/admin/lanes/{}/{what}", quoted(lane))
}

fn windows(lane: &str, limit: Option<u32>, format: Option<&str>) -> String {
    let query = query(&[
        ("configName", Some(lane.to_owned())),
        ("limit", number(limit)),
        ("format", format.map(str::to_owned)),
    ]);
    format!("/admin/rate-limit/windows{query}")
}

fn certificate(lane: &str, day: &Day, format: Option<&str>) -> String {
    let [zone, date] = day.parameters();
    let format = format.map(str::to_owned);
    let lane = Some(lane.to_owned());
    let query = query(&[zone, date, ("lane", lane), ("format", format)]);
    format!("/admin/rate-limit/certificate{query}")
}
