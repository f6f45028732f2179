//! Images of a cluster of Ceph on this machine.
#![cfg(target_os = "linux")]

mod changes;
mod foreign;
mod image;
mod opening;
mod trouble;
