//! The system's poller and clock.

use super::backend::Backend;
use super::registrar::{Ready, RegistryRef, driver};
use super::sleep::{self, Slept};
use crate::limits::EVENTS_PER_POLL;
use crate::listening::Listening;
use crate::rdma::{QueuePair, QueuePairListener};
use crate::stream::{Listener, Stream};
use crate::tcp::{Tcp, TcpAcceptor};
use crate::time::{Time, epoch, of_process};
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

const WAKER: mio::Token = mio::Token(usize::MAX);

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
        of_process()
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

    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::RawFd> {
        Some(std::os::fd::AsRawFd::as_raw_fd(&self.poll))
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = Arc::clone(&self.waker);
        Arc::new(move || {
            // A failure means that the loop is gone or will wake by itself.
            let _ = waker.wake();
        })
    }
}
