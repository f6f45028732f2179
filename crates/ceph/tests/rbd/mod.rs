//! Images of a cluster of Ceph on this machine.

mod changes;
mod foreign;
mod image;
mod opening;
mod trouble;
