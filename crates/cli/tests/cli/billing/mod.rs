//! Invoices, from their customer to their end.

mod invoice_changes;
mod invoice_crashes;
pub(crate) mod invoices;
