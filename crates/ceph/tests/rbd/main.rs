//! Images of a cluster of Ceph on this machine.
#![cfg(target_os = "linux")]

mod image;
mod opening;
