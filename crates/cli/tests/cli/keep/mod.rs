//! What is kept, archived and erased.

mod archive;
mod day;
mod erase;
mod trouble;
