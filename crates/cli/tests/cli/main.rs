//! The binary as its users meet it: started from outside, spoken to over HTTP, killed with -9.

mod api;
mod bad_starts;
mod demo;
mod http;
mod kill_storm;
mod served;
