//! Eventfds by which a guest's monitor and this process wake each other.

use super::foreign::{Foreign, is_eventfd};
use super::signal;
use crate::event_loop::{DriverId, Handle};
use crate::unasked::STACK_BYTES;
use mio::unix::SourceFd;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Refuses what is not an eventfd.
fn check(file: &Foreign) -> io::Result<()> {
    if is_eventfd(file.as_fd()) {
        return Ok(());
    }
    let text = "a descriptor for notifications is not an eventfd";
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// A new eventfd for the creator of the other side; there is nothing to read from it yet.
///
/// # Errors
/// The system has none.
pub fn new_eventfd() -> io::Result<OwnedFd> {
    let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
    Ok(rustix::event::eventfd(0, flags)?)
}

/// Wakes a driver when the other side writes to it. Registered until it is dropped.
pub struct Kick {
    file: Foreign,
    on: Handle,
    driver: DriverId,
}

impl Kick {
    /// Has an eventfd wake a driver on its loop.
    ///
    /// # Errors
    /// It is not one, or the poller does not take it.
    pub fn register(file: Foreign, on: &Handle, driver: DriverId) -> io::Result<Self> {
        check(&file)?;
        let raw = file.as_raw_fd();
        on.registrar(driver, |registrar| registrar.register_mio(&mut SourceFd(&raw)))?;
        Ok(Self { file, on: on.clone(), driver })
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        // The monitor has the same file, so closing the descriptor does not deregister it.
        let raw = self.file.as_raw_fd();
        let _ = self
            .on
            .registrar(self.driver, |registrar| registrar.deregister_mio(&mut SourceFd(&raw)));
    }
}

/// Wakes the other side.
pub struct Call(By);

/// Way of notifying the other side.
enum By {
    /// By the kernel, which does not wait.
    Kernel(Foreign),
    /// By a thread, which may: it serves nothing else.
    Thread(SyncSender<()>),
}

impl Call {
    /// Notifies by an eventfd.
    ///
    /// # Errors
    /// It is not one.
    pub fn new(file: Foreign) -> io::Result<Self> {
        check(&file)?;
        match signal::prepare() {
            Ok(()) => Ok(Self(By::Kernel(file))),
            Err(_) => Self::by_thread(file),
        }
    }

    /// Notifies on a thread, for systems without asynchronous I/O.
    pub(super) fn by_thread(file: Foreign) -> io::Result<Self> {
        let (give, take) = sync_channel(1);
        let write = move || {
            for () in take {
                let _ = rustix::io::write(file.as_fd(), &1_u64.to_ne_bytes());
            }
        };
        let thread = thread::Builder::new().name("weft-notify".into()).stack_size(STACK_BYTES);
        thread.spawn(write)?;
        Ok(Self(By::Thread(give)))
    }

    /// Notifies, and never waits. If the counter is full, the other side has been notified already.
    pub fn signal(&self) {
        match &self.0 {
            By::Kernel(file) => {
                let _ = signal::signal(file.as_fd());
            }
            // If the thread has not taken the one before, that one is enough.
            By::Thread(give) => {
                let _ = give.try_send(());
            }
        }
    }
}
