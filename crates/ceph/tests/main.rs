//! The integration tests of this crate, in one program, which starts one cluster for most of them.
#![cfg(target_os = "linux")]

mod objects;
mod rbd;
