//! One file per command.

pub mod agent;
pub mod ana;
pub mod apply;
pub mod bench;
pub mod ceiling;
pub mod check_tls_key;
mod child;
pub mod completions;
pub mod config;
pub mod connect;
pub mod control;
pub mod dhchap_key;
pub mod disconnect;
pub mod discover;
pub mod gen_tls_key;
pub mod host;
pub mod hosts;
pub mod identify;
pub mod limits;
pub mod list;
pub mod list_subsys;
pub mod mirror;
pub mod namespace;
pub mod serve;
pub mod status;
pub mod study;
pub mod top;
