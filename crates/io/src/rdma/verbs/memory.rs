//! Memory that is registered with a device, in pieces of powers of two.
//!
//! Small pieces are cut from larger registrations, and pieces that are free are kept for the next
//! user, because registering memory is a system call that locks its pages.

use super::device::Device;
use super::ffi::{Mr, access};
use super::library::check_object;
use crate::limits::{BUF_ALIGN, RDMA_FREE_BYTES_MAX};
use crate::rdma::Unavailable;
use core::ffi::c_int;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use weft_base::lock::Lock;

/// Minimum length of a registration.
const SLAB_BYTES: usize = 256 << 10;
const PIECE_BYTES_MIN: usize = 4 << 10;
const PIECE_BYTES_MAX: usize = 128 << 20;

/// Permitted users of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// This end alone.
    Messages,
    /// This end, and the other one by a window or a registration of its own.
    Data,
    /// Both, by the key of the memory.
    Standing,
}

impl Use {
    fn access(self, device: &Device) -> c_int {
        match self {
            Self::Messages => access::LOCAL_WRITE,
            Self::Data => {
                let windows = if device.limits.has_windows { access::MW_BIND } else { 0 };
                let reads = if device.is_iwarp { access::REMOTE_WRITE } else { 0 };
                access::LOCAL_WRITE | windows | reads
            }
            Self::Standing => access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_READ,
        }
    }
}

/// A registration of memory.
pub(super) struct Registration {
    device: &'static Device,
    mr: NonNull<Mr>,
}

// SAFETY: a registration may be used and ended by any thread.
unsafe impl Send for Registration {}
// SAFETY: what it is shared for reads its keys.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `bytes` bytes from `start`.
    ///
    /// # Safety
    /// The memory stays until the registration has ended.
    pub(super) unsafe fn new(
        device: &'static Device,
        start: NonNull<u8>,
        bytes: usize,
        access: c_int,
    ) -> io::Result<Self> {
        // SAFETY: the protection domain stays, and the memory is there, as the caller promises.
        let mr = check_object(unsafe {
            (device.library.ibv_reg_mr)(device.pd.as_ptr(), start.as_ptr().cast(), bytes, access)
        });
        match mr {
            Ok(mr) => Ok(Self { device, mr }),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENOMEM | libc::EAGAIN)) => {
                Err(Self::refused(device, bytes))
            }
            Err(e) => Err(e),
        }
    }

    /// Returns the error for a low limit of locked memory.
    pub(super) fn refused(device: &Device, bytes: usize) -> io::Error {
        Unavailable::LockedMemory { bytes, device: device.name.clone() }.into()
    }

    pub(super) fn mr(&self) -> NonNull<Mr> {
        self.mr
    }

    /// The keys for this end, and for the other one.
    pub(super) fn keys(&self) -> (u32, u32) {
        // SAFETY: the library made it, and changes nothing in it until it is ended.
        unsafe { ((*self.mr.as_ptr()).lkey, (*self.mr.as_ptr()).rkey) }
    }

    /// Ends it. The error says that the device may still touch the memory.
    pub(super) fn end(self) -> io::Result<()> {
        // SAFETY: the library made it, and it is ended once.
        match unsafe { (self.device.library.ibv_dereg_mr)(self.mr.as_ptr()) } {
            0 => Ok(()),
            // The device is gone.
            libc::EIO | libc::ENODEV => Ok(()),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

/// Memory that is registered as a whole.
struct Slab {
    start: NonNull<u8>,
    layout: Layout,
    /// `None` while it is dropped.
    registration: Option<Registration>,
}

// SAFETY: it only keeps the memory; its pieces are used by one owner each.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(device: &'static Device, bytes: usize, used: Use) -> io::Result<Self> {
        let layout =
            Layout::from_size_align(bytes, BUF_ALIGN).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the size is not zero.
        let start =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the memory is freed after the registration has ended, or never.
        match unsafe { Registration::new(device, start, bytes, used.access(device)) } {
            Ok(registration) => Ok(Self { start, layout, registration: Some(registration) }),
            Err(e) => {
                // SAFETY: allocated above, and not registered.
                unsafe { dealloc(start.as_ptr(), layout) };
                Err(e)
            }
        }
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // A device that may still touch the memory keeps it for ever.
        if self.registration.take().is_none_or(|registration| registration.end().is_ok()) {
            // SAFETY: allocated in `new` with this layout; no piece is left, and the device does
            // not know it any more.
            unsafe { dealloc(self.start.as_ptr(), self.layout) };
        }
    }
}

