//! Banks: descriptions, logins, certificates, gateways, and banks that misbehave.

mod bank_certificate;
mod bank_logins;
mod banks;
mod descriptors;
mod gateways;
mod refusal_storm;
mod strangers;
