//! What a configuration may say about who is told, and what it may not.

use tollgate_config::Config;

use crate::downstreams::receivers::Receivers;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn with(toml: &str) -> anyhow::Result<Config> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("tollgate.toml");
    std::fs::write(&file, toml)?;
    Config::load(Some(&file))
}

/// What the start would say, with a good secret unless the text brings its own.
fn said(text: &str) -> String {
    let secret = format!("secret = \"{SECRET}\"\n");
    let secret = if text.contains("secret") { "" } else { &secret };
    let config = with(&format!("[downstream.notifications]\n{secret}{text}"));
    let connected =
        config.and_then(|config| Receivers::connect(&config.downstream.notifications).map(drop));
    connected.map_or_else(|error| format!("{error:#}"), |()| String::new())
}

#[test]
fn each_mistake_about_receivers_names_its_key_and_shows_no_secret() {
    let five = r#"urls = ["http://a", "http://b", "http://c", "http://d", "http://e"]"#;
    let url = r#"urls = ["http://a"]"#;
    let secret = |secret: &str| format!("{url}\nsecret = {secret}");
    let long = format!("urls = [\"http://{}.example\"]", "x".repeat(120));
    let table = [
        (five.to_owned(), "urls: 5 URLs are too many"),
        (format!("{url}\nsecret = \"\""), "secret is missing"),
        (secret("\"  \""), "secret is missing"),
        (secret("\"MfKQ9r8GKYqr\""), "secret: must start with whsec_"),
        (secret("\"whsec_MfKQ!\""), "secret: must be base64"),
        (
            secret("\"whsec_MfKQ9r8G\""),
            "secret: must have 24 to 64 bytes",
        ),
        (secret("5318008"), "secret: must be text"),
        (
            secret("\"env:NO_SUCH_SECRET\""),
            "NO_SUCH_SECRET is not set",
        ),
        (secret("\"file:/nowhere/s\""), "/nowhere/s cannot be read"),
        (r#"urls = ["shop"]"#.to_owned(), "urls: the URL \"shop\""),
        (r#"urls = ["ftp://shop"]"#.to_owned(), "http:// or https://"),
        (
            r#"urls = ["http://a?x=1"]"#.to_owned(),
            "must not have a query",
        ),
        (r#"urls = ["http://me:hunter2@a"]"#.to_owned(), "a password"),
        (
            r#"urls = ["http://a/x", "http://A:80/x/"]"#.to_owned(),
            "urls: a:80/x is listed twice",
        ),
        (long, "cannot be part of a lane's name"),
        (
            format!("{url}\nroot_certificates = \"x\""),
            "requires an https:// URL",
        ),
        (
            format!("{url}\nevents = [\"payment.paid\"]"),
            "events: unknown event \"payment.paid\"; known: payment.scheduled, ",
        ),
        (
            format!("{url}\nevents = [\"payment.rejected\"]"),
            "events: payment.rejected is always sent",
        ),
        (r#"url = "http://a""#.to_owned(), "url"),
        (
            format!("{url}\n[downstream.payments]\nlane = \"notifications-a\""),
            "is the lane of a bank",
        ),
    ];
    for (text, why) in table {
        let said = said(&text);
        assert!(said.contains(why), "{text}: {said}");
        assert!(said.contains("downstream.notifications"), "{said}");
        for secret in ["MfKQ", "5318008", "hunter2"] {
            assert!(!said.contains(secret), "{said}");
        }
    }
}

#[test]
fn nobody_is_told_unless_configured_and_a_secret_is_not_shown() {
    assert_eq!(said(""), "");
    assert_eq!(said("secret = \"\""), "", "no receivers need no secret");
    let two = r#"urls = ["http://a/hooks", "http://b"]"#;
    assert_eq!(said(two), "");
    assert_eq!(said(&format!("{two}\nsecret = \"{SECRET} {SECRET}\"")), "");
    let text = format!("[downstream.notifications]\n{two}\nsecret = \"{SECRET}\"");
    let shown = format!("{:?}", with(&text).unwrap());
    assert!(shown.contains("http://a/hooks") && !shown.contains("MfKQ"));
}
