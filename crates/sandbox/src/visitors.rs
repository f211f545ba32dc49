//! Requests that are no payment traffic: reading and clearing the ledger, reading and changing the
//! faults. Never limited, never recorded, never harmed.
//!
//! | call | answer |
//! |---|---|
//! | `GET /sandbox/ledger` | the summary, as JSON |
//! | `GET /sandbox/ledger?entries=true&after=N&limit=N` | the entries behind number `after`, one JSON object a line; empty at the end |
//! | `GET /sandbox/webhooks` | what reached `POST /webhooks`; with the same query, one JSON object a line |
//! | `GET /sandbox/calls` | the calls to the services of status checks; with the same query, one JSON object a line |
//! | `PUT /{index}/_doc/{id}` | 201: what Elasticsearch answers as that document's source |
//! | `DELETE /sandbox/ledger` | 204: the books begin anew, and what is under way is hung up on |
//! | `GET /sandbox/faults` | the faults in force, as text |
//! | `PUT /sandbox/faults` | sets them from text; numbers in it count from now |

use http::{Method, StatusCode, request::Parts};
use hyper::body::Incoming;
use serde_json::json;

use crate::{
    answers::{Answer, Said, text},
    contract::{Counter, HungUp},
    entry::Kind,
    faults::Faults,
    request::{is_money, read_body},
    services::{document, most_at_once, parse_document},
};

const DEFAULT_PAGE: usize = 1_000;
const MAX_PAGE: usize = 10_000;

/// A visitor's request that cannot be met.
struct BadQuery {
    field: &'static str,
    reason: String,
}

/// Which entries are wanted.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    after: usize,
    limit: usize,
}

impl Counter {
    pub(crate) async fn serve_visitor(
        &self,
        head: &Parts,
        body: Incoming,
    ) -> Result<Answer, HungUp> {
        let answer = match (&head.method, head.uri.path()) {
            (&Method::GET, "/sandbox/ledger") => self.show_ledger(head.uri.query()),
            (&Method::DELETE, "/sandbox/ledger") => {
                self.ledger.reset();
                Said::json(StatusCode::NO_CONTENT, String::new()).whole()
            }
            (&Method::GET, "/sandbox/faults") => self.show_faults(),
            (&Method::PUT, "/sandbox/faults") => {
                let body = read_body(body).await?;
                self.change_faults(body.as_deref())
            }
            (&Method::GET, "/sandbox/webhooks") => self.show_deliveries(head.uri.query()),
            (&Method::GET, "/sandbox/calls") => self.show_calls(head.uri.query()),
            (_, "/sandbox/calls") => wrong_method("read with GET"),
            (&Method::PUT, path) if document(path).is_some() => {
                let body = read_body(body).await?;
                self.put_document(path, body.as_deref())
            }
            (_, "/sandbox/webhooks") => wrong_method("read with GET"),
            (_, "/webhooks") => wrong_method("deliver with POST"),
            (_, "/sandbox/ledger") => wrong_method("read with GET, clear with DELETE"),
            (_, "/sandbox/faults") => wrong_method("read with GET, set with PUT"),
            (_, path) if is_money(path) => wrong_method("send with POST, probe with GET"),
            _ => Said::error(StatusCode::NOT_FOUND, "path", "no such path").whole(),
        };
        Ok(answer)
    }

    fn show_ledger(&self, query: Option<&str>) -> Answer {
        match parse_query(query.unwrap_or_default()) {
            Ok(None) => text("application/json", json!(self.ledger.summary()).to_string()),
            Ok(Some(Page { after, limit })) => {
                let lines = self.ledger.page(after, limit);
                let lines = lines.iter().map(|line| format!("{}\n", json!(line)));
                text("application/x-ndjson", lines.collect())
            }
            Err(BadQuery { field, reason }) => {
                Said::error(StatusCode::BAD_REQUEST, field, &reason).whole()
            }
        }
    }

