//! What is kept, archived and erased.

mod archive;
mod bad_days;
mod day;
mod erase;
mod erase_files;
mod moving;
