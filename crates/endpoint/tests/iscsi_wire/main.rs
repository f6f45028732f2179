//! The iSCSI target, byte by byte: what initiators in the field ask of it.

mod host;
mod logins;
mod long;
#[path = "../common/served.rs"]
mod served;
