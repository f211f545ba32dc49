//! `[auth]`: the tokens that are taken, each with a name, a role and the SHA-256 of its text.

use std::fmt;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tollgate_contract::Role;
use tollgate_core::actor;

/// Every request is compared with all of them.
const MAX_TOKENS: usize = 1000;
const MAX_NAME_CHARS: usize = 64;
/// By this, tools that look for leaked secrets know a token of ours.
const PREFIX: &str = "tg_";

/// The SHA-256 of a token's text.
pub type Hash = [u8; 32];

/// As which a token is known.
pub fn hash(token: &[u8]) -> Hash {
    Sha256::digest(token).into()
}

/// Whose a token is, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    pub name: Arc<str>,
    pub role: Role,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    pub tokens: Vec<Token>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    name: String,
    role: Role,
    /// In hexadecimal digits. Not shown: someone may have written the token itself here.
    sha256: String,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("name", &self.name)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// As it is written in the configuration.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, role, sha256 } = self;
        write!(
            f,
            "{{name = \"{name}\", role = \"{role}\", sha256 = \"{sha256}\"}}"
        )
    }
}

impl Token {
    /// A token's text, made of bytes that nobody can guess, and its entry.
    pub fn create(random: &Hash, name: &str, role: Role) -> anyhow::Result<(String, Self)> {
        let text = format!("{PREFIX}{}", hex::encode(random));
        let entry = Self::of(&text, name, role)?;
        Ok((text, entry))
    }

    fn of(text: &str, name: &str, role: Role) -> anyhow::Result<Self> {
        check_name(name).with_context(|| format!("the name {name:?}"))?;
        Ok(Self {
            name: name.to_owned(),
            role,
            sha256: hex::encode(hash(text.as_bytes())),
        })
    }

    fn owner(&self) -> Owner {
        Owner {
            name: self.name.as_str().into(),
            role: self.role,
        }
    }
}

impl Auth {
    /// The tokens, or the sentence that says which of them cannot be right.
    pub fn tokens(&self) -> anyhow::Result<Vec<(Hash, Owner)>> {
        ensure!(
            self.tokens.len() <= MAX_TOKENS,
            "auth.tokens: more than {MAX_TOKENS} tokens"
        );
        let mut known: Vec<(Hash, Owner)> = vec![];
        for token in &self.tokens {
            let name = &token.name;
            check_name(name).with_context(|| format!("auth.tokens: the name {name:?}"))?;
            let Some(hash) = read_hash(&token.sha256) else {
                bail!(
                    "auth.tokens: sha256 of \"{name}\" must be 64 hexadecimal digits; `tollgate token create` prints them"
                );
            };
            for (other, owner) in &known {
                let taken = &owner.name;
                ensure!(
                    !taken.eq_ignore_ascii_case(name),
                    "auth.tokens: two tokens are named \"{taken}\"; names identify the actor, so each token needs its own"
                );
                ensure!(
                    *other != hash,
                    "auth.tokens: \"{taken}\" and \"{name}\" have the same sha256; each needs its own token"
                );
            }
            known.push((hash, token.owner()));
        }
        Ok(known)
    }
}

fn check_name(name: &str) -> anyhow::Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.@+".contains(c);
    ensure!(
        (1..=MAX_NAME_CHARS).contains(&name.len()) && name.chars().all(plain),
        "must be 1 to {MAX_NAME_CHARS} of A–Z a–z 0–9 _ - . @ +"
    );
    ensure!(
        !actor::ALL
            .iter()
            .any(|part| part.eq_ignore_ascii_case(name)),
        "is reserved: a component of Tollgate uses it in the audit log; choose another name"
    );
    Ok(())
}

fn read_hash(digits: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    hex::decode_to_slice(digits, &mut hash).ok()?;
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::super::tests::with;
    use super::*;

    fn entry(name: &str, role: &str, sha256: &str) -> String {
        format!("{{name = \"{name}\", role = \"{role}\", sha256 = \"{sha256}\"}}")
    }

    #[test]
    fn what_is_printed_for_a_token_is_taken_for_it() {
        let token = Token::of("tg_1", "ann@bank.example", Role::Operate).unwrap();
        let config = with(&format!("auth.tokens = [{token}]")).unwrap();
        let tokens = config.auth.tokens().unwrap();
        assert_eq!(tokens, [(hash(b"tg_1"), token.owner())]);
        assert!(!format!("{config:?}").contains(&token.sha256));
    }

    #[test]
    fn each_wrong_token_is_one_sentence_that_names_it_and_shows_no_secret() {
        let (a, b) = ("aa".repeat(32), "bb".repeat(32));
        let short = "a".repeat(63);
        let signed = "+a".repeat(32);
        let long_name = "n".repeat(MAX_NAME_CHARS + 1);
        let ann = entry("ann", "read", &a);
        let table = [
            (entry("bob", "read", &short), "sha256 of \"bob\" must be 64"),
            (
                entry("bob", "read", &signed),
                "sha256 of \"bob\" must be 64",
            ),
            (entry("bob", "read", "tg_secret"), "sha256 of \"bob\""),
            (entry("bob", "admin", &b), "role"),
            (entry("", "read", &b), "the name \"\""),
            (entry("a b", "read", &b), "the name \"a b\""),
            (entry(&long_name, "read", &b), "must be 1 to 64"),
            (entry("Breaker", "read", &b), "is reserved"),
            (entry("status-check", "read", &b), "is reserved"),
            (entry("Ann", "operate", &b), "two tokens are named \"ann\""),
            (
                entry("bob", "read", &a.to_uppercase()),
                "\"ann\" and \"bob\" have the same sha256",
            ),
            ("{name = \"bob\", role = \"read\"}".into(), "sha256"),
            (
                "{name = \"bob\", role = \"read\", sha256 = 5318008}".into(),
                "sha256",
            ),
            (
                "{name = \"bob\", role = \"read\", token = \"tg_secret\"}".into(),
                "token",
            ),
        ];
        for (wrong, why) in table {
            let said = with(&format!("auth.tokens = [{ann}, {wrong}]")).unwrap_err();
            let said = format!("{said:#}");
            assert!(said.contains("auth.tokens"), "{wrong}: {said}");
            assert!(said.contains(why), "{wrong}: {said}");
            let secret = said.contains("tg_secret") || said.contains("5318008");
            assert!(!secret, "{said}");
        }
    }
}
