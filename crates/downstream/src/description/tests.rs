//! What is shipped, and what is wrong in every way.

use super::*;

#[test]
fn whatever_is_shipped_can_be_read_and_its_examples_are_right() {
    for (name, text) in SHIPPED {
        let description = Description::read(text).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
        let checked = description.check();
        assert!(checked.len() >= 3, "{name} has few examples");
        for it in checked {
            assert!(it.is_right, "{name} line {}: {}", it.line, it.told);
        }
    }
}

const LEAST: &str = r#"
[promises]
honours_idempotency_key = true
key_retention_secs = 60
[send]
path = "/pay"
[send.json]
id = "{paymentId}"
[[send.answers]]
status = 200
means = "done"
believed_if = "body.id == paymentId"
"#;

/// What is changed in it, into what, and what is said then.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "path = \"/pay\"",
        "path = \"pay\"",
        "line 6: send.path: \"pay\" would leave",
    ),
    (
        "path = \"/pay\"",
        "path = \"//evil/pay\"",
        "would leave the bank's URL",
    ),
    (
        "path = \"/pay\"",
        "path = \"/../pay\"",
        "would leave the bank's URL",
    ),
    (
        "path = \"/pay\"",
        "path = \"/pay?x=1\"",
        "goes into the query",
    ),
    (
        "path = \"/pay\"",
        "",
        "line 5: send needs the field \"path\"",
    ),
    (
        "path = \"/pay\"",
        "path = \"/pay\"\ncolour = 1",
        "line 7: send has no field \"colour\"",
    ),
    (
        "path = \"/pay\"",
        "path = \"/pay\"\nmethod = \"FETCH\"",
        "line 7: send.method",
    ),
    (
        "path = \"/pay\"",
        "path = \"/pay\"\nheaders = {Host = \"x\"}",
        "line 7: send.headers.Host",
    ),
    (
        "path = \"/pay\"",
        "path = \"/pay\"\nbody = \"as it is\"",
        "both body and json",
    ),
    (
        "{paymentId}",
        "{payment}",
        "line 8: send.json.id: has an unknown name \"payment\"",
    ),
    (
        "{paymentId}",
        "{amountMinor + 'x'}",
        "line 8: send.json.id: cannot be evaluated",
    ),
    (
        "{paymentId}",
        "{creditor.iban}",
        "line 8: send.json.id: creditor has account and name",
    ),
    (
        "{paymentId}",
        "{paymentId",
        "line 8: send.json.id: has a { without its }",
    ),
    ("{paymentId}", "{1 +}", "line 8: send.json.id: line 1"),
    (
        "status = 200",
        "status = 408",
        "line 9: send.answers: status 408 is always unknown",
    ),
    (
        "status = 200",
        "status = 302",
        "line 9: send.answers: status 302 cannot mean \"done\"",
    ),
    (
        "status = 200",
        "status = \"5xx\"",
        "line 10: send.answers.status",
    ),
    (
        "status = 200",
        "status = 422",
        "status 422 cannot mean \"done\"",
    ),
    (
        "means = \"done\"",
        "means = \"paid\"",
        "line 11: send.answers.means: \"paid\" is not one of done",
    ),
    ("means = \"done\"", "means = \"not known\"", "is not one of"),
    (
        "means = \"done\"",
        "means = \"refused\"",
        "believed_if is only allowed with",
    ),
    (
        "believed_if = \"body.id == paymentId\"",
        "",
        "line 9: send.answers: \"done\" needs believed_if",
    ),
    (
        "body.id == paymentId",
        "status",
        "line 12: send.answers.believed_if: must be true or false",
    ),
    (
        "body.id == paymentId",
        "amountMinor + 'x' == ''",
        "line 12: send.answers.believed_if",
    ),
    (
        "honours_idempotency_key = true",
        "honours_idempotency_key = false",
        "there is no [probe]",
    ),
    (
        "honours_idempotency_key = true",
        "honours_idempotency_key = \"maybe\"",
        "must be true, false or \"ask the bank\"",
    ),
    (
        "key_retention_secs = 60",
        "",
        "key_retention_secs: how long",
    ),
    (
        "[promises]",
        "[promise]",
        "line 2: the description has no field \"promise\"",
    ),
    (
        "status = 200\nmeans = \"done\"\nbelieved_if = \"body.id == paymentId\"",
        "status = 503\nmeans = \"not done\"",
        "state the proof in \"when\"",
    ),
    (
        "status = 200\nmeans = \"done\"\nbelieved_if = \"body.id == paymentId\"",
        "status = 504\nwhen = \"body.busy\"\nmeans = \"not done\"",
        "status 504 is always unknown",
    ),
    (
        "status = 200\nmeans = \"done\"\nbelieved_if = \"body.id == paymentId\"",
        "status = 429\nmeans = \"refused\"",
        "says nothing about the payment itself",
    ),
    (
        "status = 200\nmeans = \"done\"\nbelieved_if = \"body.id == paymentId\"",
        "status = 503\nmeans = \"refused\"",
        "cannot mean \"refused\"",
    ),
];

