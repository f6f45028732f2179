//! `/dev/fuse`: requests come out, and answers go in. Several loops share a file system by having a
//! channel each: the kernel gives each request to the first one that reads, and takes its answer
//! from there.

use super::answer::{
    ATTRIBUTES_CHANGED, FLAGS, OLDEST, OVER_RING, VERSION, attributes_changed, header, init,
};
use super::wire::{FuseRequest, FuseRequestKind, LEAD_BYTES};
use crate::event_loop::{DriverId, Handle};
use crate::kernel_file;
use crate::limits::{FUSE_BACKGROUND_MAX, FUSE_CONGESTED, FUSE_START_S};
use mio::unix::SourceFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::ioctl::{self, Setter};
use smallvec::SmallVec;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// `FUSE_DEV_IOC_CLONE`.
const CLONE: ioctl::Opcode = 0x8004_e500;

/// `FUSE_MAX_PAGES`: requests may have more than 32 pages.
const MAX_PAGES: u64 = 1 << 22;

/// Data of a request without that, bytes.
const REQUEST_BYTES: u32 = 32 * 4096;

/// Pieces of an answer that go into one call; the kernel has a limit of 1024.
const PIECES_MAX: usize = 1000;

/// An opened `/dev/fuse` with a file system.
pub struct FuseChannel {
    file: File,
}

impl FuseChannel {
    pub(super) fn of(fd: OwnedFd) -> Self {
        Self { file: fd.into() }
    }

    /// Answers the kernel's first request. Data of requests may have `request_bytes` at most; the
    /// result says how many they have, fewer with an older kernel, and whether they come by a
    /// [`FuseRing`](super::FuseRing), as they do from a kernel that offers it unless that
    /// `is_plain`. Waits for that request, which the kernel has made by the mount.
    pub(super) fn begin(&self, request_bytes: u32, is_plain: bool) -> io::Result<(u32, bool)> {
        let limit = Timespec { tv_sec: FUSE_START_S as i64, tv_nsec: 0 };
        let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
        if poll(&mut ready, Some(&limit))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // As much as the kernel demands room for.
        let mut bytes = vec![0; LEAD_BYTES + REQUEST_BYTES.max(request_bytes) as usize];
        let len = (&self.file).read(&mut bytes)?;
        let request = FuseRequest::decode(&bytes[..len.min(LEAD_BYTES)]);
        let Some(FuseRequest { unique, kind: FuseRequestKind::Init { version, flags }, .. }) =
            request
        else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if version.0 != VERSION.0 || version < OLDEST {
            let text = format!(
                "its interface has version {}.{}, and weft needs {}.{} (Linux 4.20)",
                version.0, version.1, OLDEST.0, OLDEST.1
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let most = if flags & MAX_PAGES == 0 { REQUEST_BYTES } else { request_bytes };
        let most = most.min(request_bytes);
        let mut taken = flags & FLAGS;
        let has_ring = !is_plain && flags & OVER_RING == OVER_RING;
        if has_ring {
            taken |= OVER_RING;
        }
        let out = init(version, taken, most, (FUSE_BACKGROUND_MAX, FUSE_CONGESTED));
        self.put(unique, 0, &[&out])?;
        let flags = rustix::fs::fcntl_getfl(&self.file)?;
        rustix::fs::fcntl_setfl(&self.file, flags | OFlags::NONBLOCK)?;
        Ok((most, has_ring))
    }

    /// Another channel of the same file system.
    pub fn another(&self) -> io::Result<Self> {
        let file = kernel_file::open("/dev/fuse")?;
        let number = self.file.as_raw_fd() as u32;
        // SAFETY: the call reads the number of a descriptor, which is open as long as `self`.
        unsafe { ioctl::ioctl(&file, Setter::<CLONE, u32>::new(number)) }?;
        rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK | OFlags::RDWR)?;
        Ok(Self { file })
    }

    /// The same channel for another holder.
    pub fn share(&self) -> io::Result<Self> {
        Ok(Self { file: self.file.try_clone()? })
    }

    /// Wakes a driver of a loop when there is a request.
    pub fn register(&self, on: &Handle, driver: DriverId) -> io::Result<()> {
        let fd = self.file.as_raw_fd();
        on.registrar(driver, |registrar| registrar.register_mio(&mut SourceFd(&fd)))
    }

    /// Takes a request, with the data of a write. `None`: there is none at present. `data` has room
    /// for the most data that requests have.
    ///
    /// # Errors
    /// The file system is no longer mounted.
    pub fn take(
        &self,
        lead: &mut [u8; LEAD_BYTES],
        data: &mut [u8],
    ) -> io::Result<Option<FuseRequest>> {
        loop {
            let mut into = [IoSliceMut::new(lead), IoSliceMut::new(data)];
            match (&self.file).read_vectored(&mut into) {
                Ok(len) => {
                    let request = FuseRequest::decode(&lead[..len.min(LEAD_BYTES)]);
                    let is_whole = |request: &FuseRequest| match request.data_bytes() {
                        0 => true,
                        bytes => bytes == len - LEAD_BYTES.min(len),
                    };
                    return match request {
                        Some(request) if is_whole(&request) => Ok(Some(request)),
                        _ => Err(io::ErrorKind::InvalidData.into()),
                    };
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // The request was interrupted while it was being read.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Answers a request: with data, in pieces, or with a positive error number. A request whose
    /// sender has gone takes no answer.
    pub fn answer<'a>(&self, unique: u64, answer: Result<impl Iterator<Item = &'a [u8]>, i32>) {
        let put = match answer {
            Err(number) => self.put(unique, -number, &[]),
            Ok(pieces) => {
                let pieces: SmallVec<[&[u8]; 4]> = pieces.collect();
                match pieces.len() {
                    0..=PIECES_MAX => self.put(unique, 0, &pieces),
                    _ => self.put(unique, 0, &[&pieces.concat()]),
                }
            }
        };
        // The kernel refused the data; without an answer the sender would wait forever.
        if let Err(e) = put
            && !matches!(Errno::from_io_error(&e), Some(Errno::NOENT | Errno::NODEV))
        {
            let _ = self.put(unique, -Errno::IO.raw_os_error(), &[]);
        }
    }

    /// Tells the kernel that the attributes of the file have changed.
    pub fn tell_attributes(&self) -> io::Result<()> {
        match self.put(0, ATTRIBUTES_CHANGED, &[&attributes_changed()]) {
            // The kernel does not know the file at present.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn put(&self, unique: u64, error: i32, pieces: &[&[u8]]) -> io::Result<()> {
        let header = header(unique, error, pieces.iter().map(|piece| piece.len()).sum());
        let mut all: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
        all.push(IoSlice::new(&header));
        all.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        (&self.file).write_vectored(&all).map(drop)
    }

    /// The device, for commands of a ring.
    pub(super) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// The descriptor.
    pub(super) fn fd(&self) -> impl AsFd + '_ {
        &self.file
    }
}
