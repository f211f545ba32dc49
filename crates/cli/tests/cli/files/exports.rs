//! Every list as a file, to and fro, and counted, on one server with something of everything. And files whose reader goes
//! away in the middle.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_conformance::postgres as cluster;

use crate::files::bulk::{done, later};
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{get, post, post_raw};
use crate::fixture::pair::{Pair, pair_on, payment};
use crate::fixture::served::eventually;
use crate::pages::axe::trouble;
use crate::pages::console::Reader;
use crate::people::jobs::ended;

/// A list: its address, where its lines are, what tells them apart, the head of its CSV, and its page.
struct List<'a> {
    address: &'a str,
    lines: &'a str,
    id: &'a str,
    head: &'a str,
    page: &'a str,
}

#[test]
fn every_list_goes_to_and_fro_says_how_long_it_is_and_is_a_file() {
    let url = database();
    let settings = "downstream.payments.honours_idempotency_key = false\nsweep.interval_secs = 1\n";
    let pair = pair_on(&url, settings);
    trouble(&pair, &url);
    more_of_each(&pair, &url);
    let address = pair.server.address;
    let job = get(address, "/admin/jobs").unwrap().body["jobs"][0]["jobId"].clone();
    let items = format!("/admin/jobs/{}/items", job.as_str().unwrap());
    let of_job = format!("/console/jobs/{}", job.as_str().unwrap());
    for list in &LISTS {
        is_a_file(address, list);
        goes_to_and_fro(address, list);
    }
    let items = List {
        address: &items,
        lines: "items",
        id: "number",
        head: "number,id,done,leftOut,answer",
        page: &of_job,
    };
    is_a_file(address, &items);
    names_that_there_are_not(address);
    let log = pair.server.log();
    for act in ["file imported", "job started", "marked as seen"] {
        let is_told = |line: &String| line.contains("a person acted") && line.contains(act);
        assert!(log.iter().any(is_told), "{act}: {log:?}");
    }
    nothing_is_kept_by_files_that_are_dropped(&pair, &url);
}

const LISTS: [List<'static>; 8] = [
    List {
        address: "/admin/held",
        lines: "items",
        id: "id",
        head: "itemType,id,amount,currency,lane,due,deadline,rules,why",
        page: "/console/held",
    },
    List {
        address: "/admin/in-doubt",
        lines: "items",
        id: "id",
        head: "itemType,id,amount,currency,lane,firstSent,lastSent,sends,questions,lastHeard,nextAt",
        page: "/console/in-doubt",
    },
    List {
        address: "/admin/dead-letters",
        lines: "deadLetters",
        id: "id",
        head: "itemType,id,status,amount,currency,lane,run,retryCount,lastError,due",
        page: "/console/dead-letters",
    },
    List {
        address: "/payments/bulk",
        lines: "batches",
        id: "batchId",
        head: "batchId,fileName,actor,state,lines,accepted,duplicate,rejected,openedAt,endedAt",
        page: "/console/imports",
    },
    List {
        address: "/admin/jobs",
        lines: "jobs",
        id: "jobId",
        head: "jobId,act,itemType,state,count,amounts,done,leftOut,left,actor,reason,filter,executeAt,previewedAt,startedAt,endedAt,stopped",
        page: "/console/jobs",
    },
    List {
        address: "/invoices",
        lines: "invoices",
        id: "invoiceId",
        head: "invoiceId,status,amount.value,amount.currency,queueStatus,run,scheduledTime,createdAt",
        page: "/console/invoices",
    },
    List {
        address: "/payments/check-status",
        lines: "checks",
        id: "workflowId",
        head: "workflowId,status,currentPhase,totalPayments,gatewaysIdentified,startedAt,endedAt",
        page: "/console/status-checks",
    },
    List {
        address: "/admin/audit?by=people",
        lines: "entries",
        id: "id",
        head: "id,at,actor,action,item,statusBefore,statusAfter,detail,batchId",
        page: "/console/audit?by=people",
    },
];

