//! The console as a browser meets it: who sees what, what a form may do, and that nothing on a page
//! comes from whoever named something.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_contract::Role;

use crate::fixture::http::{Response, get, post, send};
use crate::fixture::pair::{pair, payment};
use crate::fixture::served::eventually;
use crate::fixture::tokens::{auth, of_each_role, token};

const FORM: &str = "content-type: application/x-www-form-urlencoded";

pub(crate) fn header<'a>(response: &'a Response, name: &str) -> &'a str {
    let lines = response.head.lines();
    let found = lines
        .filter_map(|line| line.split_once(": "))
        .find(|(n, _)| *n == name);
    found.map_or("", |(_, value)| value)
}

/// A reader's cookie, or none where nobody signs in.
pub(crate) struct Reader {
    address: SocketAddr,
    cookie: String,
}

impl Reader {
    pub(crate) fn local(address: SocketAddr) -> Self {
        let cookie = String::new();
        Self { address, cookie }
    }

    pub(crate) fn signed_in(address: SocketAddr, token: &str) -> Self {
        let answer = send(
            address,
            "POST",
            "/console/sign-in",
            FORM,
            &format!("token={token}"),
        );
        let answer = answer.unwrap();
        assert_eq!(answer.status, 303, "{}", answer.text);
        let cookie = header(&answer, "set-cookie");
        assert!(
            cookie.contains("httponly") && cookie.contains("samesite=strict"),
            "{cookie}"
        );
        assert!(!cookie.contains(&token.to_lowercase()), "{cookie}");
        let secret = cookie.split(';').next().unwrap();
        let cookie = format!("cookie: {secret}");
        Self { address, cookie }
    }

    fn headers(&self) -> String {
        match self.cookie.as_str() {
            "" => "accept: text/html".to_owned(),
            cookie => cookie.to_owned(),
        }
    }

    pub(crate) fn page(&self, path: &str) -> Response {
        send(self.address, "GET", path, &self.headers(), "").unwrap()
    }

    pub(crate) fn form(&self, path: &str, fields: &str) -> Response {
        let headers = format!("{}\r\n{FORM}", self.headers());
        send(self.address, "POST", path, &headers, fields).unwrap()
    }

