//! Encryption of what goes to Temporal: inputs, results, progress and the messages of failures.
//! Names are not encrypted: ids, types, task queues, schedules.

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use prost::Message;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use temporalio_common::data_converters::{
    DataConverter, DefaultFailureConverter, PayloadCodec, PayloadConversionError, PayloadConverter,
    SerializationContextData,
};
use temporalio_common::protos::temporal::api::common::v1::Payload;

/// What Temporal's own tools expect of an encrypted payload.
const ENCODING: &str = "encoding";
const ENCRYPTED: &[u8] = b"binary/encrypted";
const KEY_ID: &str = "encryption-key-id";

/// Keys by name. The first encrypts, all decrypt: a new key is put first, and an old one is taken
/// away when no history that needs it is left.
#[derive(Clone)]
pub struct CodecKeys(Arc<Vec<(String, LessSafeKey)>>);

impl fmt::Debug for CodecKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

impl CodecKeys {
    /// Each key has 32 bytes, written as 64 hexadecimal digits. Without any, nothing is encrypted.
    pub fn parse(keys: &[(String, String)]) -> Result<Option<Self>, String> {
        let mut parsed: Vec<(String, LessSafeKey)> = vec![];
        for (name, digits) in keys {
            let bytes = bytes(digits).ok_or_else(|| {
                format!("key {name:?} must be 64 hexadecimal digits (openssl rand -hex 32)")
            })?;
            if parsed.iter().any(|(known, _)| known == name) {
                return Err(format!("two keys are named {name:?}"));
            }
            let key = UnboundKey::new(&AES_256_GCM, &bytes);
            let key = key.map_err(|_| format!("key {name:?} cannot be used"))?;
            parsed.push((name.clone(), LessSafeKey::new(key)));
        }
        Ok((!parsed.is_empty()).then(|| Self(Arc::new(parsed))))
    }

    pub(crate) fn converter(self) -> DataConverter {
        let failures = DefaultFailureConverter::new(true);
        DataConverter::new(PayloadConverter::default(), failures, self)
    }

    fn seal(&self, payload: &Payload) -> Result<Payload, String> {
        let (name, key) = self.0.first().ok_or("there is no key")?;
        let mut nonce = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut nonce);
        random.map_err(|_| "the system provides no random numbers")?;
        let mut data = payload.encode_to_vec();
        let sealed = key.seal_in_place_append_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(name.as_bytes()),
            &mut data,
        );
        sealed.map_err(|_| "a payload cannot be encrypted")?;
        let metadata = [(ENCODING, ENCRYPTED), (KEY_ID, name.as_bytes())];
        let metadata = metadata.map(|(name, value)| (name.to_owned(), value.to_vec()));
        Ok(Payload {
            metadata: metadata.into(),
            data: [&nonce[..], &data].concat(),
            ..Default::default()
        })
    }

    /// What is not encrypted is from before there were keys, and is taken as it is.
    fn open(&self, payload: Payload) -> Result<Payload, String> {
        if payload.metadata.get(ENCODING).map(Vec::as_slice) != Some(ENCRYPTED) {
            return Ok(payload);
        }
        let name = payload.metadata.get(KEY_ID).cloned().unwrap_or_default();
        let name = String::from_utf8_lossy(&name).into_owned();
        let (_, key) = self
            .0
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| {
                format!("a payload needs the key {name:?}, which is no longer configured")
            })?;
        let broken = || format!("a payload cannot be decrypted with the key {name:?}");
        let (nonce, data) = payload
            .data
            .split_at_checked(NONCE_LEN)
            .ok_or_else(broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| broken())?;
        let mut data = data.to_vec();
        let opened = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut data);
        let opened = opened.map_err(|_| broken())?;
        Payload::decode(&*opened).map_err(|_| broken())
    }
}

impl PayloadCodec for CodecKeys {
    fn encode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let sealed: Result<_, _> = payloads.iter().map(|payload| self.seal(payload)).collect();
        async move { sealed.map_err(wrong) }.boxed()
    }

    fn decode(
        &self,
        _: &SerializationContextData,
        payloads: Vec<Payload>,
    ) -> BoxFuture<'static, Result<Vec<Payload>, PayloadConversionError>> {
        let opened: Result<_, _> = payloads
            .into_iter()
            .map(|payload| self.open(payload))
            .collect();
        async move { opened.map_err(wrong) }.boxed()
    }
}

fn wrong(why: String) -> PayloadConversionError {
    PayloadConversionError::EncodingError(why.into())
}

fn bytes(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> CodecKeys {
        // A key of its own for every name.
        let key = |name: &&str| (name.to_string(), format!("{:064x}", name.len() * 7919));
        let keys: Vec<_> = names.iter().map(key).collect();
        CodecKeys::parse(&keys).unwrap().unwrap()
    }

    fn payload() -> Payload {
        Payload {
            metadata: [(ENCODING.to_owned(), b"json/plain".to_vec())].into(),
            data: br#"{"account":"DE89"}"#.to_vec(),
            ..Default::default()
        }
    }

    #[test]
    fn what_is_sealed_shows_nothing_and_opens_to_what_it_was() {
        let keys = keys(&["a"]);
        let sealed = keys.seal(&payload()).unwrap();
        let text = String::from_utf8_lossy(&sealed.data).into_owned();
        assert!(!text.contains("DE89") && !text.contains("json"), "{text}");
        assert_ne!(
            sealed,
            keys.seal(&payload()).unwrap(),
            "never the same twice"
        );
        assert_eq!(keys.open(sealed).unwrap(), payload());
        assert_eq!(keys.open(payload()).unwrap(), payload(), "from before");
    }

    #[test]
    fn after_a_rotation_the_old_opens_until_its_key_is_gone() {
        let old = keys(&["a"]).seal(&payload()).unwrap();
        let rotated = keys(&["bb", "a"]);
        assert_eq!(rotated.open(old.clone()).unwrap(), payload());
        let new = rotated.seal(&payload()).unwrap();
        assert_eq!(new.metadata[KEY_ID], b"bb");
        let said = keys(&["bb"]).open(old).unwrap_err();
        assert!(said.contains("\"a\""), "{said}");
    }

    #[test]
    fn what_was_changed_on_the_way_does_not_open() {
        let keys = keys(&["a"]);
        let sealed = keys.seal(&payload()).unwrap();
        for place in [0, NONCE_LEN, sealed.data.len() - 1] {
            let mut changed = sealed.clone();
            changed.data[place] ^= 1;
            assert!(keys.open(changed).is_err(), "byte {place}");
        }
        let mut short = sealed;
        short.data.truncate(3);
        assert!(keys.open(short).is_err());
    }

    #[test]
    fn bad_keys_are_named_and_never_shown() {
        let parse = |keys: &[(&str, &str)]| {
            let owned = keys.iter().map(|(n, k)| (n.to_string(), k.to_string()));
            CodecKeys::parse(&owned.collect::<Vec<_>>())
        };
        assert!(parse(&[]).unwrap().is_none());
        let good = "00".repeat(32);
        for bad in ["", "00", &"zz".repeat(32), &"ä".repeat(32)] {
            let said = parse(&[("a", bad)]).unwrap_err();
            assert!(said.contains("\"a\"") && !said.contains("zz"), "{said}");
        }
        assert!(parse(&[("a", &good), ("a", &good)]).is_err());
        let shown = format!("{:?}", parse(&[("a", &good)]).unwrap().unwrap());
        assert_eq!(shown, "[\"a\"]");
    }
}
