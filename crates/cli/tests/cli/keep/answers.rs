//! What an archived day answers, and that every answer says where it comes from: the API, the command line, the console.

use std::process::Command;

use serde_json::{Value, json};

use super::day::{COUNT, DAY};
use super::trouble::{Shelf, asked, run};
use crate::fixture::footing::LONG;
use crate::fixture::http::{get, post};
use crate::fixture::served::{BINARY, Served, eventually};
use crate::pages::console::Reader;

const HOT: &str = "2026-01-01T00:00:00Z";

fn command(server: &Served, args: &[&str]) -> String {
    let address = format!("http://{}", server.address);
    let ran = Command::new(BINARY)
        .args(args)
        .args(["--server", &address])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{args:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

fn from(answer: &Value) -> (&str, bool) {
    let source = &answer["source"];
    let restored = source["restored"].as_bool().unwrap();
    (source["from"].as_str().unwrap(), restored)
}

#[test]
fn an_archived_day_is_listed_and_every_answer_says_where_it_comes_from() {
    let shelf = Shelf::new();
    let server = shelf.start();
    item_totals_and_audit(&server);
    lists_say_what_they_leave_out(&server);
    a_day_is_listed(&server);
    the_console_shows_it(&server);
    server.kill();

    let server = shelf.start_without_grace();
    eventually("the day is in files only", LONG, || {
        let days = asked(&server, &format!("/admin/archive/{DAY}"));
        (days["days"][0]["state"] == "DROPPED").then_some(())
    });
    let gone = get(server.address, &format!("/admin/archive/{DAY}/items")).unwrap();
    assert_eq!((gone.status, &gone.body["code"]), (410, &json!("archived")));
    assert!(gone.text.contains("SHA-256"), "{}", gone.text);
    let totals = asked(&server, &format!("/admin/totals?date={DAY}"));
    assert_eq!(from(&totals), ("archive", false), "totals stay");
    let trail = asked(&server, "/admin/audit?item=PAYMENT/p0042");
    assert!(trail["archived"]["what"].as_str().unwrap().contains(DAY));

    let because = json!({"reason": "a question"});
    let path = format!("/admin/archive/{DAY}/restore");
    assert_eq!(post(server.address, &path, &because).unwrap().status, 200);
    let items = asked(&server, &format!("/admin/archive/{DAY}/items?limit=1"));
    assert_eq!(from(&items), ("archive", true));
    assert_eq!(from(&asked(&server, "/payments/p0042")), ("archive", true));
}

fn item_totals_and_audit(server: &Served) {
    let item = asked(server, "/payments/p0042");
    assert_eq!(
        (from(&item), &item["archived"]),
        (("archive", false), &json!(DAY))
    );
    let totals = asked(server, &format!("/admin/totals?date={DAY}"));
    assert_eq!(from(&totals), ("archive", false));
    assert_eq!(totals["paymentSums"][0]["count"], COUNT);
    assert_eq!(from(&asked(server, "/admin/totals")), ("hot", false));
    let proof = asked(server, "/admin/rate-limit/certificate");
    assert_eq!(from(&proof), ("hot", false));
    let trail = asked(server, "/admin/audit?item=PAYMENT/p0042");
    assert_eq!(
        (from(&trail), &trail["archived"]),
        (("both", false), &Value::Null)
    );
    let log = asked(server, "/admin/audit");
    assert_eq!(log["archived"]["lastDay"], DAY, "{log}");
    let later = asked(server, &format!("/admin/audit?from={HOT}"));
    assert_eq!(later["archived"], Value::Null);
    let trail = asked(server, &format!("/admin/archive/{DAY}/audit"));
    assert_eq!(
        (from(&trail), &trail["next"]),
        (("archive", false), &json!("p0099"))
    );
}

fn lists_say_what_they_leave_out(server: &Served) {
    let list = asked(server, "/payments");
    assert_eq!(
        (from(&list), &list["payments"]),
        (("hot", false), &json!([]))
    );
    let part = &list["archived"];
    assert_eq!(
        (&part["firstDay"], &part["lastDay"]),
        (&json!(DAY), &json!(DAY))
    );
    assert!(
        part["what"]
            .as_str()
            .unwrap()
            .contains("tollgate archive items")
    );
    for (query, is_partial) in [
        ("?account=A-1", true),
        ("?status=PROCESSING", true),
        ("?order=id", true),
        (&*format!("?acceptedTo={HOT}"), true),
        (&format!("?acceptedFrom={HOT}"), false),
        ("?status=SCHEDULED", false),
        ("?held=true", false),
    ] {
        let list = asked(server, &format!("/payments{query}"));
        assert_eq!(list["archived"] != Value::Null, is_partial, "{query}");
    }
    let file = get(server.address, "/payments?format=csv").unwrap();
    let head = format!("tollgate-archived: {DAY}/{DAY}");
    assert!(file.head.to_lowercase().contains(&head), "{}", file.head);
    let said = command(server, &["payments", "list"]);
    assert!(
        said.contains("Archived payments are not in this list"),
        "{said}"
    );
    assert_eq!(asked(server, "/invoices")["archived"], Value::Null);
}

fn a_day_is_listed(server: &Served) {
    let path = format!("/admin/archive/{DAY}/items");
    let (mut ids, mut query) = (vec![], "?limit=300".to_owned());
    loop {
        let page = asked(server, &format!("{path}{query}"));
        assert_eq!(from(&page), ("archive", false));
        let items = page["items"].as_array().unwrap();
        ids.extend(
            items
                .iter()
                .map(|item| item["id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else {
            break;
        };
        query = format!("?limit=300&after={next}");
    }
    assert_eq!(ids.len(), COUNT);
    assert!(ids.is_sorted());
    for (query, count) in [
        ("?limit=1000&status=REJECTED", 70),
        ("?limit=1000&account=A-1", COUNT),
        ("?limit=1000&account=nobody", 0),
    ] {
        let page = asked(server, &format!("{path}{query}"));
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(page["complete"], true);
    }
    let nothing = get(server.address, "/admin/archive/2024-03-01/items").unwrap();
    assert_eq!(nothing.status, 404, "{}", nothing.text);
    let odd = format!("{path}?itemType=INVOICE&account=A-1");
    assert_ne!(get(server.address, &odd).unwrap().status, 200);
    let said = command(server, &["archive", "items", DAY, "--status", "REJECTED"]);
    assert!(
        said.contains("p0007") && said.contains("from the archive"),
        "{said}"
    );
    let said = command(server, &["archive", "status"]);
    assert!(
        said.contains("PAYMENT") && said.contains("archive files"),
        "{said}"
    );
}

fn the_console_shows_it(server: &Served) {
    run(server);
    let reader = Reader::local(server.address);
    for (path, parts) in [
        (
            format!("/console/archive/{DAY}"),
            ["p0000", "from the archive", "Next page"],
        ),
        (
            "/console/archive?before=2024-03-01".to_owned(),
            [DAY, "EXPORTED", "What grows"],
        ),
        (
            "/console/payments".to_owned(),
            ["Archived payments", DAY, "/console/archive"],
        ),
        (
            "/console/payments/p0042".to_owned(),
            ["ended on", DAY, "the archive"],
        ),
        (
            "/console/audit".to_owned(),
            ["Entries about archived items", DAY, "/console/archive"],
        ),
        (
            format!("/console/totals?date={DAY}"),
            ["from the archive", "PROCESSING", "REJECTED"],
        ),
    ] {
        let page = reader.page(&path);
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        for part in parts {
            assert!(
                page.text.contains(part),
                "{path} has no {part}: {}",
                page.text
            );
        }
    }
}
