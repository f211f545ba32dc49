//! `tollgate erase`: a person's data are gone from every byte of the store, and every total is as before.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_conformance::postgres::dump;
use tollgate_sandbox::WEBHOOK_SECRET;

use crate::files::bulk::done;
use crate::fixture::footing::{LONG, database};
use crate::fixture::http::{Response, get, post, post_raw};
use crate::fixture::pair::{Pair, paired};
use crate::fixture::served::{BINARY, Setting, eventually, eventually_or};

const ACCOUNT: &str = "DE02120300000000202051";
const NAME: &str = "Annemarie-Testfall";
const REFERENCE: &str = "Quittung-77812";
const METADATA: &str = "Kundin-5521";
/// What must be found nowhere afterwards.
const GONE: [&str; 4] = [ACCOUNT, NAME, REFERENCE, METADATA];

/// Rules that count payments by account; a bank that repeats the account when it refuses; a receiver.
fn extra(bank: &str, echo: SocketAddr) -> String {
    format!(
        "sweep.interval_secs = 1\n\
         [[rules]]\nname = \"twins\"\nduplicate_within_secs = 1\nmessage = \"paid already\"\n\
         [[rules]]\nname = \"daily\"\ndaily_total = \"100000\"\ncurrency = \"USD\"\nzone = \"UTC\"\nmessage = \"enough\"\n\
         [downstream.gateways.echo]\nurl = \"http://{echo}\"\nlane = \"default\"\n\
         [downstream.notifications]\nurls = [\"{bank}/webhooks\"]\nsecret = \"{WEBHOOK_SECRET}\"\n"
    )
}

#[test]
fn nothing_of_a_person_is_left_in_any_byte_of_sqlite() {
    let echo = refusing_bank();
    let pair = paired(|bank| Setting::new(bank, &extra(&bank.url(), echo)));
    let folder = pair.setting.folder.path().to_owned();
    erased_everywhere(&pair, || files_of(&folder));
}

#[test]
fn nothing_of_a_person_is_left_in_a_dump_of_postgresql() {
    let (echo, url) = (refusing_bank(), database());
    let pair = paired(|bank| Setting::on(&url, bank, &extra(&bank.url(), echo)));
    erased_everywhere(&pair, || dump(&url).into_bytes());
}

fn erased_everywhere(pair: &Pair, bytes: impl Fn() -> Vec<u8>) {
    let address = pair.server.address;
    let amounts = amounts_of(pair);
    for word in GONE {
        assert!(is_in(&bytes(), word), "{word} must be there to be erased");
    }
    let totals = totals(address);
    let first = erase(pair, &["--account", ACCOUNT]);
    assert_eq!(first["leftOut"], 1, "{first}");
    let left_out = &first["firstLeftOut"][0];
    assert_eq!(left_out["item"], json!({"type": "PAYMENT", "id": "later"}));
    let why = left_out["reason"].as_str().unwrap();
    assert!(why.contains("it has not ended: it is SCHEDULED"), "{why}");
    assert_eq!(first["items"], 6, "{first}");
    assert!(first["notifications"].as_u64() >= Some(4), "{first}");
    assert!(first["texts"].as_u64() >= Some(4), "{first}");
    assert_eq!(self::totals(address), totals, "every total ties out");
    assert_eq!(amounts_of_erased(address), amounts, "ids and amounts stay");

    let withdrawn = post(
        address,
        "/payments/later/cancel",
        &json!({"reason": "moved"}),
    );
    assert_eq!(withdrawn.unwrap().status, 200);
    let second = erase(pair, &["--account", ACCOUNT]);
    assert_eq!(
        (&second["items"], &second["leftOut"]),
        (&json!(1), &json!(0))
    );
    let third = erase(pair, &["--account", ACCOUNT]);
    for counted in ["items", "notifications", "texts", "leftOut"] {
        assert_eq!(
            third[counted], 0,
            "a further erasure finds nothing: {third}"
        );
    }
    let left = bytes();
    for word in GONE {
        assert!(
            !is_in(&left, word),
            "{word} is still there: {}",
            around(&left, word)
        );
    }
    a_repeat_is_refused_and_nothing_is_sent_again(pair);
    it_is_audited_without_what_went(address);
}

/// Killed again and again in the middle, each item is erased once.
#[test]
fn kill_9_in_the_middle_of_an_erasure_erases_each_item_once() {
    let pair = paired(|bank| Setting::new(bank, ""));
    killed_in_the_middle(pair);
}

