//! What is kept, archived and erased.

mod erase;
