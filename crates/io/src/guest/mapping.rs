//! A file of memory that another process shares, mapped.

use super::foreign::is_memory;
use super::truncated::Guard;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use rustix::fs::{FileType, MemfdFlags, SealFlags, fstat};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Largest page of any system, bytes.
const PAGE_BYTES_MAX: u64 = 1 << 30;

/// See the module. It stays on the thread that made it.
pub struct Mapping {
    start: NonNull<u8>,
    /// Length of the mapping, from the start of the file.
    mapped: usize,
    offset: usize,
    len: usize,
    guard: Guard,
}

impl Mapping {
    /// Maps `len` bytes from `offset` of a file.
    ///
    /// # Errors
    /// The file is shorter, it is not one of memory (a memfd, or in tmpfs or hugetlbfs), or the
    /// system does not map it.
    pub fn of(file: BorrowedFd<'_>, offset: u64, len: u64) -> io::Result<Self> {
        let invalid = |why: &str| io::Error::new(io::ErrorKind::InvalidInput, why.to_owned());
        // Asked first: an access to memory, and a question about it, never waits for a disk, a
        // network, or a process.
        let stat = if is_memory(file) { Some(fstat(file)?) } else { None };
        let is_regular = |mode: u32| FileType::from_raw_mode(mode) == FileType::RegularFile;
        let Some(stat) = stat.filter(|stat| is_regular(stat.st_mode)) else {
            return Err(invalid("it is not a memfd, nor a file in tmpfs or hugetlbfs"));
        };
        let end = offset.checked_add(len).filter(|_| len > 0).ok_or_else(|| invalid("no size"))?;
        if end > stat.st_size as u64 {
            return Err(invalid("the file is shorter than the memory that is said to be in it"));
        }
        // Of hugetlbfs, the block size is that of a page.
        let page = (stat.st_blksize as u64).next_power_of_two().clamp(4096, PAGE_BYTES_MAX);
        let too_long = || invalid("it is longer than an address space");
        let mapped = end.checked_next_multiple_of(page).ok_or_else(too_long)?;
        let mapped = usize::try_from(mapped).map_err(|_| too_long())?;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe {
            libc::mmap(
                core::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        let start = match NonNull::new(start.cast::<u8>()) {
            Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => start,
            _ => return Err(io::Error::last_os_error()),
        };
        let guard = Guard::new(start.as_ptr(), mapped).inspect_err(|_| unmap(start, mapped))?;
        // Both fit into `mapped`. The handler of a signal reads the address.
        let _ = start.as_ptr().expose_provenance();
        Ok(Self { start, mapped, offset: offset as usize, len: len as usize, guard })
    }

    /// Bytes.
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Returns whether it has no bytes, which never is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the file was truncated: what is read since then is zero, and what is written
    /// is lost.
    pub fn is_lost(&self) -> bool {
        self.guard.is_lost()
    }

    /// Returns the address of `len` bytes at `at`.
    #[inline]
    fn place(&self, at: u64, len: usize) -> Option<*mut u8> {
        let at = usize::try_from(at).ok()?;
        let end = at.checked_add(len)?;
        // `offset + len` is within the mapping.
        (end <= self.len).then(|| self.start.as_ptr().wrapping_add(self.offset + at))
    }

    /// Copies from the memory; `false`: the range ends beyond it.
    #[inline]
    #[must_use]
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(from) = self.place(at, into.len()) else { return false };
        // SAFETY: `place` has checked the bounds; memory of a mapping is no memory of `into`. Others
        // may write meanwhile: all values of bytes are valid, and no reference is made.
        unsafe { core::ptr::copy_nonoverlapping(from.cast_const(), into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies to the memory; `false`: the range ends beyond it.
    #[inline]
    #[must_use]
    pub fn write(&self, at: u64, from: &[u8]) -> bool {
        let Some(to) = self.place(at, from.len()) else { return false };
        // SAFETY: as in `read`; Rust knows of nothing in this memory.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        true
    }

    #[inline]
    fn atomic(&self, at: u64) -> Option<&AtomicU16> {
        let place = self.place(at, 2)?.cast::<u16>();
        // SAFETY: the bounds and the alignment are checked, and the mapping lives as long as `self`.
        // Others may access the bytes otherwise, which is up to the guest.
        place.is_aligned().then(|| unsafe { AtomicU16::from_ptr(place) })
    }

    /// Loads a little-endian number; nothing that is read later was read before it. `None`: it is
    /// not there, or not aligned.
    #[inline]
    pub fn load(&self, at: u64) -> Option<u16> {
        self.atomic(at).map(|of| u16::from_le(of.load(Ordering::Acquire)))
    }

    /// Stores a little-endian number; all that was written before is visible with it.
    #[inline]
    #[must_use]
    pub fn store(&self, at: u64, value: u16) -> bool {
        self.atomic(at).is_some_and(|of| {
            of.store(value.to_le(), Ordering::Release);
            true
        })
    }

    /// Sets bits of a byte; `false`: it is not there.
    pub fn set_bits(&self, at: u64, bits: u8) -> bool {
        let Some(place) = self.place(at, 1) else { return false };
        // SAFETY: as in `atomic`; a byte is always aligned.
        unsafe { AtomicU8::from_ptr(place) }.fetch_or(bits, Ordering::AcqRel);
        true
    }
}

fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: exactly the mapping that was made, which nothing points to any more.
    unsafe { libc::munmap(start.as_ptr().cast(), len) };
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start, self.mapped);
    }
}

/// New memory that other processes may have too, of a fixed size.
///
/// # Errors
/// The system has none.
pub fn shared_memory(name: &str, len: u64) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(name, flags)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file)
}
