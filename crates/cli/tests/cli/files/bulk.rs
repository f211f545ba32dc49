//! Bulk files over HTTP: what is wrong is told by line and field, what is good goes through, and
//! nothing a client sends takes more memory than its bound.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::footing::{Footing, on_both_footings};
use crate::fixture::http::{Response, get, post_raw, send};
use crate::fixture::pair::{pair, payment};
use crate::fixture::served::eventually;

on_both_footings!(
    every_bad_line_is_told_by_its_field_and_the_good_ones_go_through,
    a_key_answers_the_same_file_with_the_same_batch,
    a_client_that_hangs_up_leaves_nothing_that_runs,
    a_file_is_planned_in_its_order,
);

const NDJSON: &str = "application/x-ndjson";
const COLUMNS: &str =
    "paymentId,amount,currency,debtor.account,debtor.name,creditor.account,creditor.name";

/// A payment that will not run while a test looks at it.
pub(crate) fn later(id: &str) -> Value {
    let mut payment = payment(id);
    payment["executeAt"] = json!(in_ten_days());
    payment
}

/// The same in all of a test: another time would be another payment.
pub(crate) fn in_ten_days() -> String {
    static AT: LazyLock<String> = LazyLock::new(|| {
        #[expect(clippy::disallowed_methods, reason = "a caller's own clock")]
        let now = jiff::Timestamp::now();
        (now + Duration::from_hours(240)).to_string()
    });
    AT.clone()
}

/// Waits until every line is judged.
pub(crate) fn done(address: SocketAddr, batch: &str) -> Value {
    eventually("the file is taken in", Duration::from_mins(5), || {
        let answer = get(address, &format!("/payments/bulk/{batch}")).ok()?;
        assert_eq!(answer.status, 200, "{}", answer.text);
        (answer.body["state"] == "DONE").then_some(answer.body)
    })
}

fn taken(answer: &Response) -> String {
    assert_eq!(answer.status, 202, "{}", answer.text);
    answer.body["batchId"].as_str().unwrap().to_owned()
}

/// `17 amount currency`: the line and the fields that are blamed.
fn blamed(address: SocketAddr, batch: &str) -> Vec<String> {
    let errors = get(address, &format!("/payments/bulk/{batch}/errors")).unwrap();
    let errors = errors.body["errors"].as_array().unwrap().clone();
    let fields = |error: &Value| {
        let details = error["details"].as_object().unwrap();
        details.keys().cloned().collect::<Vec<_>>().join(" ")
    };
    errors
        .iter()
        .map(|error| format!("{} {}", error["line"], fields(error)))
        .collect()
}

fn changed(id: &str, field: &str, value: Value) -> String {
    let mut payment = later(id);
    payment[field] = value;
    payment.to_string()
}

