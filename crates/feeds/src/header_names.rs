//! Names of headers that are not UTF-8. Clients may write them, and the decoder then refuses the whole batch, which would stop its
//! partition for good. Nothing depends on such a name, so it is made readable where it stands.

use std::ops::Range;

use bytes::Bytes;

/// One byte of a record, before its timestamp.
const ATTRIBUTES: usize = 1;

/// The same records of one batch, decompressed, with names that are UTF-8. What is not made of records stays as it is: the
/// decoder says what is wrong with it.
pub(crate) fn readable(records: &Bytes) -> Bytes {
    let mut cursor = Cursor {
        bytes: records.to_vec(),
        at: 0,
    };
    while cursor.mend_record().is_some() {}
    cursor.bytes.into()
}

struct Cursor {
    bytes: Vec<u8>,
    at: usize,
}

impl Cursor {
    /// None if there is no further record.
    fn mend_record(&mut self) -> Option<()> {
        let record = self.field()?;
        self.at = record.start + ATTRIBUTES;
        let (_timestamp, _offset) = (self.number()?, self.number()?);
        let (_key, _value) = (self.field()?, self.field()?);
        for _ in 0..self.number()? {
            let name = self.field()?;
            mend(&mut self.bytes[name]);
            self.field()?;
        }
        self.at = record.end;
        Some(())
    }

    /// What follows its length; the length of a field without a value is -1.
    fn field(&mut self) -> Option<Range<usize>> {
        let length = usize::try_from(self.number()?.max(0)).ok()?;
        let end = self.at.checked_add(length)?;
        let field = (end <= self.bytes.len()).then_some(self.at..end)?;
        self.at = end;
        Some(field)
    }

    /// Seven bits a byte, the lowest first; the lowest bit of all is the sign.
    fn number(&mut self) -> Option<i64> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed());
            }
        }
        None
    }
}

fn mend(name: &mut [u8]) {
    if std::str::from_utf8(name).is_err() {
        for byte in name.iter_mut().filter(|byte| !byte.is_ascii()) {
            *byte = b'?';
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_made_of_records_stays_as_it_is() {
        for nonsense in [
            &b""[..],
            b"\x80",
            b"\x7f",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let nonsense = Bytes::from_static(nonsense);
            assert_eq!(readable(&nonsense), nonsense);
        }
    }
}
