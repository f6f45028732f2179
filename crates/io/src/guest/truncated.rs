//! Memory whose file its owner truncates. An access behind the end of the file raises SIGBUS, which
//! ends a process. Here it does not: the mapping is replaced by empty memory, and is marked as lost.
//!
//! Only the thread that owns a mapping accesses it, so the handler runs on that thread, and the
//! mapping cannot go away under it.

use crate::limits::GUEST_MAPPINGS_MAX;
use core::ptr::null_mut;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Place of a mapping. All is read by the handler of a signal.
struct Place {
    is_taken: AtomicBool,
    /// 0: not known yet.
    start: AtomicUsize,
    len: AtomicUsize,
    is_lost: AtomicBool,
}

static PLACES: [Place; GUEST_MAPPINGS_MAX] = [const {
    Place {
        is_taken: AtomicBool::new(false),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        is_lost: AtomicBool::new(false),
    }
}; GUEST_MAPPINGS_MAX];

/// The previous handler of SIGBUS.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// A mapping that may lose its file, as long as this lives.
pub(super) struct Guard(&'static Place);

impl Guard {
    /// Watches over `len` bytes at `start`, which are a whole mapping, made by `mmap`. Whoever drops
    /// the guard still has the mapping then.
    ///
    /// # Errors
    /// There are too many, or the system refuses the handler.
    pub fn new(start: *mut u8, len: usize) -> io::Result<Self> {
        static INSTALLED: Once = Once::new();
        let mut installed = Ok(());
        INSTALLED.call_once(|| installed = install());
        installed?;
        if BEFORE.load(Ordering::Acquire).is_null() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let take = |place: &&Place| {
            let taken = &place.is_taken;
            taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let full = || {
            let text =
                format!("more than {GUEST_MAPPINGS_MAX} pieces of guests' memory are in use");
            io::Error::new(io::ErrorKind::OutOfMemory, text)
        };
        let place = PLACES.iter().find(take).ok_or_else(full)?;
        place.is_lost.store(false, Ordering::Relaxed);
        place.len.store(len, Ordering::Relaxed);
        place.start.store(start.addr(), Ordering::Release);
        Ok(Self(place))
    }

    /// Returns whether the file was truncated, so that the memory is no longer the guest's.
    pub fn is_lost(&self) -> bool {
        self.0.is_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.start.store(0, Ordering::Relaxed);
        self.0.is_taken.store(false, Ordering::Release);
    }
}

fn install() -> io::Result<()> {
    // SAFETY: all zeroes are a value of this structure of C.
    let (mut new, mut before): (libc::sigaction, libc::sigaction) = unsafe { core::mem::zeroed() };
    new.sa_sigaction = handle as *const () as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the pointers are valid. The old action is only asked for here; it is known before the
    // handler can run, which is installed below.
    let asked = unsafe { libc::sigaction(libc::SIGBUS, core::ptr::null(), &raw mut before) };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    BEFORE.store(Box::into_raw(Box::new(before)), Ordering::Release);
    // SAFETY: the handler only does what a handler of a signal may: atomics and system calls.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const new, null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure, and for SIGBUS it has an address.
    let at = unsafe { (*info).si_addr() }.addr();
    for place in &PLACES {
        let start = place.start.load(Ordering::Acquire);
        let len = place.len.load(Ordering::Relaxed);
        if start == 0 || at.wrapping_sub(start) >= len {
            continue;
        }
        // SAFETY: the range is a whole mapping of this thread's, to which there are no references;
        // it stays a mapping, of the same size and with the same rights.
        let replaced = unsafe {
            libc::mmap(
                core::ptr::with_exposed_provenance_mut(start),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if replaced != libc::MAP_FAILED {
            place.is_lost.store(true, Ordering::Relaxed);
            return;
        }
    }
    // Not ours: the access is repeated, and does what it did before.
    // SAFETY: the pointer was stored before this handler was installed, and is never freed.
    unsafe { libc::sigaction(libc::SIGBUS, BEFORE.load(Ordering::Acquire), null_mut()) };
}
