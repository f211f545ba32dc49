//! SCRAM (RFC 5802, RFC 7677): a login that never sends the password, and in which the broker proves that it knows it too.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

use crate::credentials::Hash;

/// A broker that asks for more would keep us busy instead of letting us in.
const MOST_ITERATIONS: u32 = 1_000_000;

pub(crate) struct Scram {
    hash: Hash,
    user: String,
    password: String,
    nonce: String,
    /// What the broker must prove, once we have proved who we are.
    expected: Option<Vec<u8>>,
}

impl Scram {
    pub(crate) fn new(hash: Hash, user: &str, password: String, nonce: String) -> Self {
        Self {
            hash,
            user: user.replace('=', "=3D").replace(',', "=2C"),
            password,
            nonce,
            expected: None,
        }
    }

    pub(crate) fn first(&self) -> Vec<u8> {
        format!("n,,{}", self.first_bare()).into_bytes()
    }

    fn first_bare(&self) -> String {
        format!("n={},r={}", self.user, self.nonce)
    }

    pub(crate) fn next(&mut self, heard: &[u8]) -> Result<Option<Vec<u8>>, String> {
        let heard = std::str::from_utf8(heard).map_err(|_| unreadable())?;
        if let Some(why) = field(heard, 'e') {
            return Err(format!("refused the login: {why}; check sasl"));
        }
        match self.expected.take() {
            None => self.prove(heard).map(Some),
            Some(expected) => {
                let shown = field(heard, 'v').and_then(|shown| STANDARD.decode(shown).ok());
                if shown.as_ref() == Some(&expected) {
                    return Ok(None);
                }
                Err("does not know the password itself; it may not be the real broker".to_owned())
            }
        }
    }

    fn prove(&mut self, heard: &str) -> Result<Vec<u8>, String> {
        let nonce = field(heard, 'r').ok_or_else(unreadable)?;
        let salt = field(heard, 's').and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or_else(unreadable)?;
        let rounds: Option<u32> = field(heard, 'i').and_then(|rounds| rounds.parse().ok());
        let rounds = rounds.filter(|rounds| (1..=MOST_ITERATIONS).contains(rounds));
        let rounds = rounds.ok_or_else(unreadable)?;
        if !nonce.starts_with(&self.nonce) {
            return Err(unreadable());
        }
        let unproved = format!("c=biws,r={nonce}");
        let signed = format!("{},{heard},{unproved}", self.first_bare());
        let salted = self.stretched(&salt, rounds);
        let client_key = self.mac(&salted, b"Client Key");
        let stored_key = self.digest(&client_key);
        let signature = self.mac(&stored_key, signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(&signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let server_key = self.mac(&salted, b"Server Key");
        self.expected = Some(self.mac(&server_key, signed.as_bytes()));
        Ok(format!("{unproved},p={}", STANDARD.encode(proof)).into_bytes())
    }

    /// PBKDF2 of one block.
    fn stretched(&self, salt: &[u8], rounds: u32) -> Vec<u8> {
        let mut block = [salt, &1_u32.to_be_bytes()].concat();
        block = self.mac(self.password.as_bytes(), &block);
        let mut sum = block.clone();
        for _ in 1..rounds {
            block = self.mac(self.password.as_bytes(), &block);
            for (byte, more) in sum.iter_mut().zip(&block) {
                *byte ^= more;
            }
        }
        sum
    }

    fn mac(&self, key: &[u8], message: &[u8]) -> Vec<u8> {
        match self.hash {
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, message),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, message),
        }
    }

    fn digest(&self, message: &[u8]) -> Vec<u8> {
        match self.hash {
            Hash::Sha256 => Sha256::digest(message).to_vec(),
            Hash::Sha512 => Sha512::digest(message).to_vec(),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn field(text: &str, name: char) -> Option<&str> {
    let named = |part: &&str| part.starts_with(name) && part[1..].starts_with('=');
    text.split(',').find(named).map(|part| &part[2..])
}

fn unreadable() -> String {
    "answered the login with something that is not SCRAM".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn both_sides_prove_that_they_know_the_password() {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        let mut scram = Scram::new(Hash::Sha256, "user", "pencil".to_owned(), nonce);
        assert_eq!(scram.first(), b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = scram.next(challenge.as_bytes()).unwrap().unwrap();
        assert_eq!(
            String::from_utf8(proof).unwrap(),
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        let shown = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(scram.next(shown), Ok(None));
    }

    #[test]
    fn a_broker_that_cannot_prove_it_or_asks_for_too_much_is_left() {
        for challenge in [
            "",
            "r=other,s=AA==,i=1",
            "r=n1,s=AA==,i=0",
            "r=n1,s=AA==,i=99999999",
        ] {
            let mut scram = Scram::new(Hash::Sha512, "user", "pencil".to_owned(), "n".to_owned());
            assert!(scram.next(challenge.as_bytes()).is_err(), "{challenge}");
        }
        let mut scram = Scram::new(Hash::Sha512, "user", "pencil".to_owned(), "n".to_owned());
        scram.next(b"r=n1,s=AA==,i=1").unwrap();
        assert!(scram.next(b"v=AAAA").unwrap_err().contains("real broker"));
        let mut scram = Scram::new(Hash::Sha512, "user", "pencil".to_owned(), "n".to_owned());
        scram.next(b"r=n1,s=AA==,i=1").unwrap();
        let refused = "refused the login: invalid-proof; check sasl".to_owned();
        assert_eq!(scram.next(b"e=invalid-proof"), Err(refused));
    }
}
