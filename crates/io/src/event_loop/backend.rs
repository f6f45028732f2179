//! What a loop stands on: the system's poller and clock, or a simulated world.

use super::DriverId;
use super::sleep::{self, Slept};
use crate::limits::EVENTS_PER_POLL;
use crate::listening::Listening;
use crate::rdma::{QueuePair, QueuePairListener, Unavailable};
use crate::stream::{Listener, Stream};
use crate::tcp::{Tcp, TcpAcceptor};
use crate::time::Time;
use core::any::Any;
use core::time::Duration;
use mio::event::Source;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// A driver whose socket or disk became ready.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Which.
    pub driver: DriverId,
    /// The other end has closed the socket, or it is broken.
    pub closed: bool,
}

/// The system beneath a loop.
pub trait Backend {
    /// The time.
    fn now(&mut self) -> Time;

    /// The time by a clock that costs less and is a few milliseconds wrong. Comparable with itself
    /// alone.
    #[inline]
    fn coarse(&mut self) -> Time {
        self.now()
    }

    /// Adds the drivers whose sockets or disks became ready to `ready`. Waits at most `wait`
    /// (`None`: for ever) for the first; returns whether a remote wake-up came in.
    fn poll(&mut self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool>;

    /// Starts to connect.
    fn connect(&mut self, to: SocketAddr) -> io::Result<Box<dyn Stream>>;

    /// Listens.
    fn listen(&mut self, at: SocketAddr) -> io::Result<Box<dyn Listener>>;

    /// Starts to connect a queue pair.
    fn connect_rdma(&mut self, to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
        let _ = to;
        Err(Unavailable::NotOnThisLoop.into())
    }

    /// Listens for queue pairs.
    fn listen_rdma(&mut self, at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
        let _ = at;
        Err(Unavailable::NotOnThisLoop.into())
    }

    /// What streams register with.
    fn registry(&self) -> RegistryRef<'_>;

    /// Something that ends a wait of [`Backend::poll`] from any thread.
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync>;
}

/// The registry of a backend.
pub enum RegistryRef<'a> {
    /// Of the system's poller.
    Mio(&'a mio::Registry),
    /// Of a simulation, which knows what is inside.
    Other(&'a dyn Any),
}

/// A registry, and the driver that is to be told.
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

    /// The driver that is to be told.
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

const WAKER: mio::Token = mio::Token(usize::MAX);

fn token(driver: DriverId) -> mio::Token {
    mio::Token(driver.index as usize | (driver.generation as usize) << 32)
}

fn driver(token: mio::Token) -> DriverId {
    DriverId { index: token.0 as u32, generation: (token.0 >> 32) as u32 }
}

/// The epoch of all real loops of this process.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// The system's poller and clock.
pub(super) struct System {
    poll: mio::Poll,
    events: mio::Events,
    waker: Arc<mio::Waker>,
    listening: Listening,
}

impl System {
    pub(super) fn new(listening: Listening) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKER)?);
        epoch();
        crate::cpu::be_punctual();
        Ok(Self { poll, events: mio::Events::with_capacity(EVENTS_PER_POLL), waker, listening })
    }
}

impl Backend for System {
    #[inline]
    fn now(&mut self) -> Time {
        Time::from_epoch(epoch().elapsed())
    }

    #[cfg(target_os = "linux")]
    #[inline]
    fn coarse(&mut self) -> Time {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        Time::from_nanos(
            (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64),
        )
    }

    fn poll(&mut self, wait: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let wait = match sleep::short(&self.poll, wait) {
            Slept::InVain => return Ok(false),
            Slept::UntilReady => Some(Duration::ZERO),
            Slept::No => wait,
        };
        match self.poll.poll(&mut self.events, wait) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(false),
            other => other?,
        }
        let mut woken = false;
        for event in &self.events {
            match event.token() {
                WAKER => woken = true,
                other => ready.push(Ready {
                    driver: driver(other),
                    closed: event.is_read_closed() || event.is_error(),
                }),
            }
        }
        Ok(woken)
    }

    fn connect(&mut self, to: SocketAddr) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(Tcp::connect(to)?))
    }

    fn listen(&mut self, at: SocketAddr) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(TcpAcceptor::listen_or_take(at, &self.listening)?))
    }

    fn connect_rdma(&mut self, to: SocketAddr) -> io::Result<Box<dyn QueuePair>> {
        crate::rdma::connect(to)
    }

    fn listen_rdma(&mut self, at: SocketAddr) -> io::Result<Box<dyn QueuePairListener>> {
        crate::rdma::listen(at)
    }

    fn registry(&self) -> RegistryRef<'_> {
        RegistryRef::Mio(self.poll.registry())
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = Arc::clone(&self.waker);
        Arc::new(move || {
            // A failure means that the loop is gone or will wake by itself.
            let _ = waker.wake();
        })
    }
}