    fn show_deliveries(&self, query: Option<&str>) -> Answer {
        let mailbox = self.ledger.mailbox();
        match parse_query(query.unwrap_or_default()) {
            Ok(None) => text("application/json", json!(mailbox.summary()).to_string()),
            Ok(Some(Page { after, limit })) => {
                let lines = mailbox.deliveries.iter().skip(after).take(limit);
                let lines = lines.map(|delivery| format!("{}\n", json!(delivery)));
                text("application/x-ndjson", lines.collect())
            }
            Err(BadQuery { field, reason }) => {
                Said::error(StatusCode::BAD_REQUEST, field, &reason).whole()
            }
        }
    }

    fn show_calls(&self, query: Option<&str>) -> Answer {
        let calls = self.ledger.calls();
        match parse_query(query.unwrap_or_default()) {
            Ok(None) => {
                let count = |kind| calls.iter().filter(|call| call.kind == kind).count();
                let body = json!({
                    "lookups": count(Kind::Lookup), "notifies": count(Kind::Notify),
                    "checks": count(Kind::Check), "mostAtOnce": most_at_once(&calls),
                });
                text("application/json", body.to_string())
            }
            Ok(Some(Page { after, limit })) => {
                let lines = calls.iter().skip(after).take(limit);
                let lines = lines.map(|call| format!("{}\n", json!(call)));
                text("application/x-ndjson", lines.collect())
            }
            Err(BadQuery { field, reason }) => {
                Said::error(StatusCode::BAD_REQUEST, field, &reason).whole()
            }
        }
    }

    fn put_document(&self, path: &str, body: Option<&[u8]>) -> Answer {
        let (Some((index, id)), Some(source)) = (document(path), parse_document(body)) else {
            let reason = "must be a JSON object";
            return Said::error(StatusCode::BAD_REQUEST, "body", reason).whole();
        };
        self.ledger.put_document(&index, &id, source);
        let body = json!({"_index": index, "_id": id, "result": "created"});
        Said::json(StatusCode::CREATED, body.to_string()).whole()
    }

    fn show_faults(&self) -> Answer {
        text(
            "text/plain; charset=utf-8",
            self.faults.in_force().to_string(),
        )
    }

    fn change_faults(&self, body: Option<&[u8]>) -> Answer {
        let Some(spec) = body else {
            return Said::error(StatusCode::PAYLOAD_TOO_LARGE, "body", "is too large").whole();
        };
        let faults = str::from_utf8(spec)
            .map_err(|_| "is not UTF-8".to_owned())
            .and_then(|spec| spec.parse::<Faults>().map_err(|error| error.to_string()));
        match faults {
            Ok(faults) => {
                self.faults.set(faults);
                self.show_faults()
            }
            Err(reason) => Said::error(StatusCode::BAD_REQUEST, "faults", &reason).whole(),
        }
    }
}

/// None if the summary is asked for.
fn parse_query(query: &str) -> Result<Option<Page>, BadQuery> {
    let (mut entries, mut after, mut limit) = (false, 0, DEFAULT_PAGE);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("entries", "true") => entries = true,
            ("entries", "false") => entries = false,
            ("entries", _) => return Err(bad("entries", "must be true or false")),
            ("after", number) => after = whole("after", number, 0, usize::MAX)?,
            ("limit", number) => limit = whole("limit", number, 1, MAX_PAGE)?,
            (other, _) => {
                let reason = format!("\"{other}\" is none of entries, after, limit");
                return Err(bad("query", &reason));
            }
        }
    }
    Ok(entries.then_some(Page { after, limit }))
}

fn whole(field: &'static str, text: &str, least: usize, most: usize) -> Result<usize, BadQuery> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| {
        bad(
            field,
            &format!("must be a whole number from {least} to {most}"),
        )
    })
}

fn bad(field: &'static str, reason: &str) -> BadQuery {
    let reason = reason.to_owned();
    BadQuery { field, reason }
}

fn wrong_method(remedy: &str) -> Answer {
    Said::error(StatusCode::METHOD_NOT_ALLOWED, "method", remedy).whole()
}