#[test]
fn what_is_wrong_is_named_with_its_line() {
    assert!(Description::read(LEAST).is_ok());
    for (from, to, said) in WRONG {
        assert!(LEAST.contains(from), "{from}");
        let text = LEAST.replacen(from, to, 1);
        let wrong = Description::read(&text).unwrap_err().to_string();
        assert!(wrong.contains(said), "{to}: {wrong}");
        assert!(!wrong.contains('\n'), "one sentence: {wrong}");
    }
}

fn body(json: &str, request: &Request) -> Result<String, String> {
    let text = LEAST.replace("id = \"{paymentId}\"", json);
    let description = Description::read(&text).unwrap();
    let composed = description.compose(AttemptKind::Send, request);
    composed.map(|composed| composed.body)
}

fn with_body(json: &str) -> Request {
    Request {
        body_json: json.to_owned(),
        ..Subject::Payments.sample()
    }
}

#[test]
fn a_body_has_its_fields_in_order_and_its_values_in_their_types() {
    let json = r#"z = "{amountMinor}"
a = "fixed"
n = 7
yes = true
nothing = "{reference}"
list = ["{currency.lowerAscii()}", {deep = "{major(5)}"}]
table = "{ {'EUR': 'sepa', 'GBP': 'fps'}[currency] }"
mixed = "{paymentId}-{amount}""#;
    let request = with_body(r#"{"amount":"1.05","currency":"EUR","reference":null}"#);
    let expected = r#"{"z":105,"a":"fixed","n":7,"yes":true,"nothing":null,"list":["eur",{"deep":"0.05"}],"table":"sepa","mixed":"pay_001-1.05"}"#;
    assert_eq!(body(json, &request).as_deref(), Ok(expected));
    let dollars = with_body(r#"{"amount":"1.05","currency":"USD"}"#);
    let why = body(json, &dollars).unwrap_err();
    assert_eq!(
        why, "body.table: there is no \"USD\"",
        "and no account in it"
    );
}

#[test]
fn forms_and_xml_leave_out_what_is_null() {
    let form = LEAST.replace(
        "[send.json]\nid = \"{paymentId}\"",
        "[send.form]\n\"m[id]\" = \"{paymentId} &\"\nx = \"{reference}\"",
    );
    let xml = LEAST.replace(
        "[send.json]\nid = \"{paymentId}\"",
        "[send.xml.Doc]\n\"@v\" = \"1\"\nId = \"{paymentId}\"\nAmt = {\"@Ccy\" = \"{currency}\", \"#text\" = \"{amount}\"}\nRef = \"{reference}\"\nNm = \"{creditor.name}\"",
    );
    let request =
        with_body(r#"{"amount":"1.05","currency":"EUR","creditor":{"name":"A&B <\"x\">"}}"#);
    let made = |text: &str| {
        Description::read(text)
            .unwrap()
            .compose(AttemptKind::Send, &request)
    };
    assert_eq!(made(&form).unwrap().body, "m%5Bid%5D=pay_001%20%26");
    assert_eq!(
        made(&xml).unwrap().body,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Doc v=\"1\"><Id>pay_001</Id><Amt Ccy=\"EUR\">1.05</Amt><Nm>A&amp;B &lt;&quot;x&quot;&gt;</Nm></Doc>"
    );
}

#[test]
fn an_id_stays_one_segment_and_never_leads_elsewhere() {
    let text = LEAST.replace("\"/pay\"", "\"/pay/{creditor.account}/x\"");
    let description = Description::read(&text).unwrap();
    let path = |account: &str| {
        let request = with_body(&format!(r#"{{"creditor":{{"account":"{account}"}}}}"#));
        description
            .compose(AttemptKind::Send, &request)
            .map(|it| it.path)
    };
    assert_eq!(path("a/b?c").as_deref(), Ok("/pay/a%2Fb%3Fc/x"));
    for account in ["..", ".", ""] {
        assert!(path(account).is_err(), "{account:?}");
    }
}

#[test]
fn the_version_is_that_of_the_bytes_alone() {
    let version = |text: &str| Description::read(text).unwrap().version().to_owned();
    let least = version(LEAST);
    assert_eq!(version(&LEAST.replace("body.id ==", "body.name ==")), least);
    assert_eq!(version(&format!("# a comment\n{LEAST}")), least);
    assert_ne!(version(&LEAST.replace("\"/pay\"", "\"/pays\"")), least);
    assert_ne!(version(&LEAST.replace("{paymentId}", "{key}")), least);
}

#[test]
fn what_is_promised_in_the_banks_name_is_told() {
    let text = format!(
        "{LEAST}\n[[send.answers]]\nstatus = 503\nwhen = \"body.code == 'BUSY'\"\nmeans = \"not done\"\n"
    );
    let told = Description::read(&text).unwrap().bold_promises();
    assert_eq!(
        told,
        ["status 503 when body.code == 'BUSY' promises that nothing was done"]
    );
    let text = LEAST.replace("body.id == paymentId", "has(body.id)");
    let told = Description::read(&text).unwrap().bold_promises();
    assert_eq!(
        told,
        ["status 200 means done, although no field of the answer is checked"]
    );
}
