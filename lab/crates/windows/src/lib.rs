//! A toolchain that builds for Windows on Debian, and Wine, which runs what it has built.
#![forbid(unsafe_code)]

pub mod cache;
pub mod setup;
pub mod toolchain;
pub mod wine;
