//! Notifying by an eventfd without waiting.
//!
//! An eventfd is one open file of all who have it. Whoever else has it can clear O_NONBLOCK and fill
//! its counter at any time, and write(2) waits then. The kernel's asynchronous I/O notifies by an
//! eventfd when an operation has ended (IOCB_FLAG_RESFD, io_submit(2)), and adds to a counter that
//! is full without waiting. So an operation is submitted that reads nothing, of memory of our own.

use core::ptr::null_mut;
use rustix::fs::{MemfdFlags, memfd_create};
use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Operations whose ends are not taken back yet.
const ENTRIES: usize = 64;

/// Read (`IOCB_CMD_PREAD`).
const READ: u16 = 0;

/// Notify by `eventfd` (`IOCB_FLAG_RESFD`).
const NOTIFIES: u32 = 1;

/// An operation: `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct Operation {
    data: u64,
    /// Key and flags, in an order that depends on the machine.
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// The end of an operation: `struct io_event`.
type End = [u64; 4];

/// The context of a thread, for all eventfds that it notifies by.
struct Context {
    id: libc::c_ulong,
    /// Of which nothing is read.
    memory: OwnedFd,
    submitted: usize,
}

thread_local! {
    static CONTEXT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

impl Context {
    fn new() -> io::Result<Self> {
        let memory = memfd_create("weft-notify", MemfdFlags::CLOEXEC)?;
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes the identifier of the context to `id`, which is there.
        let made =
            unsafe { libc::syscall(libc::SYS_io_setup, ENTRIES as libc::c_long, &raw mut id) };
        if made != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { id, memory, submitted: 0 })
    }

    fn signal(&mut self, eventfd: BorrowedFd<'_>) -> io::Result<()> {
        if self.submitted >= ENTRIES {
            self.take_back();
        }
        let mut operation = Operation {
            opcode: READ,
            file: self.memory.as_raw_fd().cast_unsigned(),
            flags: NOTIFIES,
            eventfd: eventfd.as_raw_fd().cast_unsigned(),
            ..Operation::default()
        };
        let mut list = [&raw mut operation];
        // SAFETY: the context is that of `io_setup`; the list has one operation, which is there
        // during the call and of which the kernel keeps a copy. It reads no bytes, so no memory is
        // written.
        let taken = unsafe {
            libc::syscall(libc::SYS_io_submit, self.id, 1 as libc::c_long, list.as_mut_ptr())
        };
        if taken != 1 {
            return Err(io::Error::last_os_error());
        }
        self.submitted += 1;
        Ok(())
    }

    /// Takes back what has ended: everything, since nothing had to be waited for.
    fn take_back(&mut self) {
        let mut ends: [End; ENTRIES] = [[0; 4]; ENTRIES];
        let most = ENTRIES as libc::c_long;
        // SAFETY: there is room for so many ends, and the call waits for none.
        unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.id,
                0 as libc::c_long,
                most,
                ends.as_mut_ptr(),
                null_mut::<libc::timespec>(),
            );
        }
        self.submitted = 0;
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context is that of `io_setup`, and is used no more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

/// Calls with the context of this thread, which is made if there is none.
fn with(call: impl FnOnce(&mut Context) -> io::Result<()>) -> io::Result<()> {
    CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = Some(Context::new()?);
        }
        context.as_mut().map_or(Ok(()), call)
    })
}

/// Prepares this thread for such notifications.
///
/// # Errors
/// The system has no asynchronous I/O, or no context is left (`fs.aio-max-nr`).
pub(super) fn prepare() -> io::Result<()> {
    with(|_| Ok(()))
}

/// Adds 1 to an eventfd; a counter that is full is left so.
///
/// # Errors
/// Those of [`prepare`]; or it is not an eventfd.
pub(super) fn signal(eventfd: BorrowedFd<'_>) -> io::Result<()> {
    with(|context| context.signal(eventfd))
}
