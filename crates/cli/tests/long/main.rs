//! Many connections, and connections that come and go: small versions run in every test run, the
//! ignored ones by `cargo xtask long`, which keeps what they print.
#![cfg(target_os = "linux")]

mod churn;
mod connections;
mod fairness;
mod process;
#[path = "../support/mod.rs"]
mod support;
