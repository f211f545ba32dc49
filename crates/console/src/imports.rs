//! Files of payments: handing one in, and what happened to its lines and payments.

use askama::Template;
use axum::body::Body;
use axum::extract::multipart::Field;
use axum::extract::{Multipart, Path, Query, State};
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde::Deserialize;
use tollgate_contract as contract;
use tollgate_contract::Needs;

use super::Console;
use super::call::{Problem, part, query};
use super::session::{PROOF, Session};
use super::shell::{HasPage, Shell, clock, clock_or, grouped, live, page as drawn, status_word};
use super::turns::{ListAt, Paged, Turns};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PageQuery {
    batch: String,
    after: String,
    before: String,
}

const LIST: ListAt<'_> = ListAt {
    page: "/console/imports",
    file: "/console/export/imports",
    called: ("import", "imports"),
};

impl HasPage for contract::BulkLine {
    fn address(&self) -> String {
        address(&self.batch_id)
    }
}

/// How far an import is.
trait Progress {
    /// Number of lines that are accepted, known or rejected.
    fn decided(&self) -> u64;
}

impl Progress for contract::BulkLine {
    fn decided(&self) -> u64 {
        self.accepted + self.duplicate + self.rejected
    }
}

impl Progress for contract::BulkState {
    fn decided(&self) -> u64 {
        self.accepted + self.duplicate + self.rejected
    }
}

fn address(batch: &str) -> String {
    format!("/console/imports/{}", part(batch))
}

#[derive(Template)]
#[template(path = "imports.html")]
struct ListPage {
    shell: Shell,
    hands_in: bool,
    /// Whether the reader may look at all of them, or at single ones only.
    lists: bool,
    imports: Vec<contract::BulkLine>,
    turns: Turns,
}

pub(super) async fn list(
    State(console): State<Console>,
    session: Session,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let batch = asked.batch.trim();
    if !batch.is_empty() {
        return Ok(Redirect::to(&address(batch)).into_response());
    }
    let lists = session.may(Needs::Read);
    let (mut imports, mut turns) = (vec![], Turns::default());
    if lists {
        let wanted = query(&[("after", &asked.after), ("before", &asked.before)]);
        let wanted = format!("/payments/bulk{wanted}");
        let found: contract::BulkList = console.get(&session, &wanted).await?;
        turns = LIST.turns(&[], &found.ends());
        imports = found.batches;
    }
    Ok(drawn(&ListPage {
        shell: Shell::new(&session, "Imports", "Imports", ""),
        hands_in: session.may(Needs::Ingest),
        lists,
        imports,
        turns,
    }))
}

fn wrong(error: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, error)
}

/// The next part of the form.
async fn next_field(form: &mut Multipart) -> Result<Option<Field<'_>>, Problem> {
    let field = form.next_field().await;
    field.map_err(|_| wrong("the upload was interrupted; nothing was imported"))
}

/// The proof comes before the file, so nothing of a file from elsewhere is read on.
async fn is_proven(form: &mut Multipart, session: &Session) -> Result<bool, Problem> {
    let Some(mut field) = next_field(form).await? else {
        return Ok(false);
    };
    if field.name() != Some(PROOF) {
        return Ok(false);
    }
    // However it comes in pieces, it is as long as ours or it is another.
    let mut given = vec![];
    while let Ok(Some(piece)) = field.chunk().await {
        given.extend_from_slice(&piece);
        if given.len() > session.csrf.len() {
            return Ok(false);
        }
    }
    Ok(session.is_proof(&given))
}

