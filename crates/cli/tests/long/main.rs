//! Many connections, connections that come and go, hours, and upgrades: small versions run in every
//! test run, the ignored ones by `cargo xtask long`, which keeps what they print.
#![cfg(target_os = "linux")]

mod churn;
mod connections;
mod fairness;
mod process;
mod soak;
#[path = "../support/mod.rs"]
mod support;
mod upgrade;
