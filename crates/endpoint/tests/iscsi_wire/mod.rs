//! The iSCSI target, byte by byte: what initiators in the field ask of it.

mod algorithms;
pub mod host;
mod logins;
mod long;
