//! An error as one sentence for people, with its causes. Errors of the client name the flag that helps.

use std::error::Error as StdError;
use std::fmt::Write;

use tollgate_client::{Error, Refused, SettingError};

use super::connect::TOKEN;

/// The error and its causes, the outermost first.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut parts = vec![];
    for cause in error.chain() {
        if let Some(error) = cause.downcast_ref::<Error>() {
            parts.push(of_the_client(error));
            break;
        }
        parts.push(cause.to_string());
    }
    parts.join(": ")
}

fn of_the_client(error: &Error) -> String {
    match error {
        Error::Setting(setting) => of_a_flag(setting),
        Error::Unreachable { host, source } => format!(
            "cannot reach {host}; is `tollgate serve` running there? Set the address with --server: {}",
            with_causes(source)
        ),
        Error::Tls { source, .. } => format!(
            "TLS connection to the service failed: {source} (set the trusted certificate authorities with --ca)"
        ),
        Error::Refused(refused) => of_a_refusal(refused),
        other => with_causes(other),
    }
}

fn of_a_flag(setting: &SettingError) -> String {
    match setting {
        SettingError::Address { .. } => format!("--server {}", with_causes(setting)),
        SettingError::Host { .. } => format!("--server: {}", with_causes(setting)),
        SettingError::CaWithoutTls => "--ca requires an https:// address".to_owned(),
        SettingError::CaFile(what) => format!("--ca: {what}"),
        SettingError::NoRoots => "https:// needs root certificates and none were found; install ca-certificates, or give a file with --ca".to_owned(),
        other => with_causes(other),
    }
}

/// The service's own words; of a missing token also where it is read from.
fn of_a_refusal(refused: &Refused) -> String {
    let mut text = refused.sentence.clone();
    // Writing to a string does not fail.
    if refused.status == 401 && refused.code.is_some() {
        let _ = write!(
            text,
            " (this command reads it from {TOKEN} or --token-file)"
        );
    }
    for (field, what) in &refused.details {
        let _ = write!(text, "\n  {field}: {what}");
    }
    text
}

fn with_causes(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use tollgate_client::Client;

    use super::*;

    #[test]
    fn a_wrong_setting_names_its_flag() {
        let said = |server: &str| {
            let built = Client::builder(server).build();
            sentence(&built.context("nothing was done").unwrap_err())
        };
        let address = "must be an address such as http://127.0.0.1:8090";
        assert_eq!(
            said("ftp://a"),
            format!("nothing was done: --server \"ftp://a\" {address}")
        );
        assert_eq!(
            said("http:// a"),
            format!("nothing was done: --server \"http:// a\" {address}: invalid uri character")
        );
        let ca = Client::builder("http://a").ca_file("/a.pem").build();
        let ca = sentence(&ca.unwrap_err().into());
        assert_eq!(ca, "--ca requires an https:// address");
    }

    #[test]
    fn a_missing_token_says_where_it_is_read_from() {
        let refused = Refused {
            status: 401,
            code: Some("token_missing".to_owned()),
            request_id: None,
            sentence: "this address needs a token".to_owned(),
            details: [("a".to_owned(), "b".to_owned())].into(),
            preview: None,
        };
        let error = Error::from(Box::new(refused));
        let expected = "this address needs a token (this command reads it from TOLLGATE_TOKEN or --token-file)\n  a: b";
        assert_eq!(sentence(&error.into()), expected);
    }
}