#[test]
fn kill_9_in_the_middle_of_an_erasure_erases_each_item_once_on_postgresql() {
    let url = database();
    let pair = paired(|bank| Setting::on(&url, bank, ""));
    killed_in_the_middle(pair);
}

const MANY: usize = 600;

fn killed_in_the_middle(pair: Pair) {
    let Pair {
        setting,
        server,
        bank,
        runtime,
    } = pair;
    let address = server.address;
    pay_many(address);
    let preview = eventually("no workflow has a copy any more", LONG, || {
        let preview = tollgate(address, &["--account", ACCOUNT]);
        (preview["count"] == MANY).then_some(preview)
    });
    let mut wish = json!({"account": ACCOUNT, "reason": "request 4711"});
    wish["digest"] = preview["digest"].clone();
    let started = post(address, "/admin/erasures", &wish).unwrap();
    assert_eq!(started.status, 202, "{}", started.text);
    let path = format!(
        "/admin/erasures/{}",
        started.body["erasureId"].as_str().unwrap()
    );
    let (mut server, mut kills) = (Some(server), 0);
    for share in [4, 2] {
        eventually("it is under way", LONG, || {
            let shown = get(address, &path).unwrap().body;
            (shown["items"].as_u64()? >= (MANY / share) as u64).then_some(())
        });
        kills += usize::from(get(address, &path).unwrap().body["stage"] == "ITEMS");
        server.take().unwrap().kill();
        server = Some(setting.start(&address.to_string()));
    }
    assert!(kills > 0, "a kill must strike in the middle");
    let ended = eventually("it ends", LONG, || {
        let shown = get(address, &path).unwrap().body;
        (shown["stage"] == "DONE").then_some(shown)
    });
    assert_eq!(
        (&ended["items"], &ended["leftOut"]),
        (&json!(MANY), &json!(0))
    );
    let erased = get(address, "/admin/audit?action=ERASED&limit=1000")
        .unwrap()
        .body;
    let erased = erased["entries"].as_array().unwrap();
    let each: std::collections::BTreeSet<String> =
        erased.iter().map(|it| it["item"].to_string()).collect();
    assert_eq!((erased.len(), each.len()), (MANY, MANY), "each once");
    drop((bank, runtime));
}

fn pay_many(address: SocketAddr) {
    let limit = json!({"configName": "default", "maxPerWindow": 1000, "windowSizeSecs": 1,
                       "maxPerSecond": 1000, "reason": "for a test"});
    assert_eq!(
        post(address, "/admin/rate-limit/config", &limit)
            .unwrap()
            .status,
        200
    );
    let line = |n: usize| format!("{}\n", payment(&format!("p{n:04}"), "1.00", None));
    let file: String = (0..MANY).map(line).collect();
    let answer = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(
        done(address, answer.body["batchId"].as_str().unwrap())["accepted"],
        MANY
    );
    eventually("all are paid", LONG, || {
        let totals = get(address, "/admin/totals").unwrap().body;
        let paid = &totals["payments"][0];
        (paid["status"] == "PROCESSING" && paid["count"] == MANY).then_some(())
    });
}

/// Payments one by one and in a file, refused, cancelled and paid; an invoice; texts that name the account.
fn amounts_of(pair: &Pair) -> Vec<(String, String)> {
    let address = pair.server.address;
    taken(&post(address, "/payments", &payment("one", "1.00", None)).unwrap());
    let mut back = payment("back", "2.00", None);
    let (debtor, creditor) = (back["debtor"].clone(), back["creditor"].clone());
    (back["debtor"], back["creditor"]) = (creditor, debtor);
    taken(&post(address, "/payments", &back).unwrap());
    let mut refused = payment("refused", "3.00", None);
    refused["gateway"] = json!("echo");
    taken(&post(address, "/payments", &refused).unwrap());
    let tomorrow = Some(in_a_day());
    taken(
        &post(
            address,
            "/payments",
            &payment("gone", "4.00", tomorrow.as_deref()),
        )
        .unwrap(),
    );
    taken(
        &post(
            address,
            "/payments",
            &payment("later", "5.00", tomorrow.as_deref()),
        )
        .unwrap(),
    );
    let why = json!({"reason": format!("{ACCOUNT} of {NAME} was closed")});
    assert_eq!(
        post(address, "/payments/gone/cancel", &why).unwrap().status,
        200
    );
    import(address);
    let pause = json!({"reason": format!("a customer with {ACCOUNT} called")});
    for act in ["pause", "resume"] {
        let path = format!("/admin/lanes/invoices/{act}");
        assert_eq!(post(address, &path, &pause).unwrap().status, 200);
    }
    let job = json!({"act": "cancel", "dryRun": true, "filter": {"account": ACCOUNT}});
    assert_eq!(post(address, "/admin/jobs", &job).unwrap().status, 200);
    charge(address);
    for (id, status) in [
        ("one", "PROCESSING"),
        ("back", "PROCESSING"),
        ("file", "PROCESSING"),
        ("refused", "REJECTED"),
    ] {
        ends_as(address, id, status);
    }
    let shown = get(address, "/payments/refused").unwrap();
    assert!(
        shown.text.contains(&format!("{ACCOUNT} is shut")),
        "{}",
        shown.text
    );
    all_told(pair);
    amounts_of_erased(address)
}

