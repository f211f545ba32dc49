//! The text of a chunk as it is kept: packed. It is written once, read once and deleted, and most of a line is the same
//! as in the line before. Packing costs less time than logging what it saves.

use tollgate_core::ports::{StoreError, StoreResult};

pub(crate) fn pack(text: &[u8]) -> StoreResult<Vec<u8>> {
    snap::raw::Encoder::new()
        .compress_vec(text)
        .map_err(|error| StoreError::Bug(format!("a chunk cannot be packed: {error}")))
}

pub(crate) fn unpack(packed: &[u8]) -> StoreResult<Vec<u8>> {
    snap::raw::Decoder::new()
        .decompress_vec(packed)
        .map_err(|error| StoreError::Bug(format!("a chunk cannot be unpacked: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let line = r#"{"paymentId":"p","amount":"1.00","currency":"EUR"}"#;
        for lines in [0, 1, 1000] {
            let text = format!("{line}\n").repeat(lines);
            let packed = pack(text.as_bytes()).unwrap();
            assert_eq!(unpack(&packed).unwrap(), text.as_bytes());
        }
        assert!(matches!(unpack(b"not packed"), Err(StoreError::Bug(_))));
    }
}
