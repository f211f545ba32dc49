//! Who calls, and what for. Tokens are known only by their SHA-256; which role may call what is in the contract's
//! table of addresses.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tollgate_config::Auth;
use tollgate_config::auth::{Hash, Owner, hash};
use tollgate_console::Reader;
use tollgate_contract::Role;
use tollgate_core::actor;

use crate::door::wrong_tokens::WrongTokens;

/// Who sent a request. The name is the actor of whatever is changed by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Whoever is on this machine: no tokens are configured, and nobody else gets here.
    Local,
    Token {
        name: Arc<str>,
        role: Role,
    },
}

impl Caller {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Local => actor::LOCAL,
            Self::Token { name, .. } => name,
        }
    }

    /// Whether accounts are told whole: to those who have to talk to a bank about them.
    pub(crate) fn sees_accounts(&self) -> bool {
        match self {
            Self::Local => true,
            Self::Token { role, .. } => *role == Role::Operate,
        }
    }
}

impl From<Owner> for Caller {
    fn from(Owner { name, role }: Owner) -> Self {
        Self::Token { name, role }
    }
}

impl From<&Reader> for Caller {
    fn from(reader: &Reader) -> Self {
        match reader.role {
            None => Self::Local,
            Some(role) => Self::Token {
                name: Arc::clone(&reader.name),
                role,
            },
        }
    }
}

impl From<Caller> for Reader {
    fn from(caller: Caller) -> Self {
        match caller {
            Caller::Local => Self {
                name: actor::LOCAL.into(),
                role: None,
            },
            Caller::Token { name, role } => Self {
                name,
                role: Some(role),
            },
        }
    }
}

/// Every token that is taken; none at all means that none is asked for.
#[derive(Debug, Default)]
pub struct Tokens {
    known: Vec<Known>,
    /// Those that are not.
    pub(crate) wrong: WrongTokens,
}

struct Known {
    hash: Hash,
    caller: Caller,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.caller.fmt(f)
    }
}

impl Tokens {
    pub(crate) fn new(tokens: impl IntoIterator<Item = (Hash, Caller)>) -> Self {
        let known = |(hash, caller)| Known { hash, caller };
        Self {
            known: tokens.into_iter().map(known).collect(),
            wrong: WrongTokens::default(),
        }
    }

    /// Those of the configuration.
    pub fn of(auth: &Auth) -> anyhow::Result<Self> {
        let tokens = auth.tokens()?.into_iter();
        Ok(Self::new(tokens.map(|(hash, owner)| (hash, owner.into()))))
    }

    pub(crate) fn are_asked_for(&self) -> bool {
        !self.known.is_empty()
    }

    /// Whether someone of this name may still change things: who has acted before may have lost the right.
    pub fn may_operate(&self, name: &str) -> bool {
        if !self.are_asked_for() {
            return name == actor::LOCAL;
        }
        let is_theirs = |known: &Known| match &known.caller {
            Caller::Local => false,
            Caller::Token { name: owner, role } => &**owner == name && *role == Role::Operate,
        };
        self.known.iter().any(is_theirs)
    }

    /// Takes as long for a wrong token as for a right one, whatever the wrong one looks like.
    pub(crate) fn caller(&self, token: &[u8]) -> Option<Caller> {
        self.by_hash(&hash(token))
    }

    /// The owner of the token with this hash, in hexadecimal digits.
    pub(crate) fn owner(&self, token_sha256: &str) -> Option<Caller> {
        let mut hash = Hash::default();
        hex::decode_to_slice(token_sha256, &mut hash).ok()?;
        self.by_hash(&hash)
    }

    fn by_hash(&self, hash: &Hash) -> Option<Caller> {
        let mut found = None;
        for known in &self.known {
            if bool::from(known.hash.ct_eq(hash)) {
                found = Some(&known.caller);
            }
        }
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_acts_on_many_must_still_have_the_right() {
        let token = |name: &str, role| Caller::Token {
            name: name.into(),
            role,
        };
        let tokens = Tokens::new([
            (hash(b"tg_1"), token("ann", Role::Operate)),
            (hash(b"tg_2"), token("bob", Role::Read)),
        ]);
        let may = ["ann", "bob", "eve", actor::LOCAL].map(|name| tokens.may_operate(name));
        assert_eq!(may, [true, false, false, false]);
        assert!(Tokens::default().may_operate(actor::LOCAL));
        assert!(!Tokens::default().may_operate("ann"));
    }

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let ann = Caller::Token {
            name: "ann".into(),
            role: Role::Read,
        };
        let tokens = Tokens::new([(hash(b"tg_1"), ann.clone()), (hash(b"tg_2"), Caller::Local)]);
        assert_eq!(tokens.caller(b"tg_1"), Some(ann.clone()));
        let owner = |hash: &[u8]| tokens.owner(&hex::encode(hash));
        assert_eq!(owner(&hash(b"tg_1")), Some(ann));
        assert_eq!(owner(b"tg_1"), None);
        for wrong in [&b""[..], b"tg_", b"tg_11", b"TG_1", &hash(b"tg_1")] {
            assert_eq!(tokens.caller(wrong), None, "{wrong:?}");
        }
        assert!(!format!("{tokens:?}").contains("hash"));
    }
}
