//! What is kept, archived and erased.

mod ages;
mod answers;
mod archive;
mod bad_days;
mod day;
mod erase;
mod erase_files;
mod erase_killed;
mod invoice;
mod lost;
mod moving;
mod shared_folder;
mod trouble;
mod two_types;
