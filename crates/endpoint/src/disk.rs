//! A block device by its URL, with blocking calls.

use core::ops::Deref;
use weft_block::{Device, Error};
use weft_connection::BlockingDisk;
use weft_initiator::ConnectOptions;

/// A block device with blocking calls and its own loop. It may be shared between threads.
///
/// ```no_run
/// use weft_endpoint::{ConnectOptions, Disk};
///
/// # fn read() -> Result<(), weft_block::Error> {
/// let url = "nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk";
/// let disk = Disk::open(url, &ConnectOptions::default())?;
/// let mut block = vec![0; disk.geometry().block_bytes as usize];
/// disk.read(0, &mut block)?;
/// # Ok(())
/// # }
/// ```
pub struct Disk(BlockingDisk);

impl Disk {
    /// Opens any URL that [`crate::open()`] accepts.
    ///
    /// # Errors
    /// As those of [`crate::open()`].
    pub fn open(url: &str, options: &ConnectOptions) -> Result<Self, Error> {
        Self::on(crate::open(url, options)?)
    }

    /// Wraps an open device.
    ///
    /// # Errors
    /// The loop cannot be started, or the device lends no queue.
    pub fn on(device: Device) -> Result<Self, Error> {
        BlockingDisk::on(device).map(Self)
    }
}

impl Deref for Disk {
    type Target = BlockingDisk;

    fn deref(&self) -> &BlockingDisk {
        &self.0
    }
}
