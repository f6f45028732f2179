//! Logical units of a SCSI target, driven as an export would, on a disk in memory.

mod access;
mod attentions;
mod blocks;
mod faults;
mod information;
mod mode;
mod random;
mod reservations;
mod rig;