/// The file streams through to the API; nothing of it is kept here.
pub(super) async fn upload(
    State(console): State<Console>,
    session: Session,
    headers: HeaderMap,
    mut form: Multipart,
) -> Result<Response, Problem> {
    if console.door.is_from_another_site(&headers) || !is_proven(&mut form, &session).await? {
        return Err(Problem::not_ours());
    }
    let file = next_field(&mut form).await?;
    let mut file = file.ok_or_else(|| wrong("no file was chosen"))?;
    let name = file.file_name().unwrap_or_default().to_ascii_lowercase();
    let kind = match name.rsplit_once('.').map(|(_, end)| end) {
        Some("csv") => "text/csv",
        Some("ndjson" | "jsonl") => "application/x-ndjson",
        _ => return Err(wrong("the file's name must end in .csv, .ndjson or .jsonl")),
    };
    let called = query(&[("name", file.file_name().unwrap_or_default())]);
    let request = Request::post(format!("/payments/bulk{called}"));
    let request = request.header(header::CONTENT_TYPE, kind);
    // A field of the form cannot leave this handler, so the file goes through a channel.
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let feed = async move {
        // Ends when the file does, or when the API does not want more.
        while let Some(chunk) = file.chunk().await.transpose() {
            let broken = chunk.is_err();
            if sender.send(chunk).await.is_err() || broken {
                break;
            }
        }
    };
    let pieces = futures::stream::unfold(receiver, async |mut receiver| {
        let chunk = receiver.recv().await?;
        Some((chunk, receiver))
    });
    let request = request.body(Body::from_stream(pieces));
    let request = request.map_err(|_| wrong("the request is invalid"))?;
    let (answer, ()) = tokio::join!(console.answer(&session, request), feed);
    let bytes = axum::body::to_bytes(answer?.into_body(), 4096).await;
    let told: Option<contract::Bulk> = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let told = told.ok_or_else(|| {
        let error = "the file was imported, but its import id is unknown";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)
    })?;
    Ok(Redirect::to(&address(&told.batch_id)).into_response())
}

impl HasPage for contract::BulkSameFile {
    fn address(&self) -> String {
        address(&self.batch_id)
    }
}

/// The payments of an import that a bucket counts.
fn list_of(bucket: &contract::BulkBucket, import: &contract::BulkState) -> String {
    let (status, held) = match bucket.status.as_str() {
        "HELD" => ("", "true"),
        status @ "SCHEDULED" => (status, "false"),
        status => (status, ""),
    };
    let wanted = query(&[
        ("batch", &import.batch_id),
        ("status", status),
        ("held", held),
        ("currency", &bucket.currency),
    ]);
    format!("/console/payments{wanted}")
}

/// What items of a type are called.
pub(super) fn items(item_type: &str) -> &'static str {
    match item_type {
        "INVOICE" => "invoices",
        _ => "payments",
    }
}

/// What the page of an import says of it.
trait OnPage {
    fn items(&self) -> &'static str;
    /// One of them.
    fn item(&self) -> &'static str {
        self.items().trim_end_matches('s')
    }
    /// Whether there is a page that lists them.
    fn is_listed(&self) -> bool {
        self.items() == "payments"
    }
    fn runs(&self) -> bool;
}

impl OnPage for contract::BulkState {
    fn items(&self) -> &'static str {
        items(&self.item_type)
    }
    fn runs(&self) -> bool {
        self.decided() < self.lines || self.state == "UPLOADING"
    }
}

#[derive(Template)]
#[template(path = "import.html")]
struct Page {
    shell: Shell,
    import: contract::BulkState,
    /// Whether the reader may look at all payments.
    lists: bool,
    errors: Vec<contract::BulkLineError>,
    next: Option<String>,
}

pub(super) async fn page(
    State(console): State<Console>,
    session: Session,
    Path(batch): Path<String>,
    Query(asked): Query<PageQuery>,
) -> Result<Response, Problem> {
    let at = format!("/payments/bulk/{}", part(&batch));
    let import: contract::BulkState = console.get(&session, &format!("{at}?since=true")).await?;
    let errors = format!("{at}/errors{}", query(&[("after", &asked.after)]));
    let errors: contract::BulkErrors = console.get(&session, &errors).await?;
    let next = errors.next.map(|after| {
        let asked = query(&[("after", &after.to_string())]);
        format!("{}{asked}", address(&batch))
    });
    let runs = import.runs();
    let title = match &import.file_name {
        Some(name) => format!("Import {name}"),
        None => format!("Import {batch}"),
    };
    let response = drawn(&Page {
        shell: Shell::new(&session, title, "Imports", ""),
        import,
        lists: session.may(Needs::Read),
        errors: errors.errors,
        next,
    });
    Ok(if runs { live(response) } else { response })
}
