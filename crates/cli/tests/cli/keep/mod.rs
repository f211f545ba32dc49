//! What is kept, archived and erased.

mod ages;
mod answers;
mod archive;
mod day;
mod erase;
mod trouble;
