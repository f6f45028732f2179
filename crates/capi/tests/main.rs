//! The library as programs in C see it: its header, its symbols, and programs that are compiled and
//! run.
#![cfg(target_os = "linux")]

mod built;
mod declarations;
mod fio;
mod header;
mod nbdkit;
mod page;
mod programs;
mod sources;
mod symbols;
