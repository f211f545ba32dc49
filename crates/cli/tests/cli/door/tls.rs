//! TLS for the API: a certificate and a key from files, and the commands that trust its authority.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use crate::fixture::http::get;
use crate::fixture::pair::{Pair, pair};
use crate::fixture::served::{BINARY, Served, Setting};
use crate::fixture::tokens::{Token, auth, token};

struct Files {
    folder: TempDir,
}

impl Files {
    /// `ca.pem`, and what it has signed for localhost: `certificate.pem`, `key.pem`.
    fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let named = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = named.signed_by(&key, &issuer).unwrap();
        let files = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        files.write("ca.pem", &issuer.pem());
        files.write("certificate.pem", &certificate.pem());
        files.write("key.pem", &key.serialize_pem());
        files.write(
            "other-key.pem",
            &KeyPair::generate().unwrap().serialize_pem(),
        );
        files.write("letter.pem", "Dear bank,");
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn config(&self, certificate: &str, key: &str) -> String {
        let [certificate, key] = [certificate, key].map(|name| self.path(name));
        let (certificate, key) = (certificate.display(), key.display());
        format!("tls.certificate = \"{certificate}\"\ntls.key = \"{key}\"\n")
    }
}

/// `tollgate lanes list` over https, trusting these authorities.
fn lanes(server: &Served, token: &Token, ca: Option<&Path>) -> Result<String, String> {
    let url = format!("https://localhost:{}", server.address.port());
    let mut command = Command::new(BINARY);
    command.args(["lanes", "list", "--server", &url]);
    command.env("TOLLGATE_TOKEN", &token.text);
    if let Some(ca) = ca {
        command.arg("--ca").arg(ca);
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        return Ok(text(output.stdout));
    }
    Err(text(output.stderr))
}

#[test]
fn the_api_is_served_over_tls_and_the_commands_check_its_certificate() {
    let files = Files::new();
    let ann = token("ann", "read");
    let text = format!(
        "{}{}",
        files.config("certificate.pem", "key.pem"),
        auth(&[&ann])
    );
    let Pair { bank, runtime, .. } = pair("");
    let _inside = runtime.enter();
    let setting = Setting::new(&bank, &text);
    let server = setting.start("0.0.0.0:0");
    // One that never shakes hands delays nobody, not even the end.
    let silent = TcpStream::connect(server.address).unwrap();

    let listed = lanes(&server, &ann, Some(&files.path("ca.pem"))).unwrap();
    assert!(listed.contains("default"), "{listed}");
    let wrong = token("ann", "read");
    let refused = lanes(&server, &wrong, Some(&files.path("ca.pem"))).unwrap_err();
    assert!(refused.contains("unknown token"), "{refused}");

    let stranger = lanes(&server, &ann, Some(&Files::new().path("ca.pem"))).unwrap_err();
    assert!(
        stranger.contains("TLS connection to the service failed"),
        "{stranger}"
    );
    let system = lanes(&server, &ann, None).unwrap_err();
    assert!(system.contains("--ca"), "{system}");
    let letter = lanes(&server, &ann, Some(&files.path("letter.pem"))).unwrap_err();
    assert!(
        letter.contains("letter.pem contains no certificate"),
        "{letter}"
    );
    let plain = get(server.address, "/health/live");
    assert!(plain.is_err(), "no plain HTTP here: {plain:?}");
    assert_eq!(server.stop(), Some(0));
    drop(silent);
}

#[test]
fn files_that_cannot_be_right_stop_the_start_with_one_sentence() {
    let files = Files::new();
    let folder = tempfile::tempdir().unwrap();
    let [config, store] = ["bad.toml", "x.db"].map(|name| folder.path().join(name));
    let good = ("certificate.pem", "key.pem");
    let table = [
        (
            ("letter.pem", good.1),
            "tls.certificate",
            "letter.pem contains no certificate",
        ),
        (
            ("none.pem", good.1),
            "tls.certificate",
            "none.pem cannot be read",
        ),
        (
            (good.0, "letter.pem"),
            "tls.key",
            "letter.pem contains no private key",
        ),
        ((good.0, "none.pem"), "tls.key", "none.pem cannot be read"),
        (
            (good.0, "certificate.pem"),
            "tls.key",
            "contains no private key",
        ),
        (
            (good.0, "other-key.pem"),
            "tls.key",
            "does not match tls.certificate",
        ),
    ];
    for ((certificate, key), at, why) in table {
        let text = files.config(certificate, key);
        let all = format!("store.url = \"sqlite:{}\"\n{text}", store.display());
        std::fs::write(&config, all).unwrap();
        let output = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--config"])
            .arg(&config)
            .env("RUST_LOG", "off")
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success());
        assert_eq!(said.trim().lines().count(), 1, "{said}");
        assert!(said.contains(at) && said.contains(why), "{said}");
        assert!(!store.exists(), "nothing was started");
    }
}
