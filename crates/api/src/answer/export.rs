//! Whole lists as files: CSV for spreadsheets, NDJSON for programs. Streamed page by page, so a list of any length
//! costs one page of memory, and one that the client drops ends.

use std::future::Future;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures::stream::{once, try_unfold};
use futures::{Stream, StreamExt};
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::{ApiError, internal};
use crate::request::body::wrong;

/// So many rows are read at once.
pub(crate) const ROWS_AT_ONCE: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    Ndjson,
}

impl Format {
    /// None is a page of JSON.
    pub(crate) fn parse(text: Option<&str>) -> Result<Option<Self>, ApiError> {
        match text {
            None | Some("json") => Ok(None),
            Some("csv") => Ok(Some(Self::Csv)),
            Some("ndjson") => Ok(Some(Self::Ndjson)),
            Some(_) => Err(wrong("format", "must be json, csv or ndjson")),
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8",
            Self::Ndjson => "application/x-ndjson",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Ndjson => "ndjson",
        }
    }
}

/// What is listed: its name, and the columns of its rows in CSV.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
}

pub(crate) type Row = Map<String, Value>;

/// Some rows of a file, and what to ask for the next ones; nothing after the last.
pub(crate) type Part<Q> = (Vec<Row>, Option<Q>);

/// The lines of a page as rows of a file.
pub(crate) fn rows<T: Serialize>(lines: &[T]) -> Result<Vec<Row>, ApiError> {
    lines.iter().map(row).collect()
}

pub(crate) fn row<T: Serialize>(line: &T) -> Result<Row, ApiError> {
    match serde_json::to_value(line) {
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) | Err(_) => Err(internal("a line of a list is not an object")),
    }
}

impl List {
    /// The whole list, page by page. The first page is read before the answer begins, so that what is wrong with the
    /// question is answered as it is for a page; each of the others when the client has taken the one before.
    pub(crate) async fn whole<Q, P, F>(
        self,
        format: Format,
        first: Q,
        page: P,
    ) -> Result<Response, ApiError>
    where
        Q: Send + 'static,
        P: Fn(Q) -> F + Send + 'static,
        F: Future<Output = Result<Part<Q>, ApiError>> + Send,
    {
        let (rows, next) = page(first).await?;
        let others = try_unfold((next, page), |(asked, page)| async move {
            let Some(asked) = asked else {
                return Ok(None);
            };
            let (rows, next) = page(asked).await?;
            Ok(Some((rows, (next, page))))
        });
        let pages = once(async { Ok(rows) }).chain(others);
        Ok(self.streamed(format, pages))
    }

    /// A page that cannot be read breaks the answer off: whoever reads it sees that it is not whole.
    fn streamed<S>(self, format: Format, pages: S) -> Response
    where
        S: Stream<Item = Result<Vec<Row>, ApiError>> + Send + 'static,
    {
        let head = match format {
            Format::Csv => self.columns.join(",") + "\r\n",
            Format::Ndjson => String::new(),
        };
        let head = futures::stream::iter([Ok(head)]);
        let rows = pages.map(move |page| {
            let page =
                page.map_err(|_| std::io::Error::other("the rest of the list could not be read"))?;
            Ok(page.iter().map(|row| self.line(format, row)).collect())
        });
        let text: Body = Body::from_stream(head.chain(rows).map(|it: std::io::Result<String>| it));
        let mut response = text.into_response();
        let (kind, name, ending) = (format.media_type(), self.name, format.ending());
        let file = format!("attachment; filename=\"{name}.{ending}\"");
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        if let Ok(file) = HeaderValue::from_str(&file) {
            headers.insert(header::CONTENT_DISPOSITION, file);
        }
        response
    }

    fn line(self, format: Format, row: &Row) -> String {
        match format {
            Format::Ndjson => Value::Object(row.clone()).to_string() + "\n",
            Format::Csv => {
                let cell = |column: &&str| found(row, column).map_or_else(String::new, cell);
                let cells: Vec<String> = self.columns.iter().map(cell).collect();
                cells.join(",") + "\r\n"
            }
        }
    }
}

/// By its name; `amount.value` is in the object `amount`.
fn found<'a>(row: &'a Row, column: &str) -> Option<&'a Value> {
    match column.split_once('.') {
        Some((outer, inner)) => row.get(outer)?.get(inner),
        None => row.get(column),
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(&harmless(text)),
        Value::Array(all) if all.iter().all(Value::is_string) => {
            let words: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            quoted(&harmless(&words.join("; ")))
        }
        value => quoted(&value.to_string()),
    }
}