/// At least three of what there is only one of.
fn more_of_each(pair: &Pair, url: &str) {
    let address = pair.server.address;
    for n in 0..2 {
        for kind in ["stray", "lost", "late"] {
            let taken = post(address, "/payments", &later(&format!("{kind}{n}"))).unwrap();
            assert!(taken.status < 300, "{}", taken.text);
        }
        let file = format!("{}\n", payment(&format!("filed{n}")));
        let taken = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
        done(address, taken.body["batchId"].as_str().unwrap());
        let check = json!({"paymentIds": ["acme:1"]});
        let begun = post(address, "/payments/check-status", &check).unwrap();
        assert!(begun.status < 300, "{}", begun.text);
    }
    // Of one moment each, so that none is lost between two pages. In doubt without a send: no flow asks about it.
    let moved = "UPDATE item_queue SET queue_status = 'DEAD' WHERE item_id LIKE 'stray%';
        UPDATE item_queue SET queue_status = 'HELD' WHERE item_id LIKE 'late%';
        UPDATE item_queue SET status = 'IN_DOUBT', updated_at = 1 WHERE item_id LIKE 'lost%'";
    pair.runtime.block_on(cluster::sql(url, moved));
    for n in 0..2 {
        let wish = json!({"act": "cancel", "filter": {"reference": format!("none {n}")}});
        let none = post(address, "/admin/jobs", &wish).unwrap();
        assert_eq!(none.status, 400, "{}", none.text);
        let act = ["jobs", "preview", "replay", "--all"];
        let digest = pair.data(&act)["digest"].as_str().unwrap().to_owned();
        let start = ["jobs", "start", "replay", "--all", "--reason", "again"];
        let job = pair.data(&[&start[..], &["--digest", &digest]].concat());
        ended(address, job["jobId"].as_str().unwrap());
        pair.runtime.block_on(cluster::sql(url, moved));
    }
}

/// An answer that is sent in pieces, put together.
fn whole(text: &str) -> String {
    let (mut rest, mut whole) = (text, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&after[..length]);
        rest = &after[length + 2..];
    }
    whole
}

fn ids(lines: &Value, id: &str) -> Vec<String> {
    let lines = lines.as_array().unwrap().iter();
    lines.map(|line| line[id].to_string()).collect()
}

fn with(address: &str, query: &str) -> String {
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}{query}")
}

/// Has every line of the list, by the same names; and the list's page leads to it.
fn is_a_file(address: SocketAddr, list: &List<'_>) {
    let here = list.address;
    let mut listed = ids(
        &get(address, &with(here, "limit=1000"))
            .ok()
            .filter(|it| it.status == 200)
            .unwrap_or_else(|| get(address, here).unwrap())
            .body[list.lines],
        list.id,
    );
    assert!(!listed.is_empty(), "{here}");
    let ndjson = get(address, &with(here, "format=ndjson")).unwrap();
    assert_eq!(ndjson.status, 200, "{here}: {}", ndjson.text);
    let ndjson = whole(&ndjson.text);
    let lines: Vec<Value> = ndjson
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut filed = ids(&json!(lines), list.id);
    // The file of invoices is in the order of ids.
    listed.sort();
    filed.sort();
    assert_eq!(filed, listed, "{here}");
    let csv = get(address, &with(here, "format=csv")).unwrap();
    assert!(csv.head.contains("text/csv"), "{here}: {}", csv.head);
    let csv = whole(&csv.text);
    assert_eq!(csv.lines().next(), Some(list.head), "{here}");
    let wrong = get(address, &with(here, "format=xml")).unwrap();
    assert_eq!(wrong.status, 400, "{here}: {}", wrong.text);
    let reader = Reader::local(address);
    let page = reader.page(list.page).text;
    let link = page.split("href=\"").skip(1).find_map(|rest| {
        let address = rest.split('"').next().unwrap();
        address.ends_with("format=csv").then(|| address.to_owned())
    });
    let link = link.unwrap_or_else(|| panic!("{}: {page}", list.page));
    let file = reader.page(&link.replace("&amp;", "&").replace("&#38;", "&"));
    assert_eq!(file.status, 200, "{link}: {}", file.text);
    assert!(file.text.contains(list.head), "{link}: {}", file.text);
}

