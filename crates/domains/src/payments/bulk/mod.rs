//! Bulk files: streamed in bounded memory into durable chunks, then admitted chunk by chunk, each
//! by a flow of its own. Nothing runs before the whole file is there.

mod chunk;
mod csv;
mod file;
mod flow;
pub(crate) mod judge;
mod split;
pub(crate) mod tries;
mod upload;

pub use file::Format;
pub(super) use flow::breathe;
pub use flow::{AdmitChunk, ChunkInput, PaymentBulkInitFlow};
pub use split::MAX_LINE_BYTES;
pub use upload::{BulkIntake, Taken, Upload, UploadError};
