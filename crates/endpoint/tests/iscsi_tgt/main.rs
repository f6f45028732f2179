//! The iSCSI source on tgt, a target that others have written, over the loopback. Where tgt is
//! missing the tests say so and do nothing.
#![cfg(target_os = "linux")]

mod device;
mod login;
mod tgt;
