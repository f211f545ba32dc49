//! What both databases have in common about the values in their columns.

/// What is said of a word that none of ours is.
pub(crate) fn unknown_word(column: &str, word: &str) -> String {
    format!("the column {column} holds {word:?}, which this release does not know")
}
