//! HMAC over a canonical string that the configuration spells out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256, Sha512};
use tollgate_expression::{Facts, Vocabulary};

use crate::connection::OutRequest;
use crate::description::Template;
use crate::secret_source::{Rotating, SecretSource};

#[derive(Debug, Clone)]
pub struct HmacOptions {
    pub key: SecretSource,
    /// What is signed: text with `{method}`, `{path}`, `{body}`, `{bodySha256}` and `{timestamp}`.
    pub sign: String,
    pub header: String,
    /// What stands in the header: text with `{signature}` and `{timestamp}`.
    pub value: String,
    /// Carries the time in whole seconds, if the downstream wants to see it.
    pub timestamp_header: Option<String>,
    pub sha512: bool,
    pub base64: bool,
}

static SIGNED: Vocabulary = Vocabulary {
    variables: &["method", "path", "body", "bodySha256", "timestamp"],
    objects: &[],
};
static SHOWN: Vocabulary = Vocabulary {
    variables: &["signature", "timestamp"],
    objects: &[],
};

#[derive(Debug)]
pub(crate) struct Signing {
    key: Rotating,
    sign: Template,
    header: HeaderName,
    value: Template,
    timestamp_header: Option<HeaderName>,
    sha512: bool,
    base64: bool,
}

impl Signing {
    pub(super) fn new(options: HmacOptions) -> Result<Self, String> {
        let header = |name: &str, text: &str| {
            let parsed: Result<HeaderName, _> = text.parse();
            parsed.map_err(|_| format!("login.{name}: {text:?} is not the name of a header"))
        };
        let timestamp_header = options.timestamp_header.as_deref();
        let timestamp_header = timestamp_header.map(|text| header("timestamp_header", text));
        let sign = Template::compile(&SIGNED, &signed_facts("POST", "/", "", 0), &options.sign);
        let value = Template::compile(&SHOWN, &shown_facts("", 0), &options.value);
        Ok(Self {
            key: Rotating::read(options.key).map_err(|why| format!("login.key: {why}"))?,
            sign: sign.map_err(|why| format!("login.sign: {why}"))?,
            header: header("header", &options.header)?,
            value: value.map_err(|why| format!("login.value: {why}"))?,
            timestamp_header: timestamp_header.transpose()?,
            sha512: options.sha512,
            base64: options.base64,
        })
    }

    pub(super) fn sign(
        &self,
        request: &mut OutRequest,
        body: &str,
        at_secs: i64,
    ) -> Result<(), String> {
        let path = request.uri().path_and_query().map_or("/", |it| it.as_str());
        let facts = signed_facts(request.method().as_str(), path, body, at_secs);
        let signed = self.sign.text(&facts)?.unwrap_or_default();
        let signature = self.signature(&signed);
        let value = self.value.text(&shown_facts(&signature, at_secs))?;
        let value = HeaderValue::from_str(&value.unwrap_or_default());
        let mut value =
            value.map_err(|_| "login.value: has characters that are not allowed in a header")?;
        value.set_sensitive(true);
        request.headers_mut().insert(self.header.clone(), value);
        if let Some(name) = &self.timestamp_header {
            let at = HeaderValue::from(at_secs);
            request.headers_mut().insert(name.clone(), at);
        }
        Ok(())
    }

    fn signature(&self, signed: &str) -> String {
        let key = self.key.value();
        let bytes: Vec<u8> = if self.sha512 {
            let mac = Hmac::<Sha512>::new_from_slice(key.as_bytes());
            let mut mac = mac.expect("any length makes a key");
            mac.update(signed.as_bytes());
            mac.finalize().into_bytes().to_vec()
        } else {
            let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes());
            let mut mac = mac.expect("any length makes a key");
            mac.update(signed.as_bytes());
            mac.finalize().into_bytes().to_vec()
        };
        if self.base64 {
            STANDARD.encode(bytes)
        } else {
            hex::encode(bytes)
        }
    }
}

fn signed_facts(method: &str, path: &str, body: &str, at_secs: i64) -> Facts {
    let known = vec![
        ("method", method.into()),
        ("path", path.into()),
        ("body", body.into()),
        ("bodySha256", hex::encode(Sha256::digest(body)).into()),
        ("timestamp", at_secs.into()),
    ];
    Facts::new(known, None)
}

fn shown_facts(signature: &str, at_secs: i64) -> Facts {
    let known = vec![
        ("signature", signature.into()),
        ("timestamp", at_secs.into()),
    ];
    Facts::new(known, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_over_the_configured_string() {
        let signing = Signing::new(HmacOptions {
            key: SecretSource::new(|| Ok("key".to_owned())),
            sign: "{method}\n{path}\n{timestamp}\n{bodySha256}".to_owned(),
            header: "X-Signature".to_owned(),
            value: "t={timestamp},v1={signature}".to_owned(),
            timestamp_header: Some("X-Time".to_owned()),
            sha512: false,
            base64: false,
        })
        .unwrap();
        let mut request = http::Request::post("/v1/pay?x=1").body(http_body_util::Full::default());
        let request = request.as_mut().unwrap();
        signing.sign(request, "{}", 1_700_000_000).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(b"key").unwrap();
        let body = hex::encode(Sha256::digest("{}"));
        mac.update(format!("POST\n/v1/pay?x=1\n1700000000\n{body}").as_bytes());
        let expected = hex::encode(mac.finalize().into_bytes());
        let shown = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(shown("x-signature"), format!("t=1700000000,v1={expected}"));
        assert_eq!(shown("x-time"), "1700000000");
        assert!(!format!("{signing:?} {request:?}").contains(&expected));
    }
}
