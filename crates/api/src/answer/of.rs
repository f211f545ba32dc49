//! How answers of the contract are made from what the rest of the code knows.

/// Makes an answer of the contract. `From` would do it, if one of its two types were of this crate.
pub(crate) trait Of<T>: Sized {
    fn of(known: T) -> Self;
}
