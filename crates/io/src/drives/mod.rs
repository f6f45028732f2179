//! Drives and volumes of Windows: what can be asked of them and what they can be told to do. The
//! calls themselves exist on Windows only; what they mean is decided elsewhere.

#[cfg(windows)]
mod windows;

#[cfg(windows)]
pub use windows::{
    ask, boot_partition, mount_points, open, order, system_directory, volume_of, volumes,
};

/// Access to an open drive or volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveAccess {
    /// Only to ask; any user may.
    Ask,
    /// For reading, while others read and write.
    Read,
    /// A volume, for writing: Windows demands that others may write too, until it is locked.
    WriteVolume,
    /// A drive, for writing, while nobody else opens it for writing.
    WriteDrive,
}

/// A question about what is open. Answers are the bytes of the structure that Windows names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveQuestion {
    /// Its size: `GET_LENGTH_INFORMATION`.
    Length,
    /// Its block sizes: `STORAGE_ACCESS_ALIGNMENT_DESCRIPTOR`.
    Alignment,
    /// Its block size, where [`DriveQuestion::Alignment`] has no answer: `DISK_GEOMETRY_EX`.
    Geometry,
    /// Its maker, model and serial number: `STORAGE_DEVICE_DESCRIPTOR`.
    Description,
    /// The number of the drive: `STORAGE_DEVICE_NUMBER`.
    Number,
    /// Is it writable: an error if not, otherwise no bytes.
    Writable,
    /// The drives, and the parts of them, on which a volume lies: `VOLUME_DISK_EXTENTS`.
    Extents,
}

/// Order to an open volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeOrder {
    /// To be opened by nobody else, until it is closed; fails while somebody has a file open.
    Lock,
    /// To be without its file system, until somebody opens it again.
    Dismount,
    /// To be read and written up to its last block, which is beyond the file system.
    Unbound,
}
