//! A client of Tollgate's HTTP API, with the types of its contract.
//!
//! [`Client`] has the methods of each resource: [`Client::payments`], [`Client::lanes`], [`Client::jobs`] and so on.
//! Every call returns an [`Answer`]: the typed value, and the text that the server sent. An [`Error`] tells a refusal by
//! the server ([`Refused`], with its stable code and the errors by field) from trouble with the connection.
//!
//! ```no_run
//! use tollgate_client::contract::{NewPayment, Party, Payment};
//! use tollgate_client::{Client, Error};
//!
//! # async fn example() -> Result<(), Error> {
//! let client = Client::builder("https://tollgate.example:8090")
//!     .token("tg_…")
//!     .build()?;
//! let party = |account: &str, name: &str| Party {
//!     account: account.to_owned(),
//!     name: name.to_owned(),
//! };
//! let debtor = party("DE02120300000000202051", "Acme");
//! let creditor = party("DE02500105170137075030", "Bolt");
//! let payment = NewPayment {
//!     reference: Some("invoice 42".to_owned()),
//!     ..NewPayment::new("pay_001", "125.50", "USD", debtor, creditor)
//! };
//! match client.payments().submit(&payment).await {
//!     Ok(accepted) => println!("slot: {:?}", accepted.scheduled_time),
//!     Err(Error::Refused(refused)) if refused.status == 400 => println!("{:?}", refused.details),
//!     Err(error) => return Err(error),
//! }
//! if let Payment::Known(planned) = client.payments().get("pay_001").await?.into_value() {
//!     println!("{} on lane {}", planned.status, planned.lane);
//! }
//! # Ok(())
//! # }
//! ```

#![deny(missing_docs)]

mod address;
mod answer;
mod archive;
mod audit;
mod banks;
mod builder;
mod calendars;
mod client;
mod connection;
mod customers;
mod dead_letters;
mod erasures;
mod error;
mod events;
mod feeds;
mod file;
mod held;
mod imports;
mod in_doubt;
mod invoices;
mod item_types;
mod jobs;
mod lanes;
mod needs_you;
mod nodes;
mod payments;
mod rules;
mod schedules;
mod status_checks;
mod tls;
mod totals;

/// The types of requests and answers.
pub use tollgate_contract as contract;

pub use address::quoted;
pub use answer::Answer;
pub use archive::{Archive, ArchiveDay, ArchiveQuery, ArchivedItemQuery};
pub use audit::{Audit, AuditQuery};
pub use builder::Builder;
pub use calendars::Calendars;
pub use client::Client;
pub use customers::Customers;
pub use dead_letters::{DeadLetterQuery, DeadLetters};
pub use erasures::Erasures;
pub use error::{Error, Refused, SettingError};
pub use events::Events;
pub use feeds::Feeds;
pub use held::{Held, HeldQuery};
pub use imports::{FileFormat, Imports, Upload};
pub use in_doubt::InDoubt;
pub use invoices::{InvoiceQuery, Invoices};
pub use item_types::ItemTypes;
pub use jobs::{JobItemQuery, Jobs};
pub use lanes::{Day, Lanes};
pub use needs_you::NeedsYou;
pub use nodes::Nodes;
pub use payments::{PaymentQuery, Payments};
pub use rules::Rules;
pub use schedules::{ScheduleOf, Schedules};
pub use status_checks::StatusChecks;
