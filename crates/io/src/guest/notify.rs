//! Eventfds by which a guest's monitor and this process wake each other.

use crate::event_loop::{DriverId, Handle};
use mio::unix::SourceFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// An eventfd, and not a descriptor on which a write could wait for somebody.
fn eventfd(file: OwnedFd) -> io::Result<OwnedFd> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if name.as_os_str() != "anon_inode:[eventfd]" {
        let text = "a descriptor for notifications is not an eventfd";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
    Ok(file)
}

/// A new eventfd, for whoever makes the other side: nothing is to be read from it yet.
///
/// # Errors
/// The system has none.
pub fn new_eventfd() -> io::Result<OwnedFd> {
    let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
    Ok(rustix::event::eventfd(0, flags)?)
}

/// Wakes a driver when the other side writes to it. Registered until it is dropped.
pub struct Kick {
    file: OwnedFd,
    on: Handle,
    driver: DriverId,
}

impl Kick {
    /// Has an eventfd wake a driver on its loop.
    ///
    /// # Errors
    /// It is not one, or the poller does not take it.
    pub fn register(file: OwnedFd, on: &Handle, driver: DriverId) -> io::Result<Self> {
        let file = eventfd(file)?;
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
pub struct Call(OwnedFd);

impl Call {
    /// Notifies by an eventfd.
    ///
    /// # Errors
    /// It is not one.
    pub fn new(file: OwnedFd) -> io::Result<Self> {
        eventfd(file).map(Self)
    }

    /// Notifies. If the counter is full, the other side has been notified already.
    pub fn signal(&self) {
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}
