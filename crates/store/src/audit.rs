//! A line of the audit log, as both stores write it.

use tollgate_core::id::Item;

#[derive(Debug, Default)]
pub(crate) struct Entry<'a> {
    pub(crate) batch: Option<&'a str>,
    pub(crate) item: Option<&'a Item>,
    pub(crate) action: &'a str,
    pub(crate) before: Option<&'a str>,
    pub(crate) after: Option<&'a str>,
    pub(crate) actor: &'a str,
    pub(crate) detail: &'a str,
}
