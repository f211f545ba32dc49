//! Who we are to a broker, and the few messages that prove it (SASL). Secrets are never shown.

use crate::scram::Scram;

#[derive(Clone)]
pub enum Credentials {
    Plain {
        user: String,
        password: String,
    },
    Scram {
        hash: Hash,
        user: String,
        password: String,
    },
    OauthBearer {
        token: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
pub(crate) enum Login<'a> {
    /// One message says it all.
    Once(Vec<u8>),
    Scram(Box<Scram<'a>>),
}

impl<'a> Login<'a> {
    pub(crate) fn begin(credentials: &'a Credentials) -> Self {
        match credentials {
            Credentials::Plain { user, password } => {
                Self::Once(format!("\0{user}\0{password}").into_bytes())
            }
            Credentials::OauthBearer { token } => {
                Self::Once(format!("n,,\u{1}auth=Bearer {token}\u{1}\u{1}").into_bytes())
            }
            Credentials::Scram {
                hash,
                user,
                password,
            } => {
                let nonce = uuid::Uuid::new_v4().simple().to_string();
                Self::Scram(Box::new(Scram::new(*hash, user, password, nonce)))
            }
        }
    }

    pub(crate) fn first(&mut self) -> Vec<u8> {
        match self {
            Self::Once(message) => std::mem::take(message),
            Self::Scram(scram) => scram.first(),
        }
    }

    /// What to say next; nothing when the login is complete.
    pub(crate) fn next(&mut self, heard: &[u8]) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Once(_) => Ok(None),
            Self::Scram(scram) => scram.next(heard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_of_one_message_says_it_as_the_mechanism_wants() {
        let (user, password) = ("tollgate".to_owned(), "secret".to_owned());
        let plain = Credentials::Plain { user, password };
        assert_eq!(Login::begin(&plain).first(), b"\0tollgate\0secret");
        assert_eq!(Login::begin(&plain).next(b""), Ok(None));
        let token = "abc".to_owned();
        let bearer = Credentials::OauthBearer { token };
        assert_eq!(
            Login::begin(&bearer).first(),
            b"n,,\x01auth=Bearer abc\x01\x01"
        );
        assert_eq!(format!("{plain:?} {bearer:?}"), "PLAIN OAUTHBEARER");
    }
}
