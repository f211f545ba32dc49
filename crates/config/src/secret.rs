//! A secret, such as a key or the value of a header, and where it comes from: `env:NAME`, `file:PATH`,
//! `credential:NAME` (systemd) or the text itself. It is never shown, neither by `Debug` nor in a sentence about what is wrong with it.

use std::fmt;

use serde::Deserialize;

#[derive(Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The value itself, which must not begin like a reference to elsewhere.
    pub fn literal(value: &str) -> Self {
        Self(value.to_owned())
    }

    pub fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    /// Reads the value, now.
    pub fn value(&self) -> Result<String, String> {
        if let Some(name) = self.0.strip_prefix("env:") {
            return std::env::var(name)
                .map_err(|_| format!("environment variable {name} is not set"));
        }
        if let Some(name) = self.0.strip_prefix("credential:") {
            let folder = std::env::var("CREDENTIALS_DIRECTORY").map_err(|_| {
                format!(
                    "credential {name} cannot be read: systemd did not provide it (LoadCredential=)"
                )
            })?;
            return Self(format!("file:{folder}/{name}")).value();
        }
        if let Some(path) = self.0.strip_prefix("file:") {
            let text = std::fs::read_to_string(path)
                .map_err(|error| format!("{path} cannot be read: {}", error.kind()))?;
            // Editors end a file with a new line; a header has none.
            return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        Ok(self.0.clone())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = ["env:", "file:", "credential:"];
        let elsewhere = places.iter().any(|place| self.0.starts_with(place));
        f.write_str(if elsewhere { &self.0 } else { "…" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(source: &str) -> Result<String, String> {
        Secret(source.to_owned()).value()
    }

    #[test]
    fn a_value_comes_from_the_environment_from_a_file_or_from_the_text() {
        let folder = std::env::temp_dir().join(format!("tollgate-header-{}", std::process::id()));
        std::fs::write(&folder, "Bearer from a file\r\n").unwrap();
        let file = format!("file:{}", folder.display());
        assert_eq!(value(&file).unwrap(), "Bearer from a file");
        std::fs::remove_file(&folder).unwrap();
        let said = value(&file).unwrap_err();
        assert!(said.contains("cannot be read: entity not found"), "{said}");
        assert_eq!(value("env:PATH").unwrap(), std::env::var("PATH").unwrap());
        assert_eq!(
            value("env:NO_SUCH_TOKEN").unwrap_err(),
            "environment variable NO_SUCH_TOKEN is not set"
        );
        assert_eq!(value("Bearer literal").unwrap(), "Bearer literal");
    }

    #[test]
    fn a_literal_is_not_shown() {
        let shown = |source: &str| format!("{:?}", Secret(source.to_owned()));
        assert_eq!(shown("Bearer secret"), "…");
        assert_eq!(shown("env:BANK_TOKEN"), "env:BANK_TOKEN");
    }
}
