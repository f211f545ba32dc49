//! What is kept, archived and erased.

mod ages;
mod answers;
mod archive;
mod bad_days;
mod day;
mod erase;
mod erase_files;
mod moving;
mod trouble;