fn payment(id: &str, amount: &str, at: Option<&str>) -> Value {
    json!({"paymentId": id, "amount": amount, "currency": "USD", "executeAt": at,
           "debtor": {"account": ACCOUNT, "name": NAME},
           "creditor": {"account": "FR7630006000011234567890189", "name": "Bob"},
           "reference": REFERENCE, "metadata": {"customer": METADATA}})
}

fn import(address: SocketAddr) {
    let mut wrong = payment("wrong", "1.00", None);
    wrong["amount"] = json!("a lot");
    let file = format!("{}\n{wrong}\n", payment("file", "6.00", None));
    let answer = post_raw(address, "/payments/bulk", "application/x-ndjson", &file).unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text);
    let done = done(address, answer.body["batchId"].as_str().unwrap());
    assert_eq!(
        (&done["accepted"], &done["rejected"]),
        (&json!(1), &json!(1))
    );
}

/// An invoice of a customer whose id is the account.
fn charge(address: SocketAddr) {
    let customer = json!({"customerId": ACCOUNT, "currency": "DKK", "timeZone": "UTC"});
    assert_eq!(post(address, "/customers", &customer).unwrap().status, 201);
    let invoice = json!({"invoiceId": "inv", "customerId": ACCOUNT, "schedule": {"cron": "* * * * * *"},
                         "amount": {"value": "7.00", "currency": "DKK"}});
    assert_eq!(post(address, "/invoices", &invoice).unwrap().status, 201);
    eventually("the invoice is paid", LONG, || {
        let shown = get(address, "/invoices/inv").unwrap().body;
        (shown["status"] == "PAID").then_some(())
    });
}

fn ends_as(address: SocketAddr, id: &str, status: &str) {
    eventually_or("it ends", LONG, || {
        let shown = get(address, &format!("/payments/{id}")).unwrap();
        let has_ended = shown.body["status"] == status;
        has_ended.then_some(()).ok_or(shown.text)
    });
}

/// What went out has been told about. A refusal by a bank of which nothing else is known yet may be part of a storm,
/// and waits.
fn all_told(pair: &Pair) {
    eventually("and are known to be", LONG, || {
        let told = ["one", "back", "file"].iter().all(|id| {
            let shown = get(pair.server.address, &format!("/payments/{id}")).unwrap();
            shown.text.contains(": delivered")
        });
        told.then_some(())
    });
}

/// Of all that is erased, or was.
fn amounts_of_erased(address: SocketAddr) -> Vec<(String, String)> {
    let ids = ["one", "back", "refused", "gone", "later", "file"];
    let shown = ids.map(|id| get(address, &format!("/payments/{id}")).unwrap().body);
    let told = |it: &Value| (it["paymentId"].to_string(), it["amount"].to_string());
    shown.iter().map(told).collect()
}

fn totals(address: SocketAddr) -> Value {
    let told = get(address, "/admin/totals").unwrap().body;
    json!([
        told["payments"],
        told["paymentSums"],
        told["invoices"],
        told["invoiceSums"]
    ])
}

