//! One file per command.

pub mod agent;
pub mod bench;
pub mod ceiling;
pub mod completions;
pub mod config;
pub mod connect;
pub mod connect_all;
pub mod copy;
pub mod daemon;
pub mod disconnect;
pub mod discover;
pub mod identify;
pub mod internal;
pub mod keys;
pub mod limits;
pub mod list;
pub mod list_subsys;
pub mod manage;
pub mod nvme;
pub mod serve;
pub mod service;
pub mod status;
pub mod study;
pub mod top;
