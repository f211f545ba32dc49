//! Signatures by the Standard Webhooks specification: HMAC-SHA256 over id, time and body. Several
//! secrets sign side by side, so that receivers can change over from one to the next.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// What the specification asks for, in bytes.
const SHORTEST_KEY: usize = 24;
const LONGEST_KEY: usize = 64;
/// The one before, the one in force, the next, and one to spare.
const MAX_SECRETS: usize = 4;

/// The secrets are never shown.
#[derive(Clone)]
pub struct Signer {
    keys: Vec<Vec<u8>>,
}

impl Signer {
    /// One secret `whsec_<base64>`, or several separated by spaces. The sentence it answers with
    /// holds none of them.
    pub fn parse(secrets: &str) -> Result<Self, String> {
        let keys: Vec<_> = secrets
            .split_whitespace()
            .map(key)
            .collect::<Result<_, _>>()?;
        match keys.len() {
            0 => Err("is empty; give a secret such as whsec_ and 32 random bytes in base64".into()),
            1..=MAX_SECRETS => Ok(Self { keys }),
            many => Err(format!(
                "has {many} secrets; at most {MAX_SECRETS} are allowed"
            )),
        }
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, at_secs: i64, body: &str) -> String {
        let signed = format!("{id}.{at_secs}.{body}");
        let signatures = self.keys.iter().map(|key| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length makes a key");
            mac.update(signed.as_bytes());
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signatures.collect::<Vec<_>>().join(" ")
    }
}

fn key(secret: &str) -> Result<Vec<u8>, String> {
    let encoded = secret
        .strip_prefix(PREFIX)
        .ok_or_else(|| format!("must start with {PREFIX}"))?;
    let key = STANDARD
        .decode(encoded)
        .map_err(|_| format!("must be base64 after {PREFIX}"))?;
    if (SHORTEST_KEY..=LONGEST_KEY).contains(&key.len()) {
        return Ok(key);
    }
    Err(format!(
        "must have {SHORTEST_KEY} to {LONGEST_KEY} bytes after {PREFIX}, not {}",
        key.len()
    ))
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({} secrets)", self.keys.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's own example.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const OTHER: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn signed(secrets: &str) -> String {
        let signer = Signer::parse(secrets).unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        signer.sign(id, 1_614_265_330, r#"{"test": 2432232314}"#)
    }

    #[test]
    fn the_example_of_the_specification_comes_out() {
        assert_eq!(signed(SECRET), SIGNATURE);
    }

    #[test]
    fn every_secret_signs_while_they_are_changed() {
        let both = signed(&format!("{OTHER} {SECRET}\n"));
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!((first, second), (signed(OTHER).as_str(), SIGNATURE));
    }

    #[test]
    fn a_bad_secret_is_refused_without_being_shown() {
        let table = [
            ("", "is empty"),
            ("  ", "is empty"),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "must start with whsec_"),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!w", "must be base64"),
            ("whsec_", "24 to 64 bytes after whsec_, not 0"),
            ("whsec_MfKQ9r8G", "24 to 64 bytes after whsec_, not 6"),
            (&[SECRET; 5].join(" "), "at most 4 are allowed"),
        ];
        for (secrets, why) in table {
            let said = Signer::parse(secrets).unwrap_err();
            assert!(said.contains(why), "{secrets}: {said}");
            assert!(!said.contains("MfKQ9r8G"), "{said}");
        }
        let shown = format!("{:?}", Signer::parse(SECRET).unwrap());
        assert_eq!(shown, "Signer(1 secrets)");
    }
}