/// By the command: first the preview, then with its digest.
fn erase(pair: &Pair, wish: &[&str]) -> Value {
    let address = pair.server.address;
    eventually("no workflow has a copy any more", LONG, || {
        let preview = tollgate(address, wish);
        (!preview.to_string().contains("its workflow")).then_some(())
    });
    let preview = tollgate(address, wish);
    let digest = preview["digest"].as_str().unwrap();
    let confirmed = ["--digest", digest, "--reason", "request 4711"];
    let ended = tollgate(address, &[wish, &confirmed].concat());
    assert_eq!(ended["stage"], "DONE", "{ended}");
    assert!(!ended.to_string().contains(ACCOUNT), "{ended}");
    ended
}

pub(super) fn tollgate(address: SocketAddr, words: &[&str]) -> Value {
    let output = Command::new(BINARY)
        .args(["erase", "--json", "--server", &format!("http://{address}")])
        .args(words)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn a_repeat_is_refused_and_nothing_is_sent_again(pair: &Pair) {
    let address = pair.server.address;
    let sent = pair.bank.ledger().effective();
    for (path, repeat) in [
        ("/payments", payment("one", "1.00", None)),
        ("/payments", payment("one", "8.00", None)),
    ] {
        let repeated = post(address, path, &repeat).unwrap();
        assert_eq!(repeated.status, 409, "{}", repeated.text);
        assert_eq!(repeated.body["code"], "erased", "{}", repeated.text);
    }
    let because = json!({"reason": "again"});
    let reopened = post(address, "/payments/refused/reopen", &because).unwrap();
    assert_eq!(reopened.status, 409, "{}", reopened.text);
    assert!(reopened.text.contains("erased"), "{}", reopened.text);
    let shown = get(address, "/payments/one").unwrap().body;
    assert_eq!(
        shown["debtor"],
        json!({"account": "[erased]", "name": "[erased]"})
    );
    assert_eq!(shown["reference"], Value::Null);
    assert_eq!(pair.bank.ledger().effective(), sent);
}

fn it_is_audited_without_what_went(address: SocketAddr) {
    let audit = get(address, "/admin/audit?limit=1000").unwrap();
    for action in ["ERASURE_STARTED", "ERASED", "ERASURE_ENDED"] {
        assert!(audit.text.contains(action), "{action}: {}", audit.text);
    }
    assert!(audit.text.contains("request 4711"));
    let named =
        json!({"account": ACCOUNT, "digest": "0".repeat(64), "reason": format!("{ACCOUNT} asked")});
    let refused = post(address, "/admin/erasures", &named).unwrap();
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(
        refused.body["details"]["reason"].is_string(),
        "{}",
        refused.text
    );
    let stale = json!({"account": ACCOUNT, "digest": "0".repeat(64), "reason": "asked"});
    let stale = post(address, "/admin/erasures", &stale).unwrap();
    assert_eq!(
        (stale.status, &stale.body["code"]),
        (409, &json!("preview_stale"))
    );
}

/// Answers every payment with a refusal that repeats what it was sent.
fn refusing_bank() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut request = [0; 16 * 1024];
                while let Ok(1..) = stream.read(&mut request) {
                    let body = format!("{{\"error\":\"{ACCOUNT} is shut, {NAME}\"}}");
                    let length = body.len();
                    let head = "HTTP/1.1 422 Unprocessable\r\ncontent-type: application/json";
                    let answer = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn taken(answer: &Response) {
    assert_eq!(answer.status, 201, "{}", answer.text);
}

fn in_a_day() -> String {
    #[expect(clippy::disallowed_methods, reason = "a caller's own clock")]
    let now = jiff::Timestamp::now();
    (now + std::time::Duration::from_hours(24)).to_string()
}

/// Everything beside the configuration, end to end.
pub(super) fn files_of(folder: &Path) -> Vec<u8> {
    let mut bytes = vec![];
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        if file.file_name() != "tollgate.toml" {
            bytes.extend(std::fs::read(file.path()).unwrap());
        }
    }
    bytes
}

pub(super) fn is_in(bytes: &[u8], word: &str) -> bool {
    bytes
        .windows(word.len())
        .any(|part| part == word.as_bytes())
}

pub(super) fn around(bytes: &[u8], word: &str) -> String {
    let at = bytes
        .windows(word.len())
        .position(|part| part == word.as_bytes());
    let at = at.unwrap_or(0);
    let (from, to) = (at.saturating_sub(200), (at + 200).min(bytes.len()));
    String::from_utf8_lossy(&bytes[from..to]).into_owned()
}