    /// What a form of ours carries.
    pub(crate) fn csrf(&self) -> String {
        let page = self.page("/console/item-types").text;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

fn lane(address: SocketAddr) -> Value {
    get(address, "/admin/rate-limit/config").unwrap().body[0].clone()
}

#[test]
fn each_role_sees_its_own_pages_and_nobody_sees_any_without_signing_in() {
    let roles = of_each_role();
    let pair = pair(&auth(&roles.each_ref()));
    let address = pair.server.address;
    let pages: [(&str, [u16; Role::ALL.len()]); 24] = [
        ("/", [303, 200, 200]),
        ("/console/lanes/default", [403, 200, 200]),
        ("/console/lanes/none", [403, 404, 404]),
        ("/console/lanes/default/adjust", [403, 403, 200]),
        ("/console/lanes/none/adjust", [403, 403, 404]),
        ("/console/payments", [200, 200, 200]),
        ("/console/invoices", [200, 200, 200]),
        ("/console/invoices/none", [404, 404, 404]),
        ("/console/schedules", [403, 200, 200]),
        ("/console/status-checks", [200, 200, 200]),
        ("/console/needs-you", [403, 200, 200]),
        ("/console/held", [403, 200, 200]),
        ("/console/handbook/dead-letters", [200, 200, 200]),
        ("/console/handbook/none", [404, 404, 404]),
        ("/console/in-doubt", [403, 200, 200]),
        ("/console/in-doubt?type=INVOICE", [403, 200, 200]),
        ("/console/imports", [200, 200, 200]),
        ("/console/feeds", [403, 200, 200]),
        ("/console/dead-letters", [403, 200, 200]),
        ("/console/jobs", [403, 200, 200]),
        ("/console/item-types", [403, 200, 200]),
        ("/console/audit", [403, 200, 200]),
        ("/console/totals", [403, 200, 200]),
        ("/console/archive", [403, 200, 200]),
    ];
    let nobody = Reader::local(address);
    let readers = roles
        .each_ref()
        .map(|role| Reader::signed_in(address, &role.text));
    for (path, expected) in pages {
        let answer = nobody.page(path);
        let next = header(&answer, "location").to_owned();
        assert_eq!(
            (answer.status, next.starts_with("/console/sign-in")),
            (303, true),
            "{path}"
        );
        for (reader, status) in readers.iter().zip(expected) {
            let answer = reader.page(path);
            assert_eq!(answer.status, status, "{path} for {}", reader.cookie);
            let policy = header(&answer, "content-security-policy");
            assert!(policy.contains("script-src 'self'"), "{path}: {policy}");
        }
    }
    // Whoever only reads is shown no form, and may send none.
    let acts = |reader: &Reader| {
        reader
            .page("/console/lanes/default")
            .text
            .contains("<h2>Act</h2>")
    };
    assert_eq!((acts(&readers[1]), acts(&readers[2])), (false, true));
    let wrong = send(address, "POST", "/console/sign-in", FORM, "token=tg_wrong").unwrap();
    assert_eq!((wrong.status, header(&wrong, "set-cookie")), (401, ""));
}

#[test]
fn signing_out_ends_the_session_and_a_restart_does_not() {
    let ann = token("ann", "operate");
    let mut pair = pair(&auth(&[&ann]));
    let address = pair.server.address;
    let (one, two) = (
        Reader::signed_in(address, &ann.text),
        Reader::signed_in(address, &ann.text),
    );
    assert_ne!(one.cookie, two.cookie);
    let token_itself = Reader {
        address,
        cookie: format!("cookie: tollgate_session={}", ann.text),
    };
    assert_eq!(token_itself.page("/console/totals").status, 303);
    let fields = format!("csrf={}", one.csrf());
    let page = |reader: &Reader| reader.page("/console/totals").status;
    assert_eq!(
        two.form("/console/sign-out", &fields).status,
        403,
        "not its own form"
    );
    let live = Live::of(&one);
    let out = one.form("/console/sign-out", &fields);
    assert_eq!(
        (out.status, header(&out, "location")),
        (303, "/console/sign-in?out=1")
    );
    assert_eq!((page(&one), page(&two)), (303, 200));
    live.ends();
    let again = one.form("/console/sign-out", &fields);
    assert_eq!(header(&again, "location"), "/console/sign-in");

    pair.server.kill();
    pair.server = pair.setting.start(&address.to_string());
    assert_eq!((page(&one), page(&two)), (303, 200));
}

/// A live page that somebody looks at.
struct Live(BufReader<TcpStream>);

impl Live {
    fn of(reader: &Reader) -> Self {
        let mut stream = TcpStream::connect(reader.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let headers = reader.headers();
        let ask = format!(
            "GET /console/live HTTP/1.1\r\nhost: localhost\r\n{headers}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(ask.as_bytes()).unwrap();
        let mut live = Self(BufReader::new(stream));
        let mut read = String::new();
        while !read.starts_with("event: now") {
            read.clear();
            assert_ne!(live.0.read_line(&mut read).unwrap(), 0, "it ended");
        }
        live
    }

    fn ends(mut self) {
        let mut line = String::new();
        while self.0.read_line(&mut line).unwrap() > 0 {
            line.clear();
        }
    }
}

#[test]
fn a_form_acts_once_it_is_ours_and_nobody_has_changed_the_lane_since() {
    let pair = pair("");
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let (csrf, version) = (reader.csrf(), lane(address)["version"].clone());
    let fields = format!("csrf={csrf}&version={version}&reason=the+bank+called");
    let pause = "/console/lanes/default/pause";
    let elsewhere = format!("{FORM}\r\nsec-fetch-site: cross-site");
    let refused = [
        reader.form(pause, "reason=x&version=1"),
        reader.form(pause, "csrf=00&reason=x&version=1"),
        send(address, "POST", pause, &elsewhere, &fields).unwrap(),
    ];
    for answer in refused {
        assert_eq!(answer.status, 403, "{}", answer.text);
    }
    assert_eq!(lane(address)["open"], true, "nothing of it was done");

    let done = reader.form(pause, &fields);
    assert_eq!(
        (done.status, header(&done, "location")),
        (303, "/console/lanes/default?done=paused")
    );
    assert_eq!(lane(address)["pause"]["reason"], "the bank called");
    let again = reader.form(pause, &fields);
    assert_eq!(again.status, 409, "{}", again.text);
    assert!(
        again.text.contains("this lane was changed"),
        "{}",
        again.text
    );

    let version = lane(address)["version"].clone();
    let what_if = reader.page("/console/lanes/default?whatIf=60&reason=the+bank+allows+it");
    assert!(
        what_if.text.contains("Change the limit to 60 a second"),
        "{}",
        what_if.text
    );
    let fields = format!("csrf={csrf}&version={version}&limit=60&reason=the+bank+allows+it");
    assert_eq!(
        reader.form("/console/lanes/default/limit", &fields).status,
        303
    );
    assert_eq!(lane(address)["maxPerSecond"], json!(60.0));
    let trail = get(address, "/admin/audit").unwrap().text;
    assert!(trail.contains("the bank allows it"), "{trail}");
}

#[test]
fn what_people_name_things_stays_text() {
    let pair = pair("");
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let nasty = "<script>alert(1)</script>\u{202e}evil\" onload='x'\r\nevent: now";
    let wish = json!({"reason": nasty});
    let paused = post(address, "/admin/lanes/default/pause", &wish).unwrap();
    assert_eq!(paused.status, 200, "{}", paused.text);
    let mut with_name = payment("p1");
    with_name["reference"] = nasty.into();
    with_name["debtor"]["name"] = nasty.into();
    let _ = post(address, "/payments", &with_name).unwrap();
    post(address, "/payments", &payment("p2")).unwrap();
    let pages = [
        "/",
        "/console/lanes/default",
        "/console/payments",
        "/console/payments/p2",
        "/console/audit",
    ];
    for path in pages {
        let page = reader.page(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(!page.text.contains("<script>alert"), "{path}");
    }
    let strange = reader.page("/console/payments/%3Cscript%3Ealert(1)%3C%2Fscript%3E");
    assert_eq!(strange.status, 404);
    assert!(!strange.text.contains("<script>alert"), "{}", strange.text);
    let event = first_event(address);
    assert!(event.contains("&#60;script&#62;alert"), "{event}");
}

/// The first event of the live page, as it came.
fn first_event(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let request = "GET /console/live HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let event = lines.skip_while(|line| line != "event: now");
    let event: Vec<_> = event.take_while(|line| !line.is_empty()).collect();
    assert!(
        event[1..].iter().all(|line| line.starts_with("data:")),
        "{event:?}"
    );
    event.join("\n")
}

#[test]
fn a_live_page_shows_what_was_sent_and_does_not_keep_the_service_from_stopping() {
    let pair = pair("http.drain_secs = 60\n");
    let address = pair.server.address;
    post(address, "/payments", &payment("p1")).unwrap();
    eventually("it is paid", Duration::from_secs(30), || {
        (pair.bank.ledger().arrivals() == 1).then_some(())
    });
    let event = eventually("it is shown", Duration::from_secs(30), || {
        let event = first_event(address);
        event.contains("class=\"bar\"").then_some(event)
    });
    assert!(event.contains("nothing is waiting"), "{event}");
    let mut open = TcpStream::connect(address).unwrap();
    open.write_all(b"GET /console/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut first = String::new();
    BufReader::new(open.try_clone().unwrap())
        .read_line(&mut first)
        .unwrap();
    // Its drain would be a minute; the test's patience with a stop is its own runner's.
    assert_eq!(pair.server.stop(), Some(0));
}

#[test]
fn a_file_from_the_browser_goes_in_line_by_line() {
    let pair = pair("");
    let (address, reader) = (pair.server.address, Reader::local(pair.server.address));
    let csrf = reader.csrf();
    let lines = format!("{}\n{{\"paymentId\":\"bad\"}}\n", payment("good"));
    let part = |what: &str| format!("--x\r\ncontent-disposition: form-data; {what}\r\n\r\n");
    let proof = part("name=\"csrf\"");
    let file = part("name=\"file\"; filename=\"night.ndjson\"");
    let body = format!("{proof}{csrf}\r\n{file}{lines}\r\n--x--\r\n");
    let kind = "content-type: multipart/form-data; boundary=x";
    let taken = send(address, "POST", "/console/imports", kind, &body).unwrap();
    assert_eq!(taken.status, 303, "{}", taken.text);
    let page = eventually("both lines are decided", Duration::from_secs(30), || {
        let page = reader.page(header(&taken, "location")).text;
        (!page.contains("Refresh")).then_some(page)
    });
    assert!(
        page.contains("Rejected lines") && page.contains("<td class=\"number\">2</td>"),
        "{page}"
    );
    assert!(page.contains("<code>amount</code>"), "{page}");
}

#[test]
fn without_the_console_there_is_nothing_at_its_addresses() {
    let pair = pair("http.console = false\n");
    let answers =
        ["/", "/console/payments"].map(|path| get(pair.server.address, path).unwrap().status);
    assert_eq!(answers, [404, 404]);
}
