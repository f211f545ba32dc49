//! Who we are to a broker, and the few messages that prove it (SASL). Secrets are read again for each login, and never shown.

use std::fmt;
use std::sync::Arc;

use crate::scram::Scram;

/// How much is shown of what a broker says when it refuses.
const MOST_WHY_CHARS: usize = 200;

type Read = dyn Fn() -> Result<String, String> + Send + Sync;

/// Where a secret is read from: a token ends and is replaced while we run.
#[derive(Clone)]
pub struct SecretSource(Arc<Read>);

impl SecretSource {
    /// What goes wrong is said with the field's name.
    pub fn new(read: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// As it is now.
    pub fn read(&self) -> Result<String, String> {
        (self.0)()
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<String> for SecretSource {
    fn from(secret: String) -> Self {
        Self::new(move || Ok(secret.clone()))
    }
}

#[derive(Clone)]
pub enum Credentials {
    Plain {
        user: String,
        password: SecretSource,
    },
    Scram {
        hash: Hash,
        user: String,
        password: SecretSource,
    },
    OauthBearer {
        token: SecretSource,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mechanism())
    }
}

impl Credentials {
    pub(crate) fn mechanism(&self) -> &'static str {
        match self {
            Self::Plain { .. } => "PLAIN",
            Self::Scram { hash, .. } => match hash {
                Hash::Sha256 => "SCRAM-SHA-256",
                Hash::Sha512 => "SCRAM-SHA-512",
            },
            Self::OauthBearer { .. } => "OAUTHBEARER",
        }
    }
}

/// One login on one connection.
pub(crate) enum Login {
    /// One message says it all.
    Plain(Vec<u8>),
    /// So does this one, but a broker that refuses it says so in an answer without an error.
    Bearer(Vec<u8>),
    Scram(Box<Scram>),
}

impl Login {
    /// With the secret as it is now, if it can be read.
    pub(crate) fn begin(credentials: &Credentials) -> Result<Self, String> {
        Ok(match credentials {
            Credentials::Plain { user, password } => {
                let password = password.read()?;
                Self::Plain(format!("\0{user}\0{password}").into_bytes())
            }
            Credentials::OauthBearer { token } => {
                let token = token.read()?;
                Self::Bearer(format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}").into_bytes())
            }
            Credentials::Scram {
                hash,
                user,
                password,
            } => {
                let nonce = uuid::Uuid::new_v4().simple().to_string();
                Self::Scram(Box::new(Scram::new(*hash, user, password.read()?, nonce)))
            }
        })
    }

    pub(crate) fn first(&mut self) -> Vec<u8> {
        match self {
            Self::Plain(message) | Self::Bearer(message) => std::mem::take(message),
            Self::Scram(scram) => scram.first(),
        }
    }

    /// What to say next; nothing when the login is complete.
    pub(crate) fn next(&mut self, heard: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::Bearer(_) if heard.is_empty() => Ok(None),
            // The broker waits for one more message before it refuses (RFC 7628); we leave.
            Self::Bearer(_) => {
                let why = String::from_utf8_lossy(heard);
                let why: String = why.chars().take(MOST_WHY_CHARS).collect();
                Err(format!("refused the login: {why}; check sasl"))
            }
            Self::Scram(scram) => scram.next(heard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_of_one_message_says_it_as_the_mechanism_wants() {
        let plain = Credentials::Plain {
            user: "tollgate".to_owned(),
            password: "secret".to_owned().into(),
        };
        let bearer = Credentials::OauthBearer {
            token: "abc".to_owned().into(),
        };
        for (credentials, says) in [
            (&plain, "\0tollgate\0secret"),
            (&bearer, "n,,\x01auth=Bearer abc\x01\x01"),
        ] {
            let mut login = Login::begin(credentials).unwrap();
            assert_eq!(login.first(), says.as_bytes());
            assert_eq!(login.next(b""), Ok(None));
        }
        assert_eq!(format!("{plain:?} {bearer:?}"), "PLAIN OAUTHBEARER");
    }
}
