//! What is kept, archived and erased.

mod archive;
mod erase;