/// A spreadsheet takes a text that begins like this for a formula, and runs it.
fn harmless(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        return format!("'{text}");
    }
    text.to_owned()
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LIST: List = List {
        name: "things",
        columns: &["id", "name", "count", "at.zone"],
    };

    #[test]
    fn no_cell_is_a_formula_and_none_breaks_out_of_its_place() {
        let table = [
            (json!("plain"), "plain"),
            (json!("=1+1"), "'=1+1"),
            (json!("@SUM(A1)"), "'@SUM(A1)"),
            (json!("+49 30"), "'+49 30"),
            (json!("-1"), "'-1"),
            (json!("\t=1"), "'\t=1"),
            (json!("a,b"), "\"a,b\""),
            (json!("=\"x\",1"), "\"'=\"\"x\"\",1\""),
            (json!("two\nlines"), "\"two\nlines\""),
            (json!(-5), "-5"),
            (json!(true), "true"),
            (json!(null), ""),
            (json!(["=a", "b,c"]), "\"'=a; b,c\""),
            (json!([]), ""),
            (json!({"USD": "1.00"}), "\"{\"\"USD\"\":\"\"1.00\"\"}\""),
        ];
        for (value, expected) in table {
            assert_eq!(cell(&value), expected, "{value}");
        }
    }

    #[tokio::test]
    async fn a_list_is_written_page_by_page() {
        let row = |id: &str| {
            let row = json!({"id": id, "name": "n", "count": 1, "more": "only in NDJSON", "at": {"zone": "z"}});
            row.as_object().unwrap().clone()
        };
        let pages = || futures::stream::iter([Ok(vec![row("a"), row("b")]), Ok(vec![row("c")])]);
        let read = async |response: Response| {
            let body = axum::body::to_bytes(response.into_body(), 10_000).await;
            String::from_utf8(body.unwrap().to_vec()).unwrap()
        };
        let csv = LIST.streamed(Format::Csv, pages());
        let kind = csv.headers()[header::CONTENT_DISPOSITION].clone();
        assert_eq!(kind, "attachment; filename=\"things.csv\"");
        let csv = read(csv).await;
        assert_eq!(
            csv,
            "id,name,count,at.zone\r\na,n,1,z\r\nb,n,1,z\r\nc,n,1,z\r\n"
        );
        let ndjson = read(LIST.streamed(Format::Ndjson, pages())).await;
        assert_eq!(ndjson.lines().count(), 3);
        assert!(ndjson.contains("only in NDJSON"));
    }

    /// Page by page, as the client takes them.
    #[tokio::test]
    async fn a_file_that_the_client_drops_is_not_read_on() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};

        let read = Arc::new(AtomicU32::new(0));
        let seen = read.clone();
        let page = move |n: u32| {
            seen.fetch_add(1, Ordering::SeqCst);
            async move {
                let line = json!({"id": n});
                Ok((rows(&[line])?, Some(n + 1)))
            }
        };
        let response = LIST.whole(Format::Ndjson, 1, page).await.unwrap();
        assert_eq!(read.load(Ordering::SeqCst), 1, "before the answer begins");
        let mut body = response.into_body().into_data_stream();
        for expected in ["", "{\"id\":1}\n", "{\"id\":2}\n"] {
            assert_eq!(body.next().await.unwrap().unwrap(), expected);
        }
        assert_eq!(
            read.load(Ordering::SeqCst),
            2,
            "no page ahead of the client"
        );
        drop(body);
        assert_eq!(read.load(Ordering::SeqCst), 2);
        assert_eq!(
            Arc::strong_count(&read),
            1,
            "nothing goes on behind its back"
        );
    }

    #[tokio::test]
    async fn what_is_wrong_with_the_question_is_answered_before_the_first_row() {
        let page = |(): ()| async { Err(ApiError::not_found("no such lane")) };
        assert!(LIST.whole(Format::Csv, (), page).await.is_err());
    }

    #[tokio::test]
    async fn a_list_that_cannot_be_read_on_is_broken_off() {
        let broken = ApiError::not_found("gone");
        let pages = futures::stream::iter([Ok(vec![]), Err(broken)]);
        let response = LIST.streamed(Format::Ndjson, pages);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await;
        assert!(body.is_err());
    }
}