/// Page by page to the end of the list and back, one line at a time; and it says how many there are.
fn goes_to_and_fro(address: SocketAddr, list: &List<'_>) {
    let here = list.address;
    // A page of what is in doubt has its own size.
    let size = if here == "/admin/in-doubt" {
        ""
    } else {
        "limit=1&"
    };
    let turn = |way: &str, token: &Value| {
        let token = token
            .as_str()
            .map_or_else(|| token.to_string(), str::to_owned);
        let path = with(here, &format!("{size}{way}={token}"));
        let answer = get(address, &path).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.body
    };
    let mut page = get(address, &with(here, size)).unwrap().body;
    assert_eq!(page["previous"], json!(null), "{here}: {page}");
    let count = page["count"].as_u64().unwrap();
    assert!(count >= 3, "{here}: {page}");
    assert_ne!(page["atLeast"], json!(true), "{here}");
    let mut there = ids(&page[list.lines], list.id);
    while !page["next"].is_null() {
        page = turn("after", &page["next"]);
        there.extend(ids(&page[list.lines], list.id));
    }
    assert_eq!(there.len() as u64, count, "{here}");
    let mut back = ids(&page[list.lines], list.id);
    while !page["previous"].is_null() {
        page = turn("before", &page["previous"]);
        assert!(!page["next"].is_null(), "{here}: {page}");
        back.splice(0..0, ids(&page[list.lines], list.id));
    }
    assert_eq!(back, there, "{here}");
    let both = with(here, "before=1.a&after=1.a").replace("1.a", token_like(list));
    let refused = get(address, &both).unwrap();
    assert_eq!(refused.status, 400, "{both}: {}", refused.text);
}

fn token_like(list: &List<'_>) -> &'static str {
    if list.lines == "entries" { "1" } else { "1.a" }
}

/// An empty list would hide a slip.
fn names_that_there_are_not(address: SocketAddr) {
    let table = [
        ("/admin/audit?action=ANSWER_DIFERS", "ANSWER_DIFFERS"),
        ("/admin/audit?action=held&format=csv", "HELD"),
        ("/admin/held?type=PAIMENT", "PAIMENT"),
        ("/admin/dead-letters?type=PAIMENT", "PAIMENT"),
        ("/admin/in-doubt?type=PAIMENT", "PAIMENT"),
        ("/invoices?customer=c_2", "c_2"),
        ("/admin/jobs/job-1/items?format=csv", "job-1"),
        ("/payments?lane=elsewhere&format=csv", "elsewhere"),
    ];
    for (path, said) in table {
        let answer = get(address, path).unwrap();
        assert_eq!(answer.status, 404, "{path}: {}", answer.text);
        let error = answer.body["error"].as_str().unwrap();
        assert!(error.contains(said), "{path}: {error}");
    }
    let never_yet = get(address, "/admin/audit?action=REOPENED").unwrap();
    assert_eq!(
        (never_yet.status, &never_yet.body["count"]),
        (200, &json!(0))
    );
}

/// More of them than the store has connections, each dropped after its first piece. The server is as before, and a
/// file that is taken to its end is whole.
fn nothing_is_kept_by_files_that_are_dropped(pair: &Pair, url: &str) {
    const ENTRIES: usize = 30_000;
    let address = pair.server.address;
    let many = format!(
        "INSERT INTO audit_log (action, actor, detail, created_at)
         SELECT 'DRILL', 'ann', repeat('x', 200), 1 FROM generate_series(1, {ENTRIES})"
    );
    pair.runtime.block_on(cluster::sql(url, &many));
    let counted = get(address, "/admin/audit?action=DRILL&limit=1")
        .unwrap()
        .body;
    assert_eq!(
        (&counted["count"], &counted["atLeast"]),
        (&json!(10_000), &json!(true))
    );
    for _ in 0..40 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_mins(1)))
            .unwrap();
        let request =
            "GET /admin/audit?action=DRILL&format=ndjson HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut piece = [0; 4096];
        stream.read_exact(&mut piece).unwrap();
        assert!(piece.starts_with(b"HTTP/1.1 200"));
    }
    let csv = get(address, "/admin/audit?action=DRILL&format=csv").unwrap();
    assert_eq!(whole(&csv.text).lines().count(), ENTRIES + 1);
    eventually("no connection to the store is kept", LONG, || {
        let metrics = get(address, "/metrics").unwrap().text;
        let mut lines = metrics.lines();
        lines.find(|line| *line == "tollgate_store_connections_in_use 0")?;
        Some(())
    });
}
