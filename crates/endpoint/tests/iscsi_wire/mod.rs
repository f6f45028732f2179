//! The iSCSI target, byte by byte: what initiators in the field ask of it.

pub mod host;
mod logins;
mod long;
