//! A ring of commands that a driver of the kernel keeps until it has something for this process:
//! requests of a disk (ublk), or of a file system (FUSE).

use crate::event_loop::{DriverId, Handle};
use io_uring::squeue::EntryMarker;
use io_uring::{IoUring, cqueue};
use mio::unix::SourceFd;
use std::io;
use std::os::fd::AsRawFd;

/// `IORING_ENTER_GETEVENTS`: also do the work that the driver left to this thread.
const GET_EVENTS: u32 = 1;

/// The ring of one loop.
pub(crate) struct CommandRing<E: EntryMarker> {
    ring: IoUring<E>,
    /// Commands that are not submitted yet.
    queued: usize,
}

impl<E: EntryMarker> CommandRing<E> {
    /// A ring for `commands` commands, for a driver that is woken when one is answered.
    pub fn open(commands: u32, on: &Handle, driver: DriverId) -> io::Result<Self> {
        let ring = build(commands.next_power_of_two())?;
        let fd = ring.as_raw_fd();
        on.registrar(driver, |registrar| registrar.register_mio(&mut SourceFd(&fd)))?;
        Ok(Self { ring, queued: 0 })
    }

    /// Adds a command for the next [`CommandRing::submit`].
    ///
    /// # Safety
    /// Memory and files that the command names stay valid until it is answered, or the ring is gone.
    pub unsafe fn push(&mut self, command: &E) -> io::Result<()> {
        // SAFETY: the caller's word.
        unsafe { self.ring.submission().push(command) }.map_err(|_| io::ErrorKind::WouldBlock)?;
        self.queued += 1;
        Ok(())
    }

    /// Submits what was added; returns whether there was something.
    pub fn submit(&mut self, on: &Handle) -> io::Result<bool> {
        let any = self.queued > 0;
        while self.queued > 0 {
            let submitted = self.enter(on, self.queued)?;
            if submitted == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.queued -= submitted.min(self.queued);
        }
        Ok(any)
    }

    /// The answers that have come: what the command was called, and its result.
    pub fn answers(&mut self, on: &Handle) -> io::Result<impl Iterator<Item = (u64, i32)>> {
        if self.ring.completion().is_empty() && self.ring.submission().taskrun() {
            self.enter(on, 0)?;
        }
        let answer = |entry: cqueue::Entry| (entry.user_data(), entry.result());
        Ok(self.ring.completion().map(answer))
    }

    fn enter(&self, on: &Handle, to_submit: usize) -> io::Result<usize> {
        on.counters().disk_enters.add(1);
        loop {
            // SAFETY: the call takes no argument (`None`); see `push` for what the commands name.
            let entered =
                unsafe { self.ring.submitter().enter::<()>(to_submit as u32, 0, GET_EVENTS, None) };
            match entered {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// The best ring that this kernel has; see those of files.
fn build<E: EntryMarker>(entries: u32) -> io::Result<IoUring<E>> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_coop_taskrun().setup_taskrun_flag();
    match builder.build(entries) {
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => IoUring::builder().build(entries),
        other => other,
    }
}
