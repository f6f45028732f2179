//! `/dev/ublkcN`: what serves a device. All its queues share it, on any loops.

use super::encoding::{DEPTH_MAX, DESCRIPTOR_BYTES, Info, data_offset, flag};
use crate::kernel_file;
use crate::mapping::KernelMapping;
use rustix::fs::Access;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A device, opened by its server.
pub struct UblkDevice {
    pub(super) file: File,
    info: Info,
}

impl UblkDevice {
    /// Opens it. One process at a time can.
    pub fn open(info: &Info) -> io::Result<Self> {
        let file = kernel_file::open(&path_of(info.device))?;
        Ok(Self { file, info: *info })
    }

    /// Returns its description.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns whether data is copied by calls on it.
    pub(super) fn copies(&self) -> bool {
        self.info.flags & flag::USER_COPY != 0
    }

    /// The descriptors of a queue.
    pub(super) fn descriptors(&self, queue: u16) -> io::Result<KernelMapping> {
        let page = rustix::param::page_size();
        let apart = (DEPTH_MAX * DESCRIPTOR_BYTES).next_multiple_of(page) as u64;
        let len = usize::from(self.info.depth) * DESCRIPTOR_BYTES;
        KernelMapping::of_file(&self.file, apart * u64::from(queue), len.next_multiple_of(page))
    }

    /// Copies data of a write that is under way.
    pub(super) fn read(
        &self,
        (queue, tag): (u16, u16),
        at: usize,
        into: &mut [u8],
    ) -> io::Result<()> {
        self.file.read_exact_at(into, data_offset(queue, tag) + at as u64)
    }

    /// Gives data to a read that is under way.
    pub(super) fn write(&self, (queue, tag): (u16, u16), at: usize, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, data_offset(queue, tag) + at as u64)
    }
}

/// Opens a disk that nobody else uses: a mounted one, or one of a volume, is busy. As long as it is
/// open, nobody can begin to use it so.
pub fn open_alone(device: u32) -> io::Result<File> {
    kernel_file::open_alone(&format!("/dev/ublkb{device}"))
}

/// Returns whether this process may read and write a disk: the system may give it to a user only
/// some time after it has appeared.
pub fn is_usable(device: u32) -> bool {
    let path = format!("/dev/ublkb{device}");
    rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
}

/// The user of this process.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Where a device is, for its server.
pub(super) fn path_of(device: u32) -> String {
    format!("/dev/ublkc{device}")
}
