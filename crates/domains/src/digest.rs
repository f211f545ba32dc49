//! Digests as text, for sameness and for ids.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The SHA-256 of a text, in 64 hexadecimal digits.
pub(crate) fn of(text: &str) -> String {
    hex(&Sha256::digest(text))
}

pub(crate) fn hex(digest: &[u8]) -> String {
    let text = String::with_capacity(2 * digest.len());
    digest.iter().fold(text, |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
