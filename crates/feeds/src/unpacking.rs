//! Unpacks the records of a batch up to a bound: a message of some kilobytes can hold gigabytes of zeros. The decoder's own
//! decompressors have none.

use std::io::{Error, Read, Result};

use bytes::{Buf, Bytes};
use flate2::read::GzDecoder;
use kafka_protocol::records::Compression;
use snap::raw::{Decoder, decompress_len};

/// What Java's library writes before the blocks of Snappy: its name, and two versions. Other clients write one block without it.
const SNAPPY_BLOCKS: &[u8] = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01";

pub(crate) const TOO_LARGE: &str = "a batch is too large when it is unpacked";

/// Fails if that would be more than so many bytes.
pub(crate) fn unpack(packed: &Bytes, compression: Compression, most: usize) -> Result<Bytes> {
    match compression {
        Compression::None if packed.len() > most => Err(too_large()),
        Compression::None => Ok(packed.clone()),
        Compression::Gzip => read_all(GzDecoder::new(&packed[..]), most),
        Compression::Snappy => snappy(packed, most),
        Compression::Lz4 => read_all(lz4::Decoder::new(&packed[..])?, most),
        Compression::Zstd => read_all(zstd::Decoder::new(&packed[..])?, most),
    }
}

fn read_all(unpacking: impl Read, most: usize) -> Result<Bytes> {
    let mut all = vec![];
    let one_more = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    unpacking.take(one_more).read_to_end(&mut all)?;
    if all.len() > most {
        return Err(too_large());
    }
    Ok(all.into())
}

fn snappy(packed: &Bytes, most: usize) -> Result<Bytes> {
    let mut all = vec![];
    let Some(mut blocks) = packed.strip_prefix(SNAPPY_BLOCKS) else {
        add_block(&mut all, packed, most)?;
        return Ok(all.into());
    };
    while blocks.has_remaining() {
        let length = blocks.try_get_u32().map_err(Error::other)?;
        let length = usize::try_from(length).map_err(Error::other)?;
        let block = blocks.split_off(..length);
        let block = block.ok_or_else(|| Error::other("a block of Snappy is cut off"))?;
        add_block(&mut all, block, most)?;
    }
    Ok(all.into())
}

/// A block says how long it is; it fails if it is not.
fn add_block(all: &mut Vec<u8>, block: &[u8], most: usize) -> Result<()> {
    let from = all.len();
    let end = from.saturating_add(decompress_len(block)?);
    if end > most {
        return Err(too_large());
    }
    all.resize(end, 0);
    Decoder::new().decompress(block, &mut all[from..])?;
    Ok(())
}

fn too_large() -> Error {
    Error::other(TOO_LARGE)
}
