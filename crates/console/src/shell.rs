//! What all pages share: the frame around them, and the few pages that are only words.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use askama::Template;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use tollgate_contract::Needs;

use super::call::Problem;
use super::needs_you::Frame;
use super::session::Session;

/// The page whose number is in the menu.
const NEEDS_YOU: &str = "Needs you";

/// A page in the menu, and whom it is for.
const MENU: [(&str, &str, Needs); 16] = [
    ("Now", "/", Needs::Read),
    (NEEDS_YOU, "/console/needs-you", Needs::Read),
    ("Payments", "/console/payments", Needs::AnyRole),
    ("Invoices", "/console/invoices", Needs::AnyRole),
    ("In doubt", "/console/in-doubt", Needs::Read),
    ("Held", "/console/held", Needs::Read),
    ("Imports", "/console/imports", Needs::AnyRole),
    ("Feeds", "/console/feeds", Needs::Read),
    ("Status checks", "/console/status-checks", Needs::AnyRole),
    ("Dead letters", "/console/dead-letters", Needs::Read),
    ("Jobs", "/console/jobs", Needs::Read),
    ("Item types", "/console/item-types", Needs::Read),
    ("Totals", "/console/totals", Needs::Read),
    ("Audit", "/console/audit", Needs::Read),
    ("Archive", "/console/archive", Needs::Read),
    ("API", "/docs/", Needs::Nothing),
];

/// What has a page of its own.
pub(super) trait HasPage {
    fn address(&self) -> String;
}

/// One of a few pages beside each other, such as one per item type.
pub(super) struct Tab {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) here: bool,
}

/// A tab for each item type; the first is meant when none is asked for.
pub(super) fn tabs(types: &[&str], asked: &str, address: impl Fn(&str) -> String) -> Vec<Tab> {
    let here = if asked.is_empty() { types[0] } else { asked };
    let tab = |name: &&str| Tab {
        name: (*name).to_owned(),
        address: address(name),
        here: *name == here,
    };
    types.iter().map(tab).collect()
}

pub(super) struct MenuItem {
    pub(super) name: &'static str,
    pub(super) address: &'static str,
    pub(super) here: bool,
    /// Empty if it is zero.
    pub(super) number: String,
}

/// The frame of a page.
pub(super) struct Shell {
    pub(super) title: String,
    /// What needs a person, wherever they are.
    pub(super) frame: Frame,
    pub(super) menu: Vec<MenuItem>,
    pub(super) who: String,
    /// Whether there is a session to end.
    pub(super) signed_in: bool,
    pub(super) operates: bool,
    pub(super) csrf: String,
    pub(super) notice: &'static str,
}

impl Shell {
    /// `done`: what the reader has just done, by its word in the address.
    pub(super) fn new(session: &Session, title: impl Into<String>, here: &str, done: &str) -> Self {
        let open = MENU.into_iter().filter(|(_, _, needs)| session.may(*needs));
        let item = |(name, address, _)| MenuItem {
            name,
            address,
            here: name == here,
            number: match name {
                NEEDS_YOU => session.frame.number(),
                _ => String::new(),
            },
        };
        Self {
            title: title.into(),
            frame: session.frame.clone(),
            menu: open.map(item).collect(),
            who: session.name().to_owned(),
            signed_in: session.has_token(),
            operates: session.may(Needs::Operate),
            csrf: session.csrf.clone(),
            notice: notice(done),
        }
    }

    pub(super) fn bare(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            frame: Frame::default(),
            menu: vec![],
            who: String::new(),
            signed_in: false,
            operates: false,
            csrf: String::new(),
            notice: "",
        }
    }
}

/// A text that may be one long piece, such as JSON, as HTML that breaks between its parts and not within a word.
pub(super) fn soft(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
        let ends_a_part = matches!(letter, ',' | ':' | ';' | '/' | '=' | '&' | '?');
        if ends_a_part && letters.peek().is_some_and(|next| !next.is_whitespace()) {
            html.push_str("<wbr>");
        }
    }
    html
}

/// Only words of ours: an address cannot put its own on the page.
fn notice(done: &str) -> &'static str {
    match done {
        "paused" => "The lane is paused. No new sends start.",
        "resumed" => "The lane is resumed.",
        "limit" => "The limit is changed on every node.",
        "adjusted" => "The lane is changed on every node. Its waiting items have new slots.",
        "cancelled" => "The payment is cancelled.",
        "released" => "The payment is released.",
        "rescheduled" => "The payment is rescheduled.",
        "resolved" => "Resolved. It is no longer in doubt.",
        "nothing" => "No payment last sent on that day is in doubt.",
        "proved" => {
            "The banks were asked. Payments that they have executed are resolved within seconds."
        }
        "unproved" => {
            "The banks were asked. No payment has been resolved yet; Tollgate keeps asking."
        }
        "proposed" => "Recorded as a proposal. A second person must confirm it.",
        "replayed" => "Replayed: it is back in the queue, as its next run.",
        "moved" => "The invoice is rescheduled.",
        "scheduled" => "The schedule is in force. Queued invoices keep their time.",
        "seen" => "Marked as seen. It returns when its count grows.",
        "stopped" => "The job is stopped. The items still to do are unchanged.",
        "asked" => "The status check has started.",
        "feed-paused" => "The feed is paused. Records that were already imported are not affected.",
        "feed-resumed" => "The feed is resumed.",
        "switched" => "Saved. The change applies to every node.",
        _ => "",
    }
}

