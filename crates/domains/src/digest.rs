//! Digests as text, for sameness and for ids.

use sha2::{Digest, Sha256};

/// The SHA-256 of a text, in 64 hexadecimal digits.
pub(crate) fn of(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}