#[expect(
    clippy::too_many_lines,
    reason = "a table of everything that can be wrong"
)]
fn every_bad_line_is_told_by_its_field_and_the_good_ones_go_through(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let long = "x".repeat(200);
    let without = |field: &str| {
        let mut payment = later("without");
        payment.as_object_mut().unwrap().remove(field);
        payment.to_string()
    };
    let lines: Vec<(String, &str)> = vec![
        (later("good_1").to_string(), ""),
        (without("paymentId"), "paymentId"),
        (without("amount"), "amount"),
        (without("currency"), "currency"),
        (without("debtor"), "debtor"),
        (without("creditor"), "creditor"),
        (changed("-x", "reference", json!("r")), "paymentId"),
        (changed(&long, "reference", json!("r")), "paymentId"),
        (changed("bulk", "reference", json!("r")), "paymentId"),
        (changed("b1", "amount", json!("1.234")), "amount"),
        (changed("b2", "amount", json!("-5")), "amount"),
        (changed("b3", "amount", json!("0")), "amount"),
        (changed("b4", "amount", json!(12)), "amount"),
        (changed("b5", "amount", json!("a lot")), "amount"),
        (changed("b6", "amount", json!("9".repeat(40))), "amount"),
        (changed("b7", "currency", json!("QQQ")), "currency"),
        (changed("b8", "currency", json!(7)), "currency"),
        (
            changed("b9", "debtor", json!({"account": "", "name": "A"})),
            "debtor.account",
        ),
        (
            changed("b10", "debtor", json!({"account": "A-1"})),
            "debtor.name",
        ),
        (
            changed("b11", "creditor", json!({"account": long, "name": long})),
            "creditor.account creditor.name",
        ),
        (
            changed(
                "b12",
                "creditor",
                json!({"account": "a", "name": "b", "bic": "c"}),
            ),
            "creditor.bic",
        ),
        (
            changed("b13", "executeAt", json!("2999-01-01T00:00:00Z")),
            "executeAt",
        ),
        (
            changed("b14", "executeAt", json!("2020-01-01T00:00:00Z")),
            "executeAt",
        ),
        (
            changed("b15", "executeAt", json!("2026-11-16T16:00:00[Mars/Base]")),
            "executeAt",
        ),
        (
            changed("b16", "executeAt", json!("2026-11-16T16:00:00")),
            "executeAt",
        ),
        (
            changed("b17", "deadline", json!("2026-11-01T00:00:00Z")),
            "deadline",
        ),
        (changed("b18", "deadline", json!("soon")), "deadline"),
        (
            changed("b19", "onMissedDeadline", json!("hold")),
            "onMissedDeadline",
        ),
        (
            changed("b20", "onMissedDeadline", json!("explode")),
            "onMissedDeadline",
        ),
        (changed("b21", "gateway", json!(long)), "gateway"),
        (changed("b22", "reference", json!("a\u{7}b")), "reference"),
        (changed("b23", "metadata", json!([1])), "metadata"),
        (
            changed("b24", "metadata", json!({"x": "y".repeat(5000)})),
            "metadata",
        ),
        (changed("b25", "colour", json!("red")), "colour"),
        (
            changed("b26", "creditor", json!({"account": "A-1", "name": "Ann"})),
            "distinct_accounts",
        ),
        ("[]".to_owned(), "body"),
        ("null".to_owned(), "body"),
        ("{".to_owned(), "line"),
        ("paymentId,amount".to_owned(), "line"),
        (format!("{}1{}", "[".repeat(5000), "]".repeat(5000)), "line"),
        (
            changed("b27", "reference", json!("x".repeat(70_000))),
            "line",
        ),
        (later("good_1").to_string(), ""),
        (changed("good_1", "amount", json!("7")), "paymentId"),
        (String::new(), ""),
        (later("good_2").to_string(), ""),
    ];
    let mut file = "\u{feff}".to_owned();
    for (n, (line, _)) in lines.iter().enumerate() {
        file += line;
        file += if n % 2 == 0 { "\n" } else { "\r\n" };
    }
    let batch = taken(&post_raw(address, "/payments/bulk", NDJSON, &file).unwrap());
    let view = done(address, &batch);
    let expected: Vec<String> = (1..)
        .zip(&lines)
        .filter(|(_, (_, fields))| !fields.is_empty())
        .map(|(line, (_, fields))| format!("{line} {fields}"))
        .collect();
    assert_eq!(blamed(address, &batch), expected);
    assert_eq!(view["lines"], lines.len() - 1, "one is blank");
    assert_eq!(
        (&view["accepted"], &view["duplicate"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(view["rejected"], expected.len());
    assert_eq!(
        view["amounts"],
        json!([{"currency": "USD", "count": 2, "amount": "251.00"}])
    );
    for id in ["good_1", "good_2"] {
        let shown = get(address, &format!("/payments/{id}")).unwrap().body;
        assert_eq!(shown["status"], "SCHEDULED", "{id}");
        assert_eq!(shown["initWorkflowId"], format!("init-bulk-{batch}-1"));
    }
    // A line that was refused may be corrected, here or alone.
    let corrected = later("b1").to_string();
    let again = taken(&post_raw(address, "/payments/bulk", NDJSON, &corrected).unwrap());
    assert_eq!(done(address, &again)["accepted"], 1);
    let page = get(
        address,
        &format!("/payments/bulk/{batch}/errors?after=3&limit=2"),
    )
    .unwrap();
    assert_eq!(page.body["errors"][0]["line"], 4);
    assert_eq!(page.body["next"], 5);
}

#[test]
fn invalid_utf_8_is_an_error_of_its_line() {
    let pair = pair("");
    let address = pair.server.address;
    let mut file = later("good_1").to_string().into_bytes();
    file.extend(b"\n{\"paymentId\":\"\xff\xfe\"}\n");
    file.extend(later("good_2").to_string().into_bytes());
    let answer = Sending::begin(address, NDJSON, file.len()).all(&file);
    let batch = taken(&answer);
    let view = done(address, &batch);
    assert_eq!(
        (&view["accepted"], &view["rejected"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(blamed(address, &batch), ["2 line"]);
}

#[test]
fn a_csv_has_the_same_fields_as_columns() {
    let pair = pair("");
    let address = pair.server.address;
    let at = in_ten_days();
    let file = format!(
        "executeAt,{COLUMNS},metadata,reference\r\n\
         {at},c1,1.50,EUR,A,\"Ann, the \"\"first\"\"\",B,Bob,\"{{\"\"x\"\": 1}}\",\"two words\"\r\n\
         {at},c2,1,EUR,A,Ann,B,Bob,,\r\n\
         {at},c3,1,EUR,A,Ann,B,Bob\r\n\
         {at},c4,1.234,QQQ,,Ann,B,\"B\nob\",[1],\r\n\
         ,c5,2,EUR,A,Ann,B,Bob,,\r\n\
         2999-01-01T00:00:00Z,c6,2,EUR,A,Ann,B,Bob,,\r\n"
    );
    let batch =
        taken(&post_raw(address, "/payments/bulk", "text/csv; charset=utf-8", &file).unwrap());
    let view = done(address, &batch);
    assert_eq!(
        (&view["accepted"], &view["rejected"]),
        (&json!(3), &json!(3))
    );
    let expected = [
        "4 line",
        "5 creditor.name currency debtor.account metadata",
        "8 executeAt",
    ];
    assert_eq!(
        blamed(address, &batch),
        expected,
        "line 5 goes on for two lines"
    );
    let single = json!({"paymentId": "c1", "amount": "1.5", "currency": "EUR", "executeAt": at,
        "debtor": {"account": "A", "name": "Ann, the \"first\""}, "creditor": {"account": "B", "name": "Bob"},
        "metadata": {"x": 1}, "reference": "two words"});
    let repeat = crate::fixture::http::post(address, "/payments", &single).unwrap();
    assert_eq!(repeat.status, 200, "the same payment: {}", repeat.text);
}

#[test]
fn a_file_that_cannot_be_taken_as_a_whole_is_refused_with_the_reason() {
    let pair = pair("");
    let address = pair.server.address;
    let (csv, good) = ("text/csv", later("p").to_string());
    let seven = format!("{COLUMNS}\n");
    let table: [(&str, &str, u16, &str); 9] = [
        ("application/json", &good, 415, "x-ndjson"),
        ("text/plain", &good, 415, "text/csv"),
        (NDJSON, "", 400, "no payments"),
        (NDJSON, "\n \r\n\n", 400, "no payments"),
        (csv, "", 400, "no payments"),
        (csv, &seven, 400, "no payments"),
        (
            csv,
            "paymentId,amount,currency,debtor.account,debtor.name,creditor.account\nx",
            400,
            "creditor.name",
        ),
        (csv, &format!("{COLUMNS},colour\nx"), 400, "colour"),
        (csv, &format!("{COLUMNS},amount\nx"), 400, "appears twice"),
    ];
    for (kind, body, status, says) in table {
        let answer = post_raw(address, "/payments/bulk", kind, body).unwrap();
        assert_eq!(answer.status, status, "{kind} {body:?}: {}", answer.text);
        assert!(
            answer.text.contains(says),
            "{kind} {body:?}: {}",
            answer.text
        );
    }
    for path in ["/payments/bulk/nothing", "/payments/bulk/nothing/errors"] {
        assert_eq!(get(address, path).unwrap().status, 404);
    }
    let limit = get(address, "/payments/bulk/x/errors?limit=0").unwrap();
    assert_eq!(limit.status, 400, "{}", limit.text);
}

fn a_key_answers_the_same_file_with_the_same_batch(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let file = format!("{}\n", later("p"));
    let keyed = |key: &str, file: &str| {
        let headers = format!("content-type: {NDJSON}\r\nidempotency-key: {key}");
        send(address, "POST", "/payments/bulk", &headers, file).unwrap()
    };
    let batch = taken(&keyed("one", &file));
    done(address, &batch);
    let again = keyed("one", &file);
    assert_eq!((again.status, &again.body["batchId"]), (200, &json!(batch)));
    let other = keyed("one", &format!("{file}\n"));
    assert_eq!(other.status, 409, "{}", other.text);
    let fresh = taken(&keyed("two", &file));
    assert_eq!(done(address, &fresh)["duplicate"], 1);
    assert_eq!(keyed(&"k".repeat(201), &file).status, 400);
}

/// White space makes chunks of few lines, so that there are many of them.
fn a_file_is_planned_in_its_order(footing: &Footing) {
    const LINES: usize = 120;
    let pair = footing.pair("");
    let address = pair.server.address;
    let padding = " ".repeat(60_000);
    let ids: Vec<String> = (0..LINES).map(|n| format!("o{n:03}")).collect();
    let line = |id: &String| format!("{{{padding}{}\n", &later(id).to_string()[1..]);
    let file: String = ids.iter().map(line).collect();
    let batch = taken(&post_raw(address, "/payments/bulk", NDJSON, &file).unwrap());
    let answer = done(address, &batch);
    assert_eq!(
        (&answer["accepted"], &answer["orderKept"]),
        (&json!(LINES), &json!(true))
    );
    let listed = get(address, &format!("/payments?batch={batch}&limit=1000")).unwrap();
    let mut listed = listed.body["payments"].as_array().unwrap().clone();
    listed.sort_by_key(|it| {
        it["scheduledTime"]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    });
    let planned: Vec<_> = listed
        .iter()
        .map(|it| it["paymentId"].as_str().unwrap())
        .collect();
    assert_eq!(planned, ids);
}

#[test]
fn a_line_of_100_mb_is_one_error_and_takes_no_memory() {
    const PIECE: usize = 1024 * 1024;
    const PIECES: usize = 100;
    let pair = pair("");
    let address = pair.server.address;
    let (good, piece) = (format!("{}\n", later("good_1")), vec![b'x'; PIECE]);
    let after = format!("\n{}\n", later("good_2"));
    let before = pair.server.peak_kib();
    let length = good.len() + PIECE * PIECES + after.len();
    let mut sending = Sending::begin(address, NDJSON, length);
    sending.send(good.as_bytes());
    for _ in 0..PIECES {
        sending.send(&piece);
    }
    let batch = taken(&sending.all(after.as_bytes()));
    let view = done(address, &batch);
    assert_eq!(
        (&view["accepted"], &view["rejected"]),
        (&json!(2), &json!(1))
    );
    assert_eq!(blamed(address, &batch), ["2 line"]);
    let grown = pair.server.peak_kib() - before;
    println!("the peak grew by {grown} KiB");
    assert!(grown < 32 * 1024, "{grown} KiB more for a line of 100 MB");
}

fn a_client_that_hangs_up_leaves_nothing_that_runs(footing: &Footing) {
    let pair = footing.pair("");
    let address = pair.server.address;
    let lines: Vec<String> = (0..5000)
        .map(|n| later(&format!("p{n}")).to_string())
        .collect();
    let file = lines.join("\n");
    let mut sending = Sending::begin(address, NDJSON, file.len());
    sending.send(&file.as_bytes()[..file.len() - 100]);
    drop(sending);
    let totals = get(address, "/admin/totals").unwrap().body;
    assert_eq!(totals["payments"], json!([]), "{totals}");
    let batch = taken(&post_raw(address, "/payments/bulk", NDJSON, &file).unwrap());
    let view = done(address, &batch);
    assert_eq!(
        (&view["accepted"], &view["duplicate"]),
        (&json!(5000), &json!(0))
    );
}

#[test]
fn slow_uploads_fill_their_seats_and_nobody_elses() {
    const SEATS: usize = 8;
    let pair = pair("");
    let address = pair.server.address;
    let good = later("p").to_string();
    let bulk = || post_raw(address, "/payments/bulk", NDJSON, &good).unwrap();
    let slow = || {
        let mut sending = Sending::begin(address, NDJSON, 1000);
        sending.send(b"{");
        sending
    };
    let mut all: Vec<Sending> = (0..SEATS).map(|_| slow()).collect();
    let refused = eventually("all seats are taken", Duration::from_secs(30), || {
        let answer = bulk();
        if answer.status != 503 {
            // It may have had the seat that was meant for one of the slow ones.
            all.push(slow());
        }
        (answer.status == 503).then_some(answer)
    });
    assert!(refused.head.contains("retry-after"), "{}", refused.head);
    let single = crate::fixture::http::post(address, "/payments", &later("single")).unwrap();
    assert_eq!(single.status, 201, "others are unharmed");
    drop(all);
    eventually("the seats are free", Duration::from_secs(30), || {
        (bulk().status == 202).then_some(())
    });
}

#[test]
fn a_stop_waits_for_no_upload() {
    let pair = pair("");
    let address = pair.server.address;
    let mut sending = Sending::begin(address, NDJSON, 1_000_000);
    sending.send(format!("{}\n", later("p")).as_bytes());
    assert_eq!(get(address, "/health/live").unwrap().status, 200);
    assert_eq!(pair.server.stop(), Some(0));
    let answer = sending.all(b"");
    assert_eq!(answer.status, 503, "{}", answer.text);
}

/// A request whose body is sent piece by piece.
pub(crate) struct Sending {
    stream: TcpStream,
}

impl Sending {
    pub(crate) fn begin(address: SocketAddr, kind: &str, length: usize) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_mins(2));
        stream.set_read_timeout(patience).unwrap();
        let head = format!(
            "POST /payments/bulk HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        Self { stream }
    }

    pub(crate) fn send(&mut self, piece: &[u8]) {
        self.stream.write_all(piece).unwrap();
    }

    /// The last piece, and the answer.
    fn all(mut self, last: &[u8]) -> Response {
        self.send(last);
        let mut answer = String::new();
        self.stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        Response {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_lowercase(),
            body: serde_json::from_str(body).unwrap_or_default(),
            text: body.to_owned(),
        }
    }
}
