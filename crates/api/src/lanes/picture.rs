//! Pictures for people: a day's rate against its limit, and how full the windows are. Plain SVG,
//! no script, readable in a browser and in a report.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use rust_decimal::prelude::ToPrimitive;
use std::fmt::Write;
use tollgate_contract as contract;
use tollgate_core::Timestamp;
use tollgate_core::certificate::Certificate;
use tollgate_core::id::LaneName;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
/// Room for the title above, the axis labels below and on the left.
const TOP: f64 = 56.0;
const BOTTOM: f64 = 34.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;

const BAR: &str = "#2f6f8f";
const OVER: &str = "#b3261e";
const LIMIT: &str = "#c77700";
const INK: &str = "#333333";
const FAINT: &str = "#dddddd";

pub(super) fn svg(text: String) -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml")], text).into_response()
}

/// A drawing area: x in `0..1`, y in the units of the data.
struct Canvas {
    text: String,
    top_value: f64,
}

impl Canvas {
    fn new(title: &str, subtitle: &str, top_value: f64) -> Self {
        let mut canvas = Self {
            text: String::new(),
            top_value: top_value.max(1.0) * 1.1,
        };
        canvas.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\">\n\
             <title>{title}</title>\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"16\" fill=\"{INK}\">{title}</text>\n\
             <text x=\"{LEFT}\" y=\"41\" fill=\"{INK}\">{subtitle}</text>"
        ));
        canvas
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{what}");
    }
    fn x(share: f64) -> f64 {
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }
    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value / self.top_value).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }

    fn grid(&mut self) {
        for part in 0..=4 {
            let value = self.top_value / 4.4 * f64::from(part);
            let (y, right) = (self.y(value), WIDTH - RIGHT);
            self.put(format_args!(
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{FAINT}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{INK}\">{value:.0}</text>",
                LEFT - 6.0,
                y + 4.0
            ));
        }
    }

    fn bar(&mut self, from: f64, to: f64, value: f64, colour: &str) {
        let (x, y) = (Self::x(from), self.y(value));
        let width = (Self::x(to) - x).max(0.75);
        let height = HEIGHT - BOTTOM - y;
        self.put(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
    }

    fn level(&mut self, from: f64, to: f64, value: f64) {
        let (x1, x2, y) = (Self::x(from), Self::x(to), self.y(value));
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" x2=\"{x2:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{LIMIT}\" stroke-width=\"2\"/>"
        ));
    }

    fn label(&mut self, share: f64, text: &str) {
        let (x, y) = (Self::x(share), HEIGHT - 12.0);
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\" fill=\"{INK}\">{text}</text>"
        ));
    }

    fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// The worst second of every minute, against the limit in force.
pub(super) fn rate(certificate: &Certificate) -> String {
    let limit = |n: usize| certificate.limits[n].max_per_second.to_f64().unwrap_or(0.0);
    let limits = 0..certificate.limits.len();
    let highest = limits.clone().map(limit).fold(0.0, f64::max);
    let worst = certificate.worst_second.map_or(0, |peak| peak.sends);
    let title = format!(
        "Lane {}, {} to {}",
        escape(&certificate.lane),
        certificate.from,
        certificate.to
    );
    let verdict = if certificate.holds {
        "no second above its limit"
    } else {
        "LIMIT EXCEEDED"
    };
    let so_far = certificate
        .as_of
        .map(|as_of| format!(" so far, as of {as_of}"));
    let so_far = so_far.unwrap_or_default();
    let subtitle = format!(
        "Bars: worst second of each minute, {worst} at most. Line: hard limit. {} sends; {verdict}{so_far}.",
        certificate.sends
    );
    let mut canvas = Canvas::new(&title, &subtitle, highest.max(f64::from(worst)));
    canvas.grid();
    let share = |t: Timestamp| share(certificate.from, certificate.to, t);
    for part in &certificate.parts {
        let end = part.start + certificate.part();
        let value = f64::from(part.worst_second);
        let colour = if value > highest { OVER } else { BAR };
        canvas.bar(share(part.start), share(end), value, colour);
    }
    for n in limits {
        let since = share(certificate.limits[n].since);
        let until = certificate
            .limits
            .get(n + 1)
            .map_or(1.0, |next| share(next.since));
        canvas.level(since, until, limit(n));
    }
    hours(&mut canvas, certificate.from, certificate.to);
    canvas.finish()
}

/// How full the windows are.
pub(super) fn occupancy(lane: &LaneName, windows: &[contract::Window]) -> String {
    let title = format!("Lane {}: windows", escape(lane.as_str()));
    let taken: u64 = windows.iter().map(|w| u64::from(w.slot_count)).sum();
    let subtitle = format!(
        "{} windows with slots, {taken} slots. Line: capacity.",
        windows.len()
    );
    let top = windows.iter().map(|w| w.slot_count.max(w.capacity)).max();
    let mut canvas = Canvas::new(&title, &subtitle, f64::from(top.unwrap_or(1)));
    canvas.grid();
    let place = |n: usize| n.to_f64().unwrap_or(0.0) / windows.len().max(1).to_f64().unwrap_or(1.0);
    for (n, window) in windows.iter().enumerate() {
        let colour = if window.slot_count > window.capacity {
            OVER
        } else {
            BAR
        };
        canvas.bar(
            place(n),
            place(n + 1) - 0.0004,
            window.slot_count.into(),
            colour,
        );
        canvas.level(place(n), place(n + 1), window.capacity.into());
    }
    if let (Some(first), Some(last)) = (windows.first(), windows.last()) {
        canvas.label(0.08, &first.window_start.to_string());
        canvas.label(0.92, &last.window_start.to_string());
    }
    canvas.finish()
}

/// Labels at whole hours, at most a dozen.
fn hours(canvas: &mut Canvas, from: Timestamp, to: Timestamp) {
    let seconds = to.as_second() - from.as_second();
    let step = (seconds / 12 / 3600 + 1) * 3600;
    let mut at = from.as_second() + step - from.as_second().rem_euclid(step);
    while at < to.as_second() {
        if let Ok(time) = Timestamp::from_second(at) {
            canvas.label(share(from, to, time), &time.strftime("%H:%M").to_string());
        }
        at += step;
    }
}

fn share(from: Timestamp, to: Timestamp, at: Timestamp) -> f64 {
    let length = to.duration_since(from).as_secs_f64().max(1.0);
    at.duration_since(from).as_secs_f64() / length
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