/// Registered memory of one owner, which the device may write to at the same time: so it is only
/// copied from and to.
pub(super) struct Piece {
    slab: Arc<Slab>,
    start: NonNull<u8>,
    class: u8,
    used: Use,
}

// SAFETY: the memory has one owner.
unsafe impl Send for Piece {}

impl Piece {
    pub(super) fn bytes(&self) -> usize {
        PIECE_BYTES_MIN << self.class
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn address(&self) -> u64 {
        self.start.addr().get() as u64
    }

    pub(super) fn registration(&self) -> &Registration {
        self.slab.registration.as_ref().expect("a slab is registered while it has pieces")
    }

    /// The key for this end.
    pub(super) fn lkey(&self) -> u32 {
        self.registration().keys().0
    }

    /// # Panics
    /// If it is not as large.
    pub(super) fn copy_in(&mut self, offset: usize, bytes: &[u8]) {
        assert!(
            offset <= self.bytes() && bytes.len() <= self.bytes() - offset,
            "the memory is shorter"
        );
        // SAFETY: within the piece, of which no references exist.
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.start.as_ptr().add(offset),
                bytes.len(),
            )
        }
    }

    /// # Panics
    /// If it is not as large.
    pub(super) fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        assert!(
            offset <= self.bytes() && bytes.len() <= self.bytes() - offset,
            "the memory is shorter"
        );
        // SAFETY: within the piece, of which no references exist.
        unsafe {
            core::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(offset),
                bytes.as_mut_ptr(),
                bytes.len(),
            )
        }
    }

    /// A part of it.
    ///
    /// # Safety
    /// The device does not write to it while the slice lives.
    pub(super) unsafe fn slice(&self, offset: usize, len: usize) -> &[u8] {
        assert!(offset <= self.bytes() && len <= self.bytes() - offset, "the memory is shorter");
        // SAFETY: within the piece, initialised by `alloc_zeroed`; nobody writes to it, as `self`
        // is borrowed and the caller promises.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr().add(offset), len) }
    }
}

/// Pieces that nobody uses.
#[derive(Default)]
pub(super) struct FreePieces(Lock<Lists>);

#[derive(Default)]
struct Lists {
    bytes: usize,
    /// By class and use.
    pieces: BTreeMap<(u8, Use), Vec<Piece>>,
}

impl FreePieces {}

fn class_of(bytes: usize) -> Option<u8> {
    let size = bytes
        .max(PIECE_BYTES_MIN)
        .checked_next_power_of_two()
        .filter(|&size| size <= PIECE_BYTES_MAX)?;
    Some((size / PIECE_BYTES_MIN).trailing_zeros() as u8)
}

impl Device {
    /// Registered memory of at least `bytes` bytes.
    pub(super) fn take(&'static self, bytes: usize, used: Use) -> io::Result<Piece> {
        let class = class_of(bytes).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut free = self.free.0.lock();
        // The last one is likely to be in the caches.
        if let Some(piece) = free.pieces.get_mut(&(class, used)).and_then(Vec::pop) {
            free.bytes -= piece.bytes();
            return Ok(piece);
        }
        drop(free);
        self.cut(class, used)
    }

    #[cold]
    fn cut(&'static self, class: u8, used: Use) -> io::Result<Piece> {
        let bytes = PIECE_BYTES_MIN << class;
        let slab = Arc::new(Slab::new(self, bytes.max(SLAB_BYTES), used)?);
        let piece = |at: usize| {
            // SAFETY: within the slab.
            let start = unsafe { slab.start.add(at) };
            Piece { slab: Arc::clone(&slab), start, class, used }
        };
        for at in (bytes..slab.layout.size()).step_by(bytes) {
            self.give_back(piece(at));
        }
        Ok(piece(0))
    }

    /// Takes memory back that has no user and no device.
    pub(super) fn give_back(&self, piece: Piece) {
        let mut free = self.free.0.lock();
        if free.bytes + piece.bytes() > RDMA_FREE_BYTES_MAX {
            // Ending a registration is a system call, for which nobody has to wait.
            drop(free);
            return drop(piece);
        }
        free.bytes += piece.bytes();
        free.pieces.entry((piece.class, piece.used)).or_default().push(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_powers_of_two() {
        assert_eq!(
            [0, 1, 4096, 4097, 128 << 20].map(class_of),
            [Some(0), Some(0), Some(0), Some(1), Some(15)]
        );
        assert_eq!([(128 << 20) + 1, usize::MAX].map(class_of), [None, None]);
    }
}
