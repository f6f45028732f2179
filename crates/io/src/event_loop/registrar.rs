//! Registration of sockets with a loop, which wakes their drivers.

use super::driver::DriverId;
use core::any::Any;
use mio::event::Source;
use std::io;

/// A driver whose socket or disk became ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// The driver.
    pub driver: DriverId,
    /// The other end has closed the socket, or it is broken.
    pub closed: bool,
}

/// The registry of a backend.
pub enum RegistryRef<'a> {
    /// Of the system's poller.
    Mio(&'a mio::Registry),
    /// Registry of a simulation, which knows its contents.
    Other(&'a dyn Any),
}

/// A registry, and the driver that it notifies.
pub struct Registrar<'a> {
    pub(crate) registry: RegistryRef<'a>,
    pub(crate) driver: DriverId,
}

impl Registrar<'_> {
    /// Registers a source of the system's poller for both directions.
    pub fn register_mio(&self, source: &mut dyn SourceDyn) -> io::Result<()> {
        match self.registry {
            RegistryRef::Mio(registry) => source.register_both(registry, token(self.driver)),
            RegistryRef::Other(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Undoes [`Registrar::register_mio`].
    pub fn deregister_mio(&self, source: &mut dyn SourceDyn) -> io::Result<()> {
        match self.registry {
            RegistryRef::Mio(registry) => source.deregister_from(registry),
            RegistryRef::Other(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The registry of the system's poller, and the token that names the driver there.
    #[cfg(windows)]
    pub(crate) fn mio(&self) -> Option<(&mio::Registry, mio::Token)> {
        match self.registry {
            RegistryRef::Mio(registry) => Some((registry, token(self.driver))),
            RegistryRef::Other(_) => None,
        }
    }

    /// Returns the driver that is notified.
    pub fn driver(&self) -> DriverId {
        self.driver
    }

    /// The simulation's registry, when there is one of type `T`.
    pub fn other<T: Any>(&self) -> Option<&T> {
        match self.registry {
            RegistryRef::Mio(_) => None,
            RegistryRef::Other(any) => any.downcast_ref(),
        }
    }
}

/// An object-safe view of [`Source`].
pub trait SourceDyn {
    /// Registers for both directions.
    fn register_both(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()>;
    /// Deregisters.
    fn deregister_from(&mut self, registry: &mio::Registry) -> io::Result<()>;
}

impl<S: Source> SourceDyn for S {
    fn register_both(&mut self, registry: &mio::Registry, token: mio::Token) -> io::Result<()> {
        registry.register(self, token, mio::Interest::READABLE | mio::Interest::WRITABLE)
    }

    fn deregister_from(&mut self, registry: &mio::Registry) -> io::Result<()> {
        registry.deregister(self)
    }
}

#[inline]
pub(super) fn token(driver: DriverId) -> mio::Token {
    mio::Token(driver.index as usize | (driver.generation as usize) << 32)
}

#[inline]
pub(super) fn driver(token: mio::Token) -> DriverId {
    DriverId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}
