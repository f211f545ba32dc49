//! What is wrong with a configuration that cannot be read, and never what is secret in it.

use std::path::Path;

/// One sentence: which key, and what is wrong with it.
pub(super) fn explain(error: &figment::Error, file: Option<&Path>) -> anyhow::Error {
    let place = match file {
        Some(file) => format!("configuration ({} or the environment)", file.display()),
        None => "configuration (the environment)".to_owned(),
    };
    let key = error.path.join(".");
    let key = if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    };
    if error.path.iter().any(|part| part == "headers") {
        // What was found may be a secret.
        return anyhow::anyhow!(
            "{place}: {key}must be text, written like headers = {{\"Authorization\" = \"env:BANK_TOKEN\"}}"
        );
    }
    if error.path.iter().any(|part| part == "login") {
        return anyhow::anyhow!(
            "{place}: {key}must be written like login = {{kind = \"bearer\", token = \"env:BANK_TOKEN\"}}; kinds: bearer, api-key, basic, oauth2, hmac (docs/connect-a-bank.md)"
        );
    }
    if error.path.iter().any(|part| part == "sasl") {
        return anyhow::anyhow!(
            "{place}: {key}must be written like sasl = {{mechanism = \"SCRAM-SHA-512\", user = \"tollgate\", password = \"env:KAFKA_PASSWORD\"}}; mechanisms: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
        );
    }
    if error.path.iter().any(|part| part == "secret") {
        return anyhow::anyhow!(
            "{place}: {key}must be text, written like secret = \"env:WEBHOOK_SECRET\""
        );
    }
    if error.path.last().is_some_and(|part| part == "sha256") {
        return anyhow::anyhow!(
            "{place}: {key}must be text: the 64 hexadecimal digits that `tollgate token create` prints"
        );
    }
    // A syntax error is drawn over several lines; its first says where, its last says what.
    let said = error.kind.to_string();
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let rest = lines
        .next_back()
        .map(|last| format!(": {last}"))
        .unwrap_or_default();
    anyhow::anyhow!("{place}: {key}{first}{rest}")
}
