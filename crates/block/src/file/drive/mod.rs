//! Drives and volumes of Windows: `\\.\PhysicalDrive1`, `\\.\E:`, `E:`, `\\?\Volume{GUID}\`.
//!
//! For writing, a volume is locked and dismounted, and so are all volumes on a drive. They stay so
//! until the source is closed: then Windows mounts them again when somebody looks. What the running
//! system is on is refused. For reading, all stay as they are.

#[cfg(any(windows, test))]
mod answers;
#[cfg(any(windows, test))]
mod claim;
#[cfg(not(windows))]
mod elsewhere;
pub(super) mod name;
#[cfg(test)]
mod script;
#[cfg(test)]
mod tests;
#[cfg(windows)]
mod windows;

#[cfg(not(windows))]
pub(super) use elsewhere::{bytes, is_gone, open};
#[cfg(windows)]
pub(super) use windows::{bytes, is_gone, open};

use super::facts::Facts;
use std::fs::File;

/// An open drive or volume.
pub(super) struct Opened {
    pub(super) file: File,
    /// The volumes on the drive, locked until they are dropped.
    pub(super) volumes: Vec<File>,
    pub(super) facts: Facts,
}