/// Any template as an answer.
pub(super) fn page(template: &impl Template) -> Response {
    match template.render() {
        Ok(text) => Html(text).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be drawn");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// A page about something that goes on: the browser asks for it again, also without JavaScript.
pub(super) fn live(mut response: Response) -> Response {
    let again = HeaderValue::from_static("2");
    response.headers_mut().insert(header::REFRESH, again);
    response
}

#[derive(Template)]
#[template(path = "error.html")]
pub(super) struct ErrorPage {
    shell: Shell,
    /// Whether it is certain that nothing was done.
    sure: bool,
    error: String,
    details: BTreeMap<String, String>,
}

impl ErrorPage {
    /// Without a reader there is no menu.
    pub(super) fn of(session: Option<&Session>, problem: Problem) -> Response {
        let title = match problem.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::FORBIDDEN => "Not allowed",
            StatusCode::CONFLICT => "Not possible now",
            status if status.is_client_error() => "Not accepted",
            _ => "Not available",
        };
        let shell = match session {
            Some(session) => Shell::new(session, title, "", ""),
            None => Shell::bare(title),
        };
        let status = problem.status;
        let drawn = page(&Self {
            shell,
            sure: problem.status.is_client_error(),
            error: problem.error,
            details: problem.details,
        });
        (status, drawn).into_response()
    }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage {
    shell: Shell,
    said: &'static str,
    next: String,
}

impl SignInPage {
    pub(super) fn new(said: &'static str, next: &str) -> Self {
        Self {
            shell: Shell::bare("Sign in"),
            said,
            next: next.to_owned(),
        }
    }
}

impl IntoResponse for SignInPage {
    fn into_response(self) -> Response {
        page(&self)
    }
}

/// A status as people read it: the last one of a payment that went well sounds as if it were under way.
pub(super) fn status_word(status: &str) -> String {
    match status {
        "PROCESSING" => "PROCESSING (done)".to_owned(),
        status => status.to_owned(),
    }
}

/// A time as people read it, to the second.
pub(super) fn clock(at: &Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

pub(super) fn clock_or(at: Option<&Timestamp>, otherwise: &str) -> String {
    at.map_or_else(|| otherwise.to_owned(), clock)
}

/// 1234567 as 1,234,567; templates hand over what they have by reference.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "templates hand over references"
)]
pub(super) fn grouped(number: &u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// How often: once, twice, 3 times.
pub(super) fn times(number: impl Borrow<u32>) -> String {
    match number.borrow() {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// How long that is, to two parts: 2 d 3 h, 5 min 20 s.
pub(super) fn lasting(time: SignedDuration) -> String {
    let secs = time.as_secs().max(0);
    let (days, hours, mins) = (secs / 86_400, secs / 3600 % 24, secs / 60 % 60);
    match (days, hours, mins) {
        (0, 0, 0) => format!("{secs} s"),
        (0, 0, _) => format!("{mins} min {} s", secs % 60),
        (0, _, _) => format!("{hours} h {mins} min"),
        _ => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_as_people_read_them() {
        let shown = [0, 999, 1000, 1_234_567].map(|n| grouped(&n));
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
        let lasts = [-5, 59, 61, 3_725, 90_000].map(|s| lasting(SignedDuration::from_secs(s)));
        assert_eq!(lasts, ["0 s", "59 s", "1 min 1 s", "1 h 2 min", "1 d 1 h"]);
    }

    #[test]
    fn a_long_text_breaks_between_its_parts_and_stays_text() {
        let html = soft("{\"a\":1,\"b\":\"<i>\"}");
        let expected = "{&quot;a&quot;:<wbr>1,<wbr>&quot;b&quot;:<wbr>&quot;&lt;i&gt;&quot;}";
        assert_eq!(html, expected);
        assert_eq!(soft("PAYMENT/p_1"), "PAYMENT/<wbr>p_1");
        assert_eq!(soft("&', b"), "&amp;<wbr>&#39;, b");
    }

    #[test]
    fn an_address_cannot_put_words_of_its_own_on_a_page() {
        assert_eq!(notice("<script>"), "");
    }
}
